#include "keeper/store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <systemd/sd-daemon.h>
#include <time.h>
#include <unistd.h>

#include "base/hex.h"
#include "base/log.h"
#include "base/text.h"
#include "keeper/guard.h"
#include "keeper/kernel_locks.h"

enum {
    NAME_BYTES = 2 * HF_KEEPER_HANDLE_MAX + 8,
    LOW_FILES = 16,
    BARRIER_US = 5000000,
    INFO_PAUSE_MS = 10
};

static const char LEASE[] = "lease";

static struct {
    size_t max, count;
    int64_t next_ms;
} store;

/* Makes the name of a copy: "r-" or "w-", and the handle in hex. */
static void name_of(struct hf_bytes handle, bool writable, char out[NAME_BYTES])
{
    out[0] = writable ? 'w' : 'r';
    out[1] = '-';
    hf_hex_encode(handle.data, handle.len, out + 2);
    out[2 + 2 * handle.len] = '\0';
}

static struct hf_bytes handle_of(const struct hf_keeper_file *file)
{
    return hf_bytes(file->handle, file->handle_len);
}

static void remove_copy(struct hf_bytes handle, bool writable)
{
    char name[NAME_BYTES];

    name_of(handle, writable, name);
    (void)sd_notifyf(0, "FDSTOREREMOVE=1\nFDNAME=%s", name);
}

void hf_store_remove(struct hf_keeper_file *file)
{
    if (!file->stored)
        return;
    remove_copy(handle_of(file), file->writable);
    file->stored = false;
    store.count--;
}

static void give(struct hf_keeper_file *file)
{
    char name[NAME_BYTES];
    char state[NAME_BYTES + 32];

    name_of(handle_of(file), file->writable, name);
    hf_format(state, sizeof(state), "FDSTORE=1\nFDNAME=%s", name);
    if (sd_pid_notify_with_fds(0, 0, state, &file->fd, 1) > 0) {
        file->stored = true;
        store.count++;
        hf_guard_set(file->fd, handle_of(file), file->writable, true);
    }
}

void hf_store_give_lease(int timer)
{
    char state[64];
    bool stored;

    if (hf_guard_lease(&stored) != timer)
        hf_guard_set_lease(timer, false);
    if (store.max == 0 || stored)
        return;
    hf_format(state, sizeof(state), "FDSTORE=1\nFDNAME=%s", LEASE);
    hf_guard_set_lease(timer, sd_pid_notify_with_fds(0, 0, state, &timer, 1) > 0);
}

/* Gives systemd more copies. Files are in the order in which they were opened, so those without a
 * copy are the last ones. */
int hf_store_step(struct hf_keeper_files *files, int64_t now_ms)
{
    unsigned given = 0;

    if (store.max == 0 || files->count == store.count)
        return -1;
    if (now_ms < store.next_ms)
        return (int)(store.next_ms - now_ms);
    store.next_ms = now_ms + HF_STORE_PERIOD_MS;
    for (struct hf_list *node = files->all.prev, *before; node != &files->all; node = before) {
        struct hf_keeper_file *file = hf_list_entry(node, struct hf_keeper_file, link);

        before = node->prev;
        if (file->stored || given == HF_STORE_BATCH || store.count == store.max)
            break;
        if (now_ms - file->since_ms >= HF_STORE_AGE_MS && file->ranges.count > 0) {
            give(file);
            given++;
        }
    }
    return HF_STORE_PERIOD_MS;
}

/* ---- after a restart ---- */

/* Reads a line of /proc/self/fdinfo such as: lock: 1: OFDLCK ADVISORY WRITE -1 fe:00:1234 0 EOF */
static bool read_lock(const char *line, struct hf_span *out)
{
    char class[16], mode[16], first[32], last[32];

    if (sscanf(line, "lock: %*d: %15s %*s %15s %*d %*s %31s %31s", class, mode, first, last) != 4 ||
        strcmp(class, "OFDLCK") != 0)
        return false;
    out->first = strtoull(first, NULL, 10);
    out->last = strcmp(last, "EOF") == 0 ? HF_RANGE_LAST : strtoull(last, NULL, 10);
    out->mode = strcmp(mode, "WRITE") == 0 ? HF_KEEPER_EXCLUSIVE : HF_KEEPER_SHARED;
    return out->first <= out->last && out->last <= HF_RANGE_LAST;
}

/*
 * Opens the kernel's list of the locks of a descriptor. Without the list the file would be taken
 * for unlocked and closed, so want of files or of memory is waited out.
 */
static FILE *open_info(int fd)
{
    const struct timespec pause = {.tv_nsec = INFO_PAUSE_MS * 1000000L};
    char path[64];
    FILE *info;

    hf_format(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
    while (!(info = fopen(path, "re")) &&
           (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == EINTR)) {
        hf_log_limited(HF_LOG_WARN, "cannot read yet what is locked",
                       HF_STR("reason", strerror(errno))); /* NOLINT(concurrency-mt-unsafe) */
        (void)nanosleep(&pause, NULL);
    }
    return info;
}

static void find_ranges(struct hf_keeper_files *files, struct hf_keeper_file *file)
{
    char line[256];
    struct hf_span span;
    FILE *info = open_info(file->fd);

    while (info && fgets(line, sizeof(line), info)) {
        if (read_lock(line, &span) &&
            hf_ranges_reserve(&file->ranges, file->ranges.count + 2) == 0) {
            files->n_spans -= file->ranges.count;
            hf_ranges_set(&file->ranges, &span);
            files->n_spans += file->ranges.count;
        }
    }
    if (info)
        (void)fclose(info);
}

/* Moves a descriptor up, to leave low numbers to files that stay open for as long as the process
 * lives (confine.h). */
static int move_up(int fd, int above)
{
    int moved = fcntl(fd, F_DUPFD_CLOEXEC, above);

    if (moved >= 0)
        close(fd);
    return moved >= 0 ? moved : fd;
}

static void take(int fd, const char *name)
{
    uint8_t handle[HF_KEEPER_HANDLE_MAX];
    bool stored;
    int len = (name[0] == 'r' || name[0] == 'w') && name[1] == '-'
                  ? hf_hex_decode(name + 2, strlen(name + 2), handle, sizeof(handle))
                  : -1;

    if (len > 0)
        hf_guard_set(fd, hf_bytes(handle, (size_t)len), name[0] == 'w', true);
    else if (strcmp(name, LEASE) == 0 && hf_guard_lease(&stored) < 0)
        hf_guard_set_lease(fd, true);
    else
        close(fd);
}

void hf_store_take(size_t max)
{
    char **names = NULL;
    int n = sd_listen_fds_with_names(1, &names);

    store.max = getenv("NOTIFY_SOCKET") ? max : 0; /* NOLINT(concurrency-mt-unsafe): one thread */
    for (int i = 0; i < n; i++) {
        take(move_up(SD_LISTEN_FDS_START + i, SD_LISTEN_FDS_START + n + LOW_FILES),
             names ? names[i] : "");
        if (names)
            free(names[i]);
    }
    free(names); /* NOLINT(bugprone-multi-level-implicit-pointer-conversion) */
}

/* Drops one of two descriptions of one handle: the worker was killed after it had made the one that
 * may write, and before it had closed the other. */
static void drop(int fd, const struct hf_guarded *kept)
{
    hf_kernel_unlock_all(fd);
    if (kept->stored)
        remove_copy(hf_bytes(kept->handle, kept->handle_len), kept->writable);
    hf_guard_clear(fd);
    close(fd);
}

static void adopt(struct hf_keeper_files *files, int64_t now_ms, int fd,
                  const struct hf_guarded *kept)
{
    struct hf_bytes handle = hf_bytes(kept->handle, kept->handle_len);
    struct hf_keeper_file *file;
    struct stat st;

    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || hf_keeper_files_find(files, handle)) {
        drop(fd, kept);
        return;
    }
    file = hf_keeper_files_adopt(files, now_ms, handle, fd, kept->writable);
    if (!file)
        return;
    file->identity.device = st.st_dev;
    file->identity.inode = st.st_ino;
    (void)hf_keeper_files_identify(files, now_ms, handle, &file->identity);
    if (kept->stored) {
        hf_guard_set(fd, handle, kept->writable, true);
        file->stored = true;
        store.count++;
        hf_list_remove(&file->link);
        hf_list_add_head(&files->all, &file->link);
    }
    find_ranges(files, file);
    hf_keeper_files_done(files, file); /* closes a file that was left over without locks */
}

size_t hf_store_adopt(struct hf_keeper_files *files, int64_t now_ms)
{
    struct hf_guarded kept;

    for (int writable = 1; writable >= 0; writable--) {
        for (int fd = -1; (fd = hf_guard_next(fd + 1, &kept)) >= 0;) {
            if (kept.writable == (writable == 1))
                adopt(files, now_ms, fd, &kept);
        }
    }
    hf_exports_close(&files->resolver.exports);
    return files->count;
}

/* Gives systemd copies of the locked files before this process ends, because systemd takes nothing
 * from a process that it does not find any more. */
void hf_store_keep_all(struct hf_keeper_files *files)
{
    if (store.max == 0)
        return;
    for (struct hf_list *node = files->all.prev; node != &files->all; node = node->prev) {
        struct hf_keeper_file *file = hf_list_entry(node, struct hf_keeper_file, link);

        if (file->stored || store.count == store.max)
            break;
        if (file->ranges.count > 0)
            give(file);
    }
    (void)sd_notify_barrier(0, BARRIER_US);
}
