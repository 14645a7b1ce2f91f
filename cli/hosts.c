/* SPDX-License-Identifier: Apache-2.0 */
/* The look at a job's hosts before it starts. Each host is asked by an ssh of its own, all at once:
 *
 *     here                          there (remote_check)
 *     ssh HOST SCRIPT ------------> shoal-host here
 *                     <------------ shoal-host version TEXT      of the shoal that lies there
 *                     <------------ shoal-host program           the command is not found
 *                     <------------ shoal-host fine
 *     rank 0's host:  <------------ shoal-host ports P Q         instead of fine; kept until our
 *                                                                end of its input closes
 *
 * Other lines there are start-up files' and count for nothing. */
#include "hosts.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"

enum { LINE_BYTES = 512, TAIL_BYTES = 2048 };

typedef enum verdict {
    SILENT, /* nothing has come from there */
    HERE,   /* ssh let us in */
    NO_SHOAL,
    OTHER_VERSION,
    NO_PROGRAM,
    TAKEN, /* the port */
    FINE
} verdict;

typedef struct probe {
    uint32_t host;
    pid_t pid;
    int out, err;          /* -1: ended */
    char line[LINE_BYTES]; /* of its output, unfinished */
    char tail[TAIL_BYTES]; /* of what ssh says */
    size_t line_used, tail_used;
    char version[LINE_BYTES];
    verdict verdict;
    uint16_t ports[2];
} probe;

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

unsigned hosts_wait_s(void)
{
    enum { USUAL_S = 10, MOST_S = 600 };
    const char *text = getenv("SHOAL_HOSTS_WAIT");
    int64_t seconds = USUAL_S;
    if (text == NULL || text[0] == '\0')
        return USUAL_S;
    return cli_parse_int(text, 1, MOST_S, &seconds) ? (unsigned)seconds : 0;
}

/* ------------------------------------------------------------------ asking */

/* What comes from there may reach a terminal. */
static void make_plain(char *text)
{
    for (; *text != '\0'; text++)
        if (*text < ' ' || *text > '~')
            *text = '?';
}

/* "29400 29401" */
static bool take_ports(const char *text, uint16_t ports[2])
{
    char *rest = NULL;
    for (int i = 0; i < 2; i++) {
        unsigned long port = strtoul(text, &rest, 10);
        if (rest == text || port == 0 || port > 65535)
            return false;
        ports[i] = (uint16_t)port;
        text = rest;
    }
    return true;
}

static void hear_line(probe *p, char *line)
{
    static const char mark[] = "shoal-host ";
    if (strncmp(line, mark, sizeof mark - 1) != 0 || p->verdict > HERE)
        return;
    const char *word = line + sizeof mark - 1;
    if (strcmp(word, "here") == 0)
        p->verdict = HERE;
    else if (strcmp(word, "nothing") == 0)
        p->verdict = NO_SHOAL;
    else if (strcmp(word, "program") == 0)
        p->verdict = NO_PROGRAM;
    else if (strcmp(word, "fine") == 0 ||
             (strncmp(word, "ports ", 6) == 0 && take_ports(word + 6, p->ports)))
        p->verdict = FINE;
    else if (strncmp(word, "taken ", 6) == 0)
        p->verdict = TAKEN;
    else if (strncmp(word, "version ", 8) == 0) {
        snprintf(p->version, sizeof p->version, "%s", word + 8);
        make_plain(p->version);
        p->verdict = strcmp(word + 8, cli_version()) == 0 ? HERE : OTHER_VERSION;
    }
}

static void hear(probe *p)
{
    ssize_t got = read(p->out, p->line + p->line_used, sizeof p->line - 1 - p->line_used);
    if (got <= 0) {
        close(p->out);
        p->out = -1;
        return;
    }
    p->line_used += (size_t)got;
    char *start = p->line, *end = p->line + p->line_used;
    for (char *newline; (newline = memchr(start, '\n', (size_t)(end - start))) != NULL;
         start = newline + 1) {
        *newline = '\0';
        hear_line(p, start);
    }
    p->line_used = start == p->line && p->line_used == sizeof p->line - 1 ? 0
                                                                          : (size_t)(end - start);
    memmove(p->line, start, p->line_used);
}

/* The last of what ssh says, as text. */
static void hear_complaint(probe *p)
{
    char bytes[TAIL_BYTES / 2];
    ssize_t got = read(p->err, bytes, sizeof bytes);
    if (got <= 0) {
        close(p->err);
        p->err = -1;
        return;
    }
    size_t more = (size_t)got, over = p->tail_used + more >= sizeof p->tail
                                          ? p->tail_used + more - sizeof p->tail + 1
                                          : 0;
    memmove(p->tail, p->tail + over, p->tail_used - over);
    p->tail_used -= over;
    for (size_t i = 0; i < more; i++)
        p->tail[p->tail_used++] = bytes[i] != '\0' ? bytes[i] : '?';
    p->tail[p->tail_used] = '\0';
}

static bool is_answered(const probe *p)
{
    return p->verdict > HERE || (p->out < 0 && p->err < 0);
}

/* All that there is to hear until the deadline. */
static void listen_to(probe *probes, uint32_t count)
{
    struct pollfd fds[2 * REMOTE_MAX_HOSTS];
    const int64_t end = now_ms() + 1000 * (int64_t)hosts_wait_s();
    for (int64_t left; (left = end - now_ms()) > 0;) {
        bool open = false;
        for (uint32_t i = 0; i < count; i++) {
            const bool done = is_answered(&probes[i]);
            fds[2 * i] = (struct pollfd){.fd = done ? -1 : probes[i].out, .events = POLLIN};
            fds[2 * i + 1] = (struct pollfd){.fd = done ? -1 : probes[i].err, .events = POLLIN};
            open = open || !done;
        }
        if (!open || (poll(fds, 2 * count, (int)left) < 0 && errno != EINTR))
            return;
        for (uint32_t i = 0; i < count; i++) {
            if (fds[2 * i].revents != 0)
                hear(&probes[i]);
            if (fds[2 * i + 1].revents != 0)
                hear_complaint(&probes[i]);
        }
    }
}

static bool begin(probe *p, const char *verb, const remote_hosts *hosts, const char *program,
                  int32_t port, int input)
{
    int out[2], err[2];
    if (pipe2(out, O_CLOEXEC) != 0)
        return false;
    if (pipe2(err, O_CLOEXEC) != 0) {
        close(out[0]);
        close(out[1]);
        return false;
    }
    p->out = out[0];
    p->err = err[0];
    p->pid = fork();
    if (p->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (dup2(out[1], STDOUT_FILENO) >= 0 && dup2(err[1], STDERR_FILENO) >= 0)
            remote_check(verb, hosts, p->host, program, port, input);
        _exit(CLI_FAILED);
    }
    close(out[1]);
    close(err[1]);
    return p->pid > 0;
}

/* ------------------------------------------------------------------ what is wrong */

typedef struct cause {
    const char *says, *means; /* means NULL: no answer */
} cause;

/* OpenSSH's words, which are the same in all languages. */
static const cause causes[] = {
    {"IDENTIFICATION HAS CHANGED",
     "its key is another one than known_hosts has; it was set up anew, or somebody stands between "
     "(`ssh-keygen -R HOST` forgets the old key)"},
    {"Host key verification failed",
     "its key is not known here; log in once by hand and compare it, or add it to known_hosts"},
    {"Permission denied",
     "it refuses the login (permission denied); a key has to open it without a question "
     "(ssh-copy-id, ssh-agent)"},
    {"Connection refused", "nothing answers ssh there (connection refused); does its sshd run?"},
    {"Could not resolve hostname", "no such name is known here"},
    {"No route to host", "there is no way to it (no route to host)"},
    {"Network is unreachable", "there is no way to it (network is unreachable)"},
    {"timed out", NULL},
};

static const cause *cause_of(const probe *p)
{
    for (size_t i = 0; i < sizeof causes / sizeof causes[0]; i++)
        if (strstr(p->tail, causes[i].says) != NULL)
            return &causes[i];
    return NULL;
}

static bool is_silent(const probe *p)
{
    const cause *known = p->verdict == SILENT ? cause_of(p) : NULL;
    return p->verdict <= HERE && (known != NULL ? known->means == NULL : !is_answered(p));
}

/* The last line that ssh has said. */
static const char *last_words(probe *p)
{
    while (p->tail_used > 0 && strchr("\r\n ", p->tail[p->tail_used - 1]) != NULL)
        p->tail[--p->tail_used] = '\0';
    char *newline = strrchr(p->tail, '\n'), *line = newline != NULL ? newline + 1 : p->tail;
    make_plain(line);
    return line;
}

static void explain(probe *p, const remote_hosts *hosts, const char *program, FILE *out)
{
    const cause *known = p->verdict == SILENT ? cause_of(p) : NULL;
    const char *words = p->verdict <= HERE && known == NULL ? last_words(p) : "";
    if (is_silent(p))
        fprintf(out, "it did not answer within %u s; SHOAL_HOSTS_WAIT gives it more",
                hosts_wait_s());
    else if (p->verdict == NO_SHOAL && hosts->path != NULL)
        fprintf(out, "there is no %s/shoal; --path is the folder where shoal lies there",
                hosts->path);
    else if (p->verdict == NO_SHOAL)
        fprintf(out, "there is no %s, and no shoal in the PATH; --path DIR says where it lies",
                hosts->self);
    else if (p->verdict == OTHER_VERSION && strncmp(p->version, "shoal ", 6) == 0)
        fprintf(out, "it has %s, this host %s; install the same version on all hosts", p->version,
                cli_version());
    else if (p->verdict == OTHER_VERSION)
        fprintf(out, "its shoal does not run: %s", p->version);
    else if (p->verdict == NO_PROGRAM)
        fprintf(out,
                "there is no program %s; --path DIR says where it lies, -x PATH hands on the PATH "
                "of this host",
                program);
    else if (p->verdict == TAKEN)
        fprintf(out, "the port, or the one behind it, is taken there; without --port the job gets "
                     "free ones");
    else if (known != NULL)
        fputs(known->means, out);
    else
        fprintf(out, "%s: %s", p->verdict == HERE ? "its shoal does not answer" : "ssh fails",
                words[0] != '\0' ? words : "it says nothing");
}

static int judge(const char *verb, const remote_hosts *hosts, const char *program, probe *probes,
                 uint32_t count)
{
    uint32_t bad = 0, silent = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (probes[i].verdict == FINE)
            continue;
        silent += is_silent(&probes[i]);
        bad++;
        fprintf(stderr, "shoal %s: host %s: ", verb, hosts->names[probes[i].host]);
        explain(&probes[i], hosts, program, stderr);
        fputc('\n', stderr);
    }
    if (bad == 0)
        return CLI_OK;
    fprintf(stderr, "shoal %s: nothing was started, as %u of %u hosts cannot take part\n", verb,
            bad, count);
    return silent == bad ? CLI_DEADLINE : CLI_FAILED;
}

/* ------------------------------------------------------------------ all of them */

/* A host that has ranks, and is not a second mention of an earlier one. */
static bool is_asked(const remote_hosts *hosts, uint32_t host)
{
    for (uint32_t i = 0; i < host; i++)
        if (strcmp(hosts->names[i], hosts->names[host]) == 0)
            return false;
    return hosts->slots[host] > 0 && hosts->first[host] < hosts->ranks;
}

/* Their ssh ends, except where it holds the ports. */
static void end(probe *p, bool holds)
{
    if (p->out >= 0)
        close(p->out);
    if (p->err >= 0)
        close(p->err);
    if (holds || p->pid <= 0)
        return;
    kill(p->pid, SIGKILL);
    waitpid(p->pid, NULL, 0);
}

int hosts_check(const char *verb, const remote_hosts *hosts, const char *program, uint16_t port,
                hosts_ports *ports_out)
{
    if (hosts_wait_s() == 0)
        return cli_usage(verb, "SHOAL_HOSTS_WAIT=%.32s: wanted whole seconds from 1 to 600",
                         getenv("SHOAL_HOSTS_WAIT"));
    probe *probes = calloc(hosts->count, sizeof *probes);
    int input[2] = {-1, -1};
    uint32_t count = 0;
    bool ok = probes != NULL && pipe2(input, O_CLOEXEC) == 0;
    for (uint32_t host = 0; ok && host < hosts->count; host++)
        if (is_asked(hosts, host)) {
            probes[count] = (probe){.host = host, .out = -1, .err = -1};
            ok = begin(&probes[count], verb, hosts, program, host == 0 ? port : -1, input[0]);
            count++;
        }
    if (!ok)
        (void)cli_fail(verb, "cannot ask the hosts: %s", strerror(errno));
    else
        listen_to(probes, count);
    int code = ok ? judge(verb, hosts, program, probes, count) : CLI_FAILED;
    const bool holds = code == CLI_OK && port == 0;
    if (code == CLI_OK)
        *ports_out = (hosts_ports){probes[0].ports[0], probes[0].ports[1], holds ? input[1] : -1};
    for (uint32_t i = 0; i < count; i++)
        end(&probes[i], holds && i == 0);
    if (input[0] >= 0)
        close(input[0]);
    if (input[1] >= 0 && !holds)
        close(input[1]);
    free(probes);
    return code;
}

void hosts_tell(const char *verb, const remote_hosts *hosts, const char *program, uint16_t port)
{
    enum { SHOWN = 8 };
    uint32_t used = 0;
    while (used < hosts->count && hosts->first[used] < hosts->ranks)
        used++;
    fprintf(stderr, "shoal %s: %s on %u host%s: ", verb, program, used, used == 1 ? "" : "s");
    for (uint32_t i = 0; i < used && i < SHOWN; i++) {
        const uint32_t first = hosts->first[i], next = first + hosts->slots[i];
        const uint32_t last = (next < hosts->ranks ? next : hosts->ranks) - 1;
        if (first == last)
            fprintf(stderr, "%srank %u on %s", i > 0 ? ", " : "", first, hosts->names[i]);
        else
            fprintf(stderr, "%sranks %u-%u on %s", i > 0 ? ", " : "", first, last, hosts->names[i]);
    }
    fprintf(stderr, "%s; they meet at %s, port %u\n", used > SHOWN ? ", ..." : "", hosts->names[0],
            port);
}
