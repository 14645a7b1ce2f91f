/* SPDX-License-Identifier: Apache-2.0 */
#include "launch.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"
#include "remote.h"
#include "throttle.h"

enum { TOKEN_CHARS = 64, KILL_AFTER_MS = 5000, LINE_MAX_BYTES = 8192, AGGREGATOR_PORT = 29600 };

typedef struct rank_process {
    pid_t pid;   /* 0: ended */
    int code;    /* exit code, 128 + signal if killed */
    int output;  /* read end of its output with tag_output, else -1 */
    int input;   /* on another host: the way of the token and of signals; else -1 */
    size_t used; /* bytes of an unfinished line */
    char *line;
} rank_process;

typedef struct job {
    const launch_desc *desc;
    lab_desc lab;
    remote_hosts remote;
    char token[TOKEN_CHARS + 1];
    char address[64];
    uint16_t port, store_port; /* MASTER_PORT, for the command's own use; rank 0's store */
    rank_process *ranks;       /* and behind them the aggregators */
    uint32_t alive;            /* ranks; aggregators have no end of their own */
    char (*aggregators)[80];   /* addresses */
    int *reserved;             /* [aggregators] ports kept */
    int64_t stop_at_ms;        /* when the next harder signal is due; -1: all is well */
    int next_signal;
    bool through;     /* a member has ended well */
    bool killed;      /* a rank was, by a signal */
    uint32_t members; /* that began with the job and are alive */
    int code;
} job;

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static bool make_token(char token[TOKEN_CHARS + 1])
{
    unsigned char bytes[TOKEN_CHARS / 2];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return false;
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(token + 2 * i, 3, "%02x", bytes[i]);
    return true;
}

/* A free port, kept from everybody's outgoing connections by a socket that is bound to it and never
 * listens: rank 0 can still listen there, as both allow the address to be used again. */
static uint16_t reserve_port(int *reserved_out)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    *reserved_out = fd;
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) != 0 ||
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) != 0 || /* after the choice */
        getsockname(fd, (struct sockaddr *)&address, &length) != 0)
        return 0;
    return ntohs(address.sin_port);
}

/* ------------------------------------------------------------------ one rank */

static void set_number(const char *name, uint64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    setenv(name, text, 1);
}

/* Ranks of one host are consecutive: the first (ranks % hosts) hosts have one more. */
static uint32_t host_of(uint32_t rank, uint32_t ranks, uint32_t hosts, uint32_t *first_out,
                        uint32_t *count_out)
{
    uint32_t base = ranks / hosts, more = ranks % hosts, first = 0;
    for (uint32_t host = 0;; host++) {
        uint32_t count = base + (host < more ? 1 : 0);
        if (rank < first + count) {
            *first_out = first;
            *count_out = count;
            return host;
        }
        first += count;
    }
}

/* The token in a memory file of the rank's own: it stands on no command line and in no environment.
 */
static bool give_token(const char *token)
{
    int fd = memfd_create("shoal-token", 0);
    if (fd < 0 || write(fd, token, TOKEN_CHARS) != TOKEN_CHARS || lseek(fd, 0, SEEK_SET) != 0)
        return false;
    set_number("SHOAL_TOKEN_FD", (uint64_t)fd);
    return true;
}

/* In a lab a member may be gone with its host: newcomers look at all of them. */
static void set_doors(const job *j, uint32_t hosts)
{
    char list[LAB_MAX_HOSTS * 24] = "";
    size_t used = 0;
    if (!j->desc->survives || j->desc->lab == NULL)
        return;
    for (uint32_t host = 0; host < hosts && used < sizeof list; host++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s:%u", host > 0 ? "," : "",
                                 lab_address(host), j->store_port + 1u);
    setenv("SHOAL_DOORS", list, 1);
}

static void set_environment(const job *j, uint32_t rank)
{
    uint32_t hosts = j->desc->lab != NULL ? j->lab.hosts : 1, first = 0, count = 0;
    host_of(rank, j->desc->ranks, hosts, &first, &count);
    const uint32_t members = j->desc->ranks - j->desc->spares;
    set_number("RANK", rank < members ? rank : 0);
    set_number("WORLD_SIZE", members);
    if (rank >= members)
        setenv("SHOAL_SPARE", "1", 1);
    set_doors(j, hosts);
    set_number("LOCAL_RANK", rank - first);
    set_number("LOCAL_WORLD_SIZE", count);
    setenv("MASTER_ADDR", j->address, 1);
    set_number("MASTER_PORT", j->port);
    char store[96];
    snprintf(store, sizeof store, "tcp://%s:%u", j->address, j->store_port);
    setenv("SHOAL_RENDEZVOUS", store, 1);
    setenv("OMP_NUM_THREADS", "1", 0); /* ranks share the cores; as torchrun does */
    if (j->desc->lab != NULL)
        setenv("SHOAL_LAB", "1", 1); /* counts as loopback: docs/security.md */
    else
        unsetenv("SHOAL_LAB");
    if (j->desc->lab != NULL && j->lab.rate_bits > 0)
        set_number("SHOAL_LINE_RATE", j->lab.rate_bits);
    if (j->desc->lab != NULL && rank < LAB_MAX_HOSTS && j->lab.slow[rank] > 0) {
        char factor[32];
        snprintf(factor, sizeof factor, "%g", j->lab.slow[rank]);
        setenv("SHOAL_SLOW", factor, 1);
    }
}

static uint32_t processes(const job *j)
{
    return j->desc->ranks + j->desc->aggregators;
}

/* The lab's host of an aggregator: one behind those of the ranks, or one of these. */
static uint32_t host_of_aggregator(const job *j, uint32_t index)
{
    return j->desc->colocated ? index % j->lab.hosts : j->lab.hosts + index;
}

/* The lab's hosts that there are for aggregators alone. */
static uint32_t own_hosts(const job *j)
{
    return j->desc->colocated || j->desc->in_switch != NULL ? 0 : j->desc->aggregators;
}

static bool place_aggregators(job *j)
{
    const uint32_t count = j->desc->aggregators;
    j->aggregators = calloc(count + 1, sizeof *j->aggregators);
    j->reserved = calloc(count + 1, sizeof *j->reserved);
    for (uint32_t i = 0; i < count && j->aggregators != NULL && j->reserved != NULL; i++) {
        const bool lab = j->desc->lab != NULL;
        const unsigned port = lab ? AGGREGATOR_PORT + i : reserve_port(&j->reserved[i]);
        snprintf(j->aggregators[i], sizeof j->aggregators[i], "%s:%u",
                 j->desc->in_switch != NULL ? lab_switch_address
                 : lab                      ? lab_address(host_of_aggregator(j, i))
                                            : "127.0.0.1",
                 port);
    }
    return j->aggregators != NULL && j->reserved != NULL;
}

static void forget_aggregators(job *j)
{
    for (uint32_t i = 0; i < j->desc->aggregators && j->reserved != NULL; i++)
        if (j->reserved[i] > 0)
            close(j->reserved[i]);
    free(j->reserved);
    free(j->aggregators);
}

static void name_aggregators(const job *j)
{
    const uint32_t count = j->desc->aggregators;
    const size_t bytes = count * sizeof j->aggregators[0] + 1;
    char *list = count > 0 ? calloc(1, bytes) : NULL;
    for (uint32_t i = 0; i < count && list != NULL; i++)
        snprintf(list + strlen(list), bytes - strlen(list), "%s%s", i > 0 ? "," : "",
                 j->aggregators[i]);
    if (list != NULL)
        setenv("SHOAL_AGGREGATORS", list, 1);
    free(list);
}

static void begin_process(const job *j, int output)
{
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() == 1 && j->desc->lab == NULL)
        _exit(CLI_FAILED); /* the launcher died meanwhile */
    if (output >= 0) {
        dup2(output, STDOUT_FILENO);
        dup2(output, STDERR_FILENO);
    }
}

static void exec_with_token(const job *j, char **argv)
{
    if (!give_token(j->token)) {
        fprintf(stderr, "shoal %s: cannot pass the job token: %s\n", j->desc->verb,
                strerror(errno));
        _exit(CLI_FAILED);
    }
    execvp(argv[0], argv);
    fprintf(stderr, "shoal %s: cannot start %s: %s\n", j->desc->verb, argv[0], strerror(errno));
    _exit(127);
}

static void aggregator_main(const job *j, uint32_t index, int output)
{
    const bool in_switch = j->desc->in_switch != NULL;
    char ports[512], kernel[32];
    snprintf(ports, sizeof ports, "--ports=%s", lab_ports(j->lab.hosts));
    snprintf(kernel, sizeof kernel, "--kernel=%s", in_switch ? j->desc->in_switch : "");
    static char self[] = "/proc/self/exe", verb[] = "aggregator", listen[] = "--listen",
                quiet[] = "--quiet";
    char *argv[] = {self,   verb, listen, j->aggregators[index], quiet, in_switch ? ports : NULL,
                    kernel, NULL};
    begin_process(j, output);
    if (j->desc->lab != NULL && !in_switch && !lab_join(host_of_aggregator(j, index)))
        _exit(CLI_FAILED);
    if (j->desc->lab != NULL)
        setenv("SHOAL_LAB", "1", 1); /* as its ranks, or they disagree on TLS */
    exec_with_token(j, argv);
}

static void rank_main(const job *j, uint32_t rank, int output, int input)
{
    begin_process(j, output);
    if (rank > 0) { /* one reader of the terminal */
        int null = open("/dev/null", O_RDONLY);
        if (null >= 0)
            dup2(null, STDIN_FILENO);
    }
    if (j->desc->hosts != NULL)
        remote_exec(&j->remote, rank, j->address, j->port, input, j->desc->argv);
    uint32_t first = 0, count = 0;
    if (j->desc->lab != NULL &&
        (!lab_join(host_of(rank, j->desc->ranks, j->lab.hosts, &first, &count)) ||
         !throttle_join(j->desc->verb, rank)))
        _exit(CLI_FAILED);
    set_environment(j, rank);
    name_aggregators(j);
    exec_with_token(j, j->desc->argv);
}

static bool start_rank(job *j, uint32_t rank)
{
    rank_process *process = &j->ranks[rank];
    int output[2] = {-1, -1}, input[2] = {-1, -1};
    process->output = process->input = -1;
    if (j->desc->hosts != NULL &&
        (pipe2(input, O_CLOEXEC) != 0 || dprintf(input[1], "%s\n", j->token) < 0))
        return false;
    process->input = input[1];
    if (j->desc->tag_output) {
        process->line = malloc(LINE_MAX_BYTES);
        if (process->line == NULL || pipe2(output, O_CLOEXEC) != 0)
            return false;
        process->output = output[0];
    }
    process->pid = fork();
    if (process->pid == 0 && rank >= j->desc->ranks)
        aggregator_main(j, rank - j->desc->ranks, output[1]);
    if (process->pid == 0)
        rank_main(j, rank, output[1], input[0]);
    if (output[1] >= 0)
        close(output[1]);
    if (input[0] >= 0)
        close(input[0]);
    if (process->pid < 0) {
        process->pid = 0;
        return false;
    }
    j->alive += rank < j->desc->ranks;
    return true;
}

/* ------------------------------------------------------------------ supervision */

static void print_lines(const job *j, uint32_t rank, bool last)
{
    rank_process *process = &j->ranks[rank];
    if (process->line == NULL)
        return; /* its output was never piped */
    char *start = process->line, *end = process->line + process->used;
    for (char *newline; (newline = memchr(start, '\n', (size_t)(end - start))) != NULL;
         start = newline + 1)
        printf("[%u] %.*s\n", rank, (int)(newline - start), start);
    process->used = (size_t)(end - start);
    if (process->used == LINE_MAX_BYTES || (last && process->used > 0)) {
        printf("[%u] %.*s\n", rank, (int)process->used, start);
        process->used = 0;
    }
    memmove(process->line, start, process->used);
    fflush(stdout);
}

static void read_output(const job *j, uint32_t rank)
{
    rank_process *process = &j->ranks[rank];
    ssize_t got = read(process->output, process->line + process->used,
                       LINE_MAX_BYTES - process->used);
    if (got > 0)
        process->used += (size_t)got;
    print_lines(j, rank, got <= 0);
    if (got <= 0) {
        close(process->output);
        process->output = -1;
    }
}

/* To a rank elsewhere a signal goes by name; the end of its ssh is the last resort. */
static void send_signal(const rank_process *process, int signal_number)
{
    if (process->input >= 0 && signal_number != SIGKILL &&
        dprintf(process->input, "%s\n", sigabbrev_np(signal_number)) > 0)
        return;
    kill(process->pid, signal_number);
}

static void kill_all(const job *j, int signal_number)
{
    for (uint32_t rank = 0; rank < processes(j); rank++) {
        if (j->ranks[rank].pid > 0)
            send_signal(&j->ranks[rank], signal_number);
    }
}

static void stop_in(job *j, int64_t ms, int signal_number)
{
    j->stop_at_ms = now_ms() + ms;
    j->next_signal = signal_number;
}

/* A killed rank outranks what its survivors say of it, and a rank that was asked for the impossible
 * what the others say of its going; else the first failure counts. */
static void rank_ended(job *j, uint32_t rank, int status)
{
    rank_process *process = &j->ranks[rank];
    const bool aggregator = rank >= j->desc->ranks;
    process->pid = 0;
    if (process->input >= 0)
        close(process->input);
    process->input = -1;
    j->alive -= !aggregator;
    int code = WIFSIGNALED(status) ? CLI_PEER_LOST : WEXITSTATUS(status);
    bool ours = j->stop_at_ms >= 0 &&
                j->next_signal != SIGTERM; /* we have sent a signal ourselves */
    bool began = rank < j->desc->ranks - j->desc->spares;
    j->members -= began;
    if (j->members == 0 && j->desc->spares > 0 && j->stop_at_ms < 0)
        stop_in(j, (int64_t)(j->desc->grace_s * 1000),
                SIGKILL); /* spares with nothing to wait for */
    j->through = j->through || (code == 0 && began);
    if (code == 0 && began && j->desc->survives && j->stop_at_ms < 0)
        stop_in(j, (int64_t)(j->desc->grace_s * 1000), SIGKILL);
    if (code == 0 || (ours && WIFSIGNALED(status)))
        return;
    if (!j->desc->quiet && WIFSIGNALED(status))
        fprintf(stderr, "shoal %s: %s %u was killed by signal %d (%s)\n", j->desc->verb,
                aggregator ? "aggregator" : "rank", aggregator ? rank - j->desc->ranks : rank,
                WTERMSIG(status), strsignal(WTERMSIG(status)));
    j->killed = j->killed || WIFSIGNALED(status);
    bool explains = code == CLI_USAGE && j->code == CLI_PEER_LOST && !j->killed;
    if (j->code == 0 || WIFSIGNALED(status) || explains)
        j->code = code;
    if (j->stop_at_ms < 0 && !j->desc->survives)
        stop_in(j, (int64_t)(j->desc->grace_s * 1000), SIGTERM);
}

static void reap(job *j)
{
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        for (uint32_t rank = 0; rank < processes(j); rank++) {
            if (j->ranks[rank].pid == pid)
                rank_ended(j, rank, status);
        }
    }
}

/* Nobody is left to sum for. */
static void end_aggregators(job *j)
{
    for (uint32_t i = 0; i < j->desc->aggregators; i++) {
        const pid_t pid = j->ranks[j->desc->ranks + i].pid;
        if (pid > 0)
            kill(pid, SIGTERM);
    }
    if (j->stop_at_ms < 0 && j->desc->aggregators > 0)
        stop_in(j, KILL_AFTER_MS, SIGKILL);
}

static bool is_running(const job *j)
{
    bool running = false;
    for (uint32_t rank = 0; rank < processes(j); rank++)
        running = running || j->ranks[rank].pid > 0 || j->ranks[rank].output >= 0;
    return running;
}

static void handle_signal(job *j, int signals)
{
    struct signalfd_siginfo info;
    if (read(signals, &info, sizeof info) != (ssize_t)sizeof info || info.ssi_signo == SIGCHLD)
        return;
    if (j->code == 0)
        j->code = 128 + (int)info.ssi_signo;
    kill_all(j, (int)info.ssi_signo);
    stop_in(j, KILL_AFTER_MS, SIGKILL);
}

static int poll_timeout(const job *j)
{
    if (j->stop_at_ms < 0)
        return -1;
    int64_t left = j->stop_at_ms - now_ms();
    return left > 0 ? (int)left : 0;
}

static void harder(job *j)
{
    if (j->stop_at_ms < 0 || now_ms() < j->stop_at_ms)
        return;
    kill_all(j, j->next_signal);
    stop_in(j, KILL_AFTER_MS, SIGKILL);
}

static void supervise(job *j, int signals, struct pollfd *fds)
{
    bool ended = false;
    while (is_running(j)) {
        uint32_t ranks = processes(j);
        for (uint32_t rank = 0; rank < ranks; rank++)
            fds[rank] = (struct pollfd){.fd = j->ranks[rank].output, .events = POLLIN};
        fds[ranks] = (struct pollfd){.fd = signals, .events = POLLIN};
        if (poll(fds, ranks + 1, poll_timeout(j)) < 0 && errno != EINTR)
            break;
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
}

/* A signal for a rank whose ssh is gone must not end the launcher. */
static void hold_broken_pipes(void)
{
    sigset_t pipes;
    sigemptyset(&pipes);
    sigaddset(&pipes, SIGPIPE);
    sigprocmask(SIG_BLOCK, &pipes, NULL);
}

/* First code of the job: in the lab it runs as first process of the new namespaces. */
static int run_job(void *arg)
{
    job *j = arg;
    const launch_desc *desc = j->desc;
    sigset_t mask;
    sigemptyset(&mask);
    sigaddset(&mask, SIGCHLD);
    sigaddset(&mask, SIGINT);
    sigaddset(&mask, SIGTERM);
    sigaddset(&mask, SIGHUP);
    sigprocmask(SIG_BLOCK, &mask, NULL);
    if (desc->hosts != NULL)
        hold_broken_pipes();
    if (desc->lab != NULL && !lab_build(desc->verb, &j->lab, j->lab.hosts + own_hosts(j)))
        return CLI_FAILED;
    if (desc->lab != NULL)
        snprintf(j->address, sizeof j->address, "%s", lab_address(0));
    int signals = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
    j->ranks = calloc(processes(j), sizeof *j->ranks);
    struct pollfd *fds = calloc(processes(j) + 1, sizeof *fds);
    bool ok = signals >= 0 && j->ranks != NULL && fds != NULL && place_aggregators(j);
    for (uint32_t rank = 0; j->ranks != NULL && rank < processes(j); rank++)
        j->ranks[rank].output = -1;
    for (uint32_t i = 0; ok && i < processes(j); i++)
        ok = start_rank(j, (i + desc->ranks) % processes(j)); /* aggregators first */
    if (!ok) {
        fprintf(stderr, "shoal %s: cannot start the ranks: %s\n", desc->verb, strerror(errno));
        j->code = CLI_FAILED;
        if (j->ranks != NULL)
            kill_all(j, SIGKILL);
    }
    if (signals >= 0 && j->ranks != NULL && fds != NULL)
        supervise(j, signals, fds);
    for (uint32_t rank = 0; j->ranks != NULL && rank < processes(j); rank++)
        free(j->ranks[rank].line);
    free(j->ranks);
    forget_aggregators(j);
    free(fds);
    if (signals >= 0)
        close(signals);
    return desc->survives && j->through ? CLI_OK : j->code;
}

/* In a network of our own, and on other hosts, the usual port and the one behind it. */
static void set_ports(job *j)
{
    if (j->port == 0)
        j->port = 29400;
    if (j->store_port == 0)
        j->store_port = j->port + 1;
}

int launch_run(const launch_desc *desc)
{
    job j = {
        .desc = desc, .members = desc->ranks - desc->spares, .stop_at_ms = -1, .port = desc->port};
    if (desc->in_switch != NULL && (desc->lab == NULL || desc->lab->cables != LAB_SWITCH))
        return cli_usage(desc->verb, "--in-switch goes with --lab, and a lab with a switch");
    if (!make_token(j.token)) {
        fprintf(stderr, "shoal %s: no random numbers for the job token: %s\n", desc->verb,
                strerror(errno));
        return CLI_FAILED;
    }
    if (desc->hosts != NULL && !remote_parse(desc->verb, desc->hosts, desc->ranks, &j.remote))
        return CLI_USAGE;
    snprintf(j.address, sizeof j.address, "%s",
             desc->hosts != NULL ? j.remote.names[0] : "127.0.0.1");
    if (desc->lab != NULL) {
        j.lab = *desc->lab;
        if (j.lab.hosts == 0 || j.lab.hosts > desc->ranks)
            j.lab.hosts = desc->ranks;
        j.lab.speaks = desc->in_switch != NULL;
        if (j.lab.hosts + own_hosts(&j) > LAB_MAX_HOSTS)
            return cli_usage(desc->verb, "a lab has at most %d hosts; use hosts=H", LAB_MAX_HOSTS);
        set_ports(&j);
        if (!throttle_begin(desc->verb, j.lab.throttle, desc->ranks))
            return CLI_CANNOT_HERE;
        return lab_enter(desc->verb, run_job, &j);
    }
    int reserved[2] = {-1, -1};
    if (j.port == 0 && desc->hosts == NULL) {
        j.port = reserve_port(&reserved[0]);
        j.store_port = reserve_port(&reserved[1]);
    }
    set_ports(&j);
    sigset_t before;
    sigprocmask(SIG_SETMASK, NULL, &before);
    int code = run_job(&j);
    sigprocmask(SIG_SETMASK, &before, NULL);
    for (int i = 0; i < 2; i++) {
        if (reserved[i] >= 0)
            close(reserved[i]);
    }
    return code;
}
