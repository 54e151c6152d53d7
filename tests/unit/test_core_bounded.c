/*
 * Bounded work (SEC-02, SEC-05): whatever one client has set up before, a request visits few
 * objects. Each test is an attack that once made every request slow. Objects are counted, not time
 * (hf_core_work()), so the tests mean the same on any machine.
 */
#include "core/common/names.h"
#include "core_world.h"

enum {
    GRANTED = HF_STAT_GRANTED,
    DENIED = HF_STAT_DENIED,
    NOLOCKS = HF_STAT_DENIED_NOLOCKS,
    BLOCKED = HF_STAT_BLOCKED,

    MANY = 10000,
    FEW = 20,               /* objects that a request may visit, where no search is needed */
    SEARCHED = 1000 + FEW,  /* objects that a search for a deadlock visits at most */
    SLICE = 1000 + 4 * FEW, /* of serving waiters, or of a release; the last owner is finished */
    BOUND = 2 * SEARCHED + SLICE /* the most that one request may visit: searches, and serving */
};

/* The core's count of visited objects before a call. */
static uint64_t before;
#define COST(w, call) \
    (before = hf_core_work((w)->core), (void)(call), hf_core_work((w)->core) - before)

/* A world without records, and without checks after every step, so that tens of thousands of locks
 * take no time. */
static int open_large(void **state)
{
    struct world *w = test_malloc(sizeof(*w));

    world_open(w);
    w->config.durable_locks = false;
    w->config.limits.waiters_per_file = 100000;
    w->config.limits.locks_per_owner = 100000;
    w->unchecked = true;
    world_start(w);
    *state = w;
    return 0;
}

static int close_large(void **state)
{
    struct world *w = *state;

    hf_core_verify_invariants(w->core);
    return close_world(state);
}

/* Every other byte, so that the locks do not merge. */
static void lock_many(struct world *w, int client, int svid, const char *fh, bool shared, int n)
{
    for (int i = 0; i < n; i++)
        assert_int_equal(LOCK(w, .client = client, .svid = svid, .fh = fh, .off = 2 * (uint64_t)i,
                              .len = 1, .shared = shared),
                         GRANTED);
}

/* Ticks as long as the core asks for one at once; returns the cost of the most expensive tick. */
static uint64_t settle(struct world *w)
{
    uint64_t most = 0;

    while (hf_core_deadline(w->core) == 0) {
        uint64_t cost = COST(w, world_later(w, 0));
        most = cost > most ? cost : most;
    }
    return most;
}

/* A search for conflicts skips the owner's own locks, however many lie in its range. */
static void ones_own_locks_are_skipped(void **state)
{
    struct world *w = *state;

    lock_many(w, 1, 1, "f", false, MANY);
    assert_int_equal(LOCK(w, .client = 1, .svid = 2, .off = 2 * MANY, .len = 1), GRANTED);
    assert_true(COST(w, TEST(w, .client = 1, .off = 0, .len = 2 * MANY)) < FEW);
    assert_int_equal(TEST(w, .client = 1, .off = 0, .len = 2 * MANY), GRANTED);
    assert_int_equal(TEST(w, .client = 1, .off = 0, .len = 2 * MANY + 1), DENIED);
    assert_true(COST(w, TEST(w, .client = 1)) < FEW);
    assert_true(COST(w, LOCK(w, .client = 1, .off = 1, .len = 1)) < FEW);
    assert_true(COST(w, UNLOCK(w, .client = 1, .off = 0, .len = 3)) < FEW);
}

enum { BYTES = 64 };

/* How many locks an owner has if it holds these bytes, all in one mode. */
static uint64_t runs(bool held[2][BYTES])
{
    uint64_t n = 0;

    for (int f = 0; f < 2; f++) {
        for (int i = 0; i < BYTES; i++)
            n += held[f][i] && (i == 0 || !held[f][i - 1]);
    }
    return n;
}

/*
 * An owner's locks are found among those of many other owners, by the index of the owner alone:
 * random locks and unlocks of one owner on two files, where six others have locked every byte,
 * agree with an array of bytes. (hf_core_verify_invariants() looks up each lock after each step.)
 */
static void ones_own_locks_are_found_among_many(void **state)
{
    static const char *const files[] = {"f", "g"};
    struct world *w = *state;
    bool held[2][BYTES] = {0};
    uint64_t seed = 88172645463325252;

    for (int i = 2; i < 8; i++) {
        LOCK(w, .client = i, .fh = "f", .shared = true);
        LOCK(w, .client = i, .fh = "g", .shared = true);
    }
    for (int step = 0; step < 5000; step++) {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        int f = (int)(seed & 1);
        bool lock = (seed >> 1 & 7) < 5;
        uint64_t first = (seed >> 8) % BYTES;
        uint64_t len = 1 + (seed >> 20) % (step % 100 == 0 ? BYTES : 3);

        for (uint64_t i = first; i < first + len && i < BYTES; i++)
            held[f][i] = lock;
        if (first + len > BYTES)
            len = BYTES - first;
        if (lock)
            LOCK(w, .fh = files[f], .shared = true, .off = first, .len = len);
        else
            UNLOCK(w, .fh = files[f], .off = first, .len = len);
        assert_int_equal(world_status(w).locks, 12 + runs(held));
    }
}

/* What it costs an owner to repeat its own lock after so many others have locked the same range. */
static uint64_t cost_behind(struct world *w, int svid, const char *fh, int others)
{
    for (int i = 0; i < others; i++)
        LOCK(w, .client = 2 + i, .fh = fh, .shared = true);
    LOCK(w, .client = 1, .svid = svid, .fh = fh, .shared = true);
    return COST(w, LOCK(w, .client = 1, .svid = svid, .fh = fh, .shared = true));
}

/*
 * Where few others have locks in the range, an owner's lock is found among those of the file, and
 * what the owner holds elsewhere is not looked at. Where many others have locks there, the owner's
 * own locks are searched.
 */
static void locks_elsewhere_are_not_looked_at(void **state)
{
    struct world *w = *state;

    lock_many(w, 1, 2, "elsewhere", false, 7);
    assert_int_equal(cost_behind(w, 1, "f1", 1), cost_behind(w, 2, "g1", 1));
    assert_int_equal(cost_behind(w, 1, "f4", 4), cost_behind(w, 2, "g4", 4));
    assert_true(cost_behind(w, 1, "f5", 5) < cost_behind(w, 2, "g5", 5));
}

/* SEC-05a: Shared requests do not conflict with shared locks, however many there are. */
static void readers_do_not_look_at_readers(void **state)
{
    struct world *w = *state;

    for (int i = 0; i < MANY; i++)
        assert_int_equal(LOCK(w, .client = 1, .svid = i + 1, .shared = true, .off = 0, .len = 10),
                         GRANTED);
    assert_int_equal(LOCK(w, .client = 2, .off = 20, .len = 1), GRANTED);
    assert_true(COST(w, TEST(w, .client = 3, .shared = true, .off = 0, .len = 20)) < FEW);
    assert_int_equal(TEST(w, .client = 3, .shared = true, .off = 0, .len = 20), GRANTED);
    assert_int_equal(TEST(w, .client = 3, .shared = true, .off = 0, .len = 21), DENIED);
    assert_true(COST(w, LOCK(w, .client = 3, .shared = true, .off = 5, .len = 1)) < FEW);
    assert_true(COST(w, UNLOCK(w, .client = 3, .off = 5, .len = 1)) < FEW);
    assert_true(COST(w, UNLOCK(w, .client = 1, .svid = MANY / 2)) < FEW);
    assert_true(COST(w, CANCEL(w, .client = 1, .svid = 1, .shared = true)) < FEW);
}

/* An owner with 50,000 locks and 500 waiters once made each request that began to wait take 0.17 s.
 */
static void an_owner_with_locks_and_waiters(void **state)
{
    struct world *w = *state;

    w->config.limits.waiters_per_owner = 500;
    hf_core_set_limits(w->core, &w->config.limits);
    lock_many(w, 1, 1, "mine", true, MANY);
    assert_int_equal(LOCK(w, .client = 2, .fh = "f"), GRANTED);
    for (uint64_t i = 0; i < 500; i++)
        assert_int_equal(LOCK(w, .client = 1, .fh = "f", .off = i, .len = 1, .block = true),
                         BLOCKED);
    for (int i = 3; i < 20; i++) {
        assert_true(COST(w, LOCK(w, .client = i, .fh = "mine", .block = true)) < BOUND);
        assert_true(COST(w, LOCK(w, .client = i, .fh = "f", .block = true)) < BOUND);
    }
    assert_true(COST(w, LOCK(w, .client = 2, .fh = "mine", .block = true)) < BOUND);
    settle(w);
}

/* Whether a request queues behind a waiter depends on what its owner holds, which can be much. */
static void a_place_in_the_queue_is_found_or_not(void **state)
{
    struct world *w = *state;

    lock_many(w, 1, 1, "f", true, MANY);
    for (uint64_t i = 0; i < MANY; i++) /* between the two: a row of locks that never merge */
        assert_int_equal(LOCK(w, .client = 1, .off = 2 * i + 1, .len = 1), GRANTED);
    assert_int_equal(LOCK(w, .client = 3, .off = 2 * MANY + 5, .len = 1), GRANTED);
    for (int i = 0; i < 200; i++)
        assert_int_equal(LOCK(w, .client = 2, .svid = i + 1, .block = true, .shared = true),
                         BLOCKED);
    assert_true(COST(w, LOCK(w, .client = 1, .off = 0, .len = 2 * MANY + 10, .block = true)) <
                BOUND);
    assert_true(COST(w, LOCK(w, .client = 4, .off = 3 * MANY, .len = 1, .block = true)) < BOUND);
    assert_true(COST(w, CANCEL(w, .client = 1, .off = 0, .len = 2 * MANY + 10)) < BOUND);
    assert_true(COST(w, UNLOCK(w, .client = 3)) < BOUND);
    assert_true(settle(w) < BOUND);
}

/* A waiter that is granted all that became free, for itself alone, ends the search. */
static void a_writer_ends_the_search(void **state)
{
    enum { GRANT = 16 }; /* a grant counts as this many objects */
    struct world *w = *state;

    assert_int_equal(LOCK(w, .client = 1, .off = 10, .len = 10), GRANTED);
    for (int i = 0; i < MANY / 10; i++)
        assert_int_equal(LOCK(w, .client = 2, .svid = i + 1, .off = 10, .len = 10, .block = true),
                         BLOCKED);
    settle(w);
    assert_true(COST(w, UNLOCK(w, .client = 1, .off = 10, .len = 10)) < FEW + GRANT);
}

/* An UNLOCK on a file with 49,500 readers once took 0.75 s, when an owner with as many locks
 * elsewhere had 900 waiters there. */
static void an_unlock_among_readers(void **state)
{
    struct world *w = *state;

    w->config.limits.waiters_per_owner = 900;
    hf_core_set_limits(w->core, &w->config.limits);
    lock_many(w, 1, 1, "elsewhere", true, MANY);
    for (int i = 0; i < MANY; i++)
        assert_int_equal(LOCK(w, .client = 2, .svid = i + 1, .shared = true), GRANTED);
    for (uint64_t i = 0; i < 900; i++)
        assert_int_equal(LOCK(w, .client = 1, .off = i, .len = 1, .block = true), BLOCKED);
    for (int i = 0; i < 5; i++)
        assert_true(COST(w, UNLOCK(w, .client = 2, .svid = i + 1)) < BOUND);
    assert_true(settle(w) < BOUND);
}

/* Each owner holds a byte and waits for the next owner's; the last one closes the cycle. */
static enum hf_stat close_cycle(struct world *w, int owners)
{
    for (int i = 0; i < owners; i++)
        assert_int_equal(LOCK(w, .svid = i + 1, .off = (uint64_t)i, .len = 1), GRANTED);
    for (int i = 0; i < owners - 1; i++)
        assert_int_equal(LOCK(w, .svid = i + 1, .off = (uint64_t)i + 1, .len = 1, .block = true),
                         BLOCKED);
    return LOCK(w, .svid = owners, .off = 0, .len = 1, .block = true);
}

/* NLM-06c: the budget of the search is enough for a cycle of 250 owners. */
static void cycles_of_many_owners_are_found(void **state)
{
    struct world *w = *state;

    assert_int_equal(close_cycle(w, 250), HF_STAT_DEADLCK);
    assert_int_equal(hf_core_counters(w->core)->deadlock_searches_cut, 0);
}

/* NLM-06d: a cycle of 600 owners is too long for the budget: its last request waits, and the cut is
 * counted. */
static void a_cycle_of_too_many_owners_waits(void **state)
{
    struct world *w = *state;

    assert_int_equal(close_cycle(w, 600), BLOCKED);
    assert_true(hf_core_counters(w->core)->deadlock_searches_cut > 0);
}

/* Serving is done in slices: no request or tick does all of it, and no waiter is forgotten. */
static void waiters_are_served_in_slices(void **state)
{
    struct world *w = *state;
    int ticks = 0;

    assert_int_equal(LOCK(w, .client = 1), GRANTED);
    for (int i = 0; i < 3000; i++)
        assert_int_equal(
            LOCK(w, .client = 2, .svid = i + 1, .off = (uint64_t)i, .len = 1, .block = true),
            BLOCKED);
    assert_true(COST(w, UNLOCK(w, .client = 1)) < BOUND);
    assert_true(world_status(w).waiters > 0);
    assert_int_equal(hf_core_deadline(w->core), 0);
    hf_core_verify_invariants(w->core);
    /* Requests for other files do not pay for it. */
    assert_true(COST(w, LOCK(w, .client = 3, .fh = "other")) < FEW);
    assert_true(COST(w, UNLOCK(w, .client = 3, .fh = "other")) < FEW);
    for (; hf_core_deadline(w->core) == 0; ticks++)
        assert_true(COST(w, world_later(w, 0)) < SLICE);
    assert_true(ticks > 1);
    assert_int_equal(world_status(w).waiters, 0);
}

/* SEC-05g: a release of all that a client has is made in slices, so that no turn takes long. */
static void a_release_is_made_in_slices(void **state)
{
    enum { OWNERS = 500 };
    struct world *w = *state;
    struct hf_peer peer = world_peer(w, 1);

    for (int svid = 1; svid <= OWNERS; svid++)
        lock_many(w, 1, svid, "f", true, 10);
    assert_true(COST(w, hf_core_free_all(w->core, w->now, &peer, 0, true)) < SLICE);
    assert_true(world_status(w).locks > 0);
    assert_true(settle(w) < SLICE);
    assert_int_equal(world_status(w).locks, 0);
}

/* A file that is woken again and again is still served to the end of its queue. */
static void a_pass_ends_though_the_file_is_woken_again(void **state)
{
    struct world *w = *state;

    w->config.limits.waiters_per_owner = 5000;
    hf_core_set_limits(w->core, &w->config.limits);
    assert_int_equal(LOCK(w, .client = 1, .off = 0, .len = 1), GRANTED);
    assert_int_equal(LOCK(w, .client = 4, .off = 10, .len = 10), GRANTED);
    for (int i = 0; i < 4000; i++) /* all of them want byte 0, which client 1 keeps */
        assert_int_equal(LOCK(w, .client = 2, .svid = i + 1, .off = 0, .len = 11, .block = true),
                         BLOCKED);
    assert_int_equal(LOCK(w, .client = 3, .off = 15, .len = 1, .block = true), BLOCKED);
    assert_int_equal(UNLOCK(w, .client = 4, .off = 10, .len = 10), GRANTED);
    for (int i = 0; i < 50 && world_status(w).waiters == 4001; i++) {
        LOCK(w, .client = 4, .off = 11, .len = 1);
        UNLOCK(w, .client = 4, .off = 11, .len = 1);
        if (hf_core_deadline(w->core) == 0)
            world_later(w, 0);
    }
    assert_int_equal(world_status(w).waiters, 4000); /* client 3 has it */
}

/* A chain of waiting owners that is longer than a search follows. */
static void a_search_for_a_deadlock_is_cut(void **state)
{
    struct world *w = *state;
    uint64_t cut = hf_core_counters(w->core)->deadlock_searches_cut;

    for (int i = 0; i < 6000; i++) {
        assert_int_equal(
            LOCK(w, .client = 1 + i / 3000, .svid = i + 1, .off = (uint64_t)i, .len = 1), GRANTED);
        if (i > 0)
            assert_int_equal(LOCK(w, .client = 1 + (i - 1) / 3000, .svid = i, .off = (uint64_t)i,
                                  .len = 1, .block = true),
                             BLOCKED);
    }
    settle(w);
    assert_true(COST(w, LOCK(w, .client = 2, .svid = 6000, .off = 0, .len = 1, .block = true)) <
                BOUND);
    assert_true(hf_core_counters(w->core)->deadlock_searches_cut > cut);
    assert_true(settle(w) < BOUND);
}

/* SEC-05b: Waiters of an owner and of a client are limited, and each limit is counted. */
static void waiters_are_limited(void **state)
{
    struct world *w = *state;
    const struct hf_counters *n = hf_core_counters(w->core);

    w->config.limits.waiters_per_owner = 2;
    w->config.limits.waiters_per_client = 3;
    hf_core_set_limits(w->core, &w->config.limits);
    assert_int_equal(LOCK(w, .client = 1), GRANTED);
    assert_int_equal(LOCK(w, .client = 2, .off = 1, .len = 1, .block = true), BLOCKED);
    assert_int_equal(LOCK(w, .client = 2, .off = 2, .len = 1, .block = true), BLOCKED);
    assert_int_equal(LOCK(w, .client = 2, .off = 2, .len = 1, .block = true), BLOCKED); /* again */
    assert_int_equal(LOCK(w, .client = 2, .off = 3, .len = 1, .block = true), NOLOCKS);
    assert_int_equal(n->limit_hits[HF_LIMIT_WAITERS_PER_OWNER], 1);
    assert_int_equal(LOCK(w, .client = 2, .svid = 2, .off = 3, .len = 1, .block = true), BLOCKED);
    assert_int_equal(LOCK(w, .client = 2, .svid = 3, .off = 3, .len = 1, .block = true), NOLOCKS);
    assert_int_equal(n->limit_hits[HF_LIMIT_WAITERS_PER_CLIENT], 1);
    assert_int_equal(CANCEL(w, .client = 2, .off = 1, .len = 1), GRANTED);
    assert_int_equal(LOCK(w, .client = 2, .off = 3, .len = 1, .block = true), BLOCKED);
}

/* SEC-05a: Shares are found, and tested for conflicts, without a walk over those of the file. */
static void shares_are_indexed(void **state)
{
    struct world *w = *state;
    char oh[16];

    for (int i = 0; i < MANY; i++) {
        snprintf(oh, sizeof(oh), "owner%d", i);
        assert_true(COST(w, SHARE(w, .client = 1, .oh = oh, .access = 1)) < FEW);
    }
    assert_int_equal(SHARE(w, .client = 2, .mode = 1, .access = 2), DENIED);
    assert_int_equal(SHARE(w, .client = 2, .mode = 2, .access = 2), GRANTED);
    assert_true(COST(w, SHARE(w, .client = 2, .mode = 2, .access = 1)) < FEW);
    assert_int_equal(SHARE(w, .client = 3, .access = 2), DENIED);
    assert_true(COST(w, UNSHARE(w, .client = 2)) < FEW);
    assert_int_equal(SHARE(w, .client = 3, .access = 2), GRANTED);
    assert_int_equal(world_status(w).shares, MANY + 1);
}

/* A host may use its name with or without its domain; a name that begins with a dot has no short
 * form, and no name is that of a host without one. */
static void names_of_the_same_host(void **state)
{
    static const struct {
        const char *a, *b;
        bool same;
    } pairs[] = {
        {"one", "ONE", true},         {"one", "one.example", true},  {"one.example", "One", true},
        {"one.a", "one.b", false},    {"one", "two.example", false}, {"", "one", false},
        {"", ".example", false},      {".example", "", false},       {"", "", true},
        {"one", "", false},           {"one.example", "", false},    {"on", "one.example", false},
        {"one.example", "on", false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(pairs) / sizeof(*pairs); i++)
        assert_int_equal(hf_name_same_host(hf_bytes_str(pairs[i].a), hf_bytes_str(pairs[i].b)),
                         pairs[i].same);
    assert_int_equal(hf_name_short(hf_bytes(NULL, 0)).len, 0);
}

/* Names are equal exactly when they have the same fold, or the fold would make chains of names. */
static void names_are_folded_as_they_are_compared(void **state)
{
    (void)state;
    for (unsigned a = 0; a < 256; a++) {
        for (unsigned b = 0; b < 256; b++) {
            uint8_t bytes[] = {(uint8_t)a, (uint8_t)b};
            uint8_t folded[2];

            hf_name_fold(hf_bytes(bytes, 2), folded);
            assert_int_equal(hf_name_equal(hf_bytes(bytes, 1), hf_bytes(bytes + 1, 1)),
                             folded[0] == folded[1]);
        }
    }
    /* The fold is made eight bytes at a time, and byte by byte. */
    for (unsigned a = 0; a < 256; a++) {
        uint8_t bytes[19], folded[19], one;

        for (size_t i = 0; i < sizeof(bytes); i++)
            bytes[i] = (uint8_t)(a + 37 * i);
        assert_int_equal(hf_name_fold(hf_bytes(bytes, sizeof(bytes)), folded), sizeof(bytes));
        for (size_t i = 0; i < sizeof(bytes); i++) {
            hf_name_fold(hf_bytes(bytes + i, 1), &one);
            assert_int_equal(folded[i], one);
        }
    }
}

/* Many names come from one address: the limit is on the address. Each name counts only as long as
 * its client exists. */
static void clients_of_a_host_are_limited(void **state)
{
    struct world *w = *state;

    w->config.limits.clients_per_host = 3;
    hf_core_set_limits(w->core, &w->config.limits);
    w->at = world_addr(7);
    for (int i = 1; i <= 3; i++)
        assert_int_equal(LOCK(w, .client = i, .shared = true, .nm = true), GRANTED);
    assert_int_equal(LOCK(w, .client = 4, .shared = true, .nm = true), NOLOCKS);
    assert_int_equal(LOCK(w, .client = 3, .fh = "g", .nm = true), GRANTED);
    assert_int_equal(hf_core_counters(w->core)->limit_hits[HF_LIMIT_CLIENTS_PER_HOST], 1);
    w->at = world_addr(8);
    assert_int_equal(LOCK(w, .client = 4, .shared = true, .nm = true), GRANTED);
    w->at = world_addr(7);
    assert_int_equal(UNLOCK(w, .client = 1),
                     GRANTED); /* this client has nothing any more, and is forgotten */
    assert_int_equal(LOCK(w, .client = 4, .shared = true, .nm = true), GRANTED);
    assert_int_equal(LOCK(w, .client = 5, .shared = true, .nm = true), NOLOCKS);
    hf_addr_parse("127.0.0.1", &w->at);
    for (int i = 1; i <= 5; i++)
        assert_int_equal(LOCK(w, .client = i, .shared = true, .nm = true), GRANTED);
}

/* Locks, shares and waiters of all clients of an address count together. */
static void locks_of_a_host_are_limited(void **state)
{
    struct world *w = *state;

    w->config.limits.locks_per_host = 4;
    hf_core_set_limits(w->core, &w->config.limits);
    assert_int_equal(LOCK(w, .client = 9, .fh = "theirs"), GRANTED);
    w->at = world_addr(7);
    assert_int_equal(LOCK(w, .client = 1, .off = 0, .len = 1), GRANTED);
    assert_int_equal(LOCK(w, .client = 2, .off = 2, .len = 1), GRANTED);
    assert_int_equal(SHARE(w, .client = 3), GRANTED);
    assert_int_equal(LOCK(w, .client = 3, .fh = "theirs", .block = true), BLOCKED);
    assert_int_equal(LOCK(w, .client = 1, .off = 4, .len = 1), NOLOCKS);
    assert_int_equal(SHARE(w, .client = 1, .fh = "g"), NOLOCKS);
    assert_int_equal(LOCK(w, .client = 1, .fh = "theirs", .block = true), NOLOCKS);
    assert_int_equal(hf_core_counters(w->core)->limit_hits[HF_LIMIT_LOCKS_PER_HOST], 3);
    /* The client has no more locks than before. */
    assert_int_equal(LOCK(w, .client = 1, .off = 0, .len = 2), GRANTED);
    assert_int_equal(UNLOCK(w, .client = 1), GRANTED);
    assert_int_equal(LOCK(w, .client = 1, .off = 4, .len = 1), GRANTED);
    w->at = (struct hf_addr){0};
    assert_int_equal(LOCK(w, .client = 8, .fh = "h"), GRANTED);
}

static struct hf_mon_args mon_args(const char *mon_name, uint32_t proc)
{
    return (struct hf_mon_args){.mon_name = hf_bytes_str(mon_name),
                                .my_name = hf_bytes_str("me"),
                                .prog = 200000,
                                .vers = 1,
                                .proc = proc};
}

static bool mon(struct world *w, int from, const char *mon_name, uint32_t proc)
{
    struct hf_peer peer = world_peer(w, from);
    struct hf_mon_args args = mon_args(mon_name, proc);
    bool ok = hf_core_sm_mon(w->core, w->now, &peer, &args).ok;

    world_step(w);
    return ok;
}

/* Registrations of one address are limited, and SM_UNMON_ALL looks only at those. */
static void registrations_of_a_host_are_limited(void **state)
{
    struct world *w = *state;
    struct hf_peer peer = world_peer(w, 2);
    struct hf_mon_args args = mon_args("", 5);

    w->config.limits.registrations_per_host = 100;
    hf_core_set_limits(w->core, &w->config.limits);
    for (uint32_t i = 0; i < 100; i++)
        assert_true(mon(w, 1, "holdfast.example", i));
    assert_true(mon(w, 1, "holdfast.example", 7)); /* a repeat */
    assert_false(mon(w, 1, "holdfast.example", 100));
    assert_int_equal(hf_core_counters(w->core)->limit_hits[HF_LIMIT_REGISTRATIONS_PER_HOST], 1);
    assert_true(mon(w, 2, "holdfast.example", 5));
    assert_true(mon(w, 2, "holdfast.example", 6));
    assert_true(COST(w, hf_core_sm_unmon_all(w->core, w->now, &peer, &args)) < FEW);
    world_step(w);
    assert_int_equal(world_status(w).nsm_clients, 101);
}

/* Answers all calls after a restart: those to client 1 fail for good, all others succeed. */
static void call_all(struct world *w)
{
    struct hf_outcall_attempt call;

    for (int round = 0; round < 100; round++) {
        while (hf_core_next_outcall(w->core, w->now, &call)) {
            bool fails =
                hf_addr_same_host(&call.to[0], &(struct hf_addr){0}) || call.to[0].bytes[3] == 1;
            world_called(w, call.id, fails ? HF_OUTCALL_FAILED : HF_OUTCALL_ACCEPTED);
        }
        world_later(w, 60000);
    }
}

/* A registration about this server itself whose host never answered ends after its first round of
 * calls. */
static void unconfirmed_registrations_expire(void **state)
{
    struct world *w = *state;

    /* A registration about this server, whose host never answers. */
    assert_true(mon(w, 1, "holdfast.example", 1));
    /* A registration about this server, whose host answers. */
    assert_true(mon(w, 2, "holdfast.example", 1));
    world_restart(w);
    assert_int_equal(world_status(w).nsm_clients, 2);
    call_all(w);
    assert_int_equal(world_status(w).nsm_clients, 1);
    assert_int_equal(world_count(w, HF_RECORD_CLIENT), 1);
    assert_true(mon(w, 1, "holdfast.example", 1)); /* the same host may register again */
}

#define T(test) cmocka_unit_test_setup_teardown(test, open_large, close_large)
#define S(test) cmocka_unit_test_setup_teardown(test, open_world, close_world)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(ones_own_locks_are_skipped),
        T(readers_do_not_look_at_readers),
        T(an_owner_with_locks_and_waiters),
        T(a_place_in_the_queue_is_found_or_not),
        T(a_writer_ends_the_search),
        T(an_unlock_among_readers),
        T(cycles_of_many_owners_are_found),
        T(a_cycle_of_too_many_owners_waits),
        T(waiters_are_served_in_slices),
        T(a_release_is_made_in_slices),
        T(a_pass_ends_though_the_file_is_woken_again),
        T(a_search_for_a_deadlock_is_cut),
        T(shares_are_indexed),
        S(ones_own_locks_are_found_among_many),
        T(locks_elsewhere_are_not_looked_at),
        S(waiters_are_limited),
        S(names_are_folded_as_they_are_compared),
        S(names_of_the_same_host),
        S(clients_of_a_host_are_limited),
        S(locks_of_a_host_are_limited),
        S(registrations_of_a_host_are_limited),
        S(unconfirmed_registrations_expire),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
