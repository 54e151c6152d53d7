/*
 * How fast does PostgreSQL's store load? Fills a database with clients and locks, unless it has
 * them; then, a few times, reads them all, and loads them into a core as a start or a takeover
 * does.
 *
 * usage: loading-bench DSN [LOCKS [TIMES]]    (default: 1000000, 3; the database should be empty)
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/assert.h"
#include "base/log.h"
#include "core/core.h"
#include "store/store.h"

enum { CLIENTS = 10000, OWNERS = 10, BATCH = 10000 };

static uint64_t n_locks = 1000000;

static double now_s(clockid_t clock)
{
    struct timespec ts;

    clock_gettime(clock, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static uint64_t mix(uint64_t n)
{
    n *= 0x9e3779b97f4a7c15u;
    return n ^ n >> 29;
}

/* Puts a lock on a file of its own, whose handle is like those of ext4 and XFS. */
static void put_lock(struct hf_batch *batch, uint64_t n)
{
    struct {
        char fh[28];
        char oh[32];
    } bytes = {0};
    uint64_t number = mix(n);
    struct hf_record_lock lock = {
        .id = hf_record_first_id(1) + CLIENTS + n,
        .client_id = hf_record_first_id(1) + n % CLIENTS,
        .export = hf_bytes_str("default"),
        .fh = hf_bytes(bytes.fh, sizeof(bytes.fh)),
        .svid = (int32_t)(n / CLIENTS % OWNERS),
        .last = UINT64_MAX,
        .exclusive = n % 4 == 0,
        .acquired_at_ms = 1700000000000 + (int64_t)n,
        .epoch = 1,
    };

    memcpy(bytes.fh + 8, &number, sizeof(number));
    lock.oh = hf_bytes(bytes.oh, (size_t)snprintf(bytes.oh, sizeof(bytes.oh), "%d@client%u.example",
                                                  (int)lock.svid, (unsigned)(n % CLIENTS)));
    HF_ASSERT(hf_batch_put_lock(batch, &lock) == 0);
}

static void put_client(struct hf_batch *batch, unsigned n)
{
    char name[64];
    struct hf_record_client client = {.id = hf_record_first_id(1) + n,
                                      .protocol = HF_PROTOCOL_NLM,
                                      .transport = HF_TRANSPORT_TCP,
                                      .n_addrs = 1,
                                      .epoch = 1};

    client.name = hf_bytes(name, (size_t)snprintf(name, sizeof(name), "client%u.example", n));
    client.addrs[0] =
        (struct hf_addr){.family = HF_ADDR_IPV4, .bytes = {10, 1, (uint8_t)(n >> 8), (uint8_t)n}};
    HF_ASSERT(hf_batch_put_client(batch, &client) == 0);
}

static void fill(struct hf_store *store)
{
    struct hf_batch batch;
    double start = now_s(CLOCK_MONOTONIC);

    hf_batch_init(&batch, &hf_alloc_heap);
    for (unsigned n = 0; n < CLIENTS; n++)
        put_client(&batch, n);
    for (uint64_t n = 0; n < n_locks; n++) {
        put_lock(&batch, n);
        if (batch.n_ops >= BATCH || n == n_locks - 1) {
            HF_ASSERT(hf_store_apply(store, &batch) == 0);
            hf_batch_clear(&batch);
        }
    }
    hf_batch_free(&batch);
    printf("filled in %.2f s\n", now_s(CLOCK_MONOTONIC) - start);
}

struct loading {
    struct hf_loader *loader;
    uint64_t locks;
};

static int count_record(void *ctx, enum hf_record_kind kind, struct hf_bytes record)
{
    (void)record;
    ((struct loading *)ctx)->locks += kind == HF_RECORD_LOCK;
    return 0;
}

static int load_record(void *ctx, enum hf_record_kind kind, struct hf_bytes record)
{
    struct loading *loading = ctx;

    loading->locks += kind == HF_RECORD_LOCK;
    return hf_loader_add(loading->loader, kind, record);
}

static struct hf_core *new_core(void)
{
    struct hf_core_config config = hf_core_config_default();

    config.server_name = hf_bytes_str("bench");
    config.hash_key = (struct hf_hash_key){11, 22};
    return hf_core_new(&config, &hf_alloc_heap);
}

static void load(struct hf_store *store, const char *what, hf_store_visit visit)
{
    struct hf_core *core = new_core();
    struct loading loading = {.loader = hf_loader_new(core)};
    double start = now_s(CLOCK_MONOTONIC);
    double cpu = now_s(CLOCK_PROCESS_CPUTIME_ID);

    if (hf_store_load(store, visit, &loading) < 0 || hf_loader_end(loading.loader) < 0) {
        fprintf(stderr, "%s\n", hf_store_error(store));
        exit(1);
    }
    printf("%-8s %" PRIu64 " locks in %.3f s; processor time of this process %.3f s\n", what,
           loading.locks, now_s(CLOCK_MONOTONIC) - start, now_s(CLOCK_PROCESS_CPUTIME_ID) - cpu);
    hf_loader_del(loading.loader);
    hf_core_del(core);
}

int main(int argc, char **argv)
{
    struct hf_store_config config = {.backend = "postgres", .timeout_ms = 60000};
    int times = argc > 3 ? atoi(argv[3]) : 3;
    struct loading found = {0};
    struct hf_store store;

    if (argc < 2) {
        fprintf(stderr, "usage: loading-bench DSN [LOCKS [TIMES]]\n");
        return 2;
    }
    config.dsn = argv[1];
    n_locks = argc > 2 ? strtoull(argv[2], NULL, 10) : n_locks;
    hf_log_configure(HF_LOG_ERROR, HF_LOG_TEXT);
    if (hf_store_open(&store, &config) < 0) {
        fprintf(stderr, "%s\n", hf_store_error(&store));
        return 1;
    }
    HF_ASSERT(hf_store_load(&store, count_record, &found) == 0);
    if (found.locks == 0)
        fill(&store);
    for (int i = 0; i < times; i++) {
        load(&store, "read", count_record);
        load(&store, "load", load_record);
    }
    hf_store_close(&store);
    return 0;
}
