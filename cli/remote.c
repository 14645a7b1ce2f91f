/* SPDX-License-Identifier: Apache-2.0 */
#include "remote.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

/* Where ":SLOTS" begins behind a host; NULL: nowhere. "[::1]:2" loses its brackets, and becomes
 * empty if they do not close or something else follows; more than one colon without them is an
 * IPv6 address alone. */
static char *slots_of(char **name)
{
    char *end = strchr(*name, ']');
    if ((*name)[0] != '[') {
        char *colon = strchr(*name, ':');
        return colon != NULL && strchr(colon + 1, ':') == NULL ? colon : NULL;
    }
    bool good = end != NULL && (end[1] == ':' || end[1] == '\0');
    char *slots = good && end[1] == ':' ? end + 1 : NULL;
    *(good ? end : *name + 1) = '\0';
    ++*name;
    return slots;
}

static bool read_hosts(const char *verb, remote_hosts *hosts, uint32_t *named_slots)
{
    char *state = NULL;
    for (char *name = strtok_r(hosts->text, ",", &state); name != NULL;
         name = strtok_r(NULL, ",", &state)) {
        char *colon = slots_of(&name);
        int64_t slots = 0;
        if (colon != NULL) {
            *colon = '\0';
            if (!cli_parse_int(colon + 1, 1, 4096, &slots)) {
                cli_usage(verb, "--hosts: %s:%s: slots are a whole number from 1 to 4096", name,
                          colon + 1);
                return false;
            }
            ++*named_slots;
        }
        if (name[0] == '\0' || name[0] == '-' || hosts->count == REMOTE_MAX_HOSTS) {
            cli_usage(verb, "--hosts: \"%s\" is no host name (at most %d hosts)", name,
                      REMOTE_MAX_HOSTS);
            return false;
        }
        hosts->names[hosts->count] = name;
        hosts->slots[hosts->count++] = (uint32_t)slots;
    }
    return true;
}

uint32_t remote_ranks(const char *verb, const char *text)
{
    remote_hosts hosts;
    uint32_t named_slots = 0, ranks = 0;
    if (strlen(text) >= sizeof hosts.text)
        return 1; /* remote_parse says why not */
    hosts = (remote_hosts){.ranks = 0};
    strcpy(hosts.text, text);
    if (!read_hosts(verb, &hosts, &named_slots))
        return 0;
    for (uint32_t i = 0; i < hosts.count; i++)
        ranks += hosts.slots[i] > 0 ? hosts.slots[i] : 1;
    return ranks;
}

/* What the launcher tells each rank is not for others to say. */
static bool is_ours(const char *text, size_t name)
{
    static const char *const ours[] = {"RANK",        "WORLD_SIZE",       "LOCAL_RANK",
                                       "MASTER_PORT", "LOCAL_WORLD_SIZE", "MASTER_ADDR",
                                       "SHOAL_LAB",   "SHOAL_RENDEZVOUS", "SHOAL_TOKEN_FILE"};
    for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++)
        if (strlen(ours[i]) == name && strncmp(ours[i], text, name) == 0)
            return true;
    return false;
}

bool remote_forward(const char *verb, const char *text, char **out)
{
    size_t name = strcspn(text, "=");
    if (is_ours(text, name)) {
        cli_usage(verb, "-x %.*s: the launcher sets this one", (int)name, text);
        return false;
    }
    bool good = name > 0 && (text[0] < '0' || text[0] > '9');
    for (size_t i = 0; i < name; i++)
        good = good && (text[i] == '_' || (text[i] >= '0' && text[i] <= '9') ||
                        (text[i] >= 'A' && text[i] <= 'Z') || (text[i] >= 'a' && text[i] <= 'z'));
    const char *value = text[name] == '=' ? text + name + 1 : getenv(text);
    if (!good || value == NULL) {
        cli_usage(verb,
                  good ? "-x %s: there is no such variable here; -x NAME=VALUE sets it"
                       : "-x %s: it is NAME or NAME=VALUE",
                  text);
        return false;
    }
    return asprintf(out, "%.*s=%s", (int)name, text, value) > 0;
}

bool remote_parse(const char *verb, const char *text, uint32_t ranks, remote_hosts *hosts_out)
{
    uint32_t named_slots = 0, total = 0;
    *hosts_out = (remote_hosts){.ranks = ranks};
    if (strlen(text) >= sizeof hosts_out->text) {
        cli_usage(verb, "--hosts: longer than %zu characters", sizeof hosts_out->text - 1);
        return false;
    }
    strcpy(hosts_out->text, text);
    if (!read_hosts(verb, hosts_out, &named_slots))
        return false;
    uint32_t count = hosts_out->count;
    for (uint32_t i = 0; i < count; i++) {
        if (hosts_out->slots[i] == 0)
            hosts_out->slots[i] = named_slots > 0 ? 1 : ranks / count + (i < ranks % count ? 1 : 0);
        hosts_out->first[i] = total;
        total += hosts_out->slots[i];
    }
    if (count == 0 || total < ranks) {
        cli_usage(verb, "--hosts: %u slots on %u hosts for %u ranks; add slots: host:SLOTS", total,
                  count, ranks);
        return false;
    }
    return true;
}

static uint32_t host_index(const remote_hosts *hosts, uint32_t rank)
{
    uint32_t i = hosts->count - 1;
    while (i > 0 && rank < hosts->first[i])
        i--;
    return i;
}

const char *remote_host(const remote_hosts *hosts, uint32_t rank)
{
    return hosts->names[host_index(hosts, rank)];
}

/* One argument for the remote shell: 'it'\''s'. */
static void quote(FILE *out, const char *text)
{
    fputc('\'', out);
    for (; *text != '\0'; text++) {
        if (*text == '\'')
            fputs("'\\''", out);
        else
            fputc(*text, out);
    }
    fputc('\'', out);
}

/* In a session of its own on the other host: takes the token from its input into a file of the
 * user's own, which goes at the end, and runs the command. The rest of its input are names of
 * signals, for the whole session. Its end, however it came about (ctrl-C, kill -9 of the launcher,
 * a host that fell off the network and whose sshd noticed), is the end of the session: TERM, and
 * three seconds later KILL. */
static const char prologue[] =
    "umask 077; t=$(mktemp) || exit 1; trap 'rm -f \"$t\"' EXIT; trap : INT TERM HUP; "
    "IFS= read -r s; printf %s \"$s\" >\"$t\"; exec 3<&0 </dev/null; "
    "(trap '' INT TERM HUP; while IFS= read -r x <&3; do kill -s \"$x\" -- -$$; done; "
    "kill -s TERM -- -$$; sleep 3; rm -f \"$t\"; kill -s KILL -- -$$) >/dev/null 2>&1 & w=$!; ";
static const char epilogue[] = " 3<&-; c=$?; kill -s KILL $w; exit $c";

static void write_command(FILE *out, const remote_hosts *hosts, uint32_t rank, uint32_t host,
                          const char *address, uint16_t port, char **argv)
{
    char folder[4096];
    uint32_t last = hosts->first[host] + hosts->slots[host];
    uint32_t local = (last < hosts->ranks ? last : hosts->ranks) - hosts->first[host];
    if (getcwd(folder, sizeof folder) != NULL) {
        fputs("cd ", out);
        quote(out, folder);
        fputs(" 2>/dev/null; ", out);
    }
    fprintf(out,
            "RANK=%u WORLD_SIZE=%u LOCAL_RANK=%u LOCAL_WORLD_SIZE=%u MASTER_PORT=%u MASTER_ADDR=",
            rank, hosts->ranks, rank - hosts->first[host], local, port);
    quote(out, address);
    bool literal = strchr(address, ':') != NULL;
    fputs(literal ? " SHOAL_RENDEZVOUS=tcp://'['" : " SHOAL_RENDEZVOUS=tcp://", out);
    quote(out, address);
    fputs(literal ? "']'" : "", out);
    fprintf(out, ":%u", port + 1);
    fputs(" SHOAL_TOKEN_FILE=\"$t\"", out);
    for (uint32_t i = 0; i < hosts->forward_count; i++) {
        const char *is = strchr(hosts->forward[i], '=');
        fprintf(out, " %.*s=", (int)(is - hosts->forward[i]), hosts->forward[i]);
        quote(out, is + 1);
    }
    for (char **argument = argv; *argument != NULL; argument++) {
        fputc(' ', out);
        quote(out, *argument);
    }
}

static char *remote_script(const remote_hosts *hosts, uint32_t rank, const char *address,
                           uint16_t port, char **argv)
{
    char *script = NULL, *inner = NULL;
    size_t length = 0, inner_length = 0;
    FILE *out = open_memstream(&inner, &inner_length);
    if (out == NULL)
        return NULL;
    fputs(prologue, out);
    write_command(out, hosts, rank, host_index(hosts, rank), address, port, argv);
    fputs(epilogue, out);
    if (fclose(out) != 0 || (out = open_memstream(&script, &length)) == NULL)
        return NULL;
    fputs("exec setsid -w sh -c ", out);
    quote(out, inner);
    free(inner);
    return fclose(out) == 0 ? script : NULL;
}

void remote_exec(const remote_hosts *hosts, uint32_t rank, const char *address, uint16_t port,
                 int input, char **argv)
{
    const char *host = hosts->names[host_index(hosts, rank)], *shell = getenv("SHOAL_RSH");
    char *script = remote_script(hosts, rank, address, port, argv);
    if (script == NULL || dup2(input, STDIN_FILENO) < 0)
        _exit(CLI_FAILED);
    signal(SIGINT, SIG_IGN); /* ctrl-C reaches the ranks through the launcher */
    signal(SIGQUIT, SIG_IGN);
    if (shell == NULL)
        shell = "ssh";
    /* ssh itself must neither ask nor wait: nobody answers for a dozen hosts at once. */
    static char option[] = "-o", batch[] = "BatchMode=yes", patience[] = "ConnectTimeout=10";
    char *ssh[] = {strdup(shell), option, batch, option, patience, strdup(host), script, NULL};
    if (getenv("SHOAL_RSH") != NULL)
        memcpy(&ssh[1], &ssh[5], 3 * sizeof *ssh);
    execvp(shell, ssh);
    fprintf(stderr, "shoal run: cannot start %s for host %s: %s\n", shell, host, strerror(errno));
    _exit(127);
}
