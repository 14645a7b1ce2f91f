/* SPDX-License-Identifier: Apache-2.0 */
#include "remote.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

static bool read_hosts(const char *verb, remote_hosts *hosts, uint32_t *named_slots)
{
    char *state = NULL;
    for (char *name = strtok_r(hosts->text, ",", &state); name != NULL;
         name = strtok_r(NULL, ",", &state)) {
        char *colon = strchr(name, ':');
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

/* The remote shell takes the token from its input into a file of the user's own and removes it at
 * the end. */
static char *remote_script(const remote_hosts *hosts, uint32_t rank, uint32_t host,
                           const char *address, uint16_t port, char **argv)
{
    char *script = NULL, folder[4096];
    size_t length = 0;
    FILE *out = open_memstream(&script, &length);
    if (out == NULL)
        return NULL;
    uint32_t last = hosts->first[host] + hosts->slots[host];
    uint32_t local = (last < hosts->ranks ? last : hosts->ranks) - hosts->first[host];
    fputs("umask 077; t=$(mktemp) || exit 1; trap 'rm -f \"$t\"' EXIT; IFS= read -r s; printf %s "
          "\"$s\" >\"$t\"; ",
          out);
    if (getcwd(folder, sizeof folder) != NULL) {
        fputs("cd ", out);
        quote(out, folder);
        fputs(" 2>/dev/null; ", out);
    }
    fprintf(out,
            "RANK=%u WORLD_SIZE=%u LOCAL_RANK=%u LOCAL_WORLD_SIZE=%u MASTER_PORT=%u MASTER_ADDR=",
            rank, hosts->ranks, rank - hosts->first[host], local, port);
    quote(out, address);
    fputs(" SHOAL_RENDEZVOUS=tcp://", out);
    quote(out, address);
    fprintf(out, ":%u", port + 1);
    fputs(" SHOAL_TOKEN_FILE=\"$t\"", out);
    for (char **argument = argv; *argument != NULL; argument++) {
        fputc(' ', out);
        quote(out, *argument);
    }
    return fclose(out) == 0 ? script : NULL;
}

void remote_exec(const remote_hosts *hosts, uint32_t rank, const char *address, uint16_t port,
                 const char *token, char **argv)
{
    uint32_t host = host_index(hosts, rank);
    const char *shell = getenv("SHOAL_RSH");
    char *script = remote_script(hosts, rank, host, address, port, argv);
    int input[2];
    if (script == NULL || pipe(input) != 0 || dprintf(input[1], "%s\n", token) < 0)
        _exit(CLI_FAILED);
    close(input[1]);
    dup2(input[0], STDIN_FILENO);
    if (shell == NULL)
        shell = "ssh";
    char *name = strdup(hosts->names[host]);
    char *ssh[] = {strdup(shell), name, script, NULL};
    execvp(shell, ssh);
    fprintf(stderr, "shoal run: cannot start %s for host %s: %s\n", shell, hosts->names[host],
            strerror(errno));
    _exit(127);
}
