/* SPDX-License-Identifier: Apache-2.0 */
/* The metrics of a run folder: a file per rank, and per membership where members were lost. Read
 * once from front to back, whatever their length. */
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "answer.h"
#include "cli.h"
#include "report.h"
#include "runs_show.h"
#include "shoal/run.h"

enum { PATH_BYTES = 4096, RING_LEAST = 256, RING_MOST = 1 << 20, RINGS = 1 << 24 };
enum { RINGS_LONG = 2048 }; /* whoever comes later is remembered for a moment only */

void report_note(report_run *run, const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (json_array_size(run->notes) < REPORT_NOTES_MOST)
        json_array_append_new(run->notes, answer_text(text));
}

bool report_is_running(const report_run *run)
{
    const char *state = json_string_value(json_object_get(run->look, "state"));
    return state != NULL && strcmp(state, "running") == 0;
}

/* The rest of a line that is too long. */
static void skip_line(FILE *file)
{
    int c;
    do {
        c = getc_unlocked(file);
    } while (c != EOF && c != '\n');
}

/* fgets, which copies whole blocks, does not say how much it has read: the last place but one shows
 * whether it came so far. A NUL within a line ends it early, and so without its newline. */
bool report_next_line(FILE *file, char *text, size_t *length_out, bool *good_out)
{
    char *last = &text[REPORT_LINE_MOST - 2];
    *last = '\n';
    *length_out = 0;
    *good_out = false;
    if (fgets(text, REPORT_LINE_MOST, file) == NULL)
        return false;
    const size_t length = strlen(text);
    const bool whole = length > 0 && text[length - 1] == '\n';
    if (whole) {
        text[length - 1] = '\0';
        *length_out = length - 1;
        *good_out = true;
    } else if (*last != '\n' && last[-1] != '\n') { /* neither a newline nor fgets' own end */
        skip_line(file);
    }
    return true;
}

/* ---------------------------------------------------------------- one line */

static double seconds_of(report_run *run, report_rank *rank, const report_line *line)
{
    const double step_s = line->there[REPORT_STEP_US] ? line->value[REPORT_STEP_US] * 1e-6 : 0;
    const uint64_t step = (uint64_t)line->value[REPORT_STEP];
    const uint64_t at_us = line->there[REPORT_AT] && line->value[REPORT_AT] > 0 &&
                                   line->value[REPORT_AT] < 1e15
                               ? (uint64_t)line->value[REPORT_AT]
                               : 0;
    const uint64_t before_us = rank->last_at_us;
    bool goes_on = before_us > 0 && at_us > before_us;
    for (uint32_t i = 0; i < run->part_count; i++)
        goes_on = goes_on && run->parts[i].step + 1 != step;
    rank->last_at_us = at_us;
    return goes_on ? (double)(at_us - before_us) * 1e-6 : isfinite(step_s) ? step_s : 0;
}

static void keep_in_ring(report_rank *rank, uint64_t step, const report_line *line)
{
    report_ring *ring = &rank->ring;
    if (ring->size == 0 || !line->there[REPORT_COMPUTE])
        return;
    const uint64_t slot = step % ring->size;
    ring->turn[slot] = (uint32_t)(step / ring->size) + 1;
    ring->compute_us[slot] = (float)line->value[REPORT_COMPUTE];
    ring->wait_us[slot] = line->there[REPORT_WAIT] ? (float)line->value[REPORT_WAIT] : 0;
    ring->step_us[slot] = line->there[REPORT_STEP_US] ? (float)line->value[REPORT_STEP_US] : 0;
}

static void count_bytes(report_run *run, report_rank *rank, const report_line *line)
{
    report_codec *codec = &run->codecs[rank->codec];
    if (!line->there[REPORT_SENT] || !line->there[REPORT_DENSE])
        return;
    rank->dense_steps++;
    codec->steps++;
    codec->sent += line->value[REPORT_SENT];
    codec->dense += line->value[REPORT_DENSE];
}

static void take_step(report_run *run, report_rank *rank, const report_line *line)
{
    const double step_of = line->value[REPORT_STEP];
    if (!(step_of >= 1 && step_of < 1e15))
        return;
    const uint64_t step = (uint64_t)step_of;
    const double loss = line->there[REPORT_LOSS] ? line->value[REPORT_LOSS] : (double)NAN;
    if (rank->leads)
        run->time_s += seconds_of(run, rank, line);
    rank->first_step = rank->steps == 0 || step < rank->first_step ? step : rank->first_step;
    rank->last_step = step > rank->last_step ? step : rank->last_step;
    rank->steps++;
    rank->not_finite += line->there[REPORT_LOSS] && !isfinite(loss);
    rank->skipped += line->there[REPORT_SKIPPED] && line->value[REPORT_SKIPPED] > 0;
    for (report_key key = 0; key < REPORT_KEYS; key++)
        if (line->there[key] && isfinite(line->value[key]))
            rank->sum[key] += line->value[key];
    const double step_us = line->there[REPORT_STEP_US] ? line->value[REPORT_STEP_US] : (double)NAN;
    rank->step_us_most = fmax(rank->step_us_most, step_us);
    report_series_add(&run->loss, step, loss,
                      line->there[REPORT_SAMPLES] ? line->value[REPORT_SAMPLES] : 1,
                      rank->leads ? run->time_s : (double)NAN);
    if (rank->leads)
        report_series_add(&run->step_ms, step, step_us * 1e-3, 1, run->time_s);
    keep_in_ring(rank, step, line);
    count_bytes(run, rank, line);
}

/* Every other one goes where there are too many. */
static void thin(json_t *list)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        (void)json_array_remove(list, i);
}

static void take_epoch(report_run *run, const report_line *line)
{
    static const struct member {
        const char *name;
        report_key key;
    } members[] = {{"epoch", REPORT_EPOCH},
                   {"step", REPORT_STEP},
                   {"train_loss", REPORT_TRAIN_LOSS},
                   {"test_loss", REPORT_TEST_LOSS},
                   {"test_accuracy", REPORT_ACCURACY},
                   {"epoch_s", REPORT_EPOCH_S}};
    json_t *one = json_object();
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++)
        answer_set_number(one, members[i].name,
                          line->there[members[i].key] ? line->value[members[i].key] : (double)NAN);
    if (json_array_size(run->epochs) >= REPORT_EPOCHS_MOST)
        thin(run->epochs);
    json_array_append_new(run->epochs, one);
}

/* ---------------------------------------------------------------- other lines */

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text != NULL ? text : "";
}

static void take_codec(report_run *run, report_rank *rank, const json_t *line)
{
    const json_int_t from = json_integer_value(json_object_get(line, "from_step"));
    const char *name = text_of(line, "codec");
    for (uint32_t i = 0; i < run->codec_count; i++)
        if (strncmp(run->codecs[i].name, name, sizeof run->codecs[i].name - 1) == 0 &&
            run->codecs[i].from_step == (uint64_t)(from > 0 ? from : 0)) {
            rank->codec = i;
            return;
        }
    if (run->codec_count == REPORT_CODECS_MOST)
        return;
    report_codec *codec = &run->codecs[run->codec_count];
    snprintf(codec->name, sizeof codec->name, "%s", name);
    codec->from_step = from > 0 ? (uint64_t)from : 0;
    rank->codec = run->codec_count++;
}

bool report_is_of(const json_t *link, const report_rank *rank)
{
    return json_integer_value(json_object_get(link, "members_epoch")) == (json_int_t)rank->epoch &&
           json_integer_value(json_object_get(link, "part")) == (json_int_t)rank->part;
}

/* The newest line of a connection holds for all before it, of the same members. */
static void take_link(report_run *run, const report_rank *rank, json_t *line)
{
    size_t i;
    json_t *known;
    json_object_set_new(line, "from", json_integer(rank->rank));
    json_object_set_new(line, "members_epoch", json_integer((json_int_t)rank->epoch));
    json_object_set_new(line, "part", json_integer((json_int_t)rank->part));
    const json_t *to = json_object_get(line, "link");
    for (i = json_array_size(run->links); i-- > 0;) { /* they lie at the end */
        known = json_array_get(run->links, i);
        if (json_integer_value(json_object_get(known, "from")) != (json_int_t)rank->rank ||
            !report_is_of(known, rank))
            break;
        if (json_equal(json_object_get(known, "link"), to)) {
            json_array_set(run->links, i, line);
            return;
        }
    }
    if (json_array_size(run->links) < REPORT_LINKS_MOST)
        json_array_append(run->links, line);
    else
        run->links_left_out++;
}

/* What the scanner leaves: lines with texts or lists, numbers out of the ordinary. */
static bool take_object(report_run *run, report_rank *rank, const char *text, size_t length,
                        report_line *line_out, bool *flat_out)
{
    const char *name;
    json_t *value, *object = json_loadb(text, length, 0, NULL);
    const bool good = json_is_object(object);
    *flat_out = false;
    if (good && json_is_string(json_object_get(object, "codec")))
        take_codec(run, rank, object);
    else if (good && json_is_integer(json_object_get(object, "link")))
        take_link(run, rank, object);
    else if (good) {
        *flat_out = true;
        memset(line_out->there, 0, sizeof line_out->there);
        json_object_foreach(object, name, value)
        {
            const report_key key = report_key_of(name, strlen(name), 0);
            if (key < REPORT_KEYS && (json_is_number(value) || json_is_boolean(value))) {
                line_out->there[key] = true;
                line_out->value[key] = json_is_number(value) ? json_number_value(value)
                                                             : (double)json_is_true(value);
            }
        }
    }
    json_decref(object);
    return good;
}

static bool make_ring(const report_run *run, report_ring *ring)
{
    uint32_t size = RING_LEAST;
    while (run->rank_count < RINGS_LONG && size < RING_MOST &&
           (uint64_t)size * 2 * run->file_count <= RINGS)
        size *= 2;
    ring->turn = calloc(size, sizeof *ring->turn);
    ring->compute_us = calloc(3 * (size_t)size, sizeof *ring->compute_us);
    ring->wait_us = ring->compute_us != NULL ? ring->compute_us + size : NULL;
    ring->step_us = ring->compute_us != NULL ? ring->compute_us + 2 * (size_t)size : NULL;
    ring->size = size;
    return ring->turn != NULL && ring->compute_us != NULL;
}

/* What a file holds of one name of its rank; the first to tell of an epoch leads it. NULL: there is
 * no room for more. */
static report_rank *begin_rank(report_run *run, const report_file *file, uint64_t part,
                               uint64_t epoch, uint32_t number)
{
    if (run->rank_count == REPORT_FILES_MOST) {
        run->ranks_left_out++;
        return NULL;
    }
    report_rank *rank = &run->ranks[run->rank_count];
    *rank = (report_rank){.file = file, .part = part, .epoch = epoch, .rank = number};
    rank->leads = !run->led || part > run->led_part ||
                  (part == run->led_part && epoch > run->led_epoch);
    if (rank->leads) {
        run->led = true;
        run->led_part = part;
        run->led_epoch = epoch;
    }
    run->rank_count++;
    return make_ring(run, &rank->ring) ? rank : NULL;
}

/* Whether ranks have other names from this step on, as others have resumed the run. */
static bool is_resumed(const report_run *run, const report_line *line, uint64_t *part_out)
{
    for (uint32_t i = 0; i < run->part_count; i++)
        if (run->parts[i].others && (double)run->parts[i].step + 1 == line->value[REPORT_STEP]) {
            *part_out = i + 1;
            return true;
        }
    return false;
}

static report_rank *take_reform(report_run *run, report_rank *rank, const report_line *line)
{
    const double epoch = line->value[REPORT_REFORM],
                 number = line->there[REPORT_RANK] ? line->value[REPORT_RANK] : 0;
    if (rank->leads && line->there[REPORT_TOOK] && line->value[REPORT_TOOK] > 0)
        run->time_s += line->value[REPORT_TOOK] * 1e-6;
    if (!(epoch >= 0 && epoch < 1e15 && number >= 0 && number < 1e9) ||
        (uint64_t)epoch == rank->epoch)
        return rank;
    return begin_rank(run, rank->file, rank->part, (uint64_t)epoch, (uint32_t)number);
}

/* The rank of whom the next lines tell; NULL: it is left out. */
static report_rank *take_line(report_run *run, report_rank *rank, const char *text, size_t length,
                              bool *good)
{
    report_line line;
    uint64_t part = 0;
    bool flat = *good && report_line_scan(text, length, &line);
    *good = *good && (flat || take_object(run, rank, text, length, &line, &flat));
    if (!flat)
        return rank;
    if (line.there[REPORT_REFORM])
        return take_reform(run, rank, &line);
    if (line.there[REPORT_EPOCH]) {
        take_epoch(run, &line);
    } else if (line.there[REPORT_STEP]) {
        if (is_resumed(run, &line, &part) && part > rank->part)
            rank = begin_rank(run, rank->file, part, 0, rank->file->rank);
        if (rank != NULL)
            take_step(run, rank, &line);
    }
    return rank;
}

/* ---------------------------------------------------------------- files */

/* ".123" of so many digits at most; moves behind it. */
static bool take_number(const char **at, size_t digits, unsigned long long *out)
{
    const size_t length = **at == '.' ? strspn(*at + 1, "0123456789") : 0;
    if (length == 0 || length > digits)
        return false;
    *out = strtoull(*at + 1, NULL, 10);
    *at += 1 + length;
    return true;
}

/* metrics.jsonl, metrics.RANK.jsonl, metrics.EPOCH.RANK.jsonl */
static bool is_metrics(const char *name, report_file *file)
{
    const char *at = name;
    unsigned long long first = 0, second = 0;
    memset(file, 0, sizeof *file);
    snprintf(file->name, sizeof file->name, "%s", name);
    if (strncmp(name, "metrics", strlen("metrics")) != 0)
        return false;
    at += strlen("metrics");
    const bool one = take_number(&at, 15, &first), two = one && take_number(&at, 9, &second);
    if (strcmp(at, ".jsonl") != 0 || (!two && first > 999999999))
        return false;
    file->epoch = two ? first : 0;
    file->rank = (uint32_t)(two ? second : first);
    return true;
}

static int files_in_order(const void *left, const void *right)
{
    const report_file *a = left, *b = right;
    if (a->epoch != b->epoch)
        return a->epoch < b->epoch ? -1 : 1;
    return (a->rank > b->rank) - (a->rank < b->rank);
}

static int ranks_in_order(const void *left, const void *right)
{
    const report_rank *a = left, *b = right;
    if (a->part != b->part)
        return a->part < b->part ? -1 : 1;
    if (a->epoch != b->epoch)
        return a->epoch < b->epoch ? -1 : 1;
    return (a->rank > b->rank) - (a->rank < b->rank);
}

static void find_files(report_run *run)
{
    uint32_t left_out = 0;
    report_file file;
    DIR *dir = opendir(run->folder);
    for (struct dirent *entry; dir != NULL && (entry = readdir(dir)) != NULL;)
        if (is_metrics(entry->d_name, &file)) {
            if (run->file_count < REPORT_FILES_MOST)
                run->files[run->file_count++] = file;
            else
                left_out++;
        }
    if (dir != NULL)
        closedir(dir);
    if (left_out > 0)
        report_note(run, "%u more files of metrics are left out", left_out);
    qsort(run->files, run->file_count, sizeof *run->files, files_in_order);
    if (run->file_count == 0 || run->files[0].epoch > 0 || run->files[0].rank > 0)
        report_note(run, "metrics.jsonl is not there: no line tells of rank 0's steps");
}

static void read_file(report_run *run, const report_file *about)
{
    char path[PATH_BYTES];
    static char text[REPORT_LINE_MOST];
    size_t length;
    bool good;
    unsigned long long number = 0, damaged = 0, first = 0;
    report_rank *rank = begin_rank(run, about, 0, about->epoch, about->rank);
    snprintf(path, sizeof path, "%s/%s", run->folder, about->name);
    FILE *file = cli_open(path);
    if (file == NULL) {
        report_note(run, "%s cannot be read: %s", about->name, strerror(errno));
        return;
    }
    while (rank != NULL && report_next_line(file, text, &length, &good)) {
        if (!good && feof(file) && report_is_running(run))
            break; /* it is being written */
        number++;
        rank = take_line(run, rank, text, length, &good);
        first = !good && damaged == 0 ? number : first;
        damaged += !good;
    }
    fclose(file);
    if (damaged > 0)
        report_note(run, "%s: %llu of %llu lines are damaged and left out, the first is line %llu",
                    about->name, damaged, number, first);
}

/* A name under which no step was made is none. */
static void drop_idle(report_run *run)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < run->rank_count; i++) {
        if (run->ranks[i].steps > 0) {
            run->ranks[kept++] = run->ranks[i];
        } else {
            free(run->ranks[i].ring.turn);
            free(run->ranks[i].ring.compute_us);
        }
    }
    run->rank_count = kept;
}

static void note_ranks(report_run *run)
{
    for (uint32_t i = 0; i < run->rank_count; i++)
        if (run->ranks[i].not_finite > 0)
            report_note(run, "%s: the loss of %llu steps is not finite", run->ranks[i].file->name,
                        (unsigned long long)run->ranks[i].not_finite);
    if (run->ranks_left_out > 0)
        report_note(run, "%u more names of ranks, or files, are left out", run->ranks_left_out);
}

bool report_read_metrics(report_run *run)
{
    run->files = calloc(REPORT_FILES_MOST, sizeof *run->files);
    run->ranks = calloc(REPORT_FILES_MOST, sizeof *run->ranks);
    if (run->files == NULL || run->ranks == NULL)
        return false;
    find_files(run);
    run->codec_count = 1; /* what the run was started with */
    snprintf(run->codecs[0].name, sizeof run->codecs[0].name, "%s", text_of(run->look, "codec"));
    for (uint32_t i = 0; i < run->file_count; i++)
        read_file(run, &run->files[i]);
    drop_idle(run);
    qsort(run->ranks, run->rank_count, sizeof *run->ranks, ranks_in_order);
    note_ranks(run);
    return true;
}

/* ---------------------------------------------------------------- a folder */

static void read_about(report_run *run, const shoal_run_look *look)
{
    const shoal_run *about = shoal_run_look_run(look);
    run->look = runs_object(run->folder, look);
    if (about != NULL)
        run->run = json_loads(shoal_run_json(about), 0, NULL);
    if (run->run == NULL)
        report_note(run, "run.json cannot be read: what was started, with which options, is not "
                         "known");
    if (text_of(run->look, "text")[0] != '\0' &&
        strcmp(text_of(run->look, "state"), "damaged") == 0)
        report_note(run, "%s", text_of(run->look, "text"));
}

int report_read(const char *verb, const char *folder, report_run *run)
{
    shoal_run_look *look = NULL;
    memset(run, 0, sizeof *run);
    run->folder = folder;
    if (shoal_run_look_at(folder, true, &look) != SHOAL_OK)
        return cli_report(verb);
    run->notes = json_array();
    run->events = json_array();
    run->warnings = json_array();
    run->slow = json_array();
    run->epochs = json_array();
    run->links = json_array();
    read_about(run, look);
    shoal_run_look_close(look);
    report_read_events(run);
    if (report_read_metrics(run))
        return CLI_OK;
    return cli_fail(verb, "there is no memory for the metrics of %s", folder);
}

void report_free(report_run *run)
{
    json_t *const held[] = {run->look,     run->run,  run->notes,  run->events,
                            run->warnings, run->slow, run->epochs, run->links};
    for (size_t i = 0; i < sizeof held / sizeof held[0]; i++)
        json_decref(held[i]);
    for (uint32_t i = 0; i < run->rank_count; i++) {
        free(run->ranks[i].ring.turn);
        free(run->ranks[i].ring.compute_us);
    }
    free(run->ranks);
    free(run->files);
}
