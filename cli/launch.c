/* SPDX-License-Identifier: Apache-2.0 */
#include "launch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"
#include "hosts.h"
#include "launch_job.h"
#include "said.h"
#include "shoal/watch.h"
#include "throttle.h"

enum { KILL_AFTER_MS = 5000, LEFT_BEHIND_MS = 2000, KEEPING_MS = 60 * 1000 };

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* chars hexadecimal digits, at most LAUNCH_TOKEN_CHARS, and a NUL */
static bool draw(char *out, size_t chars)
{
    unsigned char bytes[LAUNCH_TOKEN_CHARS / 2];
    if (getrandom(bytes, chars / 2, 0) != (ssize_t)(chars / 2))
        return false;
    for (size_t i = 0; i < chars / 2; i++)
        snprintf(out + 2 * i, 3, "%02x", bytes[i]);
    return true;
}

/* ------------------------------------------------------------------ supervision */

static void print_lines(const launch_job *j, uint32_t rank, bool last)
{
    launch_process *process = &j->ranks[rank];
    if (process->line == NULL)
        return; /* its output was never piped */
    char *start = process->line, *end = process->line + process->used;
    for (char *newline; (newline = memchr(start, '\n', (size_t)(end - start))) != NULL;
         start = newline + 1)
        printf("[%u] %.*s\n", rank, (int)(newline - start), start);
    process->used = (size_t)(end - start);
    if (process->used == LAUNCH_LINE_BYTES || (last && process->used > 0)) {
        printf("[%u] %.*s\n", rank, (int)process->used, start);
        process->used = 0;
    }
    memmove(process->line, start, process->used);
    fflush(stdout);
}

static void read_output(const launch_job *j, uint32_t rank)
{
    launch_process *process = &j->ranks[rank];
    ssize_t got = read(process->output, process->line + process->used,
                       LAUNCH_LINE_BYTES - process->used);
    if (got > 0)
        process->used += (size_t)got;
    print_lines(j, rank, got <= 0);
    if (got <= 0) {
        close(process->output);
        process->output = -1;
    }
}

/* As a shell's kill calls them; glibc knows them all by sigabbrev_np, but from 2.32 on only. */
static const char *name_of(int signal_number)
{
    return signal_number == SIGINT ? "INT" : signal_number == SIGHUP ? "HUP" : "TERM";
}

/* To a rank elsewhere a signal goes by name; the end of its ssh is the last resort. */
static void send_signal(const launch_process *process, int signal_number)
{
    if (process->input >= 0 && signal_number != SIGKILL &&
        dprintf(process->input, "%s\n", name_of(signal_number)) > 0)
        return;
    kill(process->pid, signal_number);
}

/* Ranks on other hosts cannot see for themselves who was killed or failed: this launcher is their
 * witness (SHOAL_LAUNCH_PROOF). ssh's own 255 says nothing of the rank. Those here can, but when
 * they look may be too late on a busy machine: they are told the moment. */
static void tell_end(const launch_job *j, uint32_t rank, int status)
{
    const bool well = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    struct timespec at;
    if (!well && j->desc->hosts == NULL && j->ledger >= 0 &&
        clock_gettime(CLOCK_MONOTONIC, &at) == 0)
        (void)dprintf(j->ledger, "%s.%u %lld\n", j->name, rank,
                      (long long)at.tv_sec * 1000000 + at.tv_nsec / 1000);
    if (j->desc->hosts == NULL || !WIFEXITED(status) || well || WEXITSTATUS(status) == 255)
        return;
    for (uint32_t i = 0; i < j->desc->ranks; i++)
        if (j->ranks[i].input >= 0)
            (void)dprintf(j->ranks[i].input, "dead %s.%u\n", j->name, rank);
}

static void kill_all(const launch_job *j, int signal_number)
{
    for (uint32_t rank = 0; rank < launch_processes(j); rank++) {
        if (j->ranks[rank].pid > 0)
            send_signal(&j->ranks[rank], signal_number);
    }
}

static void stop_in(launch_job *j, int64_t ms, int signal_number)
{
    j->stop_at_ms = now_ms() + ms;
    j->next_signal = signal_number;
}

/* A killed rank outranks what its survivors say of it, and a rank that was asked for the impossible
 * what the others say of its going; else the first failure counts. */
static void rank_ended(launch_job *j, uint32_t rank, int status)
{
    launch_process *process = &j->ranks[rank];
    const bool aggregator = rank >= j->desc->ranks;
    process->pid = 0;
    if (process->input >= 0)
        close(process->input);
    process->input = -1;
    tell_end(j, rank, status);
    j->alive -= !aggregator;
    /* A shell on another host says 128 + signal of what was killed there. */
    const bool there = j->desc->hosts != NULL && WIFEXITED(status) && WEXITSTATUS(status) > 128 &&
                       WEXITSTATUS(status) < 128 + NSIG;
    int code = WIFSIGNALED(status) || there ? CLI_PEER_LOST : WEXITSTATUS(status);
    const bool lacks = code == LAUNCH_LACKS && j->desc->itself;
    if (lacks)
        code = CLI_FAILED;
    j->lacks = j->lacks || lacks;
    bool ours = j->stop_at_ms >= 0 &&
                j->next_signal != SIGTERM; /* we have sent a signal ourselves */
    bool member = rank < j->desc->ranks - j->desc->spares || process->has_place;
    j->members -= member;
    if (j->members == 0 && j->desc->spares > 0 && j->stop_at_ms < 0)
        stop_in(j, (int64_t)(j->desc->grace_s * 1000),
                SIGKILL); /* spares with nothing to wait for */
    const bool worker = process->has_place ||
                        rank < j->desc->ranks - j->desc->spares - j->desc->servers;
    bool result = (code == 0 || lacks) && worker;
    j->through = j->through || result;
    if (result && j->survives && j->stop_at_ms < 0)
        stop_in(j, LEFT_BEHIND_MS, SIGTERM); /* who was left behind: stopped, or cut off */
    const int by_us = !ours                 ? 0
                      : there               ? WEXITSTATUS(status) - 128
                      : WIFSIGNALED(status) ? WTERMSIG(status)
                                            : 0;
    j->early = j->early || (j->asked && by_us == SIGTERM);
    if (code == 0 || by_us != 0)
        return;
    if (j->desc->hosts != NULL && code == 255)
        code = CLI_FAILED;
    const bool killed = WIFSIGNALED(status) || there;
    const int by = there ? WEXITSTATUS(status) - 128 : WTERMSIG(status);
    if (!j->desc->quiet && killed)
        said(SAID_ERROR, j->desc->verb, "%s %u was killed by signal %d (%s)",
             aggregator ? "aggregator" : "rank", aggregator ? rank - j->desc->ranks : rank, by,
             strsignal(by));
    if (j->desc->hosts != NULL && WIFEXITED(status) && WEXITSTATUS(status) == 255)
        said(SAID_ERROR, j->desc->verb, "rank %u: host %s cannot be reached, or its ssh refuses",
             rank, remote_host(&j->remote, rank));
    j->killed = j->killed || killed;
    const bool explains = (code == CLI_USAGE || code == CLI_FAILED) && j->code == CLI_PEER_LOST &&
                          !j->killed; /* why that rank was lost to the one that ended first */
    const bool again = code == LAUNCH_AGAIN && j->code == 128 + SIGTERM; /* as it was asked to */
    if (j->code == 0 || killed || explains || again)
        j->code = code;
    if (j->stop_at_ms < 0 && !j->survives)
        stop_in(j, (int64_t)(j->desc->grace_s * 1000), SIGTERM);
}

static void reap(launch_job *j)
{
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        for (uint32_t rank = 0; rank < launch_processes(j); rank++) {
            if (j->ranks[rank].pid == pid)
                rank_ended(j, rank, status);
        }
    }
}

/* Nobody is left to sum for. */
static void end_aggregators(launch_job *j)
{
    for (uint32_t i = 0; i < j->desc->aggregators; i++) {
        const pid_t pid = j->ranks[j->desc->ranks + i].pid;
        if (pid > 0)
            kill(pid, SIGTERM);
    }
    if (j->stop_at_ms < 0 && j->desc->aggregators > 0)
        stop_in(j, KILL_AFTER_MS, SIGKILL);
}

static bool is_running(const launch_job *j)
{
    bool running = false;
    for (uint32_t rank = 0; rank < launch_processes(j); rank++)
        running = running || j->ranks[rank].pid > 0 || j->ranks[rank].output >= 0;
    return running;
}

static void handle_signal(launch_job *j, int signals)
{
    struct signalfd_siginfo info;
    if (read(signals, &info, sizeof info) != (ssize_t)sizeof info || info.ssi_signo == SIGCHLD)
        return;
    const bool again = j->told_to_end;
    const bool kept = j->keeps && !again && info.ssi_signo == SIGTERM;
    if (j->code == 0 && !kept) /* else it is what the ranks say */
        j->code = 128 + (int)info.ssi_signo;
    j->told_to_end = true;
    j->asked = j->asked || kept;
    if (!again && info.ssi_signo == SIGINT && !j->desc->tacit) {
        fputs(cli_interactive() ? "\r\033[K" : "", stderr);
        said(SAID_WARN, j->desc->verb,
             "interrupted: the ranks are told to end, within %d s; Ctrl-C once more ends them at "
             "once",
             KILL_AFTER_MS / 1000);
    }
    kill_all(j, again ? SIGKILL : (int)info.ssi_signo);
    stop_in(j, kept ? KEEPING_MS : KILL_AFTER_MS, SIGKILL);
}

static int poll_timeout(const launch_job *j)
{
    if (j->stop_at_ms < 0)
        return -1;
    int64_t left = j->stop_at_ms - now_ms();
    return left > 0 ? (int)left : 0;
}

static void harder(launch_job *j)
{
    if (j->stop_at_ms < 0 || now_ms() < j->stop_at_ms)
        return;
    kill_all(j, j->next_signal);
    stop_in(j, j->through ? LEFT_BEHIND_MS : KILL_AFTER_MS, SIGKILL);
}

/* A spare has a place: the job is its own, too, whoever of the others is left. */
static void has_place(launch_job *j, uint32_t rank)
{
    const bool spare = rank < j->desc->ranks && rank >= j->desc->ranks - j->desc->spares;
    if (!spare || j->ranks[rank].has_place || j->ranks[rank].pid <= 0)
        return;
    j->ranks[rank].has_place = true;
    if (j->members++ == 0 && !j->told_to_end && !j->through)
        j->stop_at_ms = -1; /* it was about to be ended, as one that waits for nothing */
}

/* What ranks say (meet/launch.h), in words of three bytes, each written at once: s, the job goes on
 * without those that are lost; k, ranks keep their state when they are told to end; u, a file
 * beside the result is missing; p, a spare has taken a place. */
static void hear_word(launch_job *j)
{
    enum { WORD = 3 };
    uint8_t words[32 * WORD];
    ssize_t got = read(j->word[0], words, sizeof words);
    for (ssize_t at = 0; at + WORD <= got; at += WORD) {
        if (words[at] == 's')
            j->survives = true;
        else if (words[at] == 'k')
            j->keeps = true;
        else if (words[at] == 'u')
            j->lacks = true;
        else if (words[at] == 'p')
            has_place(j, words[at + 1] | (uint32_t)words[at + 2] << 8);
    }
}

static void supervise(launch_job *j, int signals, struct pollfd *fds)
{
    bool ended = false;
    while (is_running(j)) {
        uint32_t ranks = launch_processes(j);
        for (uint32_t rank = 0; rank < ranks; rank++)
            fds[rank] = (struct pollfd){.fd = j->ranks[rank].output, .events = POLLIN};
        fds[ranks] = (struct pollfd){.fd = signals, .events = POLLIN};
        fds[ranks + 1] = (struct pollfd){.fd = j->word[0], .events = POLLIN};
        if (poll(fds, ranks + 2, poll_timeout(j)) < 0 && errno != EINTR)
            break;
        if (fds[ranks + 1].revents != 0)
            hear_word(j);
        for (uint32_t rank = 0; rank < ranks; rank++) {
            if (fds[rank].revents != 0)
                read_output(j, rank);
        }
        if (fds[ranks].revents != 0)
            handle_signal(j, signals);
        reap(j);
        if (j->alive == 0 && !ended)
            end_aggregators(j);
        ended = j->alive == 0;
        harder(j);
    }
    struct pollfd last = {.fd = j->word[0], .events = POLLIN};
    if (poll(&last, 1, 0) > 0) /* of who ended a moment ago */
        hear_word(j);
}

/* A word for a rank whose ssh is gone must not end the launcher: held back, then forgotten. */
static void hold_broken_pipes(bool hold)
{
    static const struct timespec at_once = {0};
    sigset_t pipes;
    sigemptyset(&pipes);
    sigaddset(&pipes, SIGPIPE);
    if (hold)
        sigprocmask(SIG_BLOCK, &pipes, NULL);
    else
        (void)sigtimedwait(&pipes, NULL, &at_once);
}

/* Of ranks that were killed, or ended by a signal: nobody answers at their status sockets. Asking
 * finds them; whoever else has the job's name need not answer. */
static void forget_sockets(void)
{
    shoal_watch *watch = NULL;
    if (shoal_watch_ask(getenv("SHOAL_JOB"), 1, &watch) == SHOAL_OK)
        shoal_watch_close(watch);
}

/* A rank that was asked to keep its state, before it could hear that, had none: the same command
 * does what this one was to do. One that was killed as its time was over has kept nothing. */
static int code_of_job(const launch_job *j)
{
    const int well = j->lacks ? CLI_FAILED : CLI_OK;
    if (j->survives && j->through)
        return well;
    if (!j->asked || j->through)
        return j->code;
    if (j->early && j->code != 128 + SIGTERM) {
        if (!j->desc->tacit)
            said(SAID_WARN, j->desc->verb,
                 "asked to end before a first step: the same command goes on");
        return LAUNCH_AGAIN;
    }
    return j->code == 0 ? 128 + SIGTERM : j->code;
}

/* First code of the job: in the lab it runs as first process of the new namespaces. */
static int run_job(void *arg)
{
    launch_job *j = arg;
    const launch_desc *desc = j->desc;
    sigset_t mask;
    sigemptyset(&mask);
    sigaddset(&mask, SIGCHLD);
    sigaddset(&mask, SIGINT);
    sigaddset(&mask, SIGTERM);
    sigaddset(&mask, SIGHUP);
    sigprocmask(SIG_BLOCK, &mask, NULL);
    if (desc->hosts != NULL)
        hold_broken_pipes(true);
    if (desc->lab != NULL && !lab_build(desc->verb, &j->lab, j->lab.hosts + launch_own_hosts(j)))
        return CLI_FAILED;
    if (desc->lab != NULL && !lab_follow(desc->verb, &j->lab, j->lab.hosts))
        return CLI_FAILED;
    if (desc->lab != NULL)
        snprintf(j->address, sizeof j->address, "%s", lab_address(0));
    int signals = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
    j->ranks = calloc(launch_processes(j), sizeof *j->ranks);
    struct pollfd *fds = calloc(launch_processes(j) + 2, sizeof *fds);
    j->word[0] = j->word[1] = -1;
    j->ledger = desc->hosts == NULL ? memfd_create("shoal-ended", MFD_CLOEXEC) : -1;
    bool ok = pipe2(j->word, O_CLOEXEC | O_NONBLOCK) == 0 && signals >= 0 && j->ranks != NULL &&
              fds != NULL && launch_place_aggregators(j);
    for (uint32_t rank = 0; j->ranks != NULL && rank < launch_processes(j); rank++)
        j->ranks[rank].output = -1;
    for (uint32_t i = 0; ok && i < launch_processes(j); i++)
        ok = launch_start(j, (i + desc->ranks) % launch_processes(j)); /* aggregators first */
    if (!ok) {
        (void)cli_fail(desc->verb, "cannot start the ranks: %s", strerror(errno));
        j->code = CLI_FAILED;
        if (j->ranks != NULL)
            kill_all(j, SIGKILL);
    }
    if (signals >= 0 && j->ranks != NULL && fds != NULL)
        supervise(j, signals, fds);
    if (desc->hosts != NULL)
        hold_broken_pipes(false);
    for (uint32_t rank = 0; j->ranks != NULL && rank < launch_processes(j); rank++)
        free(j->ranks[rank].line);
    free(j->ranks);
    launch_forget_aggregators(j);
    free(fds);
    for (int i = 0; i < 2; i++)
        if (j->word[i] >= 0)
            close(j->word[i]);
    if (j->ledger >= 0)
        close(j->ledger);
    if (signals >= 0)
        close(signals);
    if (desc->hosts == NULL)
        forget_sockets();
    return code_of_job(j);
}

/* In a network of our own the usual port and the one behind it. */
static void set_ports(launch_job *j)
{
    if (j->port == 0)
        j->port = 29400;
    if (j->store_port == 0)
        j->store_port = j->port + 1;
}

/* Where the ranks go, what they need there, and on which ports they meet; looked at before anything
 * starts. hold_out: see hosts.h. */
static int prepare_hosts(launch_job *j, int *hold_out)
{
    const launch_desc *desc = j->desc;
    const char *program = desc->itself ? "shoal" : desc->argv[0];
    remote_hosts *hosts = &j->remote;
    hosts_ports ports;
    if (!remote_parse(desc->verb, desc->hosts, desc->ranks, hosts))
        return CLI_USAGE;
    if (readlink("/proc/self/exe", hosts->self, sizeof hosts->self - 1) <= 0) {
        return cli_fail(desc->verb, "cannot see where it lies itself: %s", strerror(errno));
    }
    hosts->forward = desc->forward;
    hosts->forward_count = desc->forward_count;
    hosts->path = desc->path;
    hosts->itself = desc->itself;
    hosts->spares = desc->spares;
    int code = hosts_check(desc->verb, hosts, program, desc->port, &ports);
    if (code != CLI_OK)
        return code;
    snprintf(j->address, sizeof j->address, "%s", hosts->names[0]);
    j->port = ports.port;
    j->store_port = ports.store_port;
    *hold_out = ports.hold;
    if (!desc->tacit)
        hosts_tell(desc->verb, hosts, program, j->store_port);
    return CLI_OK;
}

/* A job without a name is called after its program and this process: no other job here is. */
static void name_job(const launch_desc *desc)
{
    char name[64];
    const char *given = getenv("SHOAL_JOB"), *program = desc->verb;
    if (given != NULL && given[0] != '\0')
        return;
    if (strcmp(program, "run") == 0) {
        const bool python = strncmp(basename(desc->argv[0]), "python", 6) == 0;
        program = basename(desc->argv[python && desc->argv[1] != NULL && desc->argv[1][0] != '-']);
    }
    const char *dot = strrchr(program, '.');
    const int length = dot != NULL && dot != program ? (int)(dot - program) : (int)strlen(program);
    snprintf(name, sizeof name, "%.*s-%d", length < 32 ? length : 32, program, (int)getpid());
    setenv("SHOAL_JOB", name, 1);
}

int launch_run(const launch_desc *desc)
{
    launch_job j = {.desc = desc,
                    .members = desc->ranks - desc->spares,
                    .survives = desc->survives,
                    .keeps = desc->keeps,
                    .stop_at_ms = -1,
                    .patience_ms = 30000,
                    .port = desc->port};
    if (desc->in_switch != NULL && (desc->lab == NULL || desc->lab->cables != LAB_SWITCH))
        return cli_usage(desc->verb, "--in-switch goes with --lab, and a lab with a switch");
    name_job(desc);
    if (!draw(j.token, LAUNCH_TOKEN_CHARS) || !draw(j.name, LAUNCH_NAME_CHARS)) {
        return cli_fail(desc->verb, "no random numbers for the job token: %s", strerror(errno));
    }
    int reserved[3] = {-1, -1, -1}, refused = CLI_OK;
    strcpy(j.address, "127.0.0.1");
    if (desc->hosts != NULL && (refused = prepare_hosts(&j, &reserved[2])) != CLI_OK)
        return refused;
    if (desc->lab != NULL) {
        j.lab = *desc->lab;
        if (j.lab.workers != 0 && j.lab.workers != desc->ranks)
            return cli_usage(desc->verb,
                             "the cluster of --lab has %u workers, and %u ranks would be started, "
                             "servers and spares included",
                             j.lab.workers, desc->ranks);
        if (j.lab.hosts == 0 || j.lab.hosts > desc->ranks)
            j.lab.hosts = desc->ranks;
        j.lab.speaks = desc->in_switch != NULL;
        if (j.lab.hosts + launch_own_hosts(&j) > LAB_MAX_HOSTS)
            return cli_usage(desc->verb, "a lab has at most %d hosts; use hosts=H", LAB_MAX_HOSTS);
        set_ports(&j);
        if (!throttle_begin(desc->verb, j.lab.throttle, desc->ranks))
            return CLI_CANNOT_HERE;
        return lab_enter(desc->verb, run_job, &j);
    }
    if (j.port == 0 && desc->hosts == NULL) {
        j.port = launch_reserve_port(&reserved[0]);
        j.store_port = launch_reserve_port(&reserved[1]);
    }
    set_ports(&j);
    sigset_t before;
    sigprocmask(SIG_SETMASK, NULL, &before);
    int code = run_job(&j);
    sigprocmask(SIG_SETMASK, &before, NULL);
    for (int i = 0; i < 3; i++) {
        if (reserved[i] >= 0)
            close(reserved[i]);
    }
    return code;
}
