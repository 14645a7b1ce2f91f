/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of a communicator; only src/comm includes it. Who may touch what:
 *
 *   constant     set before the threads start, read by all
 *   lock         under comm->lock: queues between threads, numbering, what has completed
 *   progress     the progress thread only (and, before it starts, the thread that creates the comm)
 */
#ifndef SHOALI_COMM_INNER_H
#define SHOALI_COMM_INNER_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/arena.h"
#include "comm/comm.h"
#include "comm/serve.h"
#include "meet/door.h"
#include "meet/launch.h"
#include "member/life.h"
#include "ops/ops.h"
#include "relay/relay.h"
#include "transport/fault.h"
#include "transport/transport.h"
#include "watch/watch.h"
#include "wire/control.h"

enum {
    SHOALI_FLIGHTS =
        4, /* frames per peer in the transport's hands; the rest waits in order of age */
    SHOALI_EARLY_BYTES = 16 << 20, /* protocol messages that wait for a listener */
    SHOALI_LOST_TEXT_BYTES = 400
};

typedef struct shoali_queue {
    shoali_task *first, **last;
} shoali_queue;

/** A transport in use. row NULL: none. */
typedef struct shoali_link {
    shoal_comm *comm;
    const shoali_transport_row *row; /* what is used: kind, or the fault decorator in front of it */
    const shoali_transport_row *kind;
    void *state, *params;       /* of row; of kind */
    shoali_fault_params *fault; /* NULL: none */
    bool open;
} shoali_link;

/** A data frame between a flow and a transport; its cookie is its index in comm->flights. */
typedef struct shoali_comm_flight {
    struct shoal_op *op; /* NULL: free */
    const void *body;
    uint64_t cookie; /* the flow's */
    shoal_data head;
    uint32_t member, endpoint;
    uint32_t next; /* in the peer's waiting list, the list of returned ones or the free list */
    shoal_status status; /* returned: how */
} shoali_comm_flight;

enum { SHOALI_PEER_HERE, SHOALI_PEER_LEFT, SHOALI_PEER_LOST };

typedef struct shoali_peer {
    char host[SHOALI_RECORD_HOST_BYTES]; /* constant */
    uint32_t via;                        /* constant: the relay to it, SHOALI_NONE: a cable */
    uint32_t links;                      /* constant: that both share */
    shoali_link *data;                   /* constant after the join */
    bool up;                             /* the control connection stands */
    bool near, near_up;                  /* added to the same-host transport; and connected there */
    _Atomic uint32_t
        state; /* SHOALI_PEER_*; lost_text and lost_status are constant once it is LOST */
    shoal_status lost_status;
    uint64_t lost_us;
    char lost_text[SHOALI_LOST_TEXT_BYTES];
    _Atomic uint32_t death;       /* shoali_death, once it is LOST */
    bool leaving, moved;          /* HERE or LEFT: it reforms; it is in the next epoch */
    bool said_ready;              /* READY, of an epoch that is to begin */
    uint64_t word_us, said_us;    /* its last word, the last to it: member/life.h */
    uint64_t incarnation;         /* constant after the join */
    char door[SHOALI_DOOR_BYTES]; /* lock */
    bool link_broke;              /* one of several, with what was on its way; handled as gone is */
    char link_text[SHOALI_LOST_TEXT_BYTES]; /* of the last link that is not used any more, or "" */
    uint64_t link_us;                       /* since when */
    bool gone; /* a transport said so; handled at the end of the round */
    shoal_status gone_status;
    char gone_text[SHOALI_LOST_TEXT_BYTES];
    bool settled; /* LEFT: its operations have ended */
    uint64_t left_us, heard_us;
    shoali_heartbeat doing; /* what it said last, and when */
    uint64_t doing_us;
    uint32_t flights; /* in the transport's hands */
    uint32_t waiting_first, waiting_last;
} shoali_peer;

typedef struct shoali_gauge shoali_gauge;

/** The way into an epoch after the first. */
typedef struct shoali_admission {
    shoali_admit admit;
    uint64_t ready_us;   /* before then it may not say that it is ready: member/member.h */
    bool *said_ready;    /* set when it does; NULL: a newcomer, which nobody asks */
    shoali_door *keeper; /* this process's own door */
    shoali_residual_store *residuals;
} shoali_admission;

typedef struct shoali_datagrams shoali_datagrams;

enum { SHOALI_PAST_LINKS_BYTES = 1024 };

struct shoal_comm {
    /* constant */
    uint32_t me, size, workers, chunk_elems; /* size: of all endpoints */
    uint32_t ranks, aggregators;             /* endpoints ranks.. of size are aggregators */
    struct shoali_service *service;          /* this is one of them; NULL: a rank */
    bool joined;                             /* every connection stands */
    uint64_t epoch, incarnation;
    shoali_admission in; /* epoch > 0 */
    shoali_door *door;   /* NULL: the members are fixed */
    int64_t join_timeout_us, peer_timeout_us, op_timeout_us;
    uint64_t seed;
    uint64_t protocols; /* driver/real.c counts here, on the caller's thread */
    shoali_launch launch;
    shoali_token token;
    char job[64], host[SHOALI_RECORD_HOST_BYTES];
    int epoll_fd, event_fd;
    uint32_t spin_us;
    shoali_watch *watch; /* NULL: alone */
    shoali_link control, near;
    shoali_relay *relay;       /* NULL: all ranks are on this host, or there is no token */
    shoali_address *addresses; /* [size] of all; others' first those on links that both share */
    shoali_peer *peers;

    /* lock */
    pthread_mutex_t lock;
    pthread_cond_t changed;   /* an operation has completed, a call is over, the last waiter left */
    pthread_cond_t work_here; /* for the work thread */
    shoali_queue tasks;
    shoali_job *jobs_first, **jobs_last;
    shoal_op *done_first, *done_last; /* completed, neither waited for nor handed out */
    shoal_op *all;                    /* every operation with a handle */
    uint32_t waiters, open_ops;
    uint32_t keeping_ops; /* of open_ops: those that write residuals or a transform's state */
    bool stopping, work_stopping, work_running, progress_running;
    pthread_t progress_thread, work_thread;

    atomic_bool forked, asleep;
    atomic_bool wanted;       /* somebody wants to reform */
    atomic_bool going;        /* a member does already, or will at once */
    atomic_bool ending;       /* a member has made all its steps: nobody is let in any more */
    atomic_bool begun;        /* epoch > 0: its leader has said GO */
    _Atomic uint32_t ready;   /* epoch > 0, its leader: how many others have said READY */
    pthread_mutex_t run_lock; /* held by whoever runs the progress functions; fork takes it */
    atomic_bool fork_waits;

    /* progress */
    shoali_ops ops;
    uint64_t now_us, next_beat_us;
    uint64_t beat_cpu_us;       /* of this thread's processor time, at the last beat */
    _Atomic uint64_t paused_us; /* in pauses of SHOALI_PAUSE_US and more, since the beginning */
    char past_links[SHOALI_PAST_LINKS_BYTES]; /* lines: those that broke in earlier epochs */
    shoali_comm_flight *flights;
    uint32_t flight_count, flight_free, returned_first, returned_last;
    bool peers_changed;          /* some peer is gone or has left */
    shoali_datagrams *datagrams; /* NULL: no operation has needed them yet */
    bool quit;                   /* the progress thread is to end */
    uint64_t deaf_us;            /* until then nothing is a word: member/life.h */
    uint64_t outdated_us; /* until then a lost peer means that the others gave this rank up: */
    uint64_t stood_us;    /* it stood still for so long, beyond the peer timeout */
    uint64_t minority_us; /* since when this rank reaches no quorum; 0: it does */
    bool minority_told;   /* the listener has heard so */
    bool expelled;        /* the others go on without this rank: it says no goodbye */
    bool leaving;         /* this rank reforms: no operation starts any more */
    bool busy;            /* something happened in this round, or is left to do: do not sleep */
    uint64_t busy_us;     /* when something happened last */
    shoali_gauge *gauge;  /* NULL: nobody has asked for rates */
    bool listening;
    shoali_comm_listener listener;
    struct shoali_early *early, **early_last; /* messages before a listener came */
    size_t early_bytes;
    shoal_comm *next_alive; /* of the process, for fork */
};

/* ------------------------------------------------------------------ between the files */

/** Time since then; an instant taken within this round may be younger than the round's own. */
static inline uint64_t shoali_since(const shoal_comm *comm, uint64_t then_us)
{
    return comm->now_us > then_us ? comm->now_us - then_us : 0;
}

/* join.c: from a descriptor to records of all and connections to all. */
/** in: into an epoch after the first. NULL: into the job. Where that turns out to run already,
 * EEPOCH, and comm->in says how to enter it. */
SHOAL_MUST_USE shoal_status shoali_join(shoal_comm *comm, const shoal_comm_desc *desc,
                                        const shoali_admission *in);

/* link.c: transports: opening, and what they report. */
/** What a communicator of one would open if it were of more: a wrong spec or interface is refused
 * by all alike. */
SHOAL_MUST_USE shoal_status shoali_links_check(const shoal_comm_desc *desc);
SHOAL_MUST_USE shoal_status shoali_links_open(shoal_comm *comm, const shoal_comm_desc *desc,
                                              uint64_t incarnation);
/** Connect to endpoint; near, too, where that works. */
SHOAL_MUST_USE shoal_status shoali_links_add(shoal_comm *comm, uint32_t endpoint,
                                             const char *address, const char *near_address);
void shoali_links_close(shoal_comm *comm);
void shoali_links_drop(shoal_comm *comm, uint32_t endpoint, bool polite);
void shoali_links_forked(shoal_comm *comm);
/** Failures end in the loss of the peer. */
void shoali_control(shoal_comm *comm, uint32_t endpoint, uint16_t kind, const void *bytes,
                    size_t len_bytes);

/* flight.c: data frames on their way from flows to transports and back. */
void shoali_flight_send(shoal_op *op, uint32_t member, const shoal_data *head, const void *body,
                        uint64_t cookie);
void shoali_flight_sent(shoal_comm *comm, uint64_t cookie,
                        shoal_status status); /* event of a transport */
/** Take back what has not reached a transport: of one operation, or (op NULL) to one endpoint. */
void shoali_flight_recall(shoal_comm *comm, const shoal_op *op, uint32_t endpoint);
/** Tell flows about frames that came back. True: there were some. */
bool shoali_flight_deliver(shoal_comm *comm);
void shoali_flights_free(shoal_comm *comm);

/* datagrams.c: packets that may be lost. */
/** Open the socket if it is not, and fill in what the operation's flow has to know of it. */
SHOAL_MUST_USE shoal_status shoali_datagrams_give(shoal_op *op, shoali_flow_args *args);
/** Where an endpoint's packets come from; family 0: not known. */
const shoali_ip *shoali_datagrams_at(const shoal_comm *comm, uint32_t endpoint);
void shoali_datagrams_close(shoal_comm *comm);
void shoali_datagrams_forked(shoal_comm *comm);
void shoali_datagrams_send(shoal_op *op, uint32_t member, const void *bytes, size_t len_bytes);
/** False: malformed. */
bool shoali_datagrams_on_place(shoal_comm *comm, uint32_t endpoint, const uint8_t *bytes,
                               size_t len_bytes);
/** What went to an endpoint and came from it so far. */
void shoali_datagrams_add_stats(const shoal_comm *comm, uint32_t endpoint, shoal_peer_stats *stats);
void shoali_datagrams_receive(shoal_comm *comm);
/** Whether some lie in the socket still, so that nobody may call an answer late. */
bool shoali_datagrams_unread(const shoal_comm *comm);
void shoali_datagrams_flush(shoal_comm *comm);

/* progress.c: the event loop. */
/** One round; sleeps until until_us at most. */
void shoali_progress_once(shoal_comm *comm, uint64_t until_us);
SHOAL_MUST_USE shoal_status shoali_progress_start(shoal_comm *comm);
void shoali_progress_stop(shoal_comm *comm);
void shoali_task_post(shoal_comm *comm, shoali_task *task); /* takes the lock */
/** Run fn(arg) on the progress thread and wait for its end. */
void shoali_call(shoal_comm *comm, void (*fn)(void *arg), void *arg);

/* work.c */
void shoali_job_post(shoal_comm *comm, shoali_job *job);
void shoali_work_stop(shoal_comm *comm);

/* view.c: who is there. */
void shoali_view_heard(shoal_comm *comm, uint32_t endpoint);
void shoali_view_gone(shoal_comm *comm, uint32_t endpoint, shoal_status why, const char *text);
/** One of several links to it is not used any more. lost: what was on its way there may be. */
void shoali_view_link_down(shoal_comm *comm, uint32_t endpoint, bool lost, const char *text);
void shoali_view_heartbeat(shoal_comm *comm, uint32_t endpoint, const shoali_heartbeat *beat);
void shoali_view_timers(shoal_comm *comm);
/** Look whether the process behind an endpoint has certainly ended, for peer->ended. */
void shoali_view_look(shoal_comm *comm, uint32_t endpoint);
uint64_t shoali_view_next_us(const shoal_comm *comm);
enum { SHOALI_LATE_US = 50 * 1000 };   /* a round may take that long, no longer */
enum { SHOALI_PAUSE_US = 200 * 1000 }; /* so late is no busy machine's scheduler any more */
/** Lateness of this thread is no silence of others. */
void shoali_view_late(shoal_comm *comm, uint64_t late_us);
/** "; it was last doing all-reduce 7 (...) for 0.4 s" or "". */
void shoali_view_doing(const shoal_comm *comm, uint32_t endpoint, char *text, size_t text_bytes);

/* host.c: what operations ask of this communicator. */
SHOAL_MUST_USE shoal_status shoali_host_init(shoal_comm *comm);
/** Start an operation that is counted. op: a shoal_op. */
void shoali_host_start(void *op);

/* serve.c: operations at an aggregator, and what asks it to enter them. */
void shoali_serve_ask(const shoal_op *op);
/** False: malformed, or this is no aggregator. */
bool shoali_serve_on_request(shoal_comm *comm, uint32_t endpoint, const uint8_t *bytes,
                             size_t len_bytes);
/** The join is over: enter what was asked for meanwhile. */
void shoali_serve_begin(shoal_comm *comm);
void shoali_serve_free(shoal_comm *comm);
/** Within the job's memory? The flow has started. */
SHOAL_MUST_USE shoal_status shoali_serve_admit(shoal_op *op);
void shoali_serve_release(shoal_op *op);
/** Who else can sum for the operation; NULL: nobody. */
const shoali_offload *shoali_serve_offload(shoal_op *op);

/* gauge.c: measured rates of all links. */
/** True: op waits for them, or has failed for want of them. */
bool shoali_gauge_wanted(shoal_op *op);
const shoali_rates *shoali_gauge_rates(const shoal_comm *comm); /* NULL: not known */
void shoali_gauge_free(shoal_comm *comm);

/* wait.c */
void shoali_op_complete(shoal_op *op); /* progress thread: hand it to its owner */

/* listen.c: protocol machines. */
void shoali_listen_message(shoal_comm *comm, uint32_t endpoint, const uint8_t *bytes,
                           size_t len_bytes);
void shoali_listen_free(shoal_comm *comm);

/* comm.c, for reforms */
SHOAL_MUST_USE shoal_status shoali_comm_enter(const shoali_admission *in, shoal_comm **comm_out);
/** Wait until no operation is open, no longer than a peer may be silent. */
void shoali_comm_quiet(shoal_comm *comm);

/* tell.c: the tasks are for the progress thread; arg is the comm */
void shoali_reform_introduce(void *arg); /* tell all where this rank's door is */
/** Members that may change: newcomers find this one from now on. The caller's thread. */
SHOAL_MUST_USE shoal_status shoali_reform_open_door(shoal_comm *comm);
void shoali_reform_leave(void *arg); /* end all operations, and tell all */
void shoali_reform_say_moved(void *arg);
/** Connected to all of an epoch after the first: wait until it begins. */
SHOAL_MUST_USE shoal_status shoali_reform_begin(shoal_comm *comm);
void shoali_reform_want(void *arg);
void shoali_reform_on_message(shoal_comm *comm, uint32_t endpoint, const shoali_reform *message);

/* status.c: what is told to those who watch. */
/** number: that all ranks of the job share, and no other job has. */
SHOAL_MUST_USE shoal_status shoali_status_open(shoal_comm *comm, uint32_t number);

/* fork.c: a forked child must not hold the parent's connections open. */
SHOAL_MUST_USE shoal_status shoali_alive_add(shoal_comm *comm);
void shoali_alive_remove(shoal_comm *comm);

#endif
