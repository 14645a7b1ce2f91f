/* SPDX-License-Identifier: Apache-2.0 */
#include "metrics_http.h"

#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "http_door.h"

enum { CONNECTION_S = 1 }; /* without a byte */

struct metrics_http {
    metrics_fill fill;
    void *ctx;
    struct MHD_Daemon *daemon;
    http_crowd crowd;
    char token[HTTP_TOKEN_MOST + 1]; /* "": none is asked for */
};

/* ------------------------------------------------------------------ HTTP */

static enum MHD_Result answer_with(struct MHD_Connection *connection, unsigned code,
                                   const char *type, char *text, enum MHD_ResponseMemoryMode mode)
{
    struct MHD_Response *response = MHD_create_response_from_buffer(strlen(text), text, mode);
    if (response == NULL)
        return MHD_NO;
    enum MHD_Result result = MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    if (result == MHD_YES && code == MHD_HTTP_UNAUTHORIZED)
        result = MHD_add_response_header(response, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer");
    if (result == MHD_YES)
        result = MHD_queue_response(connection, code, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result answer_page(const metrics_http *http, struct MHD_Connection *connection,
                                   const char *accept)
{
    char *text = NULL;
    size_t bytes;
    metrics_page page = {.out = open_memstream(&text, &bytes),
                         .open_metrics = accept != NULL &&
                                         strstr(accept, "application/openmetrics-text") != NULL,
                         .prefix = ""};
    if (page.out == NULL)
        return MHD_NO;
    http->fill(http->ctx, &page);
    metrics_end(&page);
    if (fclose(page.out) != 0) {
        free(text);
        return MHD_NO;
    }
    return answer_with(connection, MHD_HTTP_OK,
                       page.open_metrics
                           ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
                           : "text/plain; version=0.0.4; charset=utf-8",
                       text, MHD_RESPMEM_MUST_FREE);
}

static enum MHD_Result answer(void *ctx, struct MHD_Connection *connection, const char *url,
                              const char *method, const char *version, const char *upload,
                              size_t *upload_bytes, void **request)
{
    static char unknown[] = "There is /metrics here.\n", stranger[] = "The token is missing.\n",
                plain[] = "text/plain; charset=utf-8";
    const metrics_http *http = ctx;
    (void)version, (void)upload, (void)upload_bytes, (void)request;
    if (http->token[0] != '\0' && !http_brings(connection, http->token))
        return answer_with(connection, MHD_HTTP_UNAUTHORIZED, plain, stranger,
                           MHD_RESPMEM_PERSISTENT);
    if (strcmp(method, MHD_HTTP_METHOD_GET) != 0)
        return answer_with(connection, MHD_HTTP_METHOD_NOT_ALLOWED, plain, unknown,
                           MHD_RESPMEM_PERSISTENT);
    if (strcmp(url, "/metrics") != 0)
        return answer_with(connection, MHD_HTTP_NOT_FOUND, plain, unknown, MHD_RESPMEM_PERSISTENT);
    return answer_page(http, connection,
                       MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Accept"));
}

metrics_http *metrics_http_start(const char *verb, int listener, const char *token_file,
                                 metrics_fill fill, void *ctx)
{
    metrics_http *http = calloc(1, sizeof *http);
    if (http == NULL || (token_file != NULL &&
                         !http_read_token(verb, "--metrics-token-file", token_file, http->token))) {
        free(http);
        return NULL;
    }
    http->fill = fill;
    http->ctx = ctx;
    http->daemon = MHD_start_daemon(
        MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_ITC, 0, NULL, NULL, answer, http,
        MHD_OPTION_LISTEN_SOCKET, listener, MHD_OPTION_CONNECTION_LIMIT, 2u * HTTP_CONNECTIONS,
        MHD_OPTION_NOTIFY_CONNECTION, http_crowd_note, &http->crowd, MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned)CONNECTION_S, MHD_OPTION_END);
    if (http->daemon != NULL)
        return http;
    (void)cli_fail(verb, "cannot serve metrics: no thread, or no memory, for it");
    free(http);
    return NULL;
}

void metrics_http_end(metrics_http *http)
{
    if (http == NULL)
        return;
    (void)MHD_quiesce_daemon(http->daemon); /* or it would shut the listener down for all */
    MHD_stop_daemon(http->daemon);
    free(http);
}
