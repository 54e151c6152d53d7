#include "handles/resolve.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"

int hf_resolver_init(struct hf_resolver *resolver, uint64_t search_max)
{
    hf_exports_init(&resolver->exports);
    hf_walk_init(&resolver->walk, &resolver->exports, &resolver->places, search_max);
    return hf_places_init(&resolver->places);
}

void hf_resolver_free(struct hf_resolver *resolver)
{
    hf_exports_free(&resolver->exports);
    hf_places_free(&resolver->places);
}

/* A question for the file or the path of a handle, and the best answer so far. */
struct query {
    struct hf_resolver *r;
    int64_t now_ms;
    bool file_only; /* the question is for the file only, not for its path */
    char *path;
    enum hf_answer answer;
    struct hf_found found; /* the best answer so far; fd is -1 if there is none */
};

/* Returns where a search has found the file; if there was no search, asks for one. */
static enum hf_answer look_up(struct query *q, const struct stat *file,
                              char path[HF_PATH_BYTES_MAX])
{
    struct hf_resolver *r = q->r;
    const struct hf_place *place = hf_places_get(&r->places, file->st_dev, file->st_ino);

    if (place && place->path && place->path[0] &&
        hf_exports_holds(&r->exports, place->path, file)) {
        hf_format(path, HF_PATH_BYTES_MAX, "%s", place->path);
        return HF_ANSWER_NAMED;
    }
    if (r->walk.max == 0)
        return HF_ANSWER_UNKNOWN;
    if (place && !place->path)
        return HF_ANSWER_LATER;
    if (place && !place->path[0] && q->now_ms < r->walk.next_ms)
        return HF_ANSWER_UNKNOWN; /* the last walk did not find the file */
    hf_places_want(&r->places, file->st_dev, file->st_ino);
    return HF_ANSWER_LATER;
}

/* ---- handles of the kernel ---- */

union kernel_handle {
    struct file_handle handle;
    char room[sizeof(struct file_handle) + HF_HANDLE_BYTES_MAX];
};

static int open_by_handle(struct hf_root *root, const struct hf_handle *handle)
{
    union kernel_handle k = {
        .handle = {.handle_bytes = (unsigned)handle->fid.len, .handle_type = handle->type}};

    if (hf_root_open(root) < 0)
        return -1;
    memcpy(k.room + sizeof(k.handle), handle->fid.data, handle->fid.len);
    return open_by_handle_at(root->fd, &k.handle, O_PATH | O_CLOEXEC);
}

/* Reads the path that the kernel knows for an open file; it knows none for a file whose directory
 * it has not seen. */
static bool path_of(int fd, char path[HF_PATH_BYTES_MAX])
{
    char link[64];
    ssize_t len;

    hf_format(link, sizeof(link), "/proc/self/fd/%d", fd);
    len = readlink(link, path, HF_PATH_BYTES_MAX - 1);
    if (len <= 0)
        return false;
    path[len] = '\0';
    return path[0] == '/';
}

/* Gets the handle that the kernel itself gives for a file. */
static bool own_handle(int fd, union kernel_handle *k)
{
    int mount;

    *k = (union kernel_handle){.handle = {.handle_bytes = HF_HANDLE_BYTES_MAX}};
    return name_to_handle_at(fd, "", &k->handle, &mount, AT_EMPTY_PATH) == 0;
}

static struct hf_bytes fid_of(const union kernel_handle *k)
{
    return hf_bytes(k->room + sizeof(k->handle), k->handle.handle_bytes);
}

/*
 * True if the handle is the one that the kernel gives for the file. File systems take a handle with
 * generation 0 for any generation, and some take more than one form of a handle: a handle that a
 * caller made up from an inode number would tell the name of another user's file.
 */
static bool is_own_handle(int fd, const struct hf_handle *handle, uint64_t *generation)
{
    union kernel_handle k;

    if (!own_handle(fd, &k) || k.handle.handle_bytes > handle->fid.len ||
        memcmp(fid_of(&k).data, handle->fid.data, fid_of(&k).len) != 0)
        return false;
    if (!hf_handle_generation(k.handle.handle_type, fid_of(&k), generation))
        *generation = 0;
    return true;
}

/* True if the kernel's path leads to the file and is its only name. */
static bool is_elsewhere(const char *path, const struct stat *file)
{
    struct stat st;

    return !S_ISDIR(file->st_mode) && file->st_nlink == 1 && lstat(path, &st) == 0 &&
           st.st_dev == file->st_dev && st.st_ino == file->st_ino;
}

/*
 * True if the file is inside an export. The kernel's path says enough where no bind mount hides its
 * beginning; but a name that was removed does not count, and the file may have another name outside
 * the export.
 */
static bool is_inside(struct query *q, const struct hf_root *root, const char *path)
{
    static const char GONE[] = " (deleted)";
    size_t len = strlen(path);

    return root->from_top && hf_exports_has(&q->r->exports, path) &&
           (len < sizeof(GONE) || strcmp(path + len - sizeof(GONE) + 1, GONE) != 0);
}

/* Finds out whether the file is inside an export, and by which path. A file whose only name is
 * outside is not searched for. */
static enum hf_answer prove(struct query *q, const struct hf_root *root, int fd,
                            const struct stat *file, char path[HF_PATH_BYTES_MAX])
{
    if (file->st_nlink == 0)
        return HF_ANSWER_DELETED;
    if (q->file_only && root->is_whole)
        return HF_ANSWER_NAMED;
    if (path_of(fd, path)) {
        if ((q->file_only && is_inside(q, root, path)) ||
            hf_exports_holds(&q->r->exports, path, file))
            return HF_ANSWER_NAMED;
        if (is_elsewhere(path, file))
            return HF_ANSWER_UNKNOWN;
    }
    return look_up(q, file, path);
}

/* True if answer a says more than the answer `than`. */
static bool is_better(enum hf_answer a, enum hf_answer than)
{
    static const int RANK[] = {[HF_ANSWER_NAMED] = 3,
                               [HF_ANSWER_DELETED] = 2,
                               [HF_ANSWER_LATER] = 1,
                               [HF_ANSWER_UNKNOWN] = 0};

    return RANK[a] > RANK[than];
}

/* Keeps an answer to the query, and takes over found->fd. */
static void keep(struct query *q, enum hf_answer answer, const struct hf_found *found,
                 const char *path)
{
    if (q->found.fd >= 0 && !is_better(answer, q->answer)) {
        close(found->fd);
        return;
    }
    if (q->found.fd >= 0)
        close(q->found.fd);
    q->found = *found;
    q->answer = answer;
    if (answer == HF_ANSWER_NAMED && !q->file_only)
        hf_format(q->path, HF_PATH_BYTES_MAX, "%s", path);
}

static void forget(struct query *q)
{
    if (q->found.fd >= 0)
        close(q->found.fd);
    q->found = (struct hf_found){.fd = -1};
    q->answer = HF_ANSWER_UNKNOWN;
}

/* Tries the handle in one root. Returns false if another file system has such a file too, because
 * nothing then tells which file is meant. */
static bool try_root(struct query *q, struct hf_root *root, const struct hf_handle *handle)
{
    struct hf_found found = {.fd = open_by_handle(root, handle)};
    char path[HF_PATH_BYTES_MAX] = "";

    if (found.fd < 0)
        return true;
    if (fstat(found.fd, &found.file) < 0 || !is_own_handle(found.fd, handle, &found.generation)) {
        close(found.fd);
        return true;
    }
    if (q->found.fd >= 0 && q->found.file.st_dev != found.file.st_dev) {
        close(found.fd);
        return false;
    }
    keep(q, prove(q, root, found.fd, &found.file, path), &found, path);
    return true;
}

/*
 * Tries the file system that the handle names; if none is known by that name, each file system. If
 * two file systems have such a file, nothing tells which is meant, and a wrong name is worse than
 * none, even if the file has a name in only one of them.
 */
static void resolve_kernel(struct query *q, const struct hf_handle *handle)
{
    struct hf_exports *exports = &q->r->exports;
    unsigned fit = 1;

    for (size_t i = 0; i < exports->n_roots; i++) {
        unsigned fits = hf_root_fits(&exports->roots[i], &handle->fsid);
        fit = fits > fit ? fits : fit;
    }
    for (size_t i = 0; i < exports->n_roots; i++) {
        struct hf_root *root = &exports->roots[i];

        if (hf_root_fits(root, &handle->fsid) != fit ||
            (q->answer == HF_ANSWER_NAMED && root->device == q->found.file.st_dev))
            continue;
        if (!try_root(q, root, handle)) {
            forget(q);
            return;
        }
    }
}

/* ---- handles of unfs3 ---- */

/* True if the file has the generation of the handle. Another file may have its inode number by now,
 * and a handle without a generation may be made up. */
static bool is_generation(struct hf_found *found, const struct hf_handle *handle)
{
    union kernel_handle k;

    found->generation = handle->generation;
    return !own_handle(found->fd, &k) ||
           !hf_handle_generation(k.handle.handle_type, fid_of(&k), &found->generation) ||
           (uint32_t)found->generation == handle->generation;
}

/*
 * On many file systems a handle of the kernel consists of inode number and generation, which a
 * handle of unfs3 has as well: no directory needs to be searched for such a file, if the kernel has
 * its name.
 */
static void try_made_handle(struct query *q, struct hf_root *root, const struct hf_handle *handle)
{
    uint32_t words[2] = {(uint32_t)handle->ino, handle->generation};
    struct hf_handle made = {
        .kind = HF_HANDLE_KERNEL, .type = 1, .fid = hf_bytes(words, sizeof(words))};
    char path[HF_PATH_BYTES_MAX] = "";
    struct hf_found found;

    if (handle->ino > UINT32_MAX)
        return;
    found.fd = open_by_handle(root, &made);
    if (found.fd < 0)
        return;
    if (fstat(found.fd, &found.file) == 0 && found.file.st_ino == handle->ino &&
        found.file.st_nlink > 0 && is_own_handle(found.fd, &made, &found.generation) &&
        ((q->file_only && root->is_whole) ||
         (path_of(found.fd, path) && hf_exports_holds(&q->r->exports, path, &found.file))))
        keep(q, HF_ANSWER_NAMED, &found, path);
    else
        close(found.fd);
}

/*
 * Tries the place where the file was found before, or a search by the handle's hashes (a descent),
 * which is not repeated while a walk looks for the file or has not found it. Each export of the
 * device has a way of its own to the file.
 */
static void try_inode(struct query *q, struct hf_root *root, const struct hf_handle *handle,
                      bool tried)
{
    struct hf_resolver *r = q->r;
    struct stat file = {.st_dev = root->device, .st_ino = handle->ino};
    const struct hf_place *place = hf_places_get(&r->places, file.st_dev, file.st_ino);
    char path[HF_PATH_BYTES_MAX] = "";
    struct hf_found found = {.fd = -1};

    if (place && place->path && place->path[0]) {
        hf_format(path, sizeof(path), "%s", place->path);
        found.fd = hf_exports_open(&r->exports, path, &file);
    }
    if (found.fd < 0 && !tried && hf_descend(root, handle, &file, path)) {
        found.fd = hf_exports_open(&r->exports, path, &file);
        if (found.fd >= 0)
            hf_places_put(&r->places, file.st_dev, file.st_ino, path);
    }
    if (found.fd < 0)
        return;
    if (fstat(found.fd, &found.file) == 0 && is_generation(&found, handle))
        keep(q, HF_ANSWER_NAMED, &found, path);
    else
        close(found.fd);
}

static bool is_of(const struct hf_root *root, const struct hf_handle *handle)
{
    return (uint32_t)root->device == handle->device_low;
}

static bool was_tried(const struct hf_place *place)
{
    /* A walk is still looking for the file, or has ended without it. */
    return place && (!place->path || !place->path[0]);
}

static void resolve_inode(struct query *q, const struct hf_handle *handle)
{
    struct hf_exports *exports = &q->r->exports;
    struct stat file = {.st_ino = handle->ino};
    char path[HF_PATH_BYTES_MAX];

    for (size_t i = 0; i < exports->n_roots && q->answer != HF_ANSWER_NAMED; i++) {
        if (is_of(&exports->roots[i], handle))
            try_made_handle(q, &exports->roots[i], handle);
    }
    for (size_t i = 0; i < exports->n_roots && q->answer != HF_ANSWER_NAMED; i++) {
        struct hf_root *root = &exports->roots[i];

        if (is_of(root, handle))
            try_inode(q, root, handle,
                      was_tried(hf_places_get(&q->r->places, root->device, handle->ino)));
    }
    for (size_t i = 0; i < exports->n_roots && q->answer != HF_ANSWER_NAMED; i++) {
        file.st_dev = exports->roots[i].device;
        /* A place that now has another generation is not searched for again. */
        if (is_of(&exports->roots[i], handle) && look_up(q, &file, path) == HF_ANSWER_LATER)
            q->answer = HF_ANSWER_LATER;
    }
}

/* ---- both kinds of handles ---- */

static void resolve(struct query *q, struct hf_bytes bytes)
{
    struct hf_handle readings[HF_HANDLE_READINGS_MAX];
    size_t n = hf_handle_read(bytes, readings);

    hf_exports_look(&q->r->exports, q->now_ms);
    for (size_t i = 0; i < n && q->answer != HF_ANSWER_NAMED; i++) {
        struct query next = {.r = q->r,
                             .now_ms = q->now_ms,
                             .file_only = q->file_only,
                             .path = q->path,
                             .answer = HF_ANSWER_UNKNOWN,
                             .found = {.fd = -1}};

        if (readings[i].kind == HF_HANDLE_KERNEL)
            resolve_kernel(&next, &readings[i]);
        else
            resolve_inode(&next, &readings[i]);
        if (is_better(next.answer, q->answer)) {
            forget(q);
            *q = next;
        } else {
            forget(&next);
        }
    }
}

/* NOLINTBEGIN(readability-non-const-parameter): the path is written through the query */
enum hf_answer hf_resolve(struct hf_resolver *resolver, int64_t now_ms, struct hf_bytes bytes,
                          char path[HF_PATH_BYTES_MAX])
/* NOLINTEND(readability-non-const-parameter) */
{
    struct query q = {.r = resolver,
                      .now_ms = now_ms,
                      .path = path,
                      .answer = HF_ANSWER_UNKNOWN,
                      .found = {.fd = -1}};
    enum hf_answer answer;

    resolve(&q, bytes);
    answer = q.answer;
    forget(&q);
    return answer;
}

enum hf_answer hf_resolve_file(struct hf_resolver *resolver, int64_t now_ms, struct hf_bytes bytes,
                               struct hf_found *found)
{
    struct query q = {.r = resolver,
                      .now_ms = now_ms,
                      .file_only = true,
                      .answer = HF_ANSWER_UNKNOWN,
                      .found = {.fd = -1}};

    enum hf_answer answer;

    resolve(&q, bytes);
    answer = q.answer;
    if (answer != HF_ANSWER_NAMED)
        forget(&q);
    *found = q.found;
    return answer;
}
