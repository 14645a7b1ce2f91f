/* SPDX-License-Identifier: Apache-2.0 */
/* What is said to other hosts: scripts for the shell there, by ssh. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "hosts.h"
#include "remote.h"

/* One argument for the remote shell: 'it'\''s'. */
static void quote(FILE *out, const char *text)
{
    fputc('\'', out);
    for (; text != NULL && *text != '\0'; text++) {
        if (*text == '\'')
            fputs("'\\''", out);
        else
            fputc(*text, out);
    }
    fputc('\'', out);
}

/* The folder of this one, and in $s the shoal that lies there. */
static void write_place(FILE *out, const remote_hosts *hosts)
{
    char folder[4096];
    if (getcwd(folder, sizeof folder) != NULL) {
        fputs("cd ", out);
        quote(out, folder);
        fputs(" 2>/dev/null; ", out);
    }
    fputs("s=", out);
    quote(out, hosts->path != NULL ? hosts->path : hosts->self);
    fputs(hosts->path != NULL ? "/shoal; " : "; [ -x \"$s\" ] || s=shoal; ", out);
}

/* Last of all, as these are names of the user's choice. */
static void write_exports(FILE *out, const remote_hosts *hosts)
{
    for (uint32_t i = 0; i < hosts->forward_count; i++) {
        const char *is = strchr(hosts->forward[i], '=');
        fprintf(out, "export %.*s=", (int)(is - hosts->forward[i]), hosts->forward[i]);
        quote(out, is + 1);
        fputs("; ", out);
    }
    if (hosts->path != NULL) {
        fputs("PATH=", out);
        quote(out, hosts->path);
        fputs(":\"$PATH\"; export PATH; ", out);
    }
}

/* In a session of its own on the other host: takes the token from its input into a file of the
 * user's own, which goes at the end, and runs the command. The rest of its input are names of
 * signals, for the whole session, and of ranks that have ended elsewhere ("dead NAME"), which go
 * into another file for the rank to read. The end of its input, however it came about (ctrl-C, kill
 * -9 of the launcher, a host that fell off the network and whose sshd noticed), is the end of the
 * session: TERM, and three seconds later KILL. */
static const char prologue[] =
    "umask 077; t=$(mktemp) && d=$(mktemp) || exit 1; trap 'rm -f \"$t\" \"$d\"' EXIT; "
    "trap : INT TERM HUP; "
    "IFS= read -r s; printf %s \"$s\" >\"$t\"; exec 3<&0 </dev/null; "
    "(trap '' INT TERM HUP; while IFS= read -r x <&3; do case $x in "
    "\"dead \"*) printf '%s\\n' \"${x#dead }\" >>\"$d\" ;; "
    "*) kill -s \"$x\" -- -$$ ;; esac; done; "
    "kill -s TERM -- -$$; sleep 3; rm -f \"$t\" \"$d\"; kill -s KILL -- -$$) >/dev/null 2>&1 & "
    "w=$!; (";
static const char epilogue[] = ") 3<&-; c=$?; kill -s KILL $w; exit $c";

static void write_variables(FILE *out, const remote_hosts *hosts, uint32_t rank,
                            const remote_meeting *at)
{
    const uint32_t host = remote_host_index(hosts, rank),
                   last = hosts->first[host] + hosts->slots[host];
    const uint32_t local = (last < hosts->ranks ? last : hosts->ranks) - hosts->first[host];
    const uint32_t members = hosts->ranks - hosts->spares;
    const bool literal = strchr(at->address, ':') != NULL;
    fprintf(out,
            "export RANK=%u WORLD_SIZE=%u LOCAL_RANK=%u LOCAL_WORLD_SIZE=%u MASTER_PORT=%u "
            "MASTER_ADDR=",
            rank < members ? rank : 0, members, rank - hosts->first[host], local, at->port);
    quote(out, at->address);
    fputs(literal ? " SHOAL_RENDEZVOUS=tcp://'['" : " SHOAL_RENDEZVOUS=tcp://", out);
    quote(out, at->address);
    fprintf(out,
            "%s:%u SHOAL_TOKEN_FILE=\"$t\" SHOAL_LAUNCH_ID=%s.%u SHOAL_LAUNCH_PROOF=\"$d\"%s "
            "SHOAL_JOB=",
            literal ? "']'" : "", at->store_port, at->launcher, rank,
            rank < members ? "" : " SHOAL_SPARE=1");
    quote(out, getenv("SHOAL_JOB") != NULL ? getenv("SHOAL_JOB") : "");
    fputs(hosts->itself ? " SHOAL_OWN_LAUNCHER=1; " : "; ", out);
}

/* A shell's script as one word for the login shell there, whichever that is. */
static char *wrapped(const char *before, char *inner)
{
    char *script = NULL;
    size_t length = 0;
    FILE *out = inner != NULL ? open_memstream(&script, &length) : NULL;
    if (out == NULL)
        return NULL;
    fputs(before, out);
    quote(out, inner);
    free(inner);
    return fclose(out) == 0 ? script : NULL;
}

static char *rank_script(const remote_hosts *hosts, uint32_t rank, const remote_meeting *at,
                         char **argv)
{
    char *inner = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&inner, &length);
    if (out == NULL)
        return NULL;
    fputs(prologue, out);
    write_place(out, hosts);
    write_variables(out, hosts, rank, at);
    fputs("set --", out);
    for (char **argument = argv; *argument != NULL; argument++) {
        fputc(' ', out);
        if (argument == argv && hosts->itself)
            fputs("\"$s\"", out);
        else
            quote(out, *argument);
    }
    fputs("; ", out);
    write_exports(out, hosts);
    fputs("exec \"$@\"", out);
    fputs(epilogue, out);
    return fclose(out) == 0 ? wrapped("exec setsid -w sh -c ", inner) : NULL;
}

/* Replace this process by ssh; does not return. */
static void exec_ssh(const char *verb, const char *host, char *script)
{
    const char *shell = getenv("SHOAL_RSH");
    if (shell == NULL)
        shell = "ssh";
    /* ssh itself must neither ask nor wait: nobody answers for a dozen hosts at once. */
    static char option[] = "-o", batch[] = "BatchMode=yes";
    char patience[32];
    snprintf(patience, sizeof patience, "ConnectTimeout=%u", hosts_wait_s());
    char *ssh[] = {strdup(shell), option, batch, option, patience, strdup(host), script, NULL};
    if (getenv("SHOAL_RSH") != NULL)
        memcpy(&ssh[1], &ssh[5], 3 * sizeof *ssh);
    execvp(shell, ssh);
    fprintf(stderr, "shoal %s: cannot start %s for host %s: %s\n", verb, shell, host,
            strerror(errno));
    _exit(127);
}

static char *check_script(const remote_hosts *hosts, const char *program, int32_t port)
{
    char *inner = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&inner, &length);
    if (out == NULL)
        return NULL;
    fputs("echo shoal-host here; ", out);
    write_place(out, hosts);
    fputs("set -- \"$s\" ", out);
    if (hosts->itself)
        fputs("\"$s\"", out);
    else
        quote(out, program);
    fputs("; ", out);
    write_exports(out, hosts);
    fputs("command -v \"$1\" >/dev/null || { echo shoal-host nothing; exit 1; }; "
          "echo \"shoal-host version $(\"$1\" --version 2>&1 | head -n 1)\"; "
          "command -v \"$2\" >/dev/null || { echo shoal-host program; exit 1; }; ",
          out);
    if (port >= 0)
        fprintf(out, "exec \"$1\" run --hold-ports=%d", port);
    else
        fputs("echo shoal-host fine", out);
    return fclose(out) == 0 ? wrapped("exec sh -c ", inner) : NULL;
}

void remote_check(const char *verb, const remote_hosts *hosts, uint32_t host, const char *program,
                  int32_t port, int input)
{
    char *script = check_script(hosts, program, port);
    int null = open("/dev/null", O_RDONLY);
    if (script == NULL || dup2(port == 0 ? input : null, STDIN_FILENO) < 0)
        _exit(CLI_FAILED);
    exec_ssh(verb, hosts->names[host], script);
}

void remote_exec(const remote_hosts *hosts, uint32_t rank, const remote_meeting *at, int input,
                 char **argv)
{
    char *script = rank_script(hosts, rank, at, argv);
    if (script == NULL || dup2(input, STDIN_FILENO) < 0)
        _exit(CLI_FAILED);
    signal(SIGINT, SIG_IGN); /* ctrl-C reaches the ranks through the launcher */
    signal(SIGQUIT, SIG_IGN);
    exec_ssh("run", remote_host(hosts, rank), script);
}
