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

/* Where a search has found the file; if there was none, one is asked for. */
static enum hf_answer look_up(struct hf_resolver *r, int64_t now_ms, const struct stat *file,
                              char path[HF_PATH_BYTES_MAX])
{
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
    if (place && !place->path[0] && now_ms < r->walk.next_ms)
        return HF_ANSWER_UNKNOWN; /* the last walk did not find it */
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

/* The kernel's own idea of the path; it has none for a file whose directory it has not seen. */
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

/*
 * File systems take a handle with generation 0 for any generation, and some take more than one
 * form: a handle that a caller made up from an inode number would tell the name of another user's
 * file. Only the handle that the kernel itself gives for the file is answered.
 */
static bool is_own_handle(int fd, const struct hf_handle *handle)
{
    union kernel_handle k = {.handle = {.handle_bytes = HF_HANDLE_BYTES_MAX}};
    int mount;

    if (name_to_handle_at(fd, "", &k.handle, &mount, AT_EMPTY_PATH) < 0)
        return false;
    return k.handle.handle_bytes <= handle->fid.len &&
           memcmp(k.room + sizeof(k.handle), handle->fid.data, k.handle.handle_bytes) == 0;
}

/* UNKNOWN: the root's file system has no such file. *file is set otherwise. */
static enum hf_answer resolve_in(struct hf_resolver *r, int64_t now_ms, struct hf_root *root,
                                 const struct hf_handle *handle, struct stat *file,
                                 char path[HF_PATH_BYTES_MAX])
{
    enum hf_answer answer = HF_ANSWER_UNKNOWN;
    int fd = open_by_handle(root, handle);

    if (fd < 0)
        return HF_ANSWER_UNKNOWN;
    if (fstat(fd, file) == 0 && is_own_handle(fd, handle)) {
        if (file->st_nlink == 0)
            answer = HF_ANSWER_DELETED;
        else if (path_of(fd, path) && hf_exports_holds(&r->exports, path, file))
            answer = HF_ANSWER_NAMED;
        else
            answer = look_up(r, now_ms, file, path);
    }
    close(fd);
    return answer;
}

/* Which answer says more. */
static bool is_better(enum hf_answer a, enum hf_answer than)
{
    static const int RANK[] = {[HF_ANSWER_NAMED] = 3,
                               [HF_ANSWER_DELETED] = 2,
                               [HF_ANSWER_LATER] = 1,
                               [HF_ANSWER_UNKNOWN] = 0};

    return RANK[a] > RANK[than];
}

/*
 * The file system that the handle names; if none is known by that, each that has such a file. Two
 * that have one cannot be told apart, and a wrong name is worse than none.
 */
static enum hf_answer resolve_kernel(struct hf_resolver *r, int64_t now_ms,
                                     const struct hf_handle *handle, char path[HF_PATH_BYTES_MAX])
{
    enum hf_answer best = HF_ANSWER_UNKNOWN;
    char candidate[HF_PATH_BYTES_MAX];
    struct stat file, found = {0};
    unsigned fit = 1;

    for (size_t i = 0; i < r->exports.n_roots; i++) {
        unsigned fits = hf_root_fits(&r->exports.roots[i], &handle->fsid);
        fit = fits > fit ? fits : fit;
    }
    for (size_t i = 0; i < r->exports.n_roots; i++) {
        struct hf_root *root = &r->exports.roots[i];
        enum hf_answer answer;

        if (hf_root_fits(root, &handle->fsid) != fit)
            continue;
        answer = resolve_in(r, now_ms, root, handle, &file, candidate);
        if (answer == HF_ANSWER_UNKNOWN)
            continue;
        if (found.st_ino && found.st_dev != file.st_dev)
            return HF_ANSWER_UNKNOWN;
        found = file;
        if (is_better(answer, best)) {
            best = answer;
            if (answer == HF_ANSWER_NAMED)
                hf_format(path, HF_PATH_BYTES_MAX, "%s", candidate);
        }
    }
    return best;
}

/* ---- handles of unfs3 ---- */

/* The kernel's handles on most disks are inode and generation: another file may have the inode by
 * now; and a handle without a generation may be made up. */
static bool is_generation(const char *path, const struct hf_handle *handle)
{
    union kernel_handle k = {.handle = {.handle_bytes = HF_HANDLE_BYTES_MAX}};
    uint32_t generation;
    int mount;

    if (name_to_handle_at(AT_FDCWD, path, &k.handle, &mount, 0) < 0 || k.handle.handle_type != 1 ||
        k.handle.handle_bytes != 8)
        return true;
    memcpy(&generation, k.room + sizeof(k.handle) + 4, sizeof(generation));
    return generation == handle->generation;
}

static enum hf_answer resolve_inode(struct hf_resolver *r, int64_t now_ms,
                                    const struct hf_handle *handle, char path[HF_PATH_BYTES_MAX])
{
    enum hf_answer best = HF_ANSWER_UNKNOWN;
    struct stat file = {.st_ino = handle->ino};

    for (size_t i = 0; i < r->exports.n_roots && best != HF_ANSWER_NAMED; i++) {
        struct hf_root *root = &r->exports.roots[i];
        const struct hf_place *place;
        enum hf_answer answer;
        bool tried;

        if ((uint32_t)root->device != handle->device_low)
            continue;
        file.st_dev = root->device;
        place = hf_places_get(&r->places, file.st_dev, file.st_ino);
        tried = place && (!place->path || !place->path[0]); /* a walk goes on, or has ended */
        answer = look_up(r, now_ms, &file, path);
        if (answer != HF_ANSWER_NAMED && !tried && hf_descend(root, handle, &file, path)) {
            hf_places_put(&r->places, file.st_dev, file.st_ino, path);
            answer = HF_ANSWER_NAMED;
        }
        if (answer == HF_ANSWER_NAMED && !is_generation(path, handle))
            return HF_ANSWER_UNKNOWN;
        if (is_better(answer, best))
            best = answer;
    }
    return best;
}

enum hf_answer hf_resolve(struct hf_resolver *resolver, int64_t now_ms, struct hf_bytes bytes,
                          char path[HF_PATH_BYTES_MAX])
{
    struct hf_handle readings[HF_HANDLE_READINGS_MAX];
    enum hf_answer best = HF_ANSWER_UNKNOWN;
    size_t n = hf_handle_read(bytes, readings);

    hf_exports_look(&resolver->exports, now_ms);
    for (size_t i = 0; i < n && best != HF_ANSWER_NAMED; i++) {
        enum hf_answer answer = readings[i].kind == HF_HANDLE_KERNEL
                                    ? resolve_kernel(resolver, now_ms, &readings[i], path)
                                    : resolve_inode(resolver, now_ms, &readings[i], path);

        if (is_better(answer, best))
            best = answer;
    }
    return best;
}
