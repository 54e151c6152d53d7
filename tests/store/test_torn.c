/*
 * STO-02, loss of power: all writes and syncs of the LMDB store, to its tree and to its journal,
 * are recorded (recorder.c) while a story is told to it. Then the power is cut after each of them.
 * What was written but not synced may have reached the disk in any part and any order, sector by
 * sector; from each such disk the store must open, be consistent, and hold every batch that was
 * acknowledged, and at most one more.
 *
 * DUR-02: of batches that are written and not flushed (process), the newest may be lost when the
 * host crashes; all up to the last flush must be there, none may be missing in the middle, and the
 * store must open.
 *
 * usage: test-torn RECORDER.so [process]
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "fixture.h"
#include "recorder.h"
#include "store/store.h"

enum {
    BATCHES = 80,
    /* So many batches make a checkpoint; a full journal would make one much later. */
    CHECKPOINT_EVERY = 5,
    SECTOR = 512,
    CUTS_PER_EVENT = 6, /* random cuts, beside those that keep everything or nothing */
    PENDING_MAX = 1024,
    FLUSHED_EVERY = 7, /* process: batches */
    /* The bit in the high half of an acknowledgement that says: all that was written is durable. */
    FLUSHED = 1,
};

static const uint64_t SEED = 8128;

struct image {
    uint8_t *bytes;
    size_t len;
    size_t room;
};

/* The store's files, by number. */
struct disk {
    struct image files[STORE_FILES];
};

struct replay {
    struct disk durable;                 /* what certainly survives a power cut */
    const uint8_t *pending[PENDING_MAX]; /* the writes since the last sync */
    size_t n_pending;
    uint64_t acked;
    /* The newest batch that must be there; in mode "process" it may be older than acked. */
    uint64_t flushed;
    struct digest digests[BATCHES + 1]; /* after each batch */
    struct dice dice;
    char dir[PATH_MAX];
    unsigned long cuts;
    unsigned long ahead; /* how many cuts kept the batch in flight */
    unsigned long lost;  /* process: how many cuts lost an acknowledged batch */
};

static bool process; /* locks.durable=process */

static struct hf_store_config config_of(const char *dir, uint8_t boot)
{
    return (struct hf_store_config){.backend = "lmdb",
                                    .path = dir,
                                    .unflushed = process,
                                    .side_bytes = 1 << 16,
                                    .boot_id = {boot}};
}

static void image_write(struct image *image, const uint8_t *data, size_t len, size_t offset)
{
    if (offset + len > image->room) {
        image->room = (offset + len) * 2;
        image->bytes = realloc(image->bytes, image->room);
        MUST(image->bytes);
    }
    if (offset + len > image->len) {
        memset(image->bytes + image->len, 0, offset + len - image->len);
        image->len = offset + len;
    }
    memcpy(image->bytes + offset, data, len);
}

static struct event event_at(const uint8_t *p)
{
    struct event event;

    memcpy(&event, p, sizeof(event));
    return event;
}

/* Writes those sectors of an event that the disk took. */
static void write_torn(struct disk *disk, const uint8_t *p, struct dice *dice)
{
    struct event event = event_at(p);

    for (size_t at = 0; at < event.len;) {
        size_t len = SECTOR - (event.offset + at) % SECTOR;

        len = len < event.len - at ? len : event.len - at;
        if (dice_below(dice, 2))
            image_write(&disk->files[event.file], p + sizeof(event) + at, len, event.offset + at);
        at += len;
    }
}

static void write_whole(struct disk *disk, const uint8_t *p)
{
    struct event event = event_at(p);

    image_write(&disk->files[event.file], p + sizeof(event), event.len, event.offset);
}

/* Writes a file, and leaves a hole where there are only zeros up to the end, to be quick. */
static void write_file(const char *dir, const char *name, const struct image *image)
{
    char path[PATH_MAX + 16];
    size_t len = image->len;
    int fd;

    while (len > 0 && image->bytes[len - 1] == 0)
        len--;
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    MUST(fd >= 0 && write(fd, image->bytes, len) == (ssize_t)len);
    MUST(ftruncate(fd, (off_t)image->len) == 0);
    close(fd);
}

static void write_disk(const char *dir, const struct disk *disk)
{
    for (int i = 0; i < STORE_FILES; i++)
        write_file(dir, STORE_FILE_NAMES[i], &disk->files[i]);
}

static bool same(const struct digest *a, const struct digest *b)
{
    return a->sum == b->sum && a->count == b->count;
}

/* The machine starts again with this disk. */
static bool boot(struct replay *r, const struct disk *disk)
{
    struct hf_store_config config = config_of(r->dir, 2);
    struct hf_store store;
    struct digest found;
    bool ok;

    r->cuts++;
    write_disk(r->dir, disk);
    if (hf_store_open(&store, &config) < 0 || store_digest(&store, &found) < 0) {
        printf("# cut %lu: %s\n", r->cuts, hf_store_error(&store));
        return false;
    }
    ok = same(&found, &r->digests[r->acked]);
    for (uint64_t seq = r->flushed; seq < r->acked && !ok; seq++) {
        ok = same(&found, &r->digests[seq]);
        r->lost += ok;
    }
    if (!ok && r->acked < BATCHES && same(&found, &r->digests[r->acked + 1])) {
        ok = true;
        r->ahead++;
    }
    if (!ok)
        printf("# cut %lu: not the state after batch %llu to %llu\n", r->cuts,
               (unsigned long long)r->flushed, (unsigned long long)r->acked);
    hf_store_close(&store);
    return ok;
}

static void free_disk(struct disk *disk)
{
    for (int i = 0; i < STORE_FILES; i++)
        free(disk->files[i].bytes);
}

/* How much of the pending writes the disk keeps: everything, nothing, all but the first, any
 * sectors. */
enum keep { KEEP_ALL, KEEP_NONE, KEEP_LATER, KEEP_TORN };

/* The power fails now; of what is pending the disk has taken as much as how says. */
static bool cut_power(struct replay *r, enum keep how)
{
    struct disk disk = {0};
    bool ok;

    for (int i = 0; i < STORE_FILES; i++)
        image_write(&disk.files[i], r->durable.files[i].bytes, r->durable.files[i].len, 0);
    for (size_t i = 0; i < r->n_pending; i++) {
        if (how == KEEP_ALL || (how == KEEP_LATER && i > 0))
            write_whole(&disk, r->pending[i]);
        else if (how == KEEP_TORN)
            write_torn(&disk, r->pending[i], &r->dice);
    }
    ok = boot(r, &disk);
    free_disk(&disk);
    return ok;
}

static bool cut_power_every_way(struct replay *r)
{
    bool ok = cut_power(r, KEEP_ALL) && cut_power(r, KEEP_NONE) && cut_power(r, KEEP_LATER);

    for (int i = 0; i < CUTS_PER_EVENT && ok; i++)
        ok = cut_power(r, KEEP_TORN);
    return ok;
}

/* Makes durable what is pending for one file; the other file's writes stay pending. */
static void sync_file(struct replay *r, uint32_t file)
{
    size_t kept = 0;

    for (size_t i = 0; i < r->n_pending; i++) {
        if (event_at(r->pending[i]).file == file)
            write_whole(&r->durable, r->pending[i]);
        else
            r->pending[kept++] = r->pending[i];
    }
    r->n_pending = kept;
}

static bool replay_event(struct replay *r, const uint8_t *p)
{
    struct event event = event_at(p);
    bool ok;

    switch ((enum event_type)event.type) {
    case EVENT_ACK:
        MUST(event.len == sizeof(r->acked));
        memcpy(&r->acked, p + sizeof(event), sizeof(r->acked));
        if (r->acked >> 32 == FLUSHED || !process)
            r->flushed = r->acked & UINT32_MAX;
        r->acked &= UINT32_MAX;
        return true;
    case EVENT_SYNC:
        sync_file(r, event.file);
        return cut_power(r, KEEP_NONE);
    case EVENT_WRITE:
    case EVENT_WRITE_THROUGH:
        MUST(r->n_pending < PENDING_MAX);
        r->pending[r->n_pending++] = p;
        ok = cut_power_every_way(r);
        if (event.type == EVENT_WRITE_THROUGH) {
            r->n_pending--;
            write_whole(&r->durable, p);
        }
        return ok;
    }
    give_up("an event of no type");
}

static struct image read_file(const char *dir, const char *name)
{
    char path[PATH_MAX + 16];
    struct image image = {0};
    struct stat st;
    int fd;

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    fd = open(path, O_RDONLY);
    MUST(fd >= 0 && fstat(fd, &st) == 0);
    image.len = image.room = (size_t)st.st_size;
    image.bytes = malloc(image.room);
    MUST(image.bytes && read(fd, image.bytes, image.len) == st.st_size);
    close(fd);
    return image;
}

static void acknowledge(int acks, uint64_t seq)
{
    MUST(write(acks, &seq, sizeof(seq)) == sizeof(seq));
}

/* Copies the store as it is on disk: the record begins with this. */
static void keep_copy(const char *dir)
{
    for (int i = 0; i < STORE_FILES; i++) {
        struct image image = read_file(dir, STORE_FILE_NAMES[i]);
        char name[32];

        snprintf(name, sizeof(name), "first-%s", STORE_FILE_NAMES[i]);
        write_file(dir, name, &image);
        free(image.bytes);
    }
}

/* Runs in the recorded process: applies one batch after the other, each acknowledged when it is
 * durable. */
static void tell_batch(struct hf_store *store, struct hf_batch *batch, int acks)
{
    batch->may_be_lost = process;
    if (process && hf_store_write(store, batch)) {
        acknowledge(acks, batch->seq);
        if (batch->seq % FLUSHED_EVERY != 0)
            return;
        MUST(hf_store_flush(store) == 0);
    } else {
        MUST(hf_store_apply(store, batch) == 0);
    }
    acknowledge(acks, batch->seq | (uint64_t)FLUSHED << 32);
}

static void tell_story(const char *dir)
{
    struct hf_store_config config = config_of(dir, 1);
    char acks_path[PATH_MAX + 16];
    struct hf_batch batch;
    struct hf_store store;
    int acks;

    snprintf(acks_path, sizeof(acks_path), "%s/acks", dir);
    acks = open(acks_path, O_WRONLY | O_CREAT, 0600);
    hf_batch_init(&batch, &hf_alloc_heap);
    MUST(acks >= 0 && hf_store_open(&store, &config) == 0);
    keep_copy(dir);
    acknowledge(acks, 0);
    for (uint64_t seq = 1; seq <= BATCHES; seq++) {
        story_batch(SEED, seq, &batch);
        tell_batch(&store, &batch, acks);
        if (seq % (process ? 8 * CHECKPOINT_EVERY : CHECKPOINT_EVERY) == 0)
            MUST(hf_store_probe(&store) == 0);
    }
    /* A clean stop would make another journal, which the record does not follow: test_parts.c ends
     * a process at each of its steps. */
    _exit(0);
}

static void record_story(const char *self, const char *recorder, const char *dir)
{
    char record[PATH_MAX + 16];
    int status;
    pid_t pid = fork();

    MUST(pid >= 0);
    if (pid == 0) {
        snprintf(record, sizeof(record), "%s/record", dir);
        setenv("HOLDFAST_RECORD", record, 1);
        setenv("LD_PRELOAD", recorder, 1);
        execl(self, self, "--tell", dir, process ? "process" : "yes", (char *)NULL);
        _exit(127);
    }
    MUST(waitpid(pid, &status, 0) == pid && status == 0);
}

/* Computes what the store must look like after each batch. */
static void compute_digests(struct digest *digests)
{
    struct hf_store_config memory = {.backend = "memory"};
    struct hf_batch batch;
    struct hf_store model;

    hf_batch_init(&batch, &hf_alloc_heap);
    MUST(hf_store_open(&model, &memory) == 0);
    for (uint64_t seq = 0; seq <= BATCHES; seq++) {
        if (seq > 0) {
            story_batch(SEED, seq, &batch);
            MUST(hf_store_apply(&model, &batch) == 0);
        }
        MUST(store_digest(&model, &digests[seq]) == 0);
    }
    hf_store_close(&model);
    hf_batch_free(&batch);
}

static bool replay(struct replay *r, const struct image *record)
{
    /* The first acknowledgement has no batch, and says that the store is open. */
    bool begun = false;

    for (size_t at = 0; at < record->len;) {
        struct event event = event_at(record->bytes + at);

        begun = begun || event.type == EVENT_ACK;
        if (begun && !replay_event(r, record->bytes + at))
            return false;
        at += sizeof(event) + event.len;
    }
    return r->acked == BATCHES;
}

int main(int argc, char **argv)
{
    static struct replay r = {.dice = {SEED}};
    struct image record;
    char dir[PATH_MAX];
    bool ok;

    hf_log_configure(HF_LOG_ERROR, HF_LOG_TEXT);
    process = argc > 2 && strcmp(argv[argc - 1], "process") == 0;
    if (argc == 4 && strcmp(argv[1], "--tell") == 0)
        tell_story(argv[2]);
    MUST(argc == 2 + process);
    scratch_make(dir, NULL);
    scratch_make(r.dir, access("/dev/shm", W_OK) == 0 ? "/dev/shm" : NULL);
    compute_digests(r.digests);
    record_story(argv[0], argv[1], dir);
    record = read_file(dir, "record");
    r.durable.files[0] = read_file(dir, "first-data.mdb");
    r.durable.files[1] = read_file(dir, "first-journal");

    printf("1..3\n");
    ok = replay(&r, &record);
    printf("# %lu cuts, %lu of them kept the batch in flight, %lu lost what was not flushed\n",
           r.cuts, r.ahead, r.lost);
    printf("%s 1 - after every cut: consistent, and all that was acknowledged\n",
           ok ? "ok" : "not ok");
    /* Checks that some cuts fell between a write and its sync. */
    printf("%s 2 - some cuts fell between durable and acknowledged\n",
           r.ahead > 0 ? "ok" : "not ok");

    printf("%s 3 - acknowledged batches are lost only where they need not be flushed\n",
           (r.lost > 0) == process ? "ok" : "not ok");

    free(record.bytes);
    free_disk(&r.durable);
    scratch_remove(r.dir);
    scratch_remove(dir);
    return ok && r.ahead > 0 && (r.lost > 0) == process ? 0 : 1;
}
