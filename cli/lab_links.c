/* SPDX-License-Identifier: Apache-2.0 */
/* A trace of rates: lines SECONDS HOST UP [DOWN], '#' begins a comment; both rates are UP's where
 * there is no DOWN. `shoal sim --network links:trace=FILE` reads the same. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"
#include "lab_links.h"

typedef struct change {
    double at_s;
    int64_t host;
    uint64_t up_bits, down_bits;
} change;

uint64_t lab_up_bits(const lab_desc *lab, uint32_t host)
{
    return lab->link_up[host] != 0 ? lab->link_up[host]
           : lab->up_bits != 0     ? lab->up_bits
                                   : lab->rate_bits;
}

uint64_t lab_down_bits(const lab_desc *lab, uint32_t host)
{
    return lab->link_down[host] != 0 ? lab->link_down[host]
           : lab->down_bits != 0     ? lab->down_bits
                                     : lab->rate_bits;
}

uint64_t lab_usual_bits(const lab_desc *lab)
{
    const uint64_t up = lab->up_bits != 0 ? lab->up_bits : lab->rate_bits,
                   down = lab->down_bits != 0 ? lab->down_bits : lab->rate_bits;
    return up == 0 || (down != 0 && down < up) ? down : up;
}

bool lab_batch(const char *verb, const char *program, const char *batch)
{
    char command[256];
    snprintf(command, sizeof command, "PATH=\"$PATH:/usr/sbin:/sbin\" exec %s -batch - >&2",
             program);
    FILE *pipe = popen(command, "w");
    if (pipe == NULL)
        return false;
    fputs(batch, pipe);
    int status = pclose(pipe);
    if (status == 0)
        return true;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
        (void)cli_fail(verb, "--lab needs the commands ip and tc: install iproute2");
    else
        fprintf(stderr, "shoal %s: --lab: %s failed on\n%s", verb, program, batch);
    return false;
}

bool lab_shape(const char *verb, const lab_desc *lab, uint64_t bits, const char *device)
{
    char batch[160];
    const double by_rate = fmin(fmax(0.8e-6 * (double)bits, 16), 96);
    const uint32_t burst_kb = lab->burst_kb > 0 ? lab->burst_kb : (uint32_t)by_rate;
    if (bits == 0)
        return true;
    snprintf(batch, sizeof batch,
             "qdisc replace dev %s root tbf rate %llubit burst %ukb limit %ukb\n", device,
             (unsigned long long)bits, burst_kb, lab->limit_kb);
    return lab_batch(verb, "tc", batch);
}

bool lab_parse_rates(const char *text, const char *between, uint64_t *up_out, uint64_t *down_out)
{
    char up[32];
    const size_t length = strcspn(text, between);
    if (length >= sizeof up)
        return false;
    snprintf(up, sizeof up, "%.*s", (int)length, text);
    const char *down = text + length + strspn(text + length, between);
    return cli_parse_rate(up, up_out) && cli_parse_rate(down[0] != '\0' ? down : up, down_out);
}

bool lab_random_fits(const char *text)
{
    char factor[32], *colon;
    double value = 0;
    snprintf(factor, sizeof factor, "%s", text);
    if ((colon = strchr(factor, ':')) != NULL) {
        if (!cli_parse_real(colon + 1, 0, 1, &value))
            return false;
        *colon = '\0';
    }
    char *x = strchr(factor, 'x');
    if (x == NULL || x[1] != '\0')
        return false;
    *x = '\0';
    return cli_parse_real(factor, 1, 1000, &value);
}

/* ------------------------------------------------------------------ a trace */

/* 1: a change, 0: an empty line or a comment, -1: neither. */
static int read_line(char *line, change *out)
{
    enum { WORDS = 4 };
    char *words[WORDS + 1], *rest = NULL;
    int count = 0;
    line[strcspn(line, "#")] = '\0';
    for (char *word = strtok_r(line, " \t\r\n", &rest); word != NULL && count <= WORDS;
         word = strtok_r(NULL, " \t\r\n", &rest))
        words[count++] = word;
    if (count == 0)
        return 0;
    bool good = count >= WORDS - 1 && count <= WORDS &&
                cli_parse_real(words[0], 0, 1e6, &out->at_s);
    good = good && cli_parse_int(words[1], 0, LAB_MAX_HOSTS - 1, &out->host);
    good = good && cli_parse_rate(words[2], &out->up_bits) &&
           cli_parse_rate(words[count - 1], &out->down_bits);
    return good ? 1 : -1;
}

/* All of it, one after the other; false: stop. */
static bool each_change(const char *verb, const char *path,
                        bool (*take)(void *ctx, const change *next), void *ctx)
{
    char line[256];
    FILE *file = fopen(path, "re");
    double before_s = 0;
    bool ok = true;
    if (file == NULL) {
        (void)cli_usage(verb, "--lab trace=%s: %s", path, strerror(errno));
        return false;
    }
    for (unsigned number = 1; ok && fgets(line, sizeof line, file) != NULL; number++) {
        change next;
        const int found = read_line(line, &next);
        if (found < 0 || (found > 0 && next.at_s < before_s)) {
            (void)cli_usage(verb,
                            "--lab trace=%s: line %u: wanted SECONDS HOST UP [DOWN], such as "
                            "12.5 0 10mbit 50mbit, in order of time",
                            path, number);
            ok = false;
        } else if (found > 0) {
            before_s = next.at_s;
            ok = take(ctx, &next);
        }
    }
    if (ok && ferror(file)) {
        (void)cli_usage(verb, "--lab trace=%s: %s", path, strerror(errno));
        ok = false;
    }
    fclose(file);
    return ok;
}

static bool pass(void *ctx, const change *next)
{
    (void)ctx;
    (void)next;
    return true;
}

bool lab_trace_fits(const char *verb, const char *path)
{
    return path[0] == '\0' || each_change(verb, path, pass, NULL);
}

typedef struct following {
    const char *verb;
    const lab_desc *lab;
    uint32_t hosts;
    int switch_fd;
    struct timespec start;
} following;

static bool apply(void *ctx, const change *next)
{
    const following *f = ctx;
    struct timespec at = f->start;
    char port[16];
    const double whole = floor(next->at_s);
    at.tv_sec += (time_t)whole;
    at.tv_nsec += (long)((next->at_s - whole) * 1e9);
    at.tv_sec += at.tv_nsec / 1000000000;
    at.tv_nsec %= 1000000000;
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR)
        ;
    snprintf(port, sizeof port, "sw%lld", (long long)next->host);
    return lab_join((uint32_t)next->host) && lab_shape(f->verb, f->lab, next->up_bits, "eth0") &&
           setns(f->switch_fd, CLONE_NEWNET) == 0 &&
           lab_shape(f->verb, f->lab, next->down_bits, port);
}

static bool is_there(void *ctx, const change *next)
{
    const following *f = ctx;
    if (next->host < f->hosts)
        return true;
    return cli_usage(f->verb, "--lab trace=%s: host %lld, and the lab has hosts 0 to %u",
                     f->lab->trace, (long long)next->host, f->hosts - 1) == CLI_OK;
}

bool lab_follow(const char *verb, const lab_desc *lab, uint32_t hosts)
{
    following f = {.verb = verb, .lab = lab, .hosts = hosts};
    if (lab->trace[0] == '\0')
        return true;
    if (!each_change(verb, lab->trace, is_there, &f))
        return false;
    f.switch_fd = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
    clock_gettime(CLOCK_MONOTONIC, &f.start);
    const pid_t pid = f.switch_fd >= 0 ? fork() : -1;
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        _exit(each_change(verb, lab->trace, apply, &f) ? CLI_OK : CLI_FAILED);
    }
    const int error = errno;
    if (f.switch_fd >= 0)
        close(f.switch_fd);
    if (pid < 0)
        (void)cli_fail(verb, "--lab trace: nobody can follow it (%s)", strerror(error));
    return pid > 0;
}
