/*
 * How fast is a durable lock? Requests in flight, each a LOCK or the UNLOCK that follows it, go
 * through the group-commit thread into LMDB, or into PostgreSQL if a connection string is given,
 * exactly as in the daemon but without a network; beside it, in the same run and on the same disk,
 * what fdatasync alone can do. Then the load at start.
 *
 * usage: store-bench [DIRECTORY [SECONDS [DSN [LOCKS]]]]
 *        (default: the current directory, 2, none, 1000000; the database should be empty)
 */
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <limits.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/log.h"
#include "store/commit.h"

enum {
    PAGE = 4096,
    SYNC_PAGES = 64, /* the pages are overwritten in turn, so that the file does not grow */
    LOAD_CLIENTS = 10000,
    LOAD_BATCH = 10000,
    LATENCIES_MAX = 1 << 18,
};

static const unsigned IN_FLIGHT[] = {1, 16, 128, 1024};

static char dir[PATH_MAX];
static double seconds = 2;
static const char *dsn; /* NULL: LMDB */
static uint64_t load_locks = 1000000;

static double now_s(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

static void remove_store(const char *path)
{
    (void)nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void open_store(struct hf_store *store, char path[PATH_MAX + 16])
{
    struct hf_store_config config = {
        .backend = dsn ? "postgres" : "lmdb", .path = path, .dsn = dsn, .timeout_ms = 60000};

    snprintf(path, PATH_MAX + 16, "%s/store", dir);
    if (hf_store_open(store, &config) < 0) {
        fprintf(stderr, "%s\n", hf_store_error(store));
        exit(1);
    }
}

/* Writes one page and makes it durable, over and over. */
static double bench_fdatasync(void)
{
    char path[PATH_MAX + 16];
    char page[PAGE] = {1};
    unsigned long count = 0;
    double start;
    double end;
    int fd;

    snprintf(path, sizeof(path), "%s/sync", dir);
    fd = open(path, O_RDWR | O_CREAT, 0600);
    for (int i = 0; i < SYNC_PAGES; i++)
        HF_ASSERT(pwrite(fd, page, PAGE, (off_t)i * PAGE) == PAGE);
    HF_ASSERT(fsync(fd) == 0);
    start = now_s();
    do {
        HF_ASSERT(pwrite(fd, page, PAGE, (off_t)(count++ % SYNC_PAGES) * PAGE) == PAGE);
        HF_ASSERT(fdatasync(fd) == 0);
        end = now_s();
    } while (end - start < seconds);
    close(fd);
    return (double)count / (end - start);
}

static struct hf_record_lock sample_lock(uint64_t id)
{
    static const uint8_t HANDLE[32] = "a file handle of usual length..";

    return (struct hf_record_lock){
        .id = id,
        .client_id = id % LOAD_CLIENTS + 1,
        .export = hf_bytes_str("default"),
        .fh = hf_bytes(HANDLE, sizeof(HANDLE)),
        .oh = hf_bytes_str("4711@client.example"),
        .svid = (int32_t)id,
        .first = id,
        .last = id + 99,
        .exclusive = true,
        .acquired_at_ms = 1700000000000,
        .epoch = 1,
    };
}

static void post(void *ctx)
{
    sem_post(ctx);
}

/* Gathers the next request of each slot: a LOCK if it holds none, otherwise the UNLOCK. */
static void gather(struct hf_batch *batch, uint64_t *held, unsigned slots, uint64_t *next_id)
{
    hf_batch_clear(batch);
    for (unsigned i = 0; i < slots; i++) {
        if (held[i]) {
            HF_ASSERT(hf_batch_delete(batch, HF_RECORD_LOCK, held[i]) == 0);
            held[i] = 0;
        } else {
            struct hf_record_lock lock = sample_lock(held[i] = (*next_id)++);
            HF_ASSERT(hf_batch_put_lock(batch, &lock) == 0);
        }
    }
}

/* The durations of commits, up to a bound. */
struct latencies {
    uint64_t ns[LATENCIES_MAX];
    size_t count;
};

static struct latencies latencies;

static void note_latency(uint64_t ns)
{
    if (latencies.count < LATENCIES_MAX)
        latencies.ns[latencies.count++] = ns;
}

static int compare_ns(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

static double latency_us(double quantile)
{
    return (double)latencies.ns[(size_t)(quantile * (double)(latencies.count - 1))] / 1000;
}

/* Measures how many requests become durable per second, with so many in flight. */
static double bench_commits(unsigned slots)
{
    char path[PATH_MAX + 16];
    uint64_t *held = calloc(slots, sizeof(*held));
    uint64_t next_id = 1;
    unsigned long count = 0;
    struct hf_commit_result result;
    struct hf_committer committer;
    struct hf_store store;
    struct hf_batch batch;
    double start;
    double end;
    sem_t woken;

    HF_ASSERT(held);
    for (unsigned i = 0; i < slots; i += 2)
        held[i] = UINT64_MAX - i; /* half of the slots begin with an UNLOCK of nothing */
    open_store(&store, path);
    sem_init(&woken, 0, 0);
    hf_batch_init(&batch, &hf_alloc_heap);
    HF_ASSERT(hf_committer_init(&committer, &store,
                                &(struct hf_committer_config){.wake = post, .ctx = &woken}) == 0);
    HF_ASSERT(hf_committer_start(&committer) == 0);
    latencies.count = 0;
    start = now_s();
    do {
        gather(&batch, held, slots, &next_id);
        hf_committer_submit(&committer, &batch);
        while (!hf_committer_collect(&committer, &result))
            sem_wait(&woken);
        HF_ASSERT(result.status == 0);
        note_latency(result.duration_ns);
        count += slots;
        end = now_s();
    } while (end - start < seconds);
    qsort(latencies.ns, latencies.count, sizeof(latencies.ns[0]), compare_ns);
    hf_committer_stop(&committer);
    hf_committer_free(&committer);
    hf_store_close(&store);
    hf_batch_free(&batch);
    free(held);
    remove_store(path);
    return (double)count / (end - start);
}

static void fill(struct hf_store *store)
{
    struct hf_batch batch;

    hf_batch_init(&batch, &hf_alloc_heap);
    for (uint64_t id = 1; id <= LOAD_CLIENTS; id++) {
        struct hf_record_client client = {.id = id,
                                          .protocol = HF_PROTOCOL_NLM,
                                          .transport = HF_TRANSPORT_TCP,
                                          .name = hf_bytes_str("client.example"),
                                          .n_addrs = 1};
        HF_ASSERT(hf_addr_parse("192.0.2.1", &client.addrs[0]) == 0);
        HF_ASSERT(hf_batch_put_client(&batch, &client) == 0);
    }
    for (uint64_t id = 1; id <= load_locks; id++) {
        struct hf_record_lock lock = sample_lock(id);
        HF_ASSERT(hf_batch_put_lock(&batch, &lock) == 0);
        if (batch.n_ops >= LOAD_BATCH || id == load_locks) {
            HF_ASSERT(hf_store_apply(store, &batch) == 0);
            hf_batch_clear(&batch);
        }
    }
    hf_batch_free(&batch);
}

static int decode_one(void *ctx, enum hf_record_kind kind, struct hf_bytes record)
{
    struct hf_record_client client;
    struct hf_record_lock lock;

    ++*(size_t *)ctx;
    if (kind == HF_RECORD_LOCK)
        return hf_record_decode_lock(record, &lock);
    return kind == HF_RECORD_CLIENT ? hf_record_decode_client(record, &client) : 0;
}

static void bench_load(void)
{
    char path[PATH_MAX + 16];
    struct hf_store store;
    size_t count = 0;
    double start;
    double opened;
    double loaded;

    open_store(&store, path);
    start = now_s();
    fill(&store);
    loaded = now_s();
    printf("%" PRIu64 " locks written in batches of %d: %.2f s\n", load_locks, LOAD_BATCH,
           loaded - start);
    hf_store_close(&store);
    start = now_s();
    open_store(&store, path);
    opened = now_s();
    HF_ASSERT(hf_store_load(&store, decode_one, &count) == 0);
    loaded = now_s();
    HF_ASSERT(count >= LOAD_CLIENTS + load_locks); /* PostgreSQL also has locks from before */
    printf("load of %d clients and %" PRIu64
           " locks: %.2f s (check and open %.2f s, read %.2f s)\n",
           LOAD_CLIENTS, load_locks, loaded - start, opened - start, loaded - opened);
    hf_store_close(&store);
    remove_store(path);
}

int main(int argc, char **argv)
{
    double sync_rate;
    double one = 0;

    snprintf(dir, sizeof(dir), "%s/store-bench-XXXXXX", argc > 1 ? argv[1] : ".");
    seconds = argc > 2 ? atof(argv[2]) : seconds;
    dsn = argc > 3 ? argv[3] : NULL;
    load_locks = argc > 4 ? strtoull(argv[4], NULL, 10) : load_locks;
    if (!mkdtemp(dir)) {
        perror(dir);
        return 1;
    }
    hf_log_configure(HF_LOG_ERROR, HF_LOG_TEXT);
    sync_rate = bench_fdatasync();
    printf("%-10s %12s %12s %8s %10s %10s %10s\n", "in flight", "durable/s", "x fdatasync", "x one",
           "p50 us", "p99 us", "p99.9 us");
    printf("%-10s %12.0f %12.2f\n", "fdatasync", sync_rate, 1.0);
    for (size_t i = 0; i < HF_COUNT_OF(IN_FLIGHT); i++) {
        double rate = bench_commits(IN_FLIGHT[i]);

        one = i == 0 ? rate : one;
        printf("%-10u %12.0f %12.2f %8.1f %10.0f %10.0f %10.0f\n", IN_FLIGHT[i], rate,
               rate / sync_rate, rate / one, latency_us(0.5), latency_us(0.99), latency_us(0.999));
        fflush(stdout);
    }
    bench_load();
    remove_store(dir);
    return 0;
}
