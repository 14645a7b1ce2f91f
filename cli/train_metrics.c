/* SPDX-License-Identifier: Apache-2.0 */
#include "train_metrics.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"
#include "http_door.h"
#include "metrics_http.h"
#include "own_status.h"
#include "shoal/version.h"
#include "shoal/watch.h"

enum { ASK_US = 200000 };

struct train_metrics {
    const train_metrics_options *options;
    const shoal_train_desc *job;
    metrics_http *http;
    int listener; /* -1: none */
    bool tried, simulated;
    char status[108];

    pthread_mutex_t lock; /* for what follows: written by the worker, read by the server */
    char model[256];
    uint32_t rank;
    shoal_train_totals before, now; /* of earlier trainings in this process; of this one */
    shoal_train_progress progress;
    double tested_loss, tested_accuracy; /* NaN: not yet */
    double step_at_s, checkpoint_at_s;   /* Unix time; 0: not yet */
};

static double unix_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ------------------------------------------------------------------ the page */

static void counters(metrics_page *page, const train_metrics *m)
{
    const shoal_train_totals *b = &m->before, *n = &m->now;
    const struct {
        metrics_family family;
        double number;
        bool simulated; /* a simulation knows it, too */
    } rows[] = {
        {{"steps", "counter", "", "Steps that the reporting worker has made."},
         (double)(b->steps + n->steps),
         true},
        {{"samples", "counter", "", "Samples that all workers have trained on in these steps."},
         (double)(b->samples + n->samples),
         false},
        {{"nonfinite_steps", "counter", "",
          "Steps without an update, as a gradient held NaN or infinity."},
         (double)(b->skipped + n->skipped),
         true},
        {{"sent_bytes", "counter", "bytes",
          "Coded gradients and weights that the reporting worker has sent."},
         b->sent_bytes + n->sent_bytes,
         true},
        {{"received_bytes", "counter", "bytes",
          "Coded gradients and weights that the reporting worker has received."},
         b->received_bytes + n->received_bytes,
         true},
        {{"dense_bytes", "counter", "bytes",
          "What the same exchange of dense float32 would have sent."},
         b->dense_bytes + n->dense_bytes,
         false},
        {{"workers_lost", "counter", "", "Workers that the job has gone on without."},
         b->lost + n->lost,
         true},
        {{"exchange_seconds", "counter", "seconds",
          "Time in which an exchange was under way, beside computing where they overlap."},
         b->exchange_s + n->exchange_s,
         false},
        {{"encode_seconds", "counter", "seconds", "Time of encoding, within the exchange."},
         b->encode_s + n->encode_s,
         false},
        {{"decode_seconds", "counter", "seconds", "Time of decoding, within the exchange."},
         b->decode_s + n->decode_s,
         false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].simulated || !m->simulated)
            metrics_one(page, &rows[i].family, rows[i].number);
}

static void step_parts(metrics_page *page, const shoal_train_totals *b, const shoal_train_totals *n)
{
    static const metrics_family family = {
        "step_seconds", "counter", "seconds",
        "Time of the reporting worker's steps by part; the parts add up to the whole."};
    const double compute = b->compute_s + n->compute_s, wait = b->wait_s + n->wait_s,
                 update = b->update_s + n->update_s,
                 rest = b->step_s + n->step_s - compute - wait - update;
    const struct {
        const char *part;
        double seconds;
    } parts[] = {
        {"compute", compute}, {"wait", wait}, {"update", update}, {"other", rest > 0 ? rest : 0}};
    metrics_begin(page, &family);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        metrics_sample(page, &(metrics_label){"part", parts[i].part}, 1, parts[i].seconds);
}

/* By a plan stages pass activations between both, which are not told apart. */
static void compute_parts(metrics_page *page, const shoal_train_totals *b,
                          const shoal_train_totals *n)
{
    static const metrics_family family = {
        "compute_seconds", "counter", "seconds",
        "Time of the reporting worker's computing by part; the parts add up to that of steps."};
    const struct {
        const char *part;
        double seconds;
    } parts[] = {{"data", b->data_s + n->data_s},
                 {"forward", b->forward_s + n->forward_s},
                 {"backward", b->backward_s + n->backward_s}};
    if (n->compute_s > 0 && n->data_s + n->forward_s + n->backward_s <= 0)
        return;
    metrics_begin(page, &family);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        metrics_sample(page, &(metrics_label){"part", parts[i].part}, 1, parts[i].seconds);
}

static void gauges(metrics_page *page, const train_metrics *m)
{
    const shoal_train_progress *p = &m->progress;
    const struct {
        metrics_family family;
        double number;
        bool known;
    } rows[] = {
        {{"step", "gauge", "", "Steps of the run that are done, earlier parts of it included."},
         (double)p->step,
         true},
        {{"planned_steps", "gauge", "", "Steps of the whole run."}, (double)p->steps, true},
        {{"epoch", "gauge", "", "Passes over the data that are done."}, p->epoch, true},
        {{"planned_epochs", "gauge", "", "Passes over the data of the whole run."},
         p->epochs,
         true},
        {{"loss", "gauge", "",
          "Mean training loss of the reporting worker in this epoch so far, nats."},
         p->loss,
         m->step_at_s > 0 && (!m->simulated || isfinite(p->loss))}, /* a cost has none */
        {{"test_loss", "gauge", "", "Mean loss on the test data when last looked at, nats."},
         m->tested_loss,
         isfinite(m->tested_loss)},
        {{"test_accuracy_ratio", "gauge", "ratio", "Accuracy on the test data, 0 to 1."},
         m->tested_accuracy / 100,
         isfinite(m->tested_accuracy)},
        {{"workers", "gauge", "", "Workers that are there."}, m->now.workers, true},
        {{"membership_epoch", "gauge", "", "How often the members of the job have changed."},
         (double)m->now.membership,
         true},
        {{"reporting_rank", "gauge", "", "Rank of the worker that this page is from."},
         m->rank,
         true},
        {{"last_step_timestamp_seconds", "gauge", "seconds", "When the last step ended."},
         m->step_at_s,
         m->step_at_s > 0},
        {{"last_checkpoint_timestamp_seconds", "gauge", "seconds",
          "When this process last wrote a checkpoint."},
         m->checkpoint_at_s,
         m->checkpoint_at_s > 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        metrics_begin(page, &rows[i].family);
        if (rows[i].known)
            metrics_sample(page, NULL, 0, rows[i].number);
    }
}

static void about(metrics_page *page, const train_metrics *m)
{
    static const metrics_family family = {"job", "info", "", "What is being trained, and how."};
    const char *name = getenv("SHOAL_JOB");
    const metrics_label labels[] = {{"name", name != NULL ? name : ""},
                                    {"model", m->model},
                                    {"sync", m->job->sync},
                                    {"collective", m->job->collective},
                                    {"codec", m->job->codec},
                                    {"version", SHOAL_VERSION_STRING},
                                    {"clock", "virtual"}};
    metrics_begin(page, &family);
    metrics_sample(page, labels, sizeof labels / sizeof labels[0] - !m->simulated, 1);
}

static double rank_number(const shoal_watch_rank_state *r, size_t row)
{
    const double numbers[] = {strcmp(r->state, "running") == 0,
                              r->compute_ms * 1e-3,
                              r->caused_ms * 1e-3,
                              r->last_share,
                              r->last_seen_s,
                              (double)r->ended};
    return numbers[row];
}

/* What heartbeats told this rank of all of them. */
static void by_rank(metrics_page *page, const shoal_watch *watch)
{
    static const metrics_family rows[] = {
        {"rank_up", "gauge", "", "1: frames come from this rank."},
        {"rank_compute_seconds", "gauge", "seconds",
         "Time between two operations there, mean of the last second."},
        {"rank_caused_wait_seconds", "gauge", "seconds",
         "By how much an operation would come sooner without this rank."},
        {"rank_last_ratio", "gauge", "ratio",
         "Share of the last windows in which this rank came last."},
        {"rank_silence_seconds", "gauge", "seconds", "Time since any frame came from it."},
        {"rank_operations", "counter", "", "Operations that have ended there."},
    };
    shoal_watch_rank_state r = {.size = sizeof r};
    for (size_t row = 0; row < sizeof rows / sizeof rows[0]; row++) {
        metrics_begin(page, &rows[row]);
        for (uint32_t i = 0; watch != NULL && i < shoal_watch_ranks(watch); i++) {
            char rank[16];
            snprintf(rank, sizeof rank, "%u", i);
            if (shoal_watch_rank(watch, i, &r) == SHOAL_OK)
                metrics_sample(page, (metrics_label[]){{"rank", rank}, {"host", r.host}}, 2,
                               rank_number(&r, row));
        }
    }
}

static void stragglers(metrics_page *page, const shoal_watch *watch)
{
    static const metrics_family family = {"rank_straggler", "gauge", "",
                                          "1: all wait for this rank, for this cause."};
    enum { CAUSES = 6 };
    static const char *const causes[CAUSES] = {"compute", "network", "input",
                                               "load",    "disk",    "pause"};
    shoal_watch_rank_state r = {.size = sizeof r};
    metrics_begin(page, &family);
    for (uint32_t i = 0; watch != NULL && i < shoal_watch_ranks(watch); i++)
        for (size_t c = 0; c < CAUSES && shoal_watch_rank(watch, i, &r) == SHOAL_OK; c++) {
            char rank[16];
            snprintf(rank, sizeof rank, "%u", i);
            metrics_sample(
                page, (metrics_label[]){{"rank", rank}, {"host", r.host}, {"cause", causes[c]}}, 3,
                strcmp(r.cause, causes[c]) == 0);
        }
}

static void fill(void *ctx, metrics_page *page)
{
    train_metrics *m = ctx;
    shoal_watch *watch = NULL;
    page->prefix = "shoal_train_";
    if (m->status[0] == '\0' || shoal_watch_ask(m->status, ASK_US, &watch) != SHOAL_OK) {
        watch = NULL; /* the members have changed, and so has the socket */
        if (!own_status_path(m->status, sizeof m->status))
            m->status[0] = '\0';
        else if (shoal_watch_ask(m->status, ASK_US, &watch) != SHOAL_OK)
            watch = NULL;
    }
    pthread_mutex_lock(&m->lock);
    about(page, m);
    counters(page, m);
    step_parts(page, &m->before, &m->now);
    compute_parts(page, &m->before, &m->now);
    gauges(page, m);
    pthread_mutex_unlock(&m->lock);
    by_rank(page, watch);
    stragglers(page, watch);
    shoal_watch_close(watch);
}

/* ------------------------------------------------------------------ who serves */

static const char *verb_of(const train_metrics_options *o)
{
    return o->verb != NULL ? o->verb : "train";
}

bool train_metrics_fit(const train_metrics_options *o)
{
    const http_reach reach = o->address != NULL ? http_address_reach(o->address) : HTTP_HERE;
    if (reach == HTTP_NOWHERE)
        cli_usage(verb_of(o), "--metrics %s: wanted [HOST:]PORT of this host", o->address);
    if (reach == HTTP_NOWHERE)
        return false;
    if (reach == HTTP_HERE || o->token_file != NULL)
        return true;
    cli_usage(verb_of(o),
              "--metrics %s can be reached from other hosts, which takes "
              "--metrics-token-file FILE; --metrics PORT serves this host alone",
              o->address);
    return false;
}

bool train_metrics_reserve(const train_metrics_options *o)
{
    char number[16];
    if (o->address == NULL)
        return true;
    const int listener = http_listen(verb_of(o), "--metrics", o->address);
    snprintf(number, sizeof number, "%d", listener);
    return listener >= 0 && setenv("SHOAL_METRICS_FD", number, 1) == 0;
}

/* A launcher's descriptor, or our own. */
static int find_listener(const train_metrics_options *o)
{
    const char *text = getenv("SHOAL_METRICS_FD");
    int64_t number;
    if (text != NULL && cli_parse_int(text, 3, INT32_MAX, &number) && http_port((int)number) != 0)
        return (int)number;
    return http_listen(verb_of(o), "--metrics", o->address);
}

train_metrics *train_metrics_create(const train_metrics_options *options,
                                    const shoal_train_desc *job)
{
    train_metrics *m = options->address != NULL ? calloc(1, sizeof *m) : NULL;
    if (m == NULL)
        return NULL;
    m->options = options;
    m->job = job;
    m->listener = -1;
    m->tested_loss = m->tested_accuracy = (double)NAN;
    pthread_mutex_init(&m->lock, NULL);
    return m;
}

bool train_metrics_serve(train_metrics *m, uint32_t rank)
{
    if (m == NULL || m->http != NULL)
        return true;
    m->tried = true;
    m->rank = rank;
    m->listener = find_listener(m->options);
    if (m->listener >= 0)
        m->http = metrics_http_start(verb_of(m->options), m->listener, m->options->token_file, fill,
                                     m);
    return m->http != NULL;
}

unsigned train_metrics_port(const train_metrics *m)
{
    return m != NULL && m->http != NULL ? http_port(m->listener) : 0;
}

void train_metrics_step(train_metrics *m, uint32_t rank, const shoal_train *train,
                        const shoal_train_progress *p)
{
    shoal_train_totals now = {.size = sizeof now};
    if (m == NULL)
        return;
    shoal_train_count(train, &now);
    if (p != NULL && p->reports && !m->tried)
        (void)train_metrics_serve(m, rank); /* who did is lost; without metrics the job goes on */
    pthread_mutex_lock(&m->lock);
    m->rank = rank;
    if (p == NULL)
        snprintf(m->model, sizeof m->model, "%s", shoal_train_model(train));
    if (p != NULL) {
        if (now.checkpoint_step != m->now.checkpoint_step && now.checkpoint_step == p->step)
            m->checkpoint_at_s = unix_s();
        m->progress = *p;
        m->step_at_s = unix_s();
    }
    if (p != NULL && p->epoch_ended && isfinite(p->test_accuracy)) {
        m->tested_loss = p->test_loss;
        m->tested_accuracy = p->test_accuracy;
    }
    m->now = now;
    pthread_mutex_unlock(&m->lock);
}

void train_metrics_simulated(train_metrics *m, uint32_t rank, const shoal_train_totals *now,
                             const shoal_train_progress *p)
{
    if (m == NULL)
        return;
    pthread_mutex_lock(&m->lock);
    m->simulated = true;
    m->rank = rank;
    snprintf(m->model, sizeof m->model, "%s", m->job->model);
    m->progress = *p;
    m->step_at_s = p->step > 0 ? unix_s() : 0;
    m->now = *now;
    pthread_mutex_unlock(&m->lock);
}

void train_metrics_stage(train_metrics *m)
{
    if (m == NULL)
        return;
    pthread_mutex_lock(&m->lock);
    shoal_train_totals *b = &m->before;
    const shoal_train_totals *n = &m->now;
    b->steps += n->steps, b->samples += n->samples, b->skipped += n->skipped, b->lost += n->lost;
    b->sent_bytes += n->sent_bytes, b->received_bytes += n->received_bytes;
    b->dense_bytes += n->dense_bytes, b->step_s += n->step_s, b->compute_s += n->compute_s;
    b->wait_s += n->wait_s, b->update_s += n->update_s, b->exchange_s += n->exchange_s;
    b->encode_s += n->encode_s, b->decode_s += n->decode_s;
    b->data_s += n->data_s, b->forward_s += n->forward_s, b->backward_s += n->backward_s;
    m->now = (shoal_train_totals){.workers = n->workers, .membership = n->membership};
    pthread_mutex_unlock(&m->lock);
}

void train_metrics_destroy(train_metrics *m)
{
    if (m == NULL)
        return;
    metrics_http_end(m->http);
    if (m->listener >= 0)
        close(m->listener);
    pthread_mutex_destroy(&m->lock);
    free(m);
}
