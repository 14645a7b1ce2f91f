/* SPDX-License-Identifier: Apache-2.0 */
/* What would help: the questions of `shoal predict --sensitivity`, asked of the run as it was
 * measured, by the machines of `shoal whatif`. A child asks them: whatever a folder says, neither
 * the time that a simulation takes nor its end is the report's. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "answer.h"
#include "cli.h"
#include "report.h"
#include "whatif.h"

enum { LIMIT_S = 30, REASON = 400 };
#define WORTH 1.05 /* times the samples per second */

typedef struct question {
    const char *what, *change; /* in words; as options of shoal whatif */
    whatif_change asked;
    bool one_more, of_links;
} question;

static const question questions[] = {
    {"no worker slower than the median one",
     "--straggler none",
     {.latency_us = -1, .straggler = "none"},
     false,
     false},
    {"links twice as fast", "--bandwidth 2x", {.latency_us = -1, .bandwidth = "2x"}, false, true},
    {"forward and backward pass twice as fast",
     "--compute 2x",
     {.latency_us = -1, .compute = 2},
     false,
     false},
    {"one more worker", "--workers", {.latency_us = -1}, true, false}};

static json_t *told(const question *q, const whatif_run *run, const whatif_answer *a)
{
    char change[64];
    json_t *one = json_object();
    const double more = (double)a->workers / run->world.workers;
    snprintf(change, sizeof change, q->one_more ? "%s %u" : "%s", q->change, a->workers);
    answer_set_text(one, "what", q->what);
    answer_set_text(one, "change", change);
    answer_set_number(one, "step_ms", 1e3 * a->step_s);
    answer_set_number(one, "low_ms", 1e3 * a->low_s);
    answer_set_number(one, "high_ms", 1e3 * a->high_s);
    answer_set_number(one, "times", more * run->measured.step_s / a->step_s);
    answer_set_number(one, "times_least", more * run->measured.step_s / a->high_s);
    return one;
}

/* What helps most first. */
static void insert(json_t *list, json_t *one)
{
    const double times = json_number_value(json_object_get(one, "times"));
    size_t at = 0;
    while (at < json_array_size(list) &&
           json_number_value(json_object_get(json_array_get(list, at), "times")) >= times)
        at++;
    json_array_insert_new(list, at, one);
}

/* In the child; what cannot be is on its stderr. */
static json_t *ask_all(const report_run *run)
{
    whatif_run measured;
    json_t *help = json_object(), *list = json_array();
    int code = whatif_take(run, 0, &measured);
    for (size_t i = 0; code == CLI_OK && i < sizeof questions / sizeof questions[0]; i++) {
        whatif_change change = questions[i].asked;
        whatif_answer a;
        if ((questions[i].of_links && measured.one_host) ||
            (questions[i].one_more && measured.world.workers >= WHATIF_WORKERS_MOST))
            continue;
        change.workers = questions[i].one_more ? measured.world.workers + 1 : 0;
        code = whatif_ask(&measured, &change, &a);
        if (code == CLI_OK)
            insert(list, told(&questions[i], &measured, &a));
    }
    answer_set_number(help, "step_ms", 1e3 * measured.measured.step_s);
    answer_set_count(help, "steps", measured.steps);
    answer_set(help, "changes", list);
    whatif_close(&measured);
    if (code == CLI_OK)
        return help;
    json_decref(help);
    return NULL;
}

/* The child's whole life: its answer goes to one file, what it complains of to the other. */
static _Noreturn void answer_in_child(const report_run *run, int answer_fd, int reason_fd)
{
    signal(SIGALRM, SIG_DFL);
    alarm(LIMIT_S);
    json_t *help = dup2(reason_fd, STDERR_FILENO) >= 0 ? ask_all(run) : NULL;
    fflush(stderr);
    const bool good = help != NULL && json_dumpfd(help, answer_fd, JSON_COMPACT) == 0;
    json_decref(help);
    _exit(good ? 0 : 1);
}

static bool wait_for(pid_t child)
{
    int status = 0;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return false;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* The first line, less the verb that it names. */
static void read_reason(int fd, char *text)
{
    static const char verb[] = "shoal whatif: ";
    const ssize_t got = pread(fd, text, REASON - 1, 0);
    text[got > 0 ? got : 0] = '\0';
    text[strcspn(text, "\n")] = '\0';
    if (strncmp(text, verb, sizeof verb - 1) == 0)
        memmove(text, text + sizeof verb - 1, strlen(text + sizeof verb - 1) + 1);
    if (text[0] == '\0')
        snprintf(text, REASON, "simulating it takes longer than %d s", LIMIT_S);
}

static json_t *ask_child(const report_run *run, char *reason)
{
    json_t *help = NULL;
    const int answer_fd = memfd_create("help", MFD_CLOEXEC);
    const int reason_fd = memfd_create("reason", MFD_CLOEXEC);
    snprintf(reason, REASON, "there is no memory to ask");
    fflush(NULL); /* or the child has it to write, too */
    const pid_t child = answer_fd >= 0 && reason_fd >= 0 ? fork() : -1;
    if (child == 0)
        answer_in_child(run, answer_fd, reason_fd);
    if (child > 0 && wait_for(child) && lseek(answer_fd, 0, SEEK_SET) == 0)
        help = json_loadfd(answer_fd, 0, NULL);
    if (child > 0)
        read_reason(reason_fd, reason);
    if (answer_fd >= 0)
        close(answer_fd);
    if (reason_fd >= 0)
        close(reason_fd);
    return help;
}

static void conclude(json_t *help)
{
    char text[REASON];
    const json_t *best = json_array_get(json_object_get(help, "changes"), 0);
    const double times = json_number_value(json_object_get(best, "times"));
    const char *what = json_string_value(json_object_get(best, "what"));
    if (times >= WORTH && what != NULL)
        snprintf(text, sizeof text,
                 "Most would help: %s. A step would take %.2f ms in place of %.2f, and samples per "
                 "second would be %.2f times as many.",
                 what, json_number_value(json_object_get(best, "step_ms")),
                 json_number_value(json_object_get(help, "step_ms")), times);
    else
        snprintf(text, sizeof text, "None of these would help by 5 %%.");
    answer_set_text(help, "text", text);
}

json_t *report_help(const report_run *run)
{
    char reason[REASON];
    if (run->file_count < 2)
        return NULL;
    json_t *help = ask_child(run, reason);
    if (help != NULL) {
        conclude(help);
        return help;
    }
    help = json_object();
    answer_set(help, "changes", json_array());
    answer_set_text(help, "text", "");
    answer_set_text(help, "not_told", reason);
    return help;
}
