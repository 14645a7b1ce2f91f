/* SPDX-License-Identifier: Apache-2.0 */
/* The text of --lab: keys, what goes together, and a cluster's file in place of the keys. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "lab_links.h"
#include "nearest.h"

const char lab_help[] =
    "  cluster=FILE    hosts, links, loss and stragglers as a cluster file says (docs/cluster.md), "
    "for\n"
    "                  as many ranks; goes with mtu, burst, limit, hole and throttle\n"
    "  rate=1gbit      rate of every link, each way (kbit, mbit, gbit; unshaped without it)\n"
    "  hosts=H         H hosts; ranks are dealt to them in equal, consecutive parts (one host per "
    "rank)\n"
    "  up=10mbit,down=50mbit  rates from every host, and towards it, instead of rate\n"
    "  link=I:100mbit  another rate for host I; link=I:10mbit/50mbit: up and down\n"
    "  trace=FILE      rates change while the job runs: lines SECONDS HOST UP [DOWN]\n"
    "  slow=R:5x       rank R computes 5 times slower (variable SHOAL_SLOW, which `shoal train` "
    "obeys)\n"
    "  random=6x:0.1   any iteration of any rank takes 6 times as long by chance, one in ten "
    "(without\n"
    "                  a chance one in N of N ranks); the same ones as in `shoal sim` with that "
    "seed\n"
    "  throttle=R:25%  rank R gets a quarter of a processor, from a control group (cgroup v1 or "
    "v2)\n"
    "  hole=I:1300     frames above 1300 bytes vanish silently on host I's link: a black-holed "
    "MTU\n"
    "  loss=1%         packets (IPv4) that the switch loses, drawn at random; 1%udp: of UDP alone\n"
    "  cables=ring     no switch: a cable with a subnet of its own between neighbours (line, ring) "
    "or\n"
    "                  between any two hosts (mesh); line:2: two cables instead of one\n"
    "  mtu=1500  burst=96  limit=1024   MTU in bytes; tbf's burst and queue in KiB; burst=rate: "
    "0.8\n"
    "                  KiB per Mbit/s of the link, 16 to 96\n";

enum { MAX_PARALLEL = 8 };

#define KNOWN                                                                                      \
    "known keys: cluster, rate, up, down, hosts, link, trace, slow, random, throttle, hole, mtu, " \
    "burst, limit, loss, cables"

static bool bad_key(const char *verb, const char *key, const char *value, const char *wanted)
{
    cli_usage(verb, "--lab %s=%s: wanted %s; " KNOWN, key, value != NULL ? value : "", wanted);
    return false;
}

/* "I:VALUE" -> index and the rest. */
static const char *indexed(char *value, int64_t *index_out)
{
    char *colon = value != NULL ? strchr(value, ':') : NULL;
    if (colon == NULL)
        return NULL;
    *colon = '\0';
    bool ok = cli_parse_int(value, 0, LAB_MAX_HOSTS - 1, index_out);
    *colon = ':';
    return ok ? colon + 1 : NULL;
}

static bool parse_indexed(const char *verb, const char *key, char *value, lab_desc *lab)
{
    int64_t index = 0;
    const char *rest = indexed(value, &index);
    if (strcmp(key, "link") == 0) {
        if (rest == NULL ||
            !lab_parse_rates(rest, "/", &lab->link_up[index], &lab->link_down[index]))
            return bad_key(verb, key, value, "HOST:RATE or HOST:UP/DOWN, such as 2:10mbit/50mbit");
        return true;
    }
    if (strcmp(key, "hole") == 0) {
        int64_t bytes = 0;
        if (rest == NULL || !cli_parse_int(rest, 576, 65535, &bytes))
            return bad_key(verb, key, value, "HOST:BYTES, such as 2:1300");
        lab->hole[index] = (uint32_t)bytes;
        return true;
    }
    char *end = NULL;
    if (strcmp(key, "throttle") == 0) {
        double percent = rest != NULL ? strtod(rest, &end) : 0;
        if (rest == NULL || end == rest || strcmp(end, "%") != 0 || !(percent >= 5) ||
            percent > 100)
            return bad_key(verb, key, value, "RANK:SHARE% from 5% to 100%, such as 2:25%");
        lab->throttle[index] = percent / 100;
        return true;
    }
    double factor = rest != NULL ? strtod(rest, &end) : 0;
    if (rest == NULL || end == rest || strcmp(end, "x") != 0 || !(factor >= 1 && factor <= 1000))
        return bad_key(verb, key, value, "RANK:FACTORx, such as 2:5x");
    lab->slow[index] = factor;
    return true;
}

static bool parse_number(const char *verb, const char *key, const char *value, int64_t min,
                         int64_t max, uint32_t *out)
{
    int64_t number = 0;
    if (value == NULL || !cli_parse_int(value, min, max, &number)) {
        char wanted[64];
        snprintf(wanted, sizeof wanted, "a whole number from %lld to %lld", (long long)min,
                 (long long)max);
        return bad_key(verb, key, value, wanted);
    }
    *out = (uint32_t)number;
    return true;
}

static bool parse_loss(const char *verb, const char *value, lab_desc *lab)
{
    char *end = NULL;
    const double percent = value != NULL ? strtod(value, &end) : -1;
    const char *rest = end != NULL ? end : "";
    const bool udp = strcmp(rest, "%udp") == 0;
    if ((!udp && strcmp(rest, "%") != 0) || end == value || !(percent >= 0 && percent <= 50))
        return bad_key(verb, "loss", value, "a percentage up to 50%, such as 0.1% or 0.1%udp");
    lab->loss = percent / 100;
    lab->loss_udp = udp;
    return true;
}

static bool parse_cables(const char *verb, char *value, lab_desc *lab)
{
    static const char *const kinds[] = {
        [LAB_LINE] = "line", [LAB_RING] = "ring", [LAB_MESH] = "mesh"};
    char *colon = value != NULL ? strchr(value, ':') : NULL;
    int64_t parallel = 1;
    if (colon != NULL)
        *colon = '\0';
    for (uint32_t kind = LAB_LINE; value != NULL && kind <= LAB_MESH; kind++)
        if (strcmp(value, kinds[kind]) == 0)
            lab->cables = kind;
    bool ok = colon == NULL || cli_parse_int(colon + 1, 1, MAX_PARALLEL, &parallel);
    lab->parallel = (uint32_t)parallel;
    return (ok && lab->cables != LAB_SWITCH) ||
           bad_key(verb, "cables", value, "line, ring or mesh, perhaps with a number, as line:2");
}

static bool parse_rate(const char *verb, const char *key, const char *value, uint64_t *out)
{
    return (value != NULL && cli_parse_rate(value, out)) ||
           bad_key(verb, key, value, "a rate, such as 1gbit");
}

static bool parse_text(const char *verb, const char *key, const char *value, char *out, size_t size)
{
    if (value == NULL || value[0] == '\0' || strlen(value) >= size)
        return bad_key(verb, key, value, "a text that is not too long");
    strcpy(out, value);
    return strcmp(key, "random") != 0 || lab_random_fits(out) ||
           bad_key(verb, key, value, "FACTORx or FACTORx:CHANCE, such as 6x:0.1");
}

/* What goes by itself, but not together. */
static bool fits_cables(const char *verb, const lab_desc *lab)
{
    bool apart = lab->up_bits != lab->down_bits || lab->trace[0] != '\0';
    for (uint32_t host = 0; host < LAB_MAX_HOSTS; host++)
        apart = apart || lab->link_up[host] != lab->link_down[host];
    if (lab->cables == LAB_SWITCH || !apart)
        return true;
    cli_usage(verb, "--lab cables has links of one rate both ways that stays: up, down, link=I:UP/"
                    "DOWN and trace go with a switch (without cables)");
    return false;
}

enum {
    RATE,
    UP,
    DOWN,
    HOSTS,
    LINK,
    TRACE,
    SLOW,
    RANDOM,
    THROTTLE,
    HOLE,
    MTU,
    BURST,
    LIMIT,
    LOSS,
    CABLES,
    CLUSTER,
    KEYS
};
static char names[KEYS][9] = {"rate",  "up",     "down",     "hosts",  "link", "trace",
                              "slow",  "random", "throttle", "hole",   "mtu",  "burst",
                              "limit", "loss",   "cables",   "cluster"};

static bool take(const char *verb, int key, char *value, lab_desc *lab)
{
    const char *name = names[key];
    switch (key) {
    case RATE:
        return parse_rate(verb, name, value, &lab->rate_bits);
    case UP:
        return parse_rate(verb, name, value, &lab->up_bits);
    case DOWN:
        return parse_rate(verb, name, value, &lab->down_bits);
    case TRACE:
        return parse_text(verb, name, value, lab->trace, sizeof lab->trace);
    case RANDOM:
        return parse_text(verb, name, value, lab->random, sizeof lab->random);
    case HOSTS:
        return parse_number(verb, name, value, 1, LAB_MAX_HOSTS, &lab->hosts);
    case MTU:
        return parse_number(verb, name, value, 576, 65535, &lab->mtu);
    case BURST:
        if (value != NULL && strcmp(value, "rate") == 0)
            return (lab->burst_kb = 0, true);
        return parse_number(verb, name, value, 2, 65536, &lab->burst_kb);
    case LIMIT:
        return parse_number(verb, name, value, 2, 1048576, &lab->limit_kb);
    case LOSS:
        return parse_loss(verb, value, lab);
    case CABLES:
        return parse_cables(verb, value, lab);
    default:
        return parse_indexed(verb, name, value, lab);
    }
}

static bool unknown_key(const char *verb, const char *item)
{
    char typed[64];
    int best = CABLES;
    snprintf(typed, sizeof typed, "%.*s", (int)strcspn(item, "="), item);
    for (int i = 0; i < KEYS; i++)
        if (nearest_distance(typed, names[i]) < nearest_distance(typed, names[best]))
            best = i;
    const bool near = nearest_distance(typed, names[best]) <= nearest_most(typed);
    cli_usage(verb, "--lab: unknown key '%s'%s%s%s; " KNOWN, typed, near ? " (did you mean " : "",
              near ? names[best] : "", near ? "?)" : "");
    return false;
}

/* Said once, but for what is of one host or rank. */
static bool is_new(const char *verb, int key, uint32_t given)
{
    const uint32_t repeat = 1u << LINK | 1u << SLOW | 1u << THROTTLE | 1u << HOLE;
    if ((given & 1u << key & ~repeat) == 0)
        return true;
    cli_usage(verb, "--lab: key '%s' is given twice", names[key]);
    return false;
}

/* Takes the keys of `text`, notes which, and what cluster=FILE says. */
static bool take_keys(const char *verb, char *text, lab_desc *lab, uint32_t *given,
                      const char **cluster)
{
    char *keys[KEYS + 1] = {NULL};
    for (int i = 0; i < KEYS; i++)
        keys[i] = names[i];
    for (char *rest = text; *rest != '\0';) {
        char *value = NULL, *start = rest;
        const int key = getsubopt(&rest, keys, &value);
        if (key < 0)
            return unknown_key(verb, start);
        if (!is_new(verb, key, *given))
            return false;
        if (key == CLUSTER)
            *cluster = value;
        if (key == CLUSTER && (value == NULL || value[0] == '\0'))
            return bad_key(verb, names[key], NULL, "a cluster's file");
        if (key != CLUSTER && !take(verb, key, value, lab))
            return false;
        *given |= 1u << key;
    }
    return true;
}

/* The cluster's own keys before what was given with it. */
static bool take_cluster(const char *verb, const char *path, const char *others, uint32_t given,
                         lab_desc *lab)
{
    static const uint32_t beside = 1u << CLUSTER | 1u << MTU | 1u << BURST | 1u << LIMIT |
                                   1u << HOLE | 1u << THROTTLE;
    char made[SHOAL_CLUSTER_LAB_MAX], text[sizeof lab->text];
    const char *none = NULL;
    uint32_t unused = 0;
    if ((given & ~beside) != 0) {
        (void)cli_usage(verb,
                        "--lab cluster=%s says hosts, links, loss and who is slow: only mtu, "
                        "burst, limit, hole and throttle go with it",
                        path);
        return false;
    }
    if (shoal_cluster_lab(path, &lab->workers, made, sizeof made) != SHOAL_OK) {
        (void)cli_report(verb);
        return false;
    }
    const int length = snprintf(text, sizeof text, "%s%s%s%s", made,
                                (given & 1u << BURST) != 0 ? "" : ",burst=rate",
                                (given & 1u << LIMIT) != 0 ? "" : ",limit=8192", others);
    if (length < 0 || (size_t)length >= sizeof text) {
        (void)cli_usage(verb, "--lab cluster=%s: the lab's text is too long", path);
        return false;
    }
    strcpy(lab->text, text);
    return take_keys(verb, text, lab, &unused, &none);
}

/* ",burst=64" of "burst=64,cluster=FILE". */
static void without_cluster(const char *text, char *out, size_t size)
{
    size_t used = 0;
    out[0] = '\0';
    for (const char *at = text; *at != '\0'; at += strspn(at, ",")) {
        const int length = (int)strcspn(at, ",");
        if (strncmp(at, "cluster=", 8) != 0 && used < size)
            used += (size_t)snprintf(out + used, size - used, ",%.*s", length, at);
        at += length;
    }
}

bool lab_parse(const char *verb, const char *text, lab_desc *lab_out)
{
    char copy[sizeof lab_out->text], others[sizeof copy + 1];
    const char *cluster = NULL;
    uint32_t given = 0;
    *lab_out = (lab_desc){.mtu = 1500, .burst_kb = 96, .limit_kb = 1024};
    if (strlen(text) >= sizeof copy) {
        cli_usage(verb, "--lab: longer than %zu characters", sizeof copy - 1);
        return false;
    }
    strcpy(copy, text);
    strcpy(lab_out->text, text);
    without_cluster(text, others, sizeof others);
    return take_keys(verb, copy, lab_out, &given, &cluster) &&
           (cluster == NULL || take_cluster(verb, cluster, others, given, lab_out)) &&
           fits_cables(verb, lab_out) && lab_trace_fits(verb, lab_out->trace);
}
