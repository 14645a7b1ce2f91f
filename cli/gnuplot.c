/* SPDX-License-Identifier: Apache-2.0 */
#include "gnuplot.h"

#include <ctype.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "markup.h"

enum { ANSWER_S = 60 };
static const char no_gnuplot[] =
    "No picture: gnuplot is not installed (Debian's package gnuplot-nox has it).";
static const char no_answer[] = "No picture: gnuplot did not draw it.";

/* It reads and writes one socket, so that who has gone is an error and no signal. */
static struct {
    pid_t pid; /* 0: none */
    int fd;
} drawer;

static void stop(void)
{
    if (drawer.pid <= 0)
        return;
    close(drawer.fd);
    kill(drawer.pid, SIGKILL); /* what it drew has been read */
    waitpid(drawer.pid, NULL, 0);
    drawer.pid = 0;
}

static const char *start(void)
{
    extern char **environ;
    static bool stops;
    static char name[] = "gnuplot", alone[] = "-d"; /* no settings but ours */
    char *const words[] = {name, alone, NULL};
    const struct timeval most = {.tv_sec = ANSWER_S};
    int ends[2];
    posix_spawn_file_actions_t actions;
    if (drawer.pid > 0)
        return NULL;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return no_answer;
    (void)setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &most, sizeof most);
    (void)setsockopt(ends[0], SOL_SOCKET, SO_SNDTIMEO, &most, sizeof most);
    int failed = posix_spawn_file_actions_init(&actions);
    if (failed == 0) {
        posix_spawn_file_actions_adddup2(&actions, ends[1], STDIN_FILENO);
        posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
        posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", 1, 0);
        failed = posix_spawnp(&drawer.pid, words[0], &actions, NULL, words, environ);
        posix_spawn_file_actions_destroy(&actions);
    }
    close(ends[1]);
    drawer.fd = ends[0];
    if (failed != 0) {
        close(ends[0]);
        drawer.pid = 0;
        return no_gnuplot;
    }
    stops = stops || atexit(stop) == 0;
    return NULL;
}

/* What gnuplot makes of a script, up to and with </svg>; NULL: nothing. The caller frees it. */
static char *answer_to(const char *script, size_t length)
{
    char *text = NULL, block[16384], *end = NULL;
    size_t used = 0;
    for (ssize_t sent; length > 0; script += sent, length -= (size_t)sent)
        if ((sent = send(drawer.fd, script, length, MSG_NOSIGNAL)) <= 0)
            return NULL;
    for (ssize_t got; end == NULL && (got = recv(drawer.fd, block, sizeof block, 0)) > 0;) {
        char *more = realloc(text, used + (size_t)got + 1);
        if (more == NULL)
            break;
        memcpy(more + used, block, (size_t)got);
        const size_t from = used > 8 ? used - 8 : 0;
        used += (size_t)got;
        more[used] = '\0';
        text = more;
        end = strstr(text + from, "</svg>");
    }
    if (end == NULL) {
        free(text);
        return NULL;
    }
    *end = '\0';
    return text;
}

const char *gnuplot_missing(void)
{
    return start();
}

/* ---------------------------------------------------------------- what it drew */

/* "rgb(0, 114, 178)" as #0072b2; returns what comes behind, NULL: it is none. */
static const char *put_colour(FILE *out, const char *from)
{
    unsigned long parts[3];
    char *end = NULL;
    if (strncmp(from, "rgb(", 4) != 0)
        return NULL;
    from += 4;
    for (int i = 0; i < 3; i++) {
        parts[i] = strtoul(from, &end, 10);
        if (end == from || parts[i] > 255 || *end != (i < 2 ? ',' : ')'))
            return NULL;
        from = end + 1;
    }
    fprintf(out, "#%02lx%02lx%02lx", parts[0], parts[1], parts[2]);
    return from;
}

/* A tag's text: words for things get the picture's id before them, as a page has several pictures;
 * colours are written as pages' styles know them. */
static const char *put_tag(FILE *out, const char *from, const char *id)
{
    static const char *const names[] = {" id='", " id=\"", "href='#", "url(#"};
    static const char *const usual[] = {" stroke-linecap=\"butt\"", " stroke-linejoin=\"miter\"",
                                        " font-family=\"sans-serif\"", " font-size=\"12.00\"",
                                        " class=\"gridline\""};
    while (*from != '\0' && *from != '>') {
        int length = 0;
        const char *behind = put_colour(out, from);
        if (behind != NULL) {
            from = behind;
            continue;
        }
        for (size_t i = 0; i < sizeof usual / sizeof usual[0] && length == 0; i++)
            length = strncmp(from, usual[i], strlen(usual[i])) == 0 ? (int)strlen(usual[i]) : 0;
        if (length > 0) {
            from += length;
            continue;
        }
        for (size_t i = 0; i < sizeof names / sizeof names[0] && length == 0; i++)
            if (strncmp(from, names[i], strlen(names[i])) == 0)
                length = fprintf(out, "%s%s-", names[i], id) > 0 ? (int)strlen(names[i]) : 0;
        if (length == 0)
            fputc(*from, out);
        from += length > 0 ? length : 1;
    }
    fputc('>', out);
    return from + (*from == '>');
}

/* Of <g ...></g> the end, else NULL. */
static const char *empty_group(const char *from)
{
    const char *end = strncmp(from, "<g ", 3) == 0 ? strchr(from, '>') : NULL;
    if (end == NULL)
        return NULL;
    end += 1 + strspn(end + 1, " \t\n");
    return strncmp(end, "</g>", 4) == 0 ? end + 4 : NULL;
}

/* All but its head, its own names of things, and the marks but for the one that is used. */
static void put_drawing(FILE *out, const char *from, const char *id)
{
    for (const char *end; *from != '\0';) {
        if ((end = empty_group(from)) != NULL)
            from = end;
        else if (strncmp(from, "<title>", 7) == 0 && (end = strstr(from, "</title>")) != NULL)
            from = end + 8;
        else if (*from == '<')
            from = put_tag(out, from, id);
        else if (isspace((unsigned char)*from) && strspn(from, " \t\n") == strcspn(from, "<"))
            from += strspn(from, " \t\n"), fputc('\n', out);
        else
            fputc(*from++, out);
    }
}

static void put_head(FILE *out, const gnuplot_frame *f, const char *id)
{
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" xmlns:xlink=\"http://www.w3.org/1999/xlink\""
            " width=\"%u\" height=\"%u\" viewBox=\"0 0 %u %u\" role=\"img\" "
            "aria-labelledby=\"%s-title %s-about\" "
            "font-family=\"sans-serif\" font-size=\"12\">\n<title id=\"%s-title\">",
            f->width, f->height, f->width, f->height, id, id, id);
    cli_markup(out, f->title);
    fprintf(out, "</title>\n<desc id=\"%s-about\">", id);
    cli_markup(out, f->about != NULL ? f->about : f->title);
    fprintf(out,
            "</desc>\n<rect class=\"ground\" width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n"
            "<defs><circle id=\"%s-gpPt6\" r=\"1\" fill=\"currentColor\"/></defs>\n",
            id);
}

const char *gnuplot_draw(FILE *out, const gnuplot_frame *f, const char *script, size_t length)
{
    const char *id = f->id != NULL ? f->id : "chart", *why = start();
    char *text = why == NULL ? answer_to(script, length) : NULL;
    const char *drawing = text != NULL ? strstr(text, "</defs>") : NULL;
    if (drawing != NULL) {
        put_head(out, f, id);
        fputs("<g>", out); /* the canvas, which ends where the picture does */
        put_drawing(out, drawing + 7, id);
        fputs("</svg>\n", out);
    } else if (why == NULL) {
        stop();
        why = no_answer;
    }
    free(text);
    return why;
}
