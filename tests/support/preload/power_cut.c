/* SPDX-License-Identifier: Apache-2.0 */
/* Loaded by LD_PRELOAD into the ranks of a run: notes what they do to files below one folder, and
 * at the N-th of these operations kills. From the notes tests/cli/power_cut.py puts together what a
 * disk may hold whose power was cut then.
 *
 *     SHOAL_CUT_BELOW  the folder, by its real path
 *     SHOAL_CUT_NOTES  another one: `log`, a line per operation, and a copy of each synced file
 *     SHOAL_CUT_AT     N, counted over all processes; 0 or none: never
 *     SHOAL_CUT_WHO    all (the group of processes; the default), or self
 *
 * One operation at a time, of all processes: the lock is the log's. A line is written once the
 * operation has succeeded; whoever is killed has not begun its own. What stdio writes goes past
 * it, as it calls the kernel without us, and need not be seen: what is not synced may be lost
 * anyhow. */
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define REAL(name) (__extension__(__typeof__(&(name))) dlsym(RTLD_NEXT, #name))
#define HOOK __attribute__((visibility("default")))

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

/* The part of a path below the folder, "." for itself; NULL: it is elsewhere. */
static const char *below(const char *path)
{
    const char *folder = getenv("SHOAL_CUT_BELOW");
    const size_t length = folder != NULL ? strlen(folder) : 0;
    if (length == 0 || path == NULL || strncmp(path, folder, length) != 0)
        return NULL;
    path += length;
    while (*path == '/')
        path++;
    return *path != '\0' ? path : ".";
}

static const char *below_fd(int fd, char room[PATH_MAX])
{
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    const ssize_t length = fd >= 0 ? readlink(link, room, PATH_MAX - 1) : -1;
    room[length > 0 ? length : 0] = '\0';
    return length > 0 ? below(room) : NULL;
}

/* ------------------------------------------------------------------ notes */

typedef struct note {
    int log;
    unsigned long number; /* of this operation */
} note;

static int open_note(const char *name, int flags)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", getenv("SHOAL_CUT_NOTES"), name);
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags | O_CREAT | O_CLOEXEC, 0666);
}

static void say(const note *n, const char *format, ...)
{
    char line[3 * PATH_MAX];
    va_list args;
    va_start(args, format);
    const int length = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (syscall(SYS_write, n->log, line, length) != length)
        kill(0, SIGKILL); /* the test sees that nothing was cut */
}

/* How many there were before; this one counts. */
static unsigned long count(void)
{
    unsigned long number = 0;
    const int fd = open_note("count", O_RDWR);
    if (pread(fd, &number, sizeof number, 0) != sizeof number)
        number = 0;
    number++;
    if (syscall(SYS_pwrite64, fd, &number, sizeof number, 0) != sizeof number)
        kill(0, SIGKILL);
    close(fd);
    return number;
}

static note begin(const char *what, const char *path)
{
    const char *at = getenv("SHOAL_CUT_AT"), *who = getenv("SHOAL_CUT_WHO");
    pthread_mutex_lock(&mutex);
    note n = {.log = open_note("log", O_WRONLY | O_APPEND)};
    flock(n.log, LOCK_EX);
    n.number = count();
    if (at != NULL && n.number == strtoul(at, NULL, 10)) {
        say(&n, "cut\t%lu\t%s\t%s\n", n.number, what, path);
        kill(who != NULL && strcmp(who, "self") == 0 ? getpid() : 0, SIGKILL);
    }
    return n;
}

static void end(const note *n)
{
    close(n->log);
    pthread_mutex_unlock(&mutex);
}

static unsigned long inode_of(const char *path)
{
    struct stat info;
    return lstat(path, &info) == 0 ? (unsigned long)info.st_ino : 0;
}

static void keep_copy(int fd, unsigned long number)
{
    char name[32], link[64], bytes[1 << 16];
    ssize_t got;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    snprintf(name, sizeof name, "%lu", number);
    const int from = (int)syscall(SYS_openat, AT_FDCWD, link, O_RDONLY | O_CLOEXEC);
    const int to = open_note(name, O_WRONLY);
    while ((got = read(from, bytes, sizeof bytes)) > 0)
        if (syscall(SYS_write, to, bytes, got) != got)
            kill(0, SIGKILL);
    close(from);
    close(to);
}

/* ------------------------------------------------------------------ names */

HOOK FILE *fopen(const char *path, const char *mode)
{
    const char *name = mode[0] != 'r' ? below(path) : NULL;
    if (name == NULL)
        return REAL(fopen)(path, mode);
    const note n = begin("create", name);
    const bool is_new = inode_of(path) == 0;
    FILE *file = REAL(fopen)(path, mode);
    if (file != NULL && is_new)
        say(&n, "create\t%lu\t%s\n", inode_of(path), name);
    end(&n);
    return file;
}

HOOK int open(const char *path, int flags, ...)
{
    const bool is_nameless = (flags & O_TMPFILE) == O_TMPFILE; /* of the folder `path` */
    va_list args;
    va_start(args, flags);
    const mode_t mode = (flags & O_CREAT) != 0 || is_nameless ? va_arg(args, mode_t) : 0;
    va_end(args);
    const char *name = (flags & O_CREAT) != 0 && !is_nameless ? below(path) : NULL;
    if (name == NULL)
        return REAL(open)(path, flags, mode);
    const note n = begin("create", name);
    const bool is_new = inode_of(path) == 0;
    const int fd = REAL(open)(path, flags, mode);
    if (fd >= 0 && is_new)
        say(&n, "create\t%lu\t%s\n", inode_of(path), name);
    end(&n);
    return fd;
}

/* A nameless file gets its name. */
HOOK int linkat(int from_at, const char *from, int to_at, const char *to, int flags)
{
    const char *name = below(to);
    if (name == NULL)
        return REAL(linkat)(from_at, from, to_at, to, flags);
    const note n = begin("linkat", name);
    const int bad = REAL(linkat)(from_at, from, to_at, to, flags);
    if (bad == 0)
        say(&n, "create\t%lu\t%s\n", inode_of(to), name);
    end(&n);
    return bad;
}

HOOK int rename(const char *from, const char *to)
{
    const char *name = below(from), *other = below(to);
    if (name == NULL || other == NULL)
        return REAL(rename)(from, to);
    const note n = begin("rename", other);
    const int bad = REAL(rename)(from, to);
    if (bad == 0)
        say(&n, "rename\t%lu\t%s\t%s\n", inode_of(to), name, other);
    end(&n);
    return bad;
}

static int change(int (*real)(const char *path), const char *what, const char *path)
{
    const char *name = below(path);
    if (name == NULL)
        return real(path);
    const note n = begin(what, name);
    const int bad = real(path);
    if (bad == 0)
        say(&n, "remove\t%s\n", name);
    end(&n);
    return bad;
}

HOOK int unlink(const char *path)
{
    return change(REAL(unlink), "unlink", path);
}

HOOK int rmdir(const char *path)
{
    return change(REAL(rmdir), "rmdir", path);
}

HOOK int mkdir(const char *path, mode_t mode)
{
    const char *name = below(path);
    if (name == NULL || strcmp(name, ".") == 0)
        return REAL(mkdir)(path, mode);
    const note n = begin("mkdir", name);
    const int bad = REAL(mkdir)(path, mode);
    if (bad == 0)
        say(&n, "mkdir\t%s\n", name);
    end(&n);
    return bad;
}

/* ------------------------------------------------------------------ bytes */

/* What a disk would do; this one need not. */
HOOK int fsync(int fd)
{
    char room[PATH_MAX];
    struct stat info;
    const char *name = below_fd(fd, room);
    if (name == NULL)
        return REAL(fsync)(fd);
    const note n = begin("fsync", name);
    if (fstat(fd, &info) != 0 || info.st_nlink == 0) {
        /* another process has removed it: nothing of it would last */
    } else if (S_ISDIR(info.st_mode)) {
        say(&n, "folder\t%s\n", name);
    } else {
        keep_copy(fd, n.number);
        say(&n, "file\t%lu\t%lu\n", (unsigned long)info.st_ino, n.number);
    }
    end(&n);
    return 0;
}

/* Moments only. */
HOOK size_t fwrite(const void *bytes, size_t size, size_t items, FILE *file)
{
    char room[PATH_MAX];
    const char *name = below_fd(fileno(file), room);
    if (name == NULL)
        return REAL(fwrite)(bytes, size, items, file);
    const note n = begin("fwrite", name);
    const size_t done = REAL(fwrite)(bytes, size, items, file);
    end(&n);
    return done;
}

HOOK ssize_t write(int fd, const void *bytes, size_t bytes_count)
{
    char room[PATH_MAX];
    const char *name = below_fd(fd, room);
    if (name == NULL)
        return REAL(write)(fd, bytes, bytes_count);
    const note n = begin("write", name);
    const ssize_t done = REAL(write)(fd, bytes, bytes_count);
    end(&n);
    return done;
}

HOOK int fflush(FILE *file)
{
    char room[PATH_MAX];
    const char *name = file != NULL ? below_fd(fileno(file), room) : NULL;
    if (name == NULL)
        return REAL(fflush)(file);
    const note n = begin("fflush", name);
    const int bad = REAL(fflush)(file);
    end(&n);
    return bad;
}

HOOK int ftruncate(int fd, off_t length)
{
    char room[PATH_MAX];
    const char *name = below_fd(fd, room);
    if (name == NULL)
        return REAL(ftruncate)(fd, length);
    const note n = begin("ftruncate", name);
    const int bad = REAL(ftruncate)(fd, length);
    end(&n);
    return bad;
}

HOOK int truncate(const char *path, off_t length)
{
    const char *name = below(path);
    if (name == NULL)
        return REAL(truncate)(path, length);
    const note n = begin("truncate", name);
    const int bad = REAL(truncate)(path, length);
    end(&n);
    return bad;
}
