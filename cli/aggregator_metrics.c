/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator_metrics.h"

#include <microhttpd.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "cli.h"

enum {
    JOBS_SHOWN = 256,
    CONNECTIONS = 64, /* then the oldest makes room */
    CONNECTION_S = 1  /* without a byte */
};

struct aggregator_metrics {
    shoal_aggregator *aggregator;
    struct MHD_Daemon *daemon;
    struct MHD_Connection *open[2 * CONNECTIONS]; /* the oldest first; its thread's */
    unsigned count;
};

/* ------------------------------------------------------------------ the page */

static void head(FILE *out, const char *name, const char *type, const char *help)
{
    fprintf(out, "# HELP shoal_aggregator_%s %s\n# TYPE shoal_aggregator_%s %s\n", name, help, name,
            type);
}

static void value(FILE *out, const char *name, uint64_t number)
{
    fprintf(out, "shoal_aggregator_%s %llu\n", name, (unsigned long long)number);
}

static void totals(FILE *out, const shoal_aggregator_stats *s)
{
    const struct {
        const char *name, *type, *help;
        uint64_t number;
    } rows[] = {
        {"jobs", "gauge", "Jobs that are being served.", s->jobs_open},
        {"jobs_ended_total", "counter", "Jobs that are over.", s->jobs_ended},
        {"callers_refused_total", "counter", "Strangers, and jobs beyond the limit.",
         s->jobs_refused},
        {"operations_total", "counter", "Operations that ended well.", s->operations},
        {"operations_failed_total", "counter", "Operations that failed.", s->failures},
        {"in_kernel", "gauge", "1: the kernel sums what it can.", s->in_kernel},
        {"kernel_operations_total", "counter", "Operations given to the kernel.",
         s->kernel_operations},
        {"received_bytes_total", "counter", "Payload received in operations that ended.",
         s->received_bytes},
        {"sent_bytes_total", "counter", "Payload sent in operations that ended.", s->sent_bytes},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        head(out, rows[i].name, rows[i].type, rows[i].help);
        value(out, rows[i].name, rows[i].number);
    }
}

/* A label's value: backslash, quote and line break are escaped; names are printable already. */
static void label(FILE *out, const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '"' || *text == '\\')
            fputc('\\', out);
        fputc(*text, out);
    }
}

static uint64_t job_number(const shoal_aggregator_job *job, int row)
{
    const uint64_t numbers[] = {
        job->ranks - job->ranks_gone, job->open_operations,   job->operations, job->memory_bytes,
        job->memory_peak_bytes,       job->memory_limit_bytes};
    return numbers[row];
}

static void by_job(FILE *out, const shoal_aggregator_job *jobs, uint32_t count)
{
    static const char *const rows[][3] = {
        {"job_ranks", "gauge", "Ranks of a job that are there."},
        {"job_operations_open", "gauge", "Operations of a job under way."},
        {"job_operations_total", "counter", "Operations of a job that ended well."},
        {"job_memory_bytes", "gauge", "What the open operations of a job may hold."},
        {"job_memory_peak_bytes", "gauge", "The most of it so far."},
        {"job_memory_limit_bytes", "gauge", "What they may hold at most."},
    };
    for (int row = 0; row < (int)(sizeof rows / sizeof rows[0]); row++) {
        head(out, rows[row][0], rows[row][1], rows[row][2]);
        for (uint32_t i = 0; i < count; i++) {
            fprintf(out, "shoal_aggregator_%s{job=\"", rows[row][0]);
            label(out, jobs[i].name);
            fprintf(out, "\",epoch=\"%llu\"} %llu\n", (unsigned long long)jobs[i].epoch,
                    (unsigned long long)job_number(&jobs[i], row));
        }
    }
}

char *aggregator_metrics_text(shoal_aggregator *aggregator)
{
    shoal_aggregator_stats stats;
    shoal_aggregator_job *jobs = calloc(JOBS_SHOWN, sizeof *jobs);
    char *text = NULL;
    size_t bytes;
    FILE *out = jobs != NULL ? open_memstream(&text, &bytes) : NULL;
    if (out != NULL) {
        const uint32_t count = shoal_aggregator_report(aggregator, &stats, jobs, JOBS_SHOWN);
        totals(out, &stats);
        by_job(out, jobs, count < JOBS_SHOWN ? count : JOBS_SHOWN);
        fclose(out);
    }
    free(jobs);
    return text;
}

/* ------------------------------------------------------------------ HTTP */

static enum MHD_Result answer_with(struct MHD_Connection *connection, unsigned code, char *text,
                                   enum MHD_ResponseMemoryMode mode)
{
    struct MHD_Response *response = MHD_create_response_from_buffer(strlen(text), text, mode);
    if (response == NULL)
        return MHD_NO;
    enum MHD_Result result = MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE,
                                                     "text/plain; version=0.0.4");
    if (result == MHD_YES)
        result = MHD_queue_response(connection, code, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result answer(void *ctx, struct MHD_Connection *connection, const char *url,
                              const char *method, const char *version, const char *upload,
                              size_t *upload_bytes, void **request)
{
    static char unknown[] = "There is /metrics here.\n";
    const aggregator_metrics *m = ctx;
    (void)version, (void)upload, (void)upload_bytes, (void)request;
    if (strcmp(method, MHD_HTTP_METHOD_GET) != 0)
        return answer_with(connection, MHD_HTTP_METHOD_NOT_ALLOWED, unknown,
                           MHD_RESPMEM_PERSISTENT);
    if (strcmp(url, "/metrics") != 0)
        return answer_with(connection, MHD_HTTP_NOT_FOUND, unknown, MHD_RESPMEM_PERSISTENT);
    char *text = aggregator_metrics_text(m->aggregator);
    return text != NULL ? answer_with(connection, MHD_HTTP_OK, text, MHD_RESPMEM_MUST_FREE)
                        : MHD_NO;
}

static void hang_up_on_oldest(const aggregator_metrics *m)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(
        m->open[m->count - CONNECTIONS - 1], MHD_CONNECTION_INFO_CONNECTION_FD);
    if (info != NULL)
        (void)shutdown(info->connect_fd, SHUT_RDWR);
}

/* Called by the daemon's one thread. Who connects and says nothing keeps nobody else out. */
static void note(void *ctx, struct MHD_Connection *connection, void **socket_ctx,
                 enum MHD_ConnectionNotificationCode code)
{
    aggregator_metrics *m = ctx;
    (void)socket_ctx;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        m->open[m->count++] = connection;
        if (m->count > CONNECTIONS)
            hang_up_on_oldest(m);
        return;
    }
    unsigned i = 0;
    while (i < m->count && m->open[i] != connection)
        i++;
    if (i == m->count)
        return;
    m->count--;
    memmove(&m->open[i], &m->open[i + 1], (m->count - i) * sizeof m->open[0]);
}

static struct addrinfo *resolve(const char *address)
{
    char host[256];
    const char *colon = strrchr(address, ':');
    const struct addrinfo hints = {.ai_family = AF_UNSPEC,
                                   .ai_socktype = SOCK_STREAM,
                                   .ai_flags = AI_NUMERICSERV | AI_PASSIVE};
    struct addrinfo *list = NULL;
    const size_t length = colon != NULL ? (size_t)(colon - address) : sizeof host;
    if (length >= sizeof host || colon[1] == '\0')
        return NULL;
    const bool bracketed = length >= 2 && address[0] == '[' && address[length - 1] == ']';
    snprintf(host, sizeof host, "%.*s", (int)(bracketed ? length - 2 : length),
             bracketed ? address + 1 : address);
    return getaddrinfo(host[0] != '\0' ? host : "127.0.0.1", colon + 1, &hints, &list) == 0 ? list
                                                                                            : NULL;
}

aggregator_metrics *aggregator_metrics_start(const char *address, shoal_aggregator *aggregator)
{
    struct addrinfo *where = resolve(address);
    aggregator_metrics *m = calloc(1, sizeof *m);
    if (where != NULL && m != NULL) {
        m->aggregator = aggregator;
        m->daemon = MHD_start_daemon(
            MHD_USE_INTERNAL_POLLING_THREAD |
                (where->ai_family == AF_INET6 ? MHD_USE_IPv6 : MHD_NO_FLAG),
            0, NULL, NULL, answer, m, MHD_OPTION_SOCK_ADDR, where->ai_addr,
            MHD_OPTION_CONNECTION_LIMIT, 2u * CONNECTIONS, MHD_OPTION_NOTIFY_CONNECTION, note, m,
            MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)CONNECTION_S,
            MHD_OPTION_LISTENING_ADDRESS_REUSE, 1u, MHD_OPTION_END);
    }
    if (where != NULL)
        freeaddrinfo(where);
    if (m != NULL && m->daemon != NULL)
        return m;
    (void)cli_fail("aggregator", "cannot serve metrics at --metrics %s: %s", address,
                   where == NULL ? "that is no host:port" : "is the port taken?");
    free(m);
    return NULL;
}

unsigned aggregator_metrics_port(const aggregator_metrics *metrics)
{
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(metrics->daemon,
                                                           MHD_DAEMON_INFO_BIND_PORT);
    return info != NULL ? info->port : 0;
}

void aggregator_metrics_end(aggregator_metrics *metrics)
{
    if (metrics == NULL)
        return;
    MHD_stop_daemon(metrics->daemon);
    free(metrics);
}
