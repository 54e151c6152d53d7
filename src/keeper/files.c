#include "keeper/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/text.h"
#include "keeper/guard.h"
#include "keeper/kernel_locks.h"
#include "keeper/reopen.h"
#include "keeper/store.h"

int hf_keeper_files_init(struct hf_keeper_files *files)
{
    memset(files, 0, sizeof(*files));
    hf_list_init(&files->all);
    hf_list_init(&files->idle);
    if (getrandom(&files->key, sizeof(files->key), 0) < 0)
        return HF_EUNAVAIL;
    if (hf_map_init(&files->map, &hf_alloc_heap) < 0)
        return HF_ENOMEM;
    return hf_resolver_init(&files->resolver, 0);
}

void hf_keeper_files_free(struct hf_keeper_files *files)
{
    while (!hf_list_empty(&files->all))
        hf_keeper_files_close(files, hf_list_first(&files->all, struct hf_keeper_file, link));
    hf_map_free(&files->map);
    hf_resolver_free(&files->resolver);
    while (files->n_let_go > 0)
        free(files->let_go[--files->n_let_go].path);
}

/* ---- the table ---- */

static bool has_handle(const struct hf_map_node *node, const void *key)
{
    const struct hf_keeper_file *file = hf_container_of(node, struct hf_keeper_file, node);

    return hf_bytes_equal(hf_bytes(file->handle, file->handle_len), *(const struct hf_bytes *)key);
}

struct hf_keeper_file *hf_keeper_files_find(struct hf_keeper_files *files, struct hf_bytes handle)
{
    struct hf_map_node *node = hf_map_find(
        &files->map, hf_hash(&files->key, handle.data, handle.len), has_handle, &handle);

    return node ? hf_container_of(node, struct hf_keeper_file, node) : NULL;
}

struct hf_keeper_file *hf_keeper_files_adopt(struct hf_keeper_files *files, int64_t now_ms,
                                             struct hf_bytes handle, int fd, bool writable)
{
    struct hf_keeper_file *file = calloc(1, sizeof(*file));

    HF_ASSERT(handle.len <= HF_KEEPER_HANDLE_MAX);
    if (!file) {
        close(fd);
        return NULL;
    }
    hf_guard_set(fd, handle, writable, false);
    file->fd = fd;
    file->writable = writable;
    file->since_ms = now_ms;
    file->handle_len = (uint8_t)handle.len;
    memcpy(file->handle, handle.data, handle.len);
    hf_ranges_init(&file->ranges);
    hf_list_init(&file->waits);
    hf_list_init(&file->idle);
    hf_list_add_tail(&files->all, &file->link);
    hf_map_insert(&files->map, &file->node, hf_hash(&files->key, handle.data, handle.len));
    files->count++;
    return file;
}

static void set_idle(struct hf_keeper_files *files, struct hf_keeper_file *file, bool idle)
{
    if (hf_list_linked(&file->idle)) {
        hf_list_remove(&file->idle);
        files->n_idle--;
    }
    if (!idle)
        return;
    file->idle_ms = files->now_ms;
    hf_list_add_tail(&files->idle, &file->idle);
    files->n_idle++;
}

/* Closes a file. Its locks are released one by one before, because a copy of the description in
 * systemd would keep them. */
void hf_keeper_files_close(struct hf_keeper_files *files, struct hf_keeper_file *file)
{
    HF_ASSERT(file && hf_list_empty(&file->waits));
    files->n_spans -= file->ranges.count;
    if (file->stored) {
        hf_kernel_unlock_all(file->fd);
        hf_store_remove(file);
    }
    hf_guard_clear(file->fd);
    close(file->fd);
    set_idle(files, file, false);
    hf_map_remove(&files->map, &file->node);
    hf_list_remove(&file->link);
    hf_ranges_free(&file->ranges);
    free(file);
    files->count--;
}

static bool is_used(const struct hf_keeper_file *file)
{
    return file->ranges.count > 0 || !hf_list_empty(&file->waits) || file->pins > 0;
}

static struct hf_keeper_file *first_idle(struct hf_keeper_files *files)
{
    return hf_list_first(&files->idle, struct hf_keeper_file, idle);
}

/* A file that is used again is taken off the list of idle files here, not when its use begins. */
static void end_idle(struct hf_keeper_files *files, struct hf_keeper_file *file)
{
    if (is_used(file))
        set_idle(files, file, false);
    else
        hf_keeper_files_close(files, file);
}

void hf_keeper_files_done(struct hf_keeper_files *files, struct hf_keeper_file *file)
{
    if (is_used(file))
        return;
    set_idle(files, file, true);
    if (files->n_idle > HF_FILES_IDLE_MAX)
        end_idle(files, first_idle(files));
}

int hf_keeper_files_step(struct hf_keeper_files *files)
{
    struct hf_keeper_file *file;

    while ((file = first_idle(files)) != NULL) {
        int64_t due_ms = file->idle_ms + HF_FILES_IDLE_MS;

        if (due_ms > files->now_ms)
            return (int)(due_ms - files->now_ms);
        end_idle(files, file);
    }
    return -1;
}

/* ---- opening ---- */

static enum hf_keeper_status status_of_answer(enum hf_answer answer, struct hf_bytes handle)
{
    struct hf_handle readings[HF_HANDLE_READINGS_MAX];

    switch (answer) {
    case HF_ANSWER_NAMED:
        return HF_KEEPER_OK;
    case HF_ANSWER_LATER:
        return HF_KEEPER_NOT_YET;
    case HF_ANSWER_DELETED:
        return HF_KEEPER_STALE;
    default: /* the handle is understood, but its file is not found */
        return hf_handle_read(handle, readings) > 0 ? HF_KEEPER_NOT_IN_EXPORT
                                                    : HF_KEEPER_UNKNOWN_HANDLE;
    }
}

/* True if path is `top` or below it. */
static bool is_below(const char *path, const char *top)
{
    size_t len = strlen(top);

    return strncmp(path, top, len) == 0 &&
           (path[len] == '\0' || path[len] == '/' || (len > 0 && top[len - 1] == '/'));
}

static void path_of(int fd, char path[HF_PATH_BYTES_MAX])
{
    char link[64];
    ssize_t len;

    hf_format(link, sizeof(link), "/proc/self/fd/%d", fd);
    len = readlink(link, path, HF_PATH_BYTES_MAX - 1);
    path[len > 0 ? len : 0] = '\0';
}

static bool is_let_go(const struct hf_keeper_files *files, dev_t device, int fd)
{
    char path[HF_PATH_BYTES_MAX];

    if (files->n_let_go == 0)
        return false;
    path_of(fd, path);
    for (size_t i = 0; i < files->n_let_go; i++) {
        const struct hf_let_go *gone = &files->let_go[i];

        if ((gone->device && gone->device == device) || is_below(path, gone->path))
            return true;
    }
    return false;
}

/* Finds the file of a handle; if the result is OK, found->fd is open for its path only (O_PATH). */
static enum hf_keeper_status find_file(struct hf_keeper_files *files, int64_t now_ms,
                                       struct hf_bytes handle, struct hf_found *found)
{
    enum hf_keeper_status status =
        status_of_answer(hf_resolve_file(&files->resolver, now_ms, handle, found), handle);

    if (status != HF_KEEPER_OK)
        return status;
    if (!S_ISREG(found->file.st_mode))
        status = HF_KEEPER_NOT_A_FILE;
    else if (is_let_go(files, found->file.st_dev, found->fd))
        status = HF_KEEPER_WAS_LET_GO;
    if (status != HF_KEEPER_OK)
        close(found->fd);
    return status;
}

static struct hf_keeper_identity identity_of(const struct hf_found *found)
{
    return (struct hf_keeper_identity){
        .device = found->file.st_dev, .inode = found->file.st_ino, .generation = found->generation};
}

enum hf_keeper_status hf_keeper_files_identify(struct hf_keeper_files *files, int64_t now_ms,
                                               struct hf_bytes handle,
                                               struct hf_keeper_identity *out)
{
    struct hf_found found;
    enum hf_keeper_status status = find_file(files, now_ms, handle, &found);

    if (status == HF_KEEPER_OK) {
        *out = identity_of(&found);
        close(found.fd);
    }
    return status;
}

enum hf_keeper_status hf_keeper_files_get(struct hf_keeper_files *files, int64_t now_ms,
                                          struct hf_bytes handle, enum hf_keeper_mode mode,
                                          struct hf_keeper_file **out)
{
    bool writable = mode == HF_KEEPER_EXCLUSIVE;
    struct hf_found found;
    enum hf_keeper_status status;
    int fd;

    *out = hf_keeper_files_find(files, handle);
    /* An unused file is opened anew, for reading only. */
    if (*out && (*out)->writable && !writable && !is_used(*out)) {
        hf_keeper_files_close(files, *out);
        *out = NULL;
    }
    if (*out)
        return HF_KEEPER_OK;
    while (files->count >= files->max && first_idle(files))
        end_idle(files, first_idle(files));
    if (files->count >= files->max)
        return HF_KEEPER_TOO_MANY_FILES;
    status = find_file(files, now_ms, handle, &found);
    if (status != HF_KEEPER_OK)
        return status;
    fd = hf_reopen(found.fd, writable);
    if (fd < 0)
        status = hf_status_of_errno(errno);
    else
        status = hf_probe(&files->probes, found.file.st_dev, fd);
    close(found.fd);
    if (status == HF_KEEPER_OK) {
        *out = hf_keeper_files_adopt(files, now_ms, handle, fd, writable);
        if (!*out)
            return HF_KEEPER_NO_MEMORY;
        (*out)->identity = identity_of(&found);
    } else if (fd >= 0) {
        close(fd);
    }
    return status;
}

enum hf_keeper_status hf_keeper_files_make_writable(struct hf_keeper_files *files,
                                                    struct hf_keeper_file *file)
{
    int fd;

    if (file->writable)
        return HF_KEEPER_OK;
    fd = hf_reopen(file->fd, true);
    if (fd < 0)
        return hf_status_of_errno(errno);
    /* All ranges of the file are shared, so none of them conflicts. */
    for (uint32_t i = 0; i < file->ranges.count; i++) {
        if (hf_kernel_lock(fd, &file->ranges.spans[i]) < 0) {
            enum hf_keeper_status status = hf_status_of_errno(errno);

            close(fd);
            return status;
        }
    }
    hf_guard_set(fd, hf_bytes(file->handle, file->handle_len), true, false);
    if (file->stored) {
        hf_kernel_unlock_all(file->fd);
        hf_store_remove(file);
        hf_list_remove(&file->link);
        hf_list_add_tail(&files->all, &file->link);
    }
    hf_guard_clear(file->fd);
    close(file->fd);
    file->fd = fd;
    file->writable = true;
    return HF_KEEPER_OK;
}

/* ---- letting go ---- */

int hf_keeper_files_let_go(struct hf_keeper_files *files, const char *path)
{
    struct hf_let_go *gone = &files->let_go[files->n_let_go];
    char parent[HF_PATH_BYTES_MAX];
    struct stat st, above;

    for (size_t i = 0; i < files->n_let_go; i++) {
        if (strcmp(files->let_go[i].path, path) == 0)
            return 0;
    }
    if (files->n_let_go == HF_LET_GO_MAX)
        return HF_ELIMIT;
    *gone = (struct hf_let_go){.path = strdup(path)};
    if (!gone->path)
        return HF_ENOMEM;
    hf_format(parent, sizeof(parent), "%.4000s/..", path);
    if (stat(path, &st) == 0 && stat(parent, &above) == 0 &&
        (st.st_dev != above.st_dev || st.st_ino == above.st_ino))
        gone->device = st.st_dev;
    files->n_let_go++;
    return 0;
}

void hf_keeper_files_take_back(struct hf_keeper_files *files, const char *path)
{
    for (size_t i = 0; i < files->n_let_go; i++) {
        if (strcmp(files->let_go[i].path, path) == 0) {
            free(files->let_go[i].path);
            files->let_go[i] = files->let_go[--files->n_let_go];
            return;
        }
    }
}

bool hf_keeper_files_has_let_go(const struct hf_keeper_files *files, const char *path)
{
    for (size_t i = 0; i < files->n_let_go; i++) {
        if (is_below(path, files->let_go[i].path))
            return true;
    }
    return false;
}

void hf_keeper_files_count_below(const struct hf_keeper_files *files, const char *path,
                                 uint64_t *n_files, uint64_t *n_ranges)
{
    char of[HF_PATH_BYTES_MAX];

    *n_files = *n_ranges = 0;
    hf_list_foreach (node, &files->all) {
        const struct hf_keeper_file *file = hf_list_entry(node, struct hf_keeper_file, link);

        path_of(file->fd, of);
        if (!is_used(file) || !is_below(of, path))
            continue;
        ++*n_files;
        *n_ranges += file->ranges.count;
    }
}

bool hf_keeper_files_is_let_go(const struct hf_keeper_files *files,
                               const struct hf_keeper_file *file)
{
    return is_let_go(files, (dev_t)file->identity.device, file->fd);
}
