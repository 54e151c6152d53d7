/*
 * Finds the file of a handle of unfs3. Such a handle has a hash of the inode number of each
 * directory on the way to the file, so only a few directories of each level need a look: those with
 * the hash of the handle.
 */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "handles/resolve.h"

struct descent {
    const struct hf_handle *handle;
    dev_t device;
    unsigned left; /* how many directory entries the search may still look at */
    struct stat *file;
    char *path;
    size_t len;
};

static bool push(struct descent *d, const char *name)
{
    size_t more = strlen(name);

    if (d->len + more + 2 > HF_PATH_BYTES_MAX)
        return false;
    if (d->len == 0 || d->path[d->len - 1] != '/')
        d->path[d->len++] = '/';
    memcpy(d->path + d->len, name, more + 1);
    d->len += more;
    return true;
}

static bool is_the_file(struct descent *d, int dir, const char *name)
{
    return fstatat(dir, name, d->file, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) == 0 &&
           d->file->st_dev == d->device && d->file->st_ino == d->handle->ino;
}

/* Closes fd. NOLINTNEXTLINE(misc-no-recursion): as deep as a handle has hashes, 51 at most */
static bool search(struct descent *d, int fd, size_t level)
{
    bool last = level + 1 == d->handle->hashes.len;
    DIR *dir = fdopendir(fd);
    const struct dirent *entry;
    bool found = false;
    size_t len = d->len;

    if (!dir) {
        close(fd);
        return false;
    }
    while (!found && d->left > 0 && (entry = readdir(dir)) != NULL) {
        d->left--;
        if (entry->d_name[0] == '.' &&
            (!entry->d_name[1] || (entry->d_name[1] == '.' && !entry->d_name[2])))
            continue;
        if (last && entry->d_ino == d->handle->ino) {
            found = is_the_file(d, dirfd(dir), entry->d_name) && push(d, entry->d_name);
        } else if (!last && hf_handle_hash(entry->d_ino) == d->handle->hashes.data[level] &&
                   push(d, entry->d_name)) {
            int below =
                openat(dirfd(dir), entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
            struct stat st;

            if (below >= 0 && (fstat(below, &st) < 0 || st.st_dev != d->device)) {
                close(below);
                below = -1;
            }
            found = below >= 0 && search(d, below, level + 1);
            if (!found) {
                d->len = len;
                d->path[len] = '\0';
            }
        }
    }
    (void)closedir(dir);
    return found;
}

/* Returns how many hashes of the handle lead from the server's root to ours; -1 if its hashes do
 * not. */
static int match_way(const struct hf_root *root, const struct hf_handle *handle)
{
    char path[HF_PATH_BYTES_MAX];
    size_t level = 0;
    struct stat st;

    if (!root->path[1])
        return 0;
    for (size_t i = 1; i <= strlen(root->path); i++) {
        if (root->path[i] != '/' && root->path[i] != '\0')
            continue;
        memcpy(path, root->path, i);
        path[i] = '\0';
        if (level + 1 >= handle->hashes.len || lstat(path, &st) < 0 ||
            hf_handle_hash(st.st_ino) != handle->hashes.data[level])
            return -1;
        level++;
    }
    return (int)level;
}

bool hf_descend(struct hf_root *root, const struct hf_handle *handle, struct stat *file,
                char path[HF_PATH_BYTES_MAX])
{
    struct descent d = {
        .handle = handle,
        .device = root->device,
        .left = HF_DESCENT_ENTRIES_MAX,
        .file = file,
        .path = path,
        .len = strlen(root->path),
    };
    int level = match_way(root, handle);
    int fd;

    if (level < 0 || d.len >= HF_PATH_BYTES_MAX)
        return false;
    memcpy(path, root->path, d.len + 1);
    fd = hf_root_open_below(root, "", O_RDONLY | O_DIRECTORY, false);
    return fd >= 0 && search(&d, fd, (size_t)level);
}
