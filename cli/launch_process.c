/* SPDX-License-Identifier: Apache-2.0 */
/* One process of a job: where it runs, what it finds in its environment, and how it begins. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli.h"
#include "launch_job.h"
#include "throttle.h"

enum { AGGREGATOR_PORT = 29600 };

/* A free port, kept from everybody's outgoing connections by a socket that is bound to it and never
 * listens: rank 0 can still listen there, as both allow the address to be used again. */
uint16_t launch_reserve_port(int *reserved_out)
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
    if (fd < 0 || write(fd, token, LAUNCH_TOKEN_CHARS) != LAUNCH_TOKEN_CHARS ||
        lseek(fd, 0, SEEK_SET) != 0)
        return false;
    set_number("SHOAL_TOKEN_FD", (uint64_t)fd);
    return true;
}

/* In a lab a member may be gone with its host: newcomers look at all of them. */
static void set_doors(const launch_job *j, uint32_t hosts)
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

/* This process's network namespace, which is the lab's. */
static void set_lab(void)
{
    char here[64];
    ssize_t length = readlink("/proc/self/ns/net", here, sizeof here - 1);
    here[length > 0 ? length : 0] = '\0';
    setenv("SHOAL_LAB", here, 1);
}

static void set_environment(const launch_job *j, uint32_t rank)
{
    uint32_t hosts = j->desc->lab != NULL ? j->lab.hosts : 1, first = 0, count = 0;
    host_of(rank, j->desc->ranks, hosts, &first, &count);
    const uint32_t members = j->desc->ranks - j->desc->spares;
    set_number("RANK", rank < members ? rank : 0);
    set_number("WORLD_SIZE", members);
    if (rank >= members)
        set_number("SHOAL_SPARE", rank);
    set_doors(j, hosts);
    set_number("LOCAL_RANK", rank - first);
    set_number("LOCAL_WORLD_SIZE", count);
    setenv("MASTER_ADDR", j->address, 1);
    set_number("MASTER_PORT", j->port);
    char store[288];
    snprintf(store, sizeof store, "tcp://%s:%u", j->address, j->store_port);
    setenv("SHOAL_RENDEZVOUS", store, 1);
    if (j->word[1] >= 0) {
        fcntl(j->word[1], F_SETFD, 0); /* the program keeps it */
        set_number("SHOAL_LAUNCHER_FD", (uint64_t)j->word[1]);
    }
    if (j->desc->itself)
        setenv("SHOAL_OWN_LAUNCHER", "1", 1);
    else
        unsetenv("SHOAL_OWN_LAUNCHER");
    unsetenv("SHOAL_LAUNCH_ID");
    unsetenv("SHOAL_LAUNCH_PROOF");
    if (j->ledger >= 0) { /* one kernel knows who has ended; this file also when */
        char ledger[40], name[64];
        fcntl(j->ledger, F_SETFD, 0); /* the program keeps it */
        snprintf(ledger, sizeof ledger, "/proc/self/fd/%d", j->ledger);
        snprintf(name, sizeof name, "%s.%u", j->name, rank);
        setenv("SHOAL_LAUNCH_ID", name, 1);
        setenv("SHOAL_LAUNCH_PROOF", ledger, 1);
    }
    setenv("OMP_NUM_THREADS", "1", 0); /* ranks share the cores; as torchrun does */
    if (j->desc->lab != NULL)
        set_lab(); /* counts as loopback: docs/security.md */
    else
        unsetenv("SHOAL_LAB");
    if (j->desc->lab != NULL && lab_usual_bits(&j->lab) > 0)
        set_number("SHOAL_LINE_RATE", lab_usual_bits(&j->lab));
    if (j->desc->lab != NULL && j->lab.random[0] != '\0')
        setenv("SHOAL_RANDOM", j->lab.random, 1);
    if (j->desc->lab != NULL && rank < LAB_MAX_HOSTS && j->lab.slow[rank] > 0) {
        char factor[32];
        snprintf(factor, sizeof factor, "%g", j->lab.slow[rank]);
        setenv("SHOAL_SLOW", factor, 1);
    }
}

uint32_t launch_processes(const launch_job *j)
{
    return j->desc->ranks + j->desc->aggregators;
}

/* The lab's host of an aggregator: one behind those of the ranks, or one of these. */
static uint32_t host_of_aggregator(const launch_job *j, uint32_t index)
{
    return j->desc->colocated ? index % j->lab.hosts : j->lab.hosts + index;
}

/* The lab's hosts that there are for aggregators alone. */
uint32_t launch_own_hosts(const launch_job *j)
{
    return j->desc->colocated || j->desc->in_switch != NULL ? 0 : j->desc->aggregators;
}

bool launch_place_aggregators(launch_job *j)
{
    const uint32_t count = j->desc->aggregators;
    j->aggregators = calloc(count + 1, sizeof *j->aggregators);
    j->reserved = calloc(count + 1, sizeof *j->reserved);
    for (uint32_t i = 0; i < count && j->aggregators != NULL && j->reserved != NULL; i++) {
        const bool lab = j->desc->lab != NULL;
        const unsigned port = lab ? AGGREGATOR_PORT + i : launch_reserve_port(&j->reserved[i]);
        snprintf(j->aggregators[i], sizeof j->aggregators[i], "%s:%u",
                 j->desc->in_switch != NULL ? lab_switch_address
                 : lab                      ? lab_address(host_of_aggregator(j, i))
                                            : "127.0.0.1",
                 port);
    }
    return j->aggregators != NULL && j->reserved != NULL;
}

void launch_forget_aggregators(launch_job *j)
{
    for (uint32_t i = 0; i < j->desc->aggregators && j->reserved != NULL; i++)
        if (j->reserved[i] > 0)
            close(j->reserved[i]);
    free(j->reserved);
    free(j->aggregators);
}

static void name_aggregators(const launch_job *j)
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

static void begin_process(const launch_job *j, int output)
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

static void exec_with_token(const launch_job *j, char **argv)
{
    if (!give_token(j->token)) {
        fprintf(stderr, "shoal %s: cannot pass the job token: %s\n", j->desc->verb,
                strerror(errno));
        _exit(CLI_FAILED);
    }
    execvp(argv[0], argv);
    (void)cli_fail(j->desc->verb, "cannot start %s: %s", argv[0], strerror(errno));
    _exit(127);
}

static void aggregator_main(const launch_job *j, uint32_t index, int output)
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
        set_lab(); /* as its ranks, or they disagree on TLS */
    exec_with_token(j, argv);
}

static void rank_main(const launch_job *j, uint32_t rank, int output, int input)
{
    begin_process(j, output);
    if (rank > 0) { /* one reader of the terminal */
        int null = open("/dev/null", O_RDONLY);
        if (null >= 0)
            dup2(null, STDIN_FILENO);
    }
    const remote_meeting at = {j->address, j->name, j->port, j->store_port};
    if (j->desc->hosts != NULL)
        remote_exec(&j->remote, rank, &at, input, j->desc->argv);
    uint32_t first = 0, count = 0;
    if (j->desc->lab != NULL &&
        (!lab_join(host_of(rank, j->desc->ranks, j->lab.hosts, &first, &count)) ||
         !throttle_join(j->desc->verb, rank)))
        _exit(CLI_FAILED);
    set_environment(j, rank);
    name_aggregators(j);
    exec_with_token(j, j->desc->argv);
}

/* ssh takes the token from us when it is through the login, and not before. */
static bool is_logging_in(const launch_process *process)
{
    siginfo_t ended = {.si_pid = 0};
    int unread = 0;
    return process->pid > 0 && ioctl(process->input, FIONREAD, &unread) == 0 && unread > 0 &&
           waitid(P_PID, (id_t)process->pid, &ended, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           ended.si_pid == 0;
}

static bool is_told_to_end(void)
{
    sigset_t pending;
    return sigpending(&pending) == 0 &&
           (sigismember(&pending, SIGINT) == 1 || sigismember(&pending, SIGTERM) == 1 ||
            sigismember(&pending, SIGHUP) == 1);
}

/* Of more than ten logins under way sshd refuses some (its MaxStartups), and not all are ours. */
static void await_turn(launch_job *j, uint32_t rank)
{
    enum { AT_ONCE = 6, TICK_MS = 10 };
    const char *host = remote_host(&j->remote, rank);
    for (; j->patience_ms > 0 && !is_told_to_end(); j->patience_ms -= TICK_MS) {
        uint32_t logins = 0;
        for (uint32_t other = 0; other < rank; other++)
            logins += is_logging_in(&j->ranks[other]) &&
                      strcmp(remote_host(&j->remote, other), host) == 0;
        if (logins < AT_ONCE)
            return;
        poll(NULL, 0, TICK_MS);
    }
}

bool launch_start(launch_job *j, uint32_t rank)
{
    launch_process *process = &j->ranks[rank];
    int output[2] = {-1, -1}, input[2] = {-1, -1};
    process->output = process->input = -1;
    if (j->desc->hosts != NULL)
        await_turn(j, rank);
    if (j->desc->hosts != NULL &&
        (pipe2(input, O_CLOEXEC) != 0 || dprintf(input[1], "%s\n", j->token) < 0))
        return false;
    process->input = input[1];
    if (j->desc->tag_output) {
        process->line = malloc(LAUNCH_LINE_BYTES);
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
