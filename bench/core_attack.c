/*
 * What a request costs in the core after a hostile client has prepared for it: for each known
 * attack, the objects visited and the processor time of the most expensive request, and the mean.
 * The hostile benchmark over the network is another program; this one shows the core alone. Numbers
 * as arguments choose attacks, for a profiler.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/assert.h"
#include "core/core.h"

enum { MEASURED = 200, OF_OWNER = 10000 };

static struct hf_core *core;
static const struct hf_now now = {1, 1};

typedef struct hf_answer (*core_call)(struct hf_core *core, struct hf_now now,
                                      const struct hf_peer *peer, const struct hf_lock_args *args);

static void open_core(bool durable)
{
    struct hf_core_config config = hf_core_config_default();

    config.server_name = hf_bytes_str("bench");
    config.durable_locks = durable;
    config.limits.waiters_per_file = 100000;
    config.hash_key = (struct hf_hash_key){11, 22};
    core = hf_core_new(&config, &hf_alloc_heap);
    HF_ASSERT(core && hf_core_start(core, now) == 0);
}

static void commit_all(void)
{
    const struct hf_batch *batch;

    while ((batch = hf_core_take_batch(core)) != NULL)
        hf_core_batch_done(core, now, batch->seq, 0);
}

static void close_core(void)
{
    commit_all();
    hf_core_del(core);
}

struct ask {
    uint8_t client;
    int32_t svid;
    char file;
    uint64_t offset, length;
    bool shared, block;
};

static enum hf_stat ask(core_call call, struct ask a)
{
    char name[] = {'c', (char)('a' + a.client % 26), (char)('a' + a.client / 26)};
    struct hf_peer peer = {.name = hf_bytes(name, sizeof(name)),
                           .addr = {.family = HF_ADDR_IPV4, .bytes = {10, 0, 0, a.client}},
                           .local = {.family = HF_ADDR_IPV4, .bytes = {10, 0, 1, 1}},
                           .transport = HF_TRANSPORT_TCP};
    struct hf_lock_args args = {.fh = hf_bytes(&a.file, 1),
                                .oh = hf_bytes_str("owner"),
                                .svid = a.svid,
                                .offset = a.offset,
                                .length = a.length,
                                .exclusive = !a.shared,
                                .block = a.block,
                                .version = 4};
    enum hf_stat stat = call(core, now, &peer, &args).stat;

    commit_all();
    return stat;
}

#define LOCK(...)   ask(hf_core_lock, (struct ask){__VA_ARGS__})
#define UNLOCK(...) ask(hf_core_unlock, (struct ask){__VA_ARGS__})
#define TEST(...)   ask(hf_core_test, (struct ask){__VA_ARGS__})

static double now_us(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
    return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec / 1e3;
}

static double most_us, sum_us;
static uint64_t most_work;
static unsigned measured;

static void begin(void)
{
    most_us = sum_us = 0;
    most_work = measured = 0;
}

#define MEASURE(call)                                      \
    do {                                                   \
        uint64_t work_ = hf_core_work(core);               \
        double at_ = now_us();                             \
        (void)(call);                                      \
        at_ = now_us() - at_;                              \
        work_ = hf_core_work(core) - work_;                \
        most_us = at_ > most_us ? at_ : most_us;           \
        most_work = work_ > most_work ? work_ : most_work; \
        sum_us += at_;                                     \
        measured++;                                        \
    } while (0)

static void tick_until_done(void)
{
    while (hf_core_deadline(core) == 0)
        MEASURE((hf_core_tick(core, now), commit_all()));
}

static void report(const char *shape)
{
    printf("%-58s %8llu objects %10.1f us at most %10.1f us mean %10.1f us in all\n", shape,
           (unsigned long long)most_work, most_us, sum_us / measured, sum_us);
}

static void own_locks(void)
{
    for (uint64_t i = 0; i < 90000; i++)
        LOCK(1, 1, 'f', 2 * i, 1);
    begin();
    for (int i = 0; i < MEASURED; i++)
        MEASURE(TEST(1, 1, 'f', 0, 180000));
    report("TEST over 90,000 locks of its own owner");
}

static void readers(void)
{
    for (int i = 0; i < 50000; i++)
        LOCK(1, i, 'f', 0, 10, .shared = true);
    LOCK(2, 1, 'f', 20, 1);
    begin();
    for (int i = 0; i < MEASURED; i++)
        MEASURE(TEST(3, 1, 'f', 0, 20, .shared = true));
    report("shared TEST over 50,000 readers, one writer elsewhere");
}

static void locks_and_waiters(void)
{
    for (uint64_t i = 0; i < 50000; i++)
        LOCK(1, 1, 'm', 2 * i, 1, .shared = true);
    LOCK(2, 1, 'f', 0, 0);
    for (uint64_t i = 0; i < 500; i++)
        LOCK(1, 1, 'f', i, 1, .block = true);
    begin();
    for (uint8_t i = 3; i < 53; i++) {
        LOCK(i, 1, 'x', i, 1);
        MEASURE(LOCK(i, 1, 'm', 0, 0, .block = true));
        tick_until_done();
    }
    report("LOCK that waits for an owner of 50,000 locks, 500 waiters");
}

static void unlock_among_readers(void)
{
    for (uint64_t i = 0; i < 49500; i++)
        LOCK(1, 1, 'm', 2 * i, 1, .shared = true);
    for (int i = 0; i < 49500; i++)
        LOCK(2, i, 'f', 0, 0, .shared = true);
    for (uint64_t i = 0; i < 900; i++)
        LOCK(1, 1, 'f', i, 1, .block = true);
    begin();
    for (int i = 0; i < 20; i++) {
        MEASURE(UNLOCK(2, i, 'f', 0, 0));
        tick_until_done();
    }
    report("UNLOCK of one of 49,500 readers, 900 waiters");
}

static void many_waiters(void)
{
    LOCK(1, 1, 'f', 0, 0);
    for (int i = 0; i < 60000; i++)
        LOCK((uint8_t)(2 + i / 3000), i, 'f', (uint64_t)i, 1, .block = true);
    begin();
    MEASURE(UNLOCK(1, 1, 'f', 0, 0));
    tick_until_done();
    report("UNLOCK that 60,000 waiters wait for, with all ticks");
}

static void shares(void)
{
    struct hf_peer peer = {.name = hf_bytes_str("c"),
                           .addr = {.family = HF_ADDR_IPV4, .bytes = {10, 0, 0, 1}},
                           .transport = HF_TRANSPORT_TCP};
    struct hf_share_args args = {.fh = hf_bytes_str("f"), .access = 1};
    uint64_t oh = 0;

    args.oh = hf_bytes(&oh, sizeof(oh));
    for (; oh < 20000; oh++)
        (void)hf_core_share(core, now, &peer, &args);
    begin();
    for (int i = 0; i < MEASURED; i++) {
        MEASURE(hf_core_share(core, now, &peer, &args));
        MEASURE(hf_core_unshare(core, now, &peer, &args));
    }
    report("SHARE and UNSHARE among 20,000 shares of a file");
}

static void names(void)
{
    struct hf_peer peer = {.addr = {.family = HF_ADDR_IPV4, .bytes = {127, 0, 0, 1}},
                           .transport = HF_TRANSPORT_TCP};
    struct hf_lock_args args = {
        .fh = hf_bytes_str("f"), .oh = hf_bytes_str("o"), .unmonitored = true, .version = 4};
    char name[14];

    peer.name = hf_bytes(name, sizeof(name));
    begin();
    for (unsigned i = 0; i < 9990; i++) {
        for (unsigned b = 0; b < sizeof(name); b++)
            name[b] = i >> b & 1 ? '@' : '`';
        if (i >= 9990 - MEASURED)
            MEASURE(hf_core_lock(core, now, &peer, &args));
        else
            (void)hf_core_lock(core, now, &peer, &args);
    }
    report("LOCK of a client among 9,990 with colliding names");
}

static const struct hf_peer attacker = {.name = {(const uint8_t *)"cba", 3},
                                        .addr = {.family = HF_ADDR_IPV4, .bytes = {10, 0, 0, 1}},
                                        .local = {.family = HF_ADDR_IPV4, .bytes = {10, 0, 1, 1}}};

/* Measures FREE_ALL, with each of its slices: with as many owners as locks, or as few owners as the
 * limits allow. */
static void release_all(int per_owner, const char *shape)
{
    for (int i = 0; i < 99000; i++)
        LOCK(1, i / per_owner, 'f', 2 * (uint64_t)i, 1);
    begin();
    MEASURE(((void)hf_core_free_all(core, now, &attacker, 0, true), commit_all()));
    tick_until_done();
    report(shape);
}

static void release_owners(void)
{
    release_all(1, "FREE_ALL of 99,000 locks of as many processes, by slice");
}

static void release_processes(void)
{
    release_all(10, "FREE_ALL of 99,000 locks, 10 to a process, by slice");
}

static void release_locks(void)
{
    release_all(OF_OWNER, "FREE_ALL of 99,000 locks, 10,000 to a process, by slice");
}

/* Measures one request over every other byte that an owner has locked, with as many locks as the
 * limits allow. */
static void over_all(core_call call, const char *shape)
{
    begin();
    for (int round = 0; round < 10; round++) {
        for (uint64_t i = 0; i < OF_OWNER; i++)
            LOCK(1, 1, 'f', 2 * i, 1);
        MEASURE(ask(call, (struct ask){1, 1, 'f', 0, 0}));
        UNLOCK(1, 1, 'f', 0, 0);
    }
    report(shape);
}

static void unlock_all(void)
{
    over_all(hf_core_unlock, "UNLOCK of the 10,000 locks of an owner");
}

static void lock_all(void)
{
    over_all(hf_core_lock, "LOCK over the 10,000 locks of an owner");
}

static void (*const shapes[])(void) = {
    own_locks, readers,        locks_and_waiters, unlock_among_readers, many_waiters, shares,
    names,     release_owners, release_processes, release_locks,        unlock_all,   lock_all};

/* Runs an attack without durable locks, and with them. */
static void attack(size_t i)
{
    open_core(i >= HF_COUNT_OF(shapes));
    shapes[i % HF_COUNT_OF(shapes)]();
    close_core();
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        attack(strtoul(argv[i], NULL, 10) % (2 * HF_COUNT_OF(shapes)));
    for (size_t i = 0; argc == 1 && i < 2 * HF_COUNT_OF(shapes); i++)
        attack(i);
    return 0;
}
