/* SPDX-License-Identifier: Apache-2.0 */
/* events.jsonl: the parts of a run, its members, verdicts and warnings. */
#include <errno.h>
#include <string.h>

#include "cli.h"
#include "report.h"

enum { PATH_BYTES = 4096 };

/* The first half of what there is room for stays, and the last lines that came. */
static uint64_t keep(json_t *list, json_t *line, size_t most)
{
    uint64_t left_out = 0;
    if (json_array_size(list) >= most) {
        (void)json_array_remove(list, most / 2);
        left_out = 1;
    }
    json_array_append(list, line);
    return left_out;
}

static void take_begin(report_run *run, const char *event, const json_t *line)
{
    const json_t *together = json_object_get(line, "together");
    const json_int_t step = json_integer_value(json_object_get(line, "step"));
    if (json_is_boolean(together)) {
        run->together = json_is_true(together);
        run->together_known = true;
    }
    if (strcmp(event, "resume") == 0 && step > 0 && run->part_count < REPORT_PARTS_MOST)
        run->parts[run->part_count++] = (report_part){
            .step = (uint64_t)step,
            .others = run->members_epoch > 0 ||
                      run->workers != json_integer_value(json_object_get(line, "workers"))};
    run->ended = false;
    json_array_clear(run->slow); /* of the part before */
}

static void take(report_run *run, json_t *line)
{
    const char *event = json_string_value(json_object_get(line, "event"));
    if (event == NULL) {
        run->warnings_left_out += keep(run->warnings, line, REPORT_WARNINGS_MOST);
        return;
    }
    if (strcmp(event, "begin") == 0 || strcmp(event, "resume") == 0)
        take_begin(run, event, line);
    if (json_is_integer(json_object_get(line, "workers")))
        run->workers = json_integer_value(json_object_get(line, "workers"));
    run->members_epoch = json_integer_value(json_object_get(line, "members_epoch"));
    run->ended = run->ended || strcmp(event, "end") == 0;
    if (strcmp(event, "slow") == 0 && json_array_size(run->slow) < REPORT_SLOW_MOST)
        json_array_append(run->slow, line);
    run->events_left_out += keep(run->events, line, REPORT_EVENTS_MOST);
}

void report_read_events(report_run *run)
{
    char path[PATH_BYTES];
    static char text[REPORT_LINE_MOST];
    size_t length;
    bool good;
    unsigned long long number = 0, damaged = 0, first = 0;
    snprintf(path, sizeof path, "%s/events.jsonl", run->folder);
    FILE *file = cli_open(path);
    if (file == NULL) {
        report_note(run,
                    "events.jsonl cannot be read (%s): members, warnings and verdict are not "
                    "known",
                    strerror(errno));
        return;
    }
    while (report_next_line(file, text, &length, &good)) {
        if (!good && feof(file) && report_is_running(run))
            break; /* it is being written */
        number++;
        json_t *line = good ? json_loadb(text, length, 0, NULL) : NULL;
        if (json_is_object(line))
            take(run, line);
        else if (damaged++ == 0)
            first = number;
        json_decref(line);
    }
    fclose(file);
    if (damaged > 0)
        report_note(run,
                    "events.jsonl: %llu of %llu lines are damaged and left out, the first is "
                    "line %llu",
                    damaged, number, first);
}
