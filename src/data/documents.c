/* SPDX-License-Identifier: Apache-2.0 */
#include "data/documents.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <fts.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "base/error.h"

enum { FIRST_ROOM = 256, MOST = 1 << 22, NEAR_BYTES = 8192, FIRST_BYTES = 1 << 16 };

/* ---------------------------------------------------------------- finding */

static shoal_status note(shoal_arena *arena, const char *path, shoali_documents *d)
{
    if (d->count == MOST)
        return shoali_fail(SHOAL_EINVAL, "more than %d files of text", MOST);
    if (d->count == d->room) {
        const size_t room = d->room > 0 ? 2 * d->room : FIRST_ROOM;
        char **paths = shoali_arena_array(arena, room, sizeof *paths);
        if (paths == NULL)
            return SHOAL_ENOMEM;
        if (d->count > 0)
            memcpy(paths, d->paths, d->count * sizeof *paths);
        d->paths = paths;
        d->room = room;
    }
    char *copy = shoali_arena_strdup(arena, path);
    if (copy == NULL)
        return SHOAL_ENOMEM;
    d->paths[d->count++] = copy;
    return SHOAL_OK;
}

static int by_name(const FTSENT **a, const FTSENT **b)
{
    return strcmp((*a)->fts_name, (*b)->fts_name);
}

/* ok: of the names below the folder. */
static shoal_status walk(FTS *tree, bool (*ok)(const char *name), shoal_arena *arena,
                         shoali_documents *d)
{
    const FTSENT *at;
    errno = 0;
    while ((at = fts_read(tree)) != NULL) {
        if (at->fts_info == FTS_DNR || at->fts_info == FTS_ERR || at->fts_info == FTS_NS)
            return shoali_fail_os(SHOAL_EIO, at->fts_errno, "cannot read %s", at->fts_path);
        const bool hidden = at->fts_level > 0 && at->fts_name[0] == '.';
        if (at->fts_info == FTS_D && hidden)
            (void)fts_set(tree, (FTSENT *)(uintptr_t)at, FTS_SKIP);
        else if (at->fts_info == FTS_F && !hidden && (ok == NULL || ok(at->fts_name)))
            SHOALI_TRY(note(arena, at->fts_path, d));
        errno = 0;
    }
    return errno == 0 ? SHOAL_OK : shoali_fail_os(SHOAL_EIO, errno, "cannot list a folder");
}

static shoal_status find_below(const char *path, bool (*ok)(const char *name), shoal_arena *arena,
                               shoali_documents *d)
{
    char *root = shoali_strdup(path);
    if (root == NULL)
        return SHOAL_ENOMEM;
    char *const roots[] = {root, NULL};
    FTS *tree = fts_open(roots, FTS_PHYSICAL | FTS_COMFOLLOW | FTS_NOCHDIR, by_name);
    shoal_status status = tree != NULL ? walk(tree, ok, arena, d)
                                       : shoali_fail_os(SHOAL_EIO, errno, "cannot read %s", path);
    if (tree != NULL)
        (void)fts_close(tree);
    shoali_free(root);
    return status;
}

shoal_status shoali_documents_find(shoal_arena *arena, const char *const *paths, uint32_t count,
                                   shoali_documents *documents_out)
{
    shoali_documents d = {0};
    struct stat info;
    for (uint32_t i = 0; i < count; i++) {
        if (stat(paths[i], &info) != 0)
            return shoali_fail_os(SHOAL_EIO, errno, "cannot read %s", paths[i]);
        const size_t before = d.count;
        if (S_ISDIR(info.st_mode))
            SHOALI_TRY(find_below(paths[i], NULL, arena, &d));
        else if (S_ISREG(info.st_mode) && info.st_size > 0)
            SHOALI_TRY(note(arena, paths[i], &d));
        else if (!S_ISREG(info.st_mode))
            return shoali_fail(SHOAL_EIO, "%s is neither a regular file nor a folder", paths[i]);
        if (d.count == before)
            return shoali_fail(SHOAL_EINVAL, "there is nothing in %s", paths[i]);
    }
    *documents_out = d;
    return SHOAL_OK;
}

static bool is_meant_to_be_read(const char *name)
{
    static const char *const patterns[] = {"copyright", "README*", "NEWS*",    "FAQ*",
                                           "*.txt",     "*.md",    "*.txt.gz", "*.md.gz"};
    for (size_t i = 0; i < sizeof patterns / sizeof patterns[0]; i++)
        if (fnmatch(patterns[i], name, 0) == 0)
            return true;
    return false;
}

shoal_status shoali_documents_of_debian(shoal_arena *arena, shoali_documents *documents_out)
{
    static const char licences[] = "/usr/share/common-licenses", docs[] = "/usr/share/doc";
    shoali_documents d = {0};
    if (access(licences, R_OK) == 0)
        SHOALI_TRY(find_below(licences, NULL, arena, &d));
    if (access(docs, R_OK) == 0)
        SHOALI_TRY(find_below(docs, is_meant_to_be_read, arena, &d));
    if (d.count == 0)
        return shoali_fail(SHOAL_EINVAL, "neither %s nor %s holds texts; name files of your own",
                           licences, docs);
    *documents_out = d;
    return SHOAL_OK;
}

/* ---------------------------------------------------------------- reading */

static shoal_status read_all(gzFile file, const char *path, char **text_out, size_t *length_out)
{
    size_t room = FIRST_BYTES, used = 0;
    char *text = shoali_alloc(room);
    int got = 0;
    while (text != NULL && (got = gzread(file, text + used, (unsigned)(room - used))) > 0) {
        used += (size_t)got;
        if (used < room)
            continue;
        char *grown = used < SHOALI_DOCUMENT_BYTES_MAX ? shoali_realloc(text, room, 2 * room)
                                                       : NULL;
        if (grown == NULL) {
            shoali_free(text);
            return used < SHOALI_DOCUMENT_BYTES_MAX
                       ? SHOAL_ENOMEM
                       : shoali_fail(SHOAL_ECORRUPT, "%s holds more than %d MiB: cut it", path,
                                     SHOALI_DOCUMENT_BYTES_MAX >> 20);
        }
        text = grown;
        room *= 2;
    }
    if (text == NULL)
        return SHOAL_ENOMEM;
    int error = Z_OK;
    (void)gzerror(file, &error); /* a stream that ends too early is one only here */
    if (got < 0 || error != Z_OK) {
        shoali_free(text);
        return shoali_fail(SHOAL_ECORRUPT, "cannot read %s: damaged, or cut off", path);
    }
    *text_out = text;
    *length_out = used;
    return SHOAL_OK;
}

shoal_status shoali_document_read(const char *path, char **text_out, size_t *len_bytes_out)
{
    struct stat info;
    const int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return shoali_fail_os(SHOAL_EIO, errno, "cannot open %s", path);
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
        close(fd);
        return shoali_fail(SHOAL_EIO, "cannot read %s: not a regular file", path);
    }
    gzFile file = gzdopen(fd, "rb");
    if (file == NULL) {
        close(fd);
        return shoali_fail(SHOAL_ENOMEM, "no memory to read %s", path);
    }
    char *text = NULL;
    const shoal_status status = read_all(file, path, &text, len_bytes_out);
    (void)gzclose_r(file);
    SHOALI_TRY(status);
    const size_t near = *len_bytes_out < NEAR_BYTES ? *len_bytes_out : NEAR_BYTES;
    if (memchr(text, '\0', near) != NULL) {
        shoali_free(text);
        text = NULL;
    }
    *text_out = text;
    return SHOAL_OK;
}
