/*
 * The attack shapes. Each makes a state that is expensive to search, with setup requests, and then
 * sends requests that search it. All requests of a shape come from one host.
 */
#include <errno.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "hostile.h"

enum {
    FIRST_OWNER = 1000,
    DEADLOCK_LOCKS = 50000,
    DEADLOCK_WAITERS = 500,
    OWN_LOCKS = 90000,
    WAITERS = 60000,
    WAITERS_LOCKS = 5000,
    GRANTS = 10000,
    NAMES = 9990,
    READERS = 49500,
    READER_WAITERS = 900,
    NESTED = 50000,
    STORM_FILES = 60,
    STORM_WAITERS = 900,
    SHARES = 50000,
    MANY = 95000, /* below limits.locks_per_client */
    LOCKS_PER_PROCESS = 10,
    MANY_OF_OWNER = 9900, /* below limits.locks_per_owner */
    CHAIN = 4000,
    LAYERS = 16,
    WIDTH = 250,
    MESSAGES_PER_S = 9000,
};

static struct request lock(uint32_t owner, uint32_t file, uint64_t offset, uint64_t length)
{
    return (struct request){.proc = PROC_LOCK,
                            .owner = owner,
                            .file = file,
                            .offset = offset,
                            .length = length,
                            .exclusive = true};
}

static struct request as(uint32_t proc, struct request r)
{
    r.proc = proc;
    return r;
}

static struct request shared(struct request r)
{
    r.exclusive = false;
    return r;
}

static struct request blocking(struct request r)
{
    r.block = true;
    return r;
}

/* Returns LOCK and UNLOCK (or another pair) in turns. */
static struct request in_turns(uint64_t i, uint32_t first, uint32_t second, struct request r)
{
    return as(i % 2 ? second : first, r);
}

/* Makes locks of one owner that do not touch. */
static void dots(uint64_t i, struct request *r)
{
    *r = lock(1, 1, 2 * i, 1);
}

/* ---- deadlock: an owner waits for the whole file, of which it holds very many parts ---- */

static void deadlock_other(uint64_t i, struct request *r)
{
    (void)i;
    *r = lock(2, 1, 4 * DEADLOCK_LOCKS, 1);
}

static void deadlock_wait(uint64_t i, struct request *r)
{
    *r = blocking(lock(1, 1, i, 0));
}

static void deadlock_attack(uint64_t i, struct request *r)
{
    *r = in_turns(i, PROC_LOCK, PROC_CANCEL, blocking(lock(3, 1, 2 * (i / 2 % DEADLOCK_LOCKS), 1)));
}

/* ---- chain: each owner waits for the next, and the last one for the first ---- */

static void chain_hold(uint64_t i, struct request *r)
{
    *r = lock(FIRST_OWNER + (uint32_t)i, FIRST_OWNER + (uint32_t)i, 0, 1);
}

static void chain_wait(uint64_t i, struct request *r)
{
    *r = blocking(lock(FIRST_OWNER + (uint32_t)i, FIRST_OWNER + 1 + (uint32_t)i, 0, 1));
}

static void chain_attack(uint64_t i, struct request *r)
{
    (void)i;
    *r = blocking(lock(FIRST_OWNER + CHAIN - 1, FIRST_OWNER, 0, 1));
}

/* ---- lattice: the readers of each file wait for all readers of the next ---- */

static void lattice_hold(uint64_t i, struct request *r)
{
    *r = shared(lock(FIRST_OWNER + (uint32_t)i, 1 + (uint32_t)(i / WIDTH), 0, 1));
}

static void lattice_wait(uint64_t i, struct request *r)
{
    *r = blocking(lock(FIRST_OWNER + (uint32_t)i, 2 + (uint32_t)(i / WIDTH), 0, 1));
}

static void lattice_own(uint64_t i, struct request *r)
{
    (void)i;
    *r = lock(1, LAYERS + 1, 0, 1);
}

static void lattice_attack(uint64_t i, struct request *r)
{
    *r = in_turns(i, PROC_LOCK, PROC_CANCEL, blocking(lock(1, 1, 0, 1)));
}

/* ---- own-locks: TEST over all of the caller's own locks ---- */

static void own_locks_attack(uint64_t i, struct request *r)
{
    (void)i;
    *r = as(PROC_TEST, lock(1, 1, 0, 0));
}

/* ---- waiters: each UNLOCK looks at all waiters, and none can be served ---- */

static void waiters_other(uint64_t i, struct request *r)
{
    (void)i;
    *r = lock(2, 1, 2 * WAITERS_LOCKS, 1);
}

static void waiters_wait(uint64_t i, struct request *r)
{
    *r = blocking(lock(FIRST_OWNER + (uint32_t)i, 1, 0, 2 * WAITERS_LOCKS + 1));
}

static void waiters_attack(uint64_t i, struct request *r)
{
    dots(i % WAITERS_LOCKS, r);
    r->proc = i / WAITERS_LOCKS % 2 ? PROC_LOCK : PROC_UNLOCK;
}

/* ---- grants: one UNLOCK serves all waiters ---- */

static void grants_attack(uint64_t i, struct request *r)
{
    uint64_t step = i % (GRANTS + 3);

    *r = lock(1, 1, 0, 1);
    if (step == 0)
        r->proc = PROC_FREE_ALL;
    else if (step == GRANTS + 2)
        r->proc = PROC_UNLOCK;
    else if (step > 1)
        *r = shared(blocking(lock(FIRST_OWNER + (uint32_t)step, 1, 0, 1)));
}

/* ---- names that differ only in @ and the backquote, which a careless fold makes equal ---- */

static void name_of(uint64_t number, struct request *r)
{
    static char name[15];

    for (unsigned bit = 0; bit < 14; bit++)
        name[bit] = number >> bit & 1 ? '@' : '`';
    r->name = name;
}

static void names_setup(uint64_t i, struct request *r)
{
    *r = lock(1, (uint32_t)i, 0, 1);
    name_of(i, r);
}

static void names_attack(uint64_t i, struct request *r)
{
    *r = in_turns(i, PROC_LOCK, PROC_UNLOCK, lock(1, NAMES, 0, 1));
    name_of(i / 2 % NAMES, r);
}

/* ---- readers: one of very many readers unlocks, while a writer waits and an owner behind it ----
 */

static void readers_read(uint64_t i, struct request *r)
{
    *r = shared(lock(FIRST_OWNER + (uint32_t)(i % READERS), 2, 0, 1));
}

static void readers_write(uint64_t i, struct request *r)
{
    (void)i;
    *r = blocking(lock(2, 2, 0, 2 * READER_WAITERS));
}

static void readers_wait(uint64_t i, struct request *r)
{
    *r = shared(blocking(lock(1, 2, 0, i + 1)));
}

static void readers_attack(uint64_t i, struct request *r)
{
    readers_read(i, r);
    r->proc = i / READERS % 2 ? PROC_LOCK : PROC_UNLOCK;
}

/* ---- nested: a search in the middle of ranges that all contain it ---- */

static void nested_setup(uint64_t i, struct request *r)
{
    *r = shared(lock(FIRST_OWNER + (uint32_t)i, 1, i, 4 * NESTED - 2 * i));
}

static void nested_attack(uint64_t i, struct request *r)
{
    (void)i;
    *r = shared(as(PROC_TEST, lock(1, 1, 2 * NESTED - 1, 2)));
}

/* ---- storms of requests that wait, and then are cancelled ---- */

static void storm_hold(uint64_t i, struct request *r)
{
    *r = lock(1, (uint32_t)i, 0, 0);
}

static void storm_attack(uint64_t i, struct request *r)
{
    *r = blocking(lock(FIRST_OWNER + (uint32_t)(i % STORM_WAITERS),
                       (uint32_t)(i / STORM_WAITERS % STORM_FILES), 0, 1));
}

static void cancel_attack(uint64_t i, struct request *r)
{
    *r = in_turns(i, PROC_LOCK, PROC_CANCEL, blocking(lock(2, 0, 0, 1)));
}

/* ---- shares ---- */

static void shares_setup(uint64_t i, struct request *r)
{
    *r = as(PROC_SHARE, lock(FIRST_OWNER + (uint32_t)(i % SHARES), 1, 0, 0));
}

static void shares_attack(uint64_t i, struct request *r)
{
    shares_setup(i / 2, r);
    *r = in_turns(i, PROC_UNSHARE, PROC_SHARE, *r);
}

/* ---- one request that changes very many locks, again and again ---- */

static void free_all_attack(uint64_t i, struct request *r)
{
    uint64_t step = i % (MANY + 1);

    *r = lock(FIRST_OWNER + (uint32_t)(step / LOCKS_PER_PROCESS), 1, 2 * step, 1);
    if (i % (MANY + 1) == MANY)
        r->proc = PROC_FREE_ALL;
}

static void merge_attack(uint64_t i, struct request *r)
{
    uint64_t step = i % (MANY_OF_OWNER + 2);

    if (step == 0)
        *r = as(PROC_UNLOCK, lock(1, 1, 0, 0));
    else if (step <= MANY_OF_OWNER)
        dots(step, r);
    else
        *r = lock(1, 1, 0, 0);
}

static void split_attack(uint64_t i, struct request *r)
{
    uint64_t step = i % (MANY_OF_OWNER + 2);

    dots(step, r);
    if (step == 0)
        *r = lock(1, 1, 0, 0);
    else if (step <= MANY_OF_OWNER)
        r->proc = PROC_UNLOCK;
    else
        *r = as(PROC_UNLOCK, lock(1, 1, 0, 0));
}

/* ---- reclaims ---- */

static void reclaim_attack(uint64_t i, struct request *r)
{
    dots(i % MANY, r);
    r->reclaim = true;
}

/* ---- attacks without locks: requests, messages and connections ---- */

static void pipeline_attack(uint64_t i, struct request *r)
{
    *r = as(PROC_TEST, lock(1, (uint32_t)(i % 1000), 0, 1));
}

static void sleep_until(uint64_t ns)
{
    struct timespec at = {.tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000)};

    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
}

/* TEST_MSG: the server calls back with the answer, by way of a portmapper that says nothing. */
static void messages_run(struct attack *attack)
{
    struct peer *p = peer_new(attack->from, target.host, true, "attacker");
    uint64_t due = now_ns();

    if (!p)
        die("connect");
    while (!atomic_load(&attack->stop)) {
        struct request r = as(PROC_TEST_MSG, lock(1, (uint32_t)attack->next++, 0, 1));

        peer_put(p, &r);
        peer_flush(p);
        attack->sent++;
        due += 1000000000 / MESSAGES_PER_S;
        sleep_until(due);
    }
    peer_del(p);
}

/* Opens and closes as many connections as the server takes. */
static void connections_run(struct attack *attack)
{
    enum { OPEN = 400 };
    int open[OPEN];

    memset(open, -1, sizeof(open));
    while (!atomic_load(&attack->stop)) {
        int *slot = &open[attack->next++ % OPEN];

        if (*slot >= 0)
            close(*slot);
        *slot = connect_from(attack->from, target.host, false);
        attack->sent += *slot >= 0;
    }
    for (unsigned i = 0; i < OPEN; i++) {
        if (open[i] >= 0)
            close(open[i]);
    }
}

const struct shape shapes[] = {
    {"deadlock",
     "50,000 locks and 500 waiters of one owner, searches for deadlocks",
     {{DEADLOCK_LOCKS, dots}, {1, deadlock_other}, {DEADLOCK_WAITERS, deadlock_wait}},
     .attack = deadlock_attack,
     .depth = 8},
    {"chain",
     "a cycle of 4,000 owners that wait for each other",
     {{CHAIN, chain_hold}, {CHAIN - 1, chain_wait}},
     .attack = chain_attack,
     .depth = 8},
    {"lattice",
     "16 files of 250 readers, who all wait for the next file",
     {{LAYERS * WIDTH, lattice_hold}, {(LAYERS - 1) * WIDTH, lattice_wait}, {1, lattice_own}},
     .attack = lattice_attack,
     .depth = 8},
    {"own-locks",
     "TEST over 90,000 locks of the caller",
     {{OWN_LOCKS, dots}},
     .attack = own_locks_attack,
     .depth = 32},
    {"waiters",
     "UNLOCK before 60,000 waiters, or as many as are allowed",
     {{WAITERS_LOCKS, dots}, {1, waiters_other}, {WAITERS, waiters_wait}},
     .attack = waiters_attack,
     .depth = 8},
    {"grants", "an UNLOCK that 10,000 readers wait for, or as many as are allowed",
     .attack = grants_attack, .depth = 64, .cycle = GRANTS + 3},
    {"names",
     "9,990 names that differ in @ and backquote",
     {{NAMES, names_setup}},
     .attack = names_attack,
     .depth = 32},
    {"readers",
     "UNLOCK before 49,500 readers; an owner of as many locks waits 900 times",
     {{READERS, dots}, {READERS, readers_read}, {1, readers_write}, {READER_WAITERS, readers_wait}},
     .attack = readers_attack,
     .depth = 8},
    {"nested",
     "TEST inside of 50,000 nested shared ranges",
     {{NESTED, nested_setup}},
     .attack = nested_attack,
     .depth = 32},
    {"waiter-storm",
     "54,000 requests that wait, repeated",
     {{STORM_FILES, storm_hold}},
     .attack = storm_attack,
     .depth = 64},
    {"cancel-storm",
     "LOCK and CANCEL behind 900 waiters",
     {{1, storm_hold}, {STORM_WAITERS, storm_attack}},
     .attack = cancel_attack,
     .depth = 64},
    {"share-storm",
     "UNSHARE and SHARE among 50,000 shares",
     {{SHARES, shares_setup}},
     .attack = shares_attack,
     .depth = 32},
    {"reclaim-storm",
     "reclaims of 95,000 locks in the grace period",
     {{10, dots}},
     .attack = reclaim_attack,
     .depth = 64,
     .grace = true},
    {"free-all", "95,000 locks of 9,500 processes and FREE_ALL, again and again",
     .attack = free_all_attack, .depth = 64, .cycle = MANY + 1},
    {"merge", "9,900 ranges, made one by one LOCK", .attack = merge_attack, .depth = 64,
     .cycle = MANY_OF_OWNER + 2},
    {"split", "one lock, cut into 9,900 and released at once", .attack = split_attack, .depth = 64,
     .cycle = MANY_OF_OWNER + 2},
    {"pipeline", "64 KiB writes of small requests on 8 connections", .attack = pipeline_attack,
     .connections = 8},
    {"messages", "9,000 TEST_MSG a second from a host that answers nothing", .run = messages_run,
     .silent = true},
    {"connections", "connections opened and closed", .run = connections_run},
    {"local-user", "a user of the server's host: 600 connections, and clients that he invents",
     .run = local_user_run},
    {"hasty-user", "the same, and he closes connections before the server accepts them",
     .run = hasty_user_run},
    {"held-calls", "17 addresses with UNLOCKs that wait for callbacks to silent hosts",
     .run = held_calls_run},
    {"unproved", "32 silent addresses by UDP: LOCKs that wait, and messages", .run = unproved_run},
    {"lists",
     "60 lists of 10,000 locks at once, as a user",
     {{MANY, free_all_attack}},
     .run = lists_run},
    {"sorted-lists", "8 sorted lists of 10,000 locks, which go while they are read",
     .run = sorted_lists_run},
};
const size_t n_shapes = sizeof(shapes) / sizeof(shapes[0]);
