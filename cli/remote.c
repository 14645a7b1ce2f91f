/* SPDX-License-Identifier: Apache-2.0 */
#include "remote.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

/* Of names, user@name, IPv4 and IPv6 with its zone; a shell obeys none of them. */
static const char host_letters[] =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-@:%[]";

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
        if (name[0] == '\0' || name[0] == '-' || name[strspn(name, host_letters)] != '\0' ||
            hosts->count == REMOTE_MAX_HOSTS) {
            cli_usage(verb, "--hosts: \"%.80s\" is no host name (at most %d hosts)", name,
                      REMOTE_MAX_HOSTS);
            return false;
        }
        hosts->names[hosts->count] = name;
        hosts->slots[hosts->count++] = (uint32_t)slots;
    }
    if (hosts->count == 0)
        cli_usage(verb, "--hosts names no host; such as a,b:2");
    return hosts->count > 0;
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
                                       "SHOAL_LAB",   "SHOAL_RENDEZVOUS", "SHOAL_TOKEN_FILE",
                                       "SHOAL_SPARE", "SHOAL_LAUNCH_ID",  "SHOAL_LAUNCH_PROOF"};
    for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++)
        if (strlen(ours[i]) == name && strncmp(ours[i], text, name) == 0)
            return true;
    return false;
}

bool remote_forward(const char *verb, const char *text, char **out)
{
    size_t name = strcspn(text, "=");
    if (is_ours(text, name)) {
        cli_usage(verb, "--export %.*s: the launcher sets this one", (int)name, text);
        return false;
    }
    bool good = name > 0 && (text[0] < '0' || text[0] > '9');
    for (size_t i = 0; i < name; i++)
        good = good && (text[i] == '_' || (text[i] >= '0' && text[i] <= '9') ||
                        (text[i] >= 'A' && text[i] <= 'Z') || (text[i] >= 'a' && text[i] <= 'z'));
    const char *value = text[name] == '=' ? text + name + 1 : getenv(text);
    if (!good || value == NULL) {
        cli_usage(verb,
                  good ? "--export %.80s: there is no such variable here; -x NAME=VALUE sets it"
                       : "--export %.80s: it is NAME or NAME=VALUE",
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

uint32_t remote_host_index(const remote_hosts *hosts, uint32_t rank)
{
    uint32_t i = hosts->count - 1;
    while (i > 0 && rank < hosts->first[i])
        i--;
    return i;
}

const char *remote_host(const remote_hosts *hosts, uint32_t rank)
{
    return hosts->names[remote_host_index(hosts, rank)];
}
