#include "store/lmdb_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/text.h"
#include "store/backend.h"

#define LOCK_NAME "holdfast.lock"
#define DATA_NAME "data.mdb"

enum {
    NEARLY_FULL_BYTES = 1 << 20,
    LONGEST_NAME = 32, /* the longest file name in the directory, with the slash before it */
};

/* True if the file system is full: LMDB then reports a short write as EIO, although the cause is
 * ENOSPC. */
static bool nearly_full(const struct hf_lmdb_dir *dir)
{
    struct statvfs fs;

    return dir->fd >= 0 && fstatvfs(dir->fd, &fs) == 0 &&
           fs.f_bavail < NEARLY_FULL_BYTES / fs.f_frsize;
}

int hf_lmdb_dir_fail(struct hf_store *store, const struct hf_lmdb_dir *dir, int error,
                     const char *what)
{
    if (error == EIO && nearly_full(dir))
        error = ENOSPC;
    switch (error) {
    case ENOSPC:
    case EDQUOT:
        return hf_store_fail(store, HF_ENOSPC,
                             "%s in %s: the file system is full; free some space, nothing is lost",
                             what, dir->path);
    case EROFS:
        return hf_store_fail(store, HF_EROFS,
                             "%s in %s: the file system is read-only; remount it for writing, or "
                             "set store.path to a directory that can be written",
                             what, dir->path);
    case EACCES:
    case EPERM:
        return hf_store_fail(store, HF_EDENIED,
                             "%s in %s: permission denied; give the directory and its files to the "
                             "user that holdfastd runs as: chown -R %u:%u %s/",
                             what, dir->path, geteuid(), getegid(), dir->path);
    case ELOOP:
        return hf_store_fail(store, HF_EDENIED,
                             "%s in %s: a symbolic link is in its place; remove the link, the "
                             "store's files are never links",
                             what, dir->path);
    case ENOMEM:
        return hf_store_fail(store, HF_ENOMEM, "%s in %s: out of memory", what, dir->path);
    case ENOENT:
    case ENOTDIR:
        return hf_store_fail(store, HF_ENOENT,
                             "%s in %s: %s; set store.path to a directory that is there, or can be "
                             "made",
                             what, dir->path, strerror(error));
    default:
        return hf_store_fail(store, HF_EIO, "%s in %s: %s; see the kernel's log about this disk",
                             what, dir->path, strerror(error));
    }
}

/* A new directory entry is durable only when the directory that holds it is synced. */
static int sync_parent(const struct hf_lmdb_dir *dir)
{
    int fd = openat(dir->fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int rv;

    /* The daemon may not open the parent directory: syncing it is up to the program that created
     * the store's directory there. */
    if (fd < 0)
        return errno == EACCES ? 0 : -1;
    rv = fsync(fd);
    close(fd);
    return rv;
}

static int open_directory(struct hf_store *store, struct hf_lmdb_dir *dir)
{
    bool made = mkdir(dir->path, 0700) == 0;

    if (!made && errno != EEXIST)
        return hf_lmdb_dir_fail(store, dir, errno, "cannot make the store's directory");
    dir->fd = open(dir->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir->fd < 0)
        return hf_lmdb_dir_fail(store, dir, errno, "cannot open the store's directory");
    if (made && sync_parent(dir) < 0)
        return hf_lmdb_dir_fail(store, dir, errno, "cannot sync the parent directory");
    return 0;
}

static int fail_busy(struct hf_store *store, const struct hf_lmdb_dir *dir)
{
    char pid[24] = "";
    ssize_t len = pread(dir->lock_fd, pid, sizeof(pid) - 1, 0);

    pid[len > 0 ? len : 0] = '\0';
    pid[strspn(pid, "0123456789")] = '\0';
    return hf_store_fail(store, HF_EBUSY,
                         "%s is in use by another holdfastd (process %s); stop that one, or set "
                         "store.path to another directory",
                         dir->path, *pid ? pid : "unknown");
}

static int take_lock(struct hf_store *store, struct hf_lmdb_dir *dir)
{
    char pid[24];
    int len = snprintf(pid, sizeof(pid), "%ld\n", (long)getpid());

    dir->lock_fd = openat(dir->fd, LOCK_NAME, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (dir->lock_fd < 0)
        return hf_lmdb_dir_fail(store, dir, errno, "cannot open " LOCK_NAME);
    if (flock(dir->lock_fd, LOCK_EX | LOCK_NB) < 0) {
        if (errno == EWOULDBLOCK)
            return fail_busy(store, dir);
        return hf_lmdb_dir_fail(store, dir, errno, "cannot lock " LOCK_NAME);
    }
    /* The lock file's process id only informs operators; a full disk must not prevent the start. */
    if (ftruncate(dir->lock_fd, 0) < 0 || pwrite(dir->lock_fd, pid, (size_t)len, 0) < 0)
        return errno == ENOSPC ? 0 : hf_lmdb_dir_fail(store, dir, errno, "cannot write " LOCK_NAME);
    return 0;
}

int hf_lmdb_dir_open(struct hf_store *store, const char *path, struct hf_lmdb_dir *out)
{
    int rv;

    *out = (struct hf_lmdb_dir){.fd = -1, .lock_fd = -1};
    if (!path || !*path)
        return hf_store_fail(store, HF_EINVAL, "store.path is empty; set it to a directory");
    if (strlen(path) > PATH_MAX - LONGEST_NAME)
        return hf_store_fail(store, HF_EINVAL, "store.path is too long");
    out->path = hf_malloc(store->alloc, strlen(path) + 1);
    if (!out->path)
        return hf_store_fail(store, HF_ENOMEM, "out of memory");
    memcpy(out->path, path, strlen(path) + 1);
    rv = open_directory(store, out);
    if (rv == 0)
        rv = take_lock(store, out);
    if (rv < 0)
        hf_lmdb_dir_close(store, out);
    return rv;
}

void hf_lmdb_dir_close(struct hf_store *store, struct hf_lmdb_dir *dir)
{
    /* Keep holdfast.lock: if it were removed, two daemons could each hold a lock on a file of that
     * name. */
    if (dir->lock_fd >= 0)
        close(dir->lock_fd);
    if (dir->fd >= 0)
        close(dir->fd);
    hf_free(store->alloc, dir->path);
    *dir = (struct hf_lmdb_dir){.fd = -1, .lock_fd = -1};
}

static bool is_of_another(const struct hf_lmdb_dir *dir, struct stat *owner)
{
    return geteuid() == 0 && fstat(dir->fd, owner) == 0 && owner->st_uid != 0;
}

bool hf_lmdb_dir_is_of_another(const struct hf_lmdb_dir *dir)
{
    struct stat owner;

    return is_of_another(dir, &owner);
}

void hf_lmdb_dir_give(const struct hf_lmdb_dir *dir)
{
    static const char *const NAMES[] = {DATA_NAME, "lock.mdb", LOCK_NAME, "journal"};
    struct stat owner;

    if (!is_of_another(dir, &owner))
        return;
    for (size_t i = 0; i < HF_COUNT_OF(NAMES); i++) {
        /* Open with O_PATH: closing any other descriptor of lock.mdb would drop LMDB's own locks on
         * it. */
        int fd = openat(dir->fd, NAMES[i], O_PATH | O_NOFOLLOW | O_CLOEXEC);
        struct stat st;

        if (fd < 0)
            continue;
        /* Leave links alone: a link could lead to a file that is not the store's. */
        if (fstat(fd, &st) == 0 && st.st_uid == 0 && S_ISREG(st.st_mode) && st.st_nlink == 1)
            (void)!fchownat(fd, "", owner.st_uid, owner.st_gid, AT_EMPTY_PATH);
        close(fd);
    }
}

int hf_lmdb_dir_settle(struct hf_store *store, struct hf_lmdb_dir *dir)
{
    struct statx st;

    if (fsync(dir->fd) < 0)
        return hf_lmdb_dir_fail(store, dir, errno, "cannot sync the store's directory");
    if (statx(dir->fd, DATA_NAME, 0, STATX_INO | STATX_BTIME, &st) < 0)
        return hf_lmdb_dir_fail(store, dir, errno, "cannot look at " DATA_NAME);
    dir->data_dev = makedev(st.stx_dev_major, st.stx_dev_minor);
    dir->home = (struct hf_lmdb_home){.inode = st.stx_ino};
    if (st.stx_mask & STATX_BTIME)
        dir->home.born_ns =
            (uint64_t)st.stx_btime.tv_sec * UINT64_C(1000000000) + st.stx_btime.tv_nsec;
    return 0;
}

int hf_lmdb_dir_check(struct hf_store *store, const struct hf_lmdb_dir *dir)
{
    char name[PATH_MAX];
    struct stat st;

    hf_format(name, sizeof(name), "%s/" DATA_NAME, dir->path);
    if (stat(name, &st) == 0 && st.st_dev == dir->data_dev && st.st_ino == dir->home.inode)
        return 0;
    return hf_store_fail(store, HF_EFENCED,
                         "%s/" DATA_NAME " was removed or replaced while in use; nothing more is "
                         "written; restart holdfastd to use what is there now",
                         dir->path);
}

int hf_lmdb_dir_fail_fenced(struct hf_store *store, const struct hf_lmdb_dir *dir)
{
    return hf_store_fail(store, HF_EFENCED,
                         "another holdfastd has taken over %s; this one writes nothing more, and "
                         "should be stopped",
                         dir->path);
}
