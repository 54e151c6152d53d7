#include "keeper/store.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "base/hex.h"
#include "base/log.h"
#include "base/text.h"

enum { NAME_BYTES = 2 * HF_KEEPER_HANDLE_MAX + 8, LOW_FILES = 16 };

static const char LEASE[] = "lease";

static struct {
    size_t max, count;
    int64_t next_ms;
    int lease;        /* the timer that systemd kept */
    bool lease_given; /* systemd has a copy of the timer */
} store = {.lease = -1};

/* Makes the name of a copy: "r-" or "w-", and the handle. */
static void name_of(const struct hf_keeper_file *file, char out[NAME_BYTES])
{
    out[0] = file->writable ? 'w' : 'r';
    out[1] = '-';
    hf_hex_encode(file->handle, file->handle_len, out + 2);
    out[2 + 2 * file->handle_len] = '\0';
}

void hf_store_remove(struct hf_keeper_file *file)
{
    char name[NAME_BYTES];

    if (!file->stored)
        return;
    name_of(file, name);
    (void)sd_notifyf(0, "FDSTOREREMOVE=1\nFDNAME=%s", name);
    file->stored = false;
    store.count--;
}

static void give(struct hf_keeper_file *file)
{
    char name[NAME_BYTES];
    char state[NAME_BYTES + 32];

    name_of(file, name);
    hf_format(state, sizeof(state), "FDSTORE=1\nFDNAME=%s", name);
    if (sd_pid_notify_with_fds(0, 0, state, &file->fd, 1) > 0) {
        file->stored = true;
        store.count++;
    }
}

void hf_store_give_lease(int timer)
{
    char state[64];

    if (store.max == 0 || store.lease_given)
        return;
    hf_format(state, sizeof(state), "FDSTORE=1\nFDNAME=%s", LEASE);
    store.lease_given = sd_pid_notify_with_fds(0, 0, state, &timer, 1) > 0;
}

int hf_store_lease(void)
{
    return store.lease;
}

/* Files are in the order in which they were opened, so those without a copy are the last ones. */
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

/* Reads a line like this: lock: 1: OFDLCK ADVISORY WRITE -1 fe:00:1234 0 EOF */
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

static void find_ranges(struct hf_keeper_files *files, struct hf_keeper_file *file)
{
    char line[256];
    struct hf_span span;
    FILE *info;

    hf_format(line, sizeof(line), "/proc/self/fdinfo/%d", file->fd);
    info = fopen(line, "re");
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

static void adopt_lease(int fd)
{
    store.lease = fd;
    store.lease_given = true;
}

static bool adopt(struct hf_keeper_files *files, int64_t now_ms, int fd, const char *name)
{
    uint8_t handle[HF_KEEPER_HANDLE_MAX];
    int len = (name[0] == 'r' || name[0] == 'w') && name[1] == '-'
                  ? hf_hex_decode(name + 2, strlen(name + 2), handle, sizeof(handle))
                  : -1;
    struct hf_keeper_file *file;
    struct stat st;

    if (len <= 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) ||
        hf_keeper_files_find(files, hf_bytes(handle, (size_t)len))) {
        close(fd);
        return false;
    }
    file = hf_keeper_files_adopt(files, now_ms, hf_bytes(handle, (size_t)len), fd, name[0] == 'w');
    if (!file)
        return false;
    file->identity.device = st.st_dev;
    file->identity.inode = st.st_ino;
    (void)hf_keeper_files_identify(files, now_ms, hf_bytes(handle, (size_t)len), &file->identity);
    file->stored = true;
    store.count++;
    find_ranges(files, file);
    hf_keeper_files_done(files, file); /* closes the file if it has no lock */
    return true;
}

size_t hf_store_take(struct hf_keeper_files *files, int64_t now_ms, size_t max)
{
    char **names = NULL;
    int n = sd_listen_fds_with_names(1, &names);

    store.max = getenv("NOTIFY_SOCKET") ? max : 0; /* NOLINT(concurrency-mt-unsafe): one thread */
    for (int i = 0; i < n; i++) {
        int fd = move_up(SD_LISTEN_FDS_START + i, SD_LISTEN_FDS_START + n + LOW_FILES);

        if (names && strcmp(names[i], LEASE) == 0 && store.lease < 0)
            adopt_lease(fd);
        else
            (void)adopt(files, now_ms, fd, names ? names[i] : "");
        if (names)
            free(names[i]);
    }
    free(names); /* NOLINT(bugprone-multi-level-implicit-pointer-conversion) */
    hf_exports_close(&files->resolver.exports);
    return files->count;
}
