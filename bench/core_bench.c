/*
 * What a LOCK + UNLOCK costs in the core alone, with 1, 1,000 and 1,000,000 locks held, on one file
 * and on as many files; the bytes a lock takes; and what stays of them when all are released.
 *
 * Locks are not durable here, because the structures are measured, and not the records. Each pair
 * locks and unlocks a byte at a random place among those held. Time is processor time: the machine
 * may be shared.
 */
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/arena.h"
#include "base/assert.h"
#include "core/core.h"

enum { PAIRS = 1000000, OWNERS = 100 };

/* Counts the bytes the core has asked for, besides the blocks of the arena. */
struct counted {
    size_t bytes;
};

/* Allocates through the daemon's own allocator, so that its treatment of large blocks is measured,
 * too. */
static void *counted_resize(void *ctx, void *ptr, size_t size)
{
    struct counted *counted = ctx;
    size_t before = ptr ? malloc_usable_size(ptr) : 0;

    ptr = hf_realloc(&hf_alloc_heap, ptr, size);
    if (ptr)
        counted->bytes += malloc_usable_size(ptr) - before;
    return ptr;
}

static void counted_release(void *ctx, void *ptr)
{
    struct counted *counted = ctx;

    counted->bytes -= malloc_usable_size(ptr);
    hf_free(&hf_alloc_heap, ptr);
}

static double now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
    return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

struct bench {
    struct counted counted;
    struct hf_alloc alloc;
    struct hf_core *core;
    struct hf_now now;
    struct hf_peer peer;
    bool many_files;
    uint64_t held;
    uint64_t seed;
};

static uint64_t random_below(struct bench *b, uint64_t n)
{
    b->seed ^= b->seed << 13;
    b->seed ^= b->seed >> 7;
    b->seed ^= b->seed << 17;
    return b->seed % n;
}

static void commit_all(struct bench *b)
{
    const struct hf_batch *batch;

    while ((batch = hf_core_take_batch(b->core)) != NULL)
        hf_core_batch_done(b->core, b->now, batch->seq, 0);
}

static void open_bench(struct bench *b, uint64_t held, bool many_files)
{
    struct hf_core_config config = hf_core_config_default();

    *b = (struct bench){.held = held, .many_files = many_files, .seed = 88172645463325252u};
    b->alloc = (struct hf_alloc){counted_resize, counted_release, &b->counted};
    b->now = (struct hf_now){1, 1};
    b->peer = (struct hf_peer){.name = hf_bytes_str("client.example"),
                               .addr = {.family = HF_ADDR_IPV4, .bytes = {10, 0, 0, 1}},
                               .local = {.family = HF_ADDR_IPV4, .bytes = {10, 0, 0, 2}},
                               .transport = HF_TRANSPORT_TCP};
    config.server_name = hf_bytes_str("bench");
    config.durable_locks = false;
    config.limits = (struct hf_limits){UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX,
                                       UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX};
    config.hash_key = (struct hf_hash_key){11, 22};
    b->core = hf_core_new(&config, &b->alloc);
    HF_ASSERT(b->core && hf_core_start(b->core, b->now) == 0);
    commit_all(b);
}

typedef struct hf_answer (*core_call)(struct hf_core *core, struct hf_now now,
                                      const struct hf_peer *peer, const struct hf_lock_args *args);

/* Sends a request for the n-th lock: every other byte of the one file, or a byte of the n-th file.
 */
static void ask(struct bench *b, core_call call, uint64_t n, uint64_t offset)
{
    struct {
        char fh[28];
        char oh[24];
    } bytes = {0};
    uint64_t file = b->many_files ? n : 0;
    uint64_t owner = n % OWNERS;
    struct hf_lock_args args = {
        .fh = hf_bytes(bytes.fh, sizeof(bytes.fh)),
        .oh = hf_bytes(bytes.oh, sizeof(bytes.oh)),
        .svid = (int32_t)owner,
        .offset = offset,
        .length = 1,
        .exclusive = true,
        .version = 4,
    };

    memcpy(bytes.fh, &file, sizeof(file));
    memcpy(bytes.oh, &owner, sizeof(owner));
    HF_ASSERT(call(b->core, b->now, &b->peer, &args).stat == HF_STAT_GRANTED);
}

static size_t bytes_of(const struct bench *b)
{
    return b->counted.bytes + hf_arena_taken();
}

static double pair_ns(struct bench *b)
{
    double begin = now_ns();

    for (int i = 0; i < PAIRS; i++) {
        uint64_t n = random_below(b, b->held);
        uint64_t offset = b->many_files ? 5 : 4 * n + 2; /* a byte between two that are held */
        ask(b, hf_core_lock, n, offset);
        ask(b, hf_core_unlock, n, offset);
    }
    return (now_ns() - begin) / PAIRS;
}

/* The offset of the n-th held lock. */
static uint64_t place_of(const struct bench *b, uint64_t n)
{
    return n == 0 ? 0 : b->many_files ? 1 : 4 * n;
}

/* Releases all that is held; returns how long the longest UNLOCK took. */
static double drain_ns(struct bench *b)
{
    double longest = 0;

    for (uint64_t n = 0; n < b->held; n++) {
        double begin = now_ns();

        ask(b, hf_core_unlock, n, place_of(b, n));
        longest = now_ns() - begin > longest ? now_ns() - begin : longest;
    }
    return longest;
}

static double run(uint64_t held, bool many_files, double first)
{
    struct bench b;
    size_t before;
    double ns;

    open_bench(&b, held, many_files);
    ask(&b, hf_core_lock, 0, 0);
    commit_all(&b);
    before = bytes_of(&b);
    for (uint64_t n = 1; n < held; n++)
        ask(&b, hf_core_lock, n, place_of(&b, n));
    ns = pair_ns(&b);
    printf("%-12s %9llu held: %7.0f ns per LOCK + UNLOCK, %5.2f million pairs/s, %4.1f x the first",
           many_files ? "many files," : "one file,", (unsigned long long)held, ns, 1e3 / ns,
           first > 0 ? ns / first : 1.0);
    if (held >= 1000)
        printf(", %.0f bytes per lock%s", (double)(bytes_of(&b) - before) / (double)held,
               many_files ? " and file" : "");
    printf("\n");
    if (held >= 1000000) {
        double longest = drain_ns(&b);
        printf("   all of them released: %.0f KiB stay; the longest UNLOCK took %.0f us\n",
               ((double)bytes_of(&b) - (double)before) / 1024, longest / 1e3);
    }
    hf_core_del(b.core);
    HF_ASSERT(bytes_of(&b) == 0);
    return ns;
}

int main(void)
{
    static const uint64_t held[] = {1, 1000, 1000000};

    for (int many = 0; many < 2; many++) {
        double first = 0;
        for (size_t i = 0; i < HF_COUNT_OF(held); i++) {
            double ns = run(held[i], many, first);
            if (first == 0)
                first = ns;
        }
    }
    return 0;
}
