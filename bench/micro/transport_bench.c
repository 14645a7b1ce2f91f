/* SPDX-License-Identifier: Apache-2.0 */
/* One stream between two processes of this host: GB/s, and CPU seconds of both per GB.
 *
 *     transport_bench [--transport SPEC]... [--bytes N]... [--seconds S] [--both] [--json]
 *
 * The sender keeps four frames in flight, as the engine does per peer; the receiver places bodies
 * in turn into eight buffers and reads them once (a sum, as decoding would). --both: each sends to
 * the other at the same time. */
#include <getopt.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "transport/transport.h"

enum { LIST_MOST = 16, BUFFERS = 8, IN_FLIGHT = 4, PARAMS_BYTES = 1024 };

typedef struct options {
    const char *transports[LIST_MOST];
    size_t bytes[LIST_MOST];
    size_t transport_count, bytes_count;
    double seconds;
    bool both, json;
} options;

typedef struct side {
    const shoali_transport_row *row;
    void *state;
    uint32_t me;
    uint8_t *send_buffer, *buffers[BUFFERS];
    size_t bytes, next, in_flight, sent, received;
    uint64_t sum;
    bool up, down;
} side;

typedef struct result {
    uint64_t received_bytes, wall_ns, cpu_ns;
} result;

static void stop(const char *what)
{
    fprintf(stderr, "transport_bench: %s: %s\n", what, shoal_last_error()->text);
    exit(1);
}

/* ---------------------------------------------------------------- events */

static uint8_t *place(void *ctx, uint32_t peer, const shoal_data *head)
{
    side *s = ctx;
    (void)peer;
    return head->len_bytes == s->bytes ? s->buffers[s->next++ % BUFFERS] : NULL;
}

static void frames(void *ctx, uint32_t peer, const shoal_data *heads, uint8_t *const *bodies,
                   size_t count)
{
    side *s = ctx;
    (void)peer;
    (void)heads;
    for (size_t f = 0; f < count; f++) {
        const uint64_t *words = (const void *)bodies[f];
        uint64_t sum = 0;
        for (size_t i = 0; i < s->bytes / sizeof *words; i++)
            sum += words[i];
        s->sum += sum;
        s->received++;
    }
}

static void unplace(void *ctx, uint32_t peer, const shoal_data *head, uint8_t *body)
{
    (void)ctx, (void)peer, (void)head, (void)body;
}

static void sent(void *ctx, uint32_t peer, uint64_t cookie, shoal_status status)
{
    side *s = ctx;
    (void)peer, (void)cookie;
    s->in_flight--;
    s->sent += status == SHOAL_OK;
}

static void control(void *ctx, uint32_t peer, uint16_t kind, const uint8_t *bytes, size_t len_bytes)
{
    (void)ctx, (void)peer, (void)kind, (void)bytes, (void)len_bytes;
}

static void peer_up(void *ctx, uint32_t peer)
{
    side *s = ctx;
    (void)peer;
    s->up = true;
}

static void peer_down(void *ctx, uint32_t peer, shoal_status why, const char *text)
{
    side *s = ctx;
    (void)peer;
    s->down = true;
    if (why != SHOAL_OK)
        fprintf(stderr, "transport_bench: %s\n", text);
}

static uint64_t now_us(void *ctx)
{
    (void)ctx;
    return shoali_now_us();
}

/* ---------------------------------------------------------------- one side */

static void turn(side *s, int wait_ms)
{
    struct pollfd fd = {.fd = s->row->fd(s->state), .events = POLLIN};
    if (s->row->next_wake_us(s->state) > shoali_now_us())
        poll(&fd, 1, wait_ms);
    s->row->progress(s->state, shoali_now_us());
}

static void open_side(side *s, uint32_t me, const char *spec, size_t bytes, int wire)
{
    static uint8_t params[PARAMS_BYTES] __attribute__((aligned(64)));
    static const uint8_t token[16] = "a bench's secret";
    char mine[SHOALI_ADDRESS_BYTES], other[SHOALI_ADDRESS_BYTES];
    shoali_transport_events events = {.ctx = s,
                                      .place = place,
                                      .frames = frames,
                                      .unplace = unplace,
                                      .sent = sent,
                                      .control = control,
                                      .peer_up = peer_up,
                                      .peer_down = peer_down};
    shoali_transport_args args = {.me = me,
                                  .size = 2,
                                  .incarnation = shoali_now_ns(),
                                  .job = "bench",
                                  .token = token,
                                  .token_bytes = sizeof token,
                                  .interface = "127.0.0.1",
                                  .now_us = now_us,
                                  .params = params};
    *s = (side){.row = shoali_transport_find(spec), .me = me, .bytes = bytes};
    if (s->row == NULL || shoali_spec_parse("transport", spec, &s->row->schema, params) != SHOAL_OK)
        stop(spec);
    s->state = shoali_alloc(s->row->state_size);
    s->send_buffer = shoali_alloc(bytes);
    for (size_t i = 0; i < BUFFERS; i++)
        s->buffers[i] = shoali_alloc(bytes);
    if (s->row->open(s->state, &args, &events) != SHOAL_OK)
        stop("open");
    s->row->address(s->state, mine);
    if (write(wire, mine, sizeof mine) != (ssize_t)sizeof mine ||
        read(wire, other, sizeof other) != (ssize_t)sizeof other)
        stop("addresses");
    if (s->row->add_peer(s->state, 1 - me, other) != SHOAL_OK)
        stop("add_peer");
    while (!s->up && !s->down)
        turn(s, 1000);
    if (s->down)
        stop("no connection");
}

static void fill_pipe(side *s)
{
    while (s->in_flight < IN_FLIGHT && !s->down) {
        shoal_data head = {.len_bytes = (uint32_t)s->bytes};
        if (s->row->send(s->state, 1 - s->me, 0, &head, s->send_buffer, 0) != SHOAL_OK)
            return;
        s->in_flight++;
    }
}

/* Runs until the clock says so (sender) or the other side leaves (receiver). */
static result run_side(side *s, bool sends, double seconds)
{
    uint64_t start_ns = shoali_now_ns(), cpu_ns = shoali_process_cpu_ns();
    uint64_t end_ns = start_ns + (uint64_t)(seconds * 1e9);
    while (!s->down && (!sends || shoali_now_ns() < end_ns)) {
        if (sends)
            fill_pipe(s);
        turn(s, 100);
    }
    result r = {s->received * s->bytes, shoali_now_ns() - start_ns,
                shoali_process_cpu_ns() - cpu_ns};
    while (!s->down && s->in_flight > 0)
        turn(s, 100);
    s->row->close(s->state);
    return r;
}

/* ---------------------------------------------------------------- two sides */

static void measure(const options *o, const char *spec, size_t bytes)
{
    int wires[2];
    side s;
    result theirs, mine;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, wires) != 0)
        stop("socketpair");
    pid_t child = fork();
    if (child < 0)
        stop("fork");
    int wire = wires[child == 0];
    open_side(&s, child == 0, spec, bytes, wire);
    mine = run_side(&s, o->both || child != 0, o->seconds);
    if (child == 0) {
        exit(write(wire, &mine, sizeof mine) == (ssize_t)sizeof mine ? 0 : 1);
    }
    if (read(wire, &theirs, sizeof theirs) != (ssize_t)sizeof theirs)
        stop("the other side");
    waitpid(child, NULL, 0);
    close(wires[0]);
    close(wires[1]);
    double gb = (double)(mine.received_bytes + theirs.received_bytes) / 1e9;
    double rate = gb / ((double)mine.wall_ns / 1e9),
           cpu = (double)(mine.cpu_ns + theirs.cpu_ns) / 1e9 / gb;
    if (o->json)
        printf("{\"transport\": \"%s\", \"bytes\": %zu, \"both\": %s, \"gb_per_s\": %.3f, "
               "\"cpu_s_per_gb\": %.3f}\n",
               spec, bytes, o->both ? "true" : "false", rate, cpu);
    else
        printf("%-24s %9zu bytes %s %7.2f GB/s %6.3f CPU s/GB\n", spec, bytes,
               o->both ? "both ways" : "one way  ", rate, cpu);
    fflush(stdout);
}

static options parse(int argc, char **argv)
{
    static const struct option names[] = {{"transport", required_argument, NULL, 't'},
                                          {"bytes", required_argument, NULL, 'b'},
                                          {"seconds", required_argument, NULL, 's'},
                                          {"both", no_argument, NULL, '2'},
                                          {"json", no_argument, NULL, 'j'},
                                          {NULL, 0, NULL, 0}};
    options o = {.seconds = 1};
    for (int c; (c = getopt_long(argc, argv, "", names, NULL)) != -1;) {
        if (c == 't' && o.transport_count < LIST_MOST)
            o.transports[o.transport_count++] = optarg;
        else if (c == 'b' && o.bytes_count < LIST_MOST)
            o.bytes[o.bytes_count++] = strtoull(optarg, NULL, 0);
        else if (c == 's')
            o.seconds = strtod(optarg, NULL);
        else if (c == '2')
            o.both = true;
        else if (c == 'j')
            o.json = true;
        else
            exit(2);
    }
    if (o.transport_count == 0)
        for (size_t i = 0; i < shoali_transport_count() && i < LIST_MOST; i++)
            o.transports[o.transport_count++] = shoali_transport_row_at(i)->name;
    if (o.bytes_count == 0) {
        o.bytes[o.bytes_count++] = 4096;
        o.bytes[o.bytes_count++] = 65536;
        o.bytes[o.bytes_count++] = 262144;
        o.bytes[o.bytes_count++] = 1048576;
    }
    return o;
}

int main(int argc, char **argv)
{
    options o = parse(argc, argv);
    for (size_t t = 0; t < o.transport_count; t++)
        for (size_t b = 0; b < o.bytes_count; b++)
            measure(&o, o.transports[t], o.bytes[b]);
    return 0;
}
