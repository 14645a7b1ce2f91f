/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>
#include <wchar.h>
#include <wctype.h>

#include "arguments.h"
#include "cli.h"
#include "said.h"
#include "shoal/version.h"

enum { TEXT_MOST = 1400 }; /* of a sentence, whatever it names */

int cli_exit_code(shoal_status status)
{
    switch (status) {
    case SHOAL_OK:
        return CLI_OK;
    case SHOAL_EPEER:
        return CLI_PEER_LOST;
    case SHOAL_EEPOCH:
    case SHOAL_ETIMEDOUT:
        return CLI_DEADLINE;
    case SHOAL_ENOTSUP:
        return CLI_CANNOT_HERE;
    case SHOAL_EINVAL:
        return CLI_USAGE;
    default:
        return CLI_FAILED;
    }
}

/* Turns the direction of what follows, so that a name reads as another one; glibc calls it
 * printable. */
static bool is_turning(wchar_t c)
{
    return c == 0x200e || c == 0x200f || (c >= 0x2028 && c <= 0x202e) ||
           (c >= 0x2066 && c <= 0x2069);
}

void cli_make_printable(char *text)
{
    locale_t utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
    locale_t before = uselocale(utf8); /* none: nothing but ASCII is shown */
    mbstate_t state = {0};
    while (*text != '\0') {
        wchar_t one = 0;
        size_t length = mbrtowc(&one, text, MB_CUR_MAX, &state);
        if (length == 0 || length > MB_CUR_MAX || !iswprint((wint_t)one) || is_turning(one)) {
            *text = '?';
            length = 1;
            state = (mbstate_t){0};
        }
        text += length;
    }
    uselocale(before);
    if (utf8 != (locale_t)0)
        freelocale(utf8);
}

char *cli_format(const char *format, va_list args)
{
    char *text = NULL;
    if (vasprintf(&text, format, args) < 0)
        return NULL;
    const size_t length = strlen(text);
    if (length > TEXT_MOST) {
        memcpy(text + TEXT_MOST / 2, "...", 3);
        memmove(text + TEXT_MOST / 2 + 3, text + length - TEXT_MOST / 2, TEXT_MOST / 2 + 1);
    }
    cli_make_printable(text);
    return text;
}

bool cli_may_create(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *folder = slash == NULL ? strdup(".") : strndup(path, (size_t)(slash - path) + 1);
    errno = ENOMEM;
    const bool may = folder != NULL && access(folder, W_OK | X_OK) == 0;
    free(folder);
    return may;
}

/* text NULL: there was no memory for it. */
static void said_verb(const char *verb, const char *text, const char *advice)
{
    char *line = NULL;
    if (asprintf(&line, "shoal %s: %s", verb, text != NULL ? text : "no memory") < 0)
        line = NULL;
    said_line(SAID_ERROR, line != NULL ? line : "shoal: no memory", advice);
    free(line);
}

int cli_fail(const char *verb, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *text = cli_format(format, args);
    va_end(args);
    said_verb(verb, text, NULL);
    free(text);
    return CLI_FAILED;
}

int cli_report(const char *verb)
{
    const shoal_error *error = shoal_last_error();
    char advice[sizeof error->advice + 2];
    snprintf(advice, sizeof advice, "%s%s", said_as_json() ? "" : "  ", error->advice);
    said_verb(verb, error->text, error->advice[0] != '\0' ? advice : NULL);
    return cli_exit_code(error->status);
}

int cli_usage(const char *verb, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *text = cli_format(format, args);
    va_end(args);
    char advice[96];
    snprintf(advice, sizeof advice, "Try `shoal %s --help`.", verb);
    said_verb(verb, text, advice);
    free(text);
    return CLI_USAGE;
}

const char *cli_version(void)
{
    static char text[96];
    snprintf(text, sizeof text, "shoal " SHOAL_VERSION_STRING " (library %s, wire version %d)",
             shoal_version(), SHOAL_WIRE_VERSION);
    return text;
}

bool cli_parse_int(const char *text, int64_t min, int64_t max, int64_t *value_out)
{
    char *end = NULL;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno != 0 || end == text || isspace((unsigned char)text[0]) || *end != '\0' ||
        value < min || value > max)
        return false;
    *value_out = value;
    return true;
}

bool cli_parse_real(const char *text, double min, double max, double *value_out)
{
    char *end = NULL;
    double value = strtod(text, &end);
    if (end == text || *end != '\0' || text[strspn(text, "+-.0123456789eE")] != '\0' ||
        !(value >= min && value <= max))
        return false;
    *value_out = value;
    return true;
}

bool cli_parse_count(const char *text, int64_t min, int64_t max, uint32_t *value_out)
{
    int64_t value = 0;
    bool ok = cli_parse_int(text, min, max, &value);
    *value_out = (uint32_t)value;
    return ok;
}

/* A positive number and a suffix from a table of (text, factor). */
typedef struct suffix {
    const char *text;
    double factor;
} suffix;

static bool parse_scaled(const char *text, const suffix *table, uint64_t *value_out)
{
    char *end = NULL;
    if (!isdigit((unsigned char)text[0]))
        return false;
    double value = strtod(text, &end);
    for (; table->text != NULL; table++) {
        if (strcasecmp(end, table->text) == 0) {
            value *= table->factor;
            if (!(value >= 0 && value < 1.8e19))
                return false;
            *value_out = (uint64_t)(value + 0.5);
            return true;
        }
    }
    return false;
}

bool cli_parse_rate(const char *text, uint64_t *bits_per_s_out)
{
    static const suffix rates[] = {{"kbit", 1e3}, {"mbit", 1e6}, {"gbit", 1e9}, {"k", 1e3},
                                   {"m", 1e6},    {"g", 1e9},    {NULL, 0}};
    return parse_scaled(text, rates, bits_per_s_out) && *bits_per_s_out >= 1000;
}

bool cli_parse_bytes(const char *text, uint64_t *bytes_out)
{
    static const suffix sizes[] = {{"", 1},           {"b", 1},           {"k", 1024},
                                   {"kb", 1024},      {"m", 1048576},     {"mb", 1048576},
                                   {"g", 1073741824}, {"gb", 1073741824}, {NULL, 0}};
    return parse_scaled(text, sizes, bytes_out);
}

/* Taken before argp reorders argv; the strings are argv's and static. */
static char **command_again(const char *verb, int argc, char **argv)
{
    static char path[4096], name[32];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    char **command = calloc((size_t)argc + 2, sizeof *command);
    if (command == NULL || length <= 0) {
        fprintf(stderr, "shoal %s: cannot start itself again\n", verb);
        free(command);
        return NULL;
    }
    path[length] = '\0';
    snprintf(name, sizeof name, "%s", verb);
    command[0] = path;
    command[1] = name;
    for (int i = 1; i < argc; i++)
        command[i + 1] = argv[i];
    return command;
}

int cli_parse_and_run(const char *verb, const struct argp *argp, int argc, char **argv, void *args,
                      int (*run)(void *args, char **command))
{
    char **command = command_again(verb, argc, argv);
    if (command == NULL)
        return CLI_FAILED;
    int code = cli_parse(argp, argc, argv, 0, args) == 0 ? run(args, command) : CLI_USAGE;
    free(command);
    return code;
}

FILE *cli_open(const char *path)
{
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    struct stat info;
    if (fd < 0)
        return NULL;
    if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode))
        return fdopen(fd, "r");
    close(fd);
    errno = EINVAL;
    return NULL;
}

FILE *cli_write(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NONBLOCK | O_CLOEXEC, 0666);
    if (fd < 0)
        return NULL;
    (void)fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
    return fdopen(fd, "w");
}

FILE *cli_create(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
    struct stat info;
    if (fd < 0)
        return NULL;
    if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && ftruncate(fd, 0) == 0)
        return fdopen(fd, "w");
    close(fd);
    errno = EINVAL;
    return NULL;
}

bool cli_under_launcher(void)
{
    static const char *const variables[] = {"RANK", "SHOAL_RANK", "OMPI_COMM_WORLD_RANK",
                                            "PMIX_RANK", "SLURM_PROCID"};
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) {
        if (getenv(variables[i]) != NULL)
            return true;
    }
    return false;
}

bool cli_interactive(void)
{
    const char *term = getenv("TERM");
    return isatty(STDERR_FILENO) && term != NULL && strcmp(term, "dumb") != 0;
}
