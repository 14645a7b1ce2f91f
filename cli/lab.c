/* SPDX-License-Identifier: Apache-2.0 */
#include "lab.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli.h"
#include "lab_links.h"

enum { MAX_CABLES = 255 };

const char lab_switch_address[] = "10.77.255.254";
static const uint32_t switch_ip = 10u << 24 | 77u << 16 | 255u << 8 | 254u;

static int host_namespace[LAB_MAX_HOSTS];
static char host_address[LAB_MAX_HOSTS][16];

/* ------------------------------------------------------------------ namespaces */

static bool write_text(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    bool ok = write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    close(fd);
    return ok;
}

/* Inside, the user is root; outside, everything is done as the user. */
static bool map_ids(uid_t user, gid_t group)
{
    char map[64];
    if (!write_text("/proc/self/setgroups", "deny"))
        return false;
    snprintf(map, sizeof map, "0 %u 1", (unsigned)user);
    if (!write_text("/proc/self/uid_map", map))
        return false;
    snprintf(map, sizeof map, "0 %u 1", (unsigned)group);
    return write_text("/proc/self/gid_map", map);
}

static volatile sig_atomic_t lab_child;

static void forward(int signal_number)
{
    if (lab_child > 0)
        kill((pid_t)lab_child, signal_number);
}

/* INT and TERM are held back while processes are made: one that came too early would be lost. */
static void hold_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_BLOCK, &set, NULL);
}

/* From now on they go on to the process that wait_child waits for. */
static void forward_to(pid_t pid)
{
    struct sigaction action = {.sa_handler = forward};
    sigset_t none;
    lab_child = pid;
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

static int wait_child(pid_t pid)
{
    int status = 0;
    while (waitpid(pid, &status, 0) < 0) {
        if (errno != EINTR)
            return CLI_FAILED;
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : CLI_FAILED;
}

/* Inside everybody is root: its ranks are to be found where this user's are (docs/status.md), and
 * root's folder is none of theirs. */
static void keep_status_folder(uid_t user)
{
    char folder[32];
    const char *run = getenv("XDG_RUNTIME_DIR");
    snprintf(folder, sizeof folder, "/tmp/shoal-%u", (unsigned)user);
    if (run == NULL || run[0] == '\0')
        setenv("SHOAL_STATUS_DIR", folder, 0);
}

/* Enter new namespaces and become the parent of their first process. Runs in a child of its own:
 * the command may have threads (OpenBLAS starts some when it is loaded), and only a process without
 * them may enter a user namespace. */
static int enter(int (*inside)(void *arg), void *arg, int refused)
{
    uid_t user = geteuid();
    gid_t group = getegid();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    bool ok = user == 0 && unshare(CLONE_NEWNET | CLONE_NEWPID) == 0;
    if (!ok) {
        keep_status_folder(user);
        ok = unshare(CLONE_NEWUSER | CLONE_NEWNET | CLONE_NEWPID) == 0 && map_ids(user, group);
    }
    pid_t pid = ok ? fork() : -1;
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(refused);
        int code = inside(arg);
        fflush(NULL);
        _exit(code);
    }
    int error = errno;
    if (pid < 0 && write(refused, &error, sizeof error) != sizeof error)
        _exit(CLI_FAILED);
    close(refused);
    forward_to(pid);
    return pid < 0 ? CLI_CANNOT_HERE : wait_child(pid);
}

static int refuse(const char *verb, int error)
{
    fprintf(stderr,
            "shoal %s: --lab needs new network namespaces, and this machine refuses them (%s).\n"
            "  Run as root, or allow them: sysctl kernel.unprivileged_userns_clone=1 "
            "user.max_user_namespaces=10000\n",
            verb, strerror(error));
    return CLI_CANNOT_HERE;
}

int lab_enter(const char *verb, int (*inside)(void *arg), void *arg)
{
    int refused[2], error = 0;
    if (pipe2(refused, O_CLOEXEC) != 0)
        return refuse(verb, errno);
    fflush(NULL);
    hold_signals();
    pid_t pid = fork();
    if (pid == 0) {
        close(refused[0]);
        _exit(enter(inside, arg, refused[1]));
    }
    close(refused[1]);
    if (pid < 0) {
        close(refused[0]);
        return refuse(verb, errno);
    }
    forward_to(pid);
    bool no = read(refused[0], &error, sizeof error) == sizeof error;
    close(refused[0]);
    int code = wait_child(pid);
    return no ? refuse(verb, error) : code;
}

/* ------------------------------------------------------------------ links */

typedef enum { ALL, FROM_SWITCH, TO_SWITCH, TO_OTHERS } whose;

/* There is no netem everywhere, but a classifier of classic BPF, which needs no right but over the
 * namespace, and may draw. Packets of others than `of`, and with loss_udp other protocols in byte
 * 23, go on. Random word >= part of 2^32: 0, goes on; else 2, TC_ACT_SHOT. */
static bool lose_at(const char *verb, const lab_desc *lab, const char *device, const char *hook,
                    whose of)
{
    char batch[384], code[160] = "";
    const int count = (of != ALL ? 2 : 0) + (lab->loss_udp ? 2 : 0) + 4;
    int used = 0, at = 0;
    if (of != ALL) {
        const int end = count - 3; /* from instruction 1 to the last */
        used = snprintf(code, sizeof code, ",32 0 0 %d,21 %d %d %u", of == FROM_SWITCH ? 26 : 30,
                        of == TO_OTHERS ? end : 0, of == TO_OTHERS ? 0 : end, switch_ip);
        at = 2;
    }
    if (lab->loss_udp)
        snprintf(code + used, sizeof code - (size_t)used, ",48 0 0 23,21 0 %d 17", count - at - 3);
    snprintf(batch, sizeof batch,
             "filter add dev %s %s protocol ip bpf da bytecode "
             "\"%d%s,32 0 0 4294963256,53 1 0 %.0f,6 0 0 2,6 0 0 0\"\n",
             device, hook, count, code, lab->loss * 0x1p32);
    return lab_batch(verb, "tc", batch);
}

static bool can_lose(const char *verb, const char *device)
{
    char batch[64];
    snprintf(batch, sizeof batch, "qdisc add dev %s clsact\n", device);
    return lab_batch(verb, "tc", batch);
}

/* At a port of the switch: what comes for other hosts; and what the switch itself has to say. */
static bool lose(const char *verb, const lab_desc *lab, const char *port)
{
    return lab->loss == 0 || (can_lose(verb, port) &&
                              lose_at(verb, lab, port, "ingress", lab->speaks ? TO_OTHERS : ALL) &&
                              (!lab->speaks || lose_at(verb, lab, port, "egress", FROM_SWITCH)));
}

/* What is for the switch itself is lost where it leaves its host: a program that sums at the port
 * would see it before any classifier there. */
static bool lose_to_switch(const char *verb, const lab_desc *lab)
{
    return lab->loss == 0 || !lab->speaks ||
           (can_lose(verb, "eth0") && lose_at(verb, lab, "eth0", "egress", TO_SWITCH));
}

/* Some kernels default to bbr, which an unshaped veth cannot feed and whose guesses at the rate
 * vary from run to run. A namespace may only choose what the host allows everybody: cubic often is
 * not among them, reno always is, and on links this short the two fill a queue alike. */
static void use_loss_based(void)
{
    static const char path[] = "/proc/sys/net/ipv4/tcp_congestion_control";
    if (!write_text(path, "cubic"))
        (void)!write_text(path, "reno");
}

/* A switch forwards several segments as one, whatever its port's MTU: hosts send them singly where
 * something is to vanish. */
static bool has_holes(const lab_desc *lab)
{
    for (uint32_t host = 0; host < LAB_MAX_HOSTS; host++)
        if (lab->hole[host] != 0)
            return true;
    return false;
}

/* Continue in a new host's namespace. */
static bool enter_new_host(uint32_t host)
{
    if (unshare(CLONE_NEWNET) != 0)
        return false;
    host_namespace[host] = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
    if (host_namespace[host] < 0)
        return false;
    use_loss_based();
    return true;
}

static bool build_host(const char *verb, lab_desc *lab, uint32_t host, int switch_fd)
{
    char batch[512], device[16];
    snprintf(device, sizeof device, "sw%u", host);
    snprintf(host_address[host], sizeof host_address[host], "10.77.0.%u", host + 1);
    if (!enter_new_host(host))
        return false;
    snprintf(batch, sizeof batch,
             "link set lo up\n"
             "link add eth0 mtu %u type veth peer name %s mtu %u netns /proc/self/fd/%d\n"
             "addr add %s/16 dev eth0\n"
             "%s"
             "link set eth0 up\n",
             lab->mtu, device, lab->mtu, switch_fd, lab_address(host),
             has_holes(lab) ? "link set eth0 gso_max_segs 1\n" : "");
    if (!lab_batch(verb, "ip", batch) || !lab_shape(verb, lab, lab_up_bits(lab, host), "eth0") ||
        !lose_to_switch(verb, lab))
        return false;
    if (setns(switch_fd, CLONE_NEWNET) != 0)
        return false;
    snprintf(batch, sizeof batch, "link set %s mtu %u master br0 up\n", device,
             lab->hole[host] != 0 ? lab->hole[host] : lab->mtu);
    return lab_batch(verb, "ip", batch) && lab_shape(verb, lab, lab_down_bits(lab, host), device) &&
           lose(verb, lab, device);
}

static bool build_switch(const char *verb, lab_desc *lab, uint32_t hosts)
{
    char batch[160];
    int switch_fd = open("/proc/thread-self/ns/net", O_RDONLY); /* inherited by ip on purpose */
    snprintf(batch, sizeof batch,
             "link set lo up\nlink add br0 mtu %u type bridge\nlink set br0 up\n%s%s%s", lab->mtu,
             lab->speaks ? "addr add " : "", lab->speaks ? lab_switch_address : "",
             lab->speaks ? "/16 dev br0\n" : "");
    bool ok = switch_fd >= 0 && lab_batch(verb, "ip", batch);
    for (uint32_t host = 0; ok && host < hosts; host++)
        ok = build_host(verb, lab, host, switch_fd);
    if (switch_fd >= 0)
        close(switch_fd);
    return ok;
}

/* ------------------------------------------------------------------ cables */

static bool plug_in(const char *verb, const lab_desc *lab, uint32_t host, uint32_t cable,
                    uint32_t end)
{
    char batch[128], device[16], address[16];
    snprintf(device, sizeof device, "cable%u", cable);
    snprintf(address, sizeof address, "10.78.%u.%u", cable & 255, end & 255);
    if (host_address[host][0] == '\0')
        memcpy(host_address[host], address, sizeof address);
    snprintf(batch, sizeof batch, "addr add %s/24 dev %s\nlink set %s up\n", address, device,
             device);
    return lab_join(host) && lab_batch(verb, "ip", batch) &&
           lab_shape(verb, lab, lab_up_bits(lab, host), device);
}

static bool lay_cable(const char *verb, const lab_desc *lab, uint32_t from, uint32_t to,
                      uint32_t cable)
{
    char batch[160];
    int there = dup(host_namespace[to]); /* inherited by ip on purpose */
    snprintf(batch, sizeof batch,
             "link add cable%u mtu %u type veth peer name cable%u mtu %u netns /proc/self/fd/%d\n",
             cable, lab->mtu, cable, lab->mtu, there);
    bool ok = there >= 0 && lab_join(from) && lab_batch(verb, "ip", batch);
    if (there >= 0)
        close(there);
    return ok && plug_in(verb, lab, from, cable, 1) && plug_in(verb, lab, to, cable, 2);
}

static bool are_joined(const lab_desc *lab, uint32_t from, uint32_t to, uint32_t hosts)
{
    return lab->cables == LAB_MESH || to == from + 1 ||
           (lab->cables == LAB_RING && from == 0 && to == hosts - 1);
}

static bool build_cables(const char *verb, const lab_desc *lab, uint32_t hosts)
{
    uint32_t cable = 0;
    for (uint32_t host = 0; host < hosts; host++)
        if (!enter_new_host(host) || !lab_batch(verb, "ip", "link set lo up\n"))
            return false;
    for (uint32_t from = 0; from < hosts; from++)
        for (uint32_t to = from + 1; to < hosts; to++)
            for (uint32_t i = 0; are_joined(lab, from, to, hosts) && i < lab->parallel; i++)
                if (cable == MAX_CABLES || !lay_cable(verb, lab, from, to, cable++))
                    return false;
    return true;
}

bool lab_build(const char *verb, lab_desc *lab, uint32_t hosts)
{
    bool ok = hosts <= LAB_MAX_HOSTS &&
              (lab->cables == LAB_SWITCH ? build_switch(verb, lab, hosts)
                                         : build_cables(verb, lab, hosts));
    if (!ok)
        (void)cli_fail(verb, "--lab: could not build the network (%s)", strerror(errno));
    return ok;
}

bool lab_join(uint32_t host)
{
    return setns(host_namespace[host], CLONE_NEWNET) == 0;
}

const char *lab_address(uint32_t host)
{
    return host_address[host];
}

const char *lab_ports(uint32_t hosts)
{
    static char text[LAB_MAX_HOSTS * 6 + 1];
    size_t used = 0;
    for (uint32_t host = 0; host < hosts && host < LAB_MAX_HOSTS; host++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%ssw%u", host > 0 ? "," : "",
                                 host);
    return text;
}
