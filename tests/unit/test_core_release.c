/*
 * Large releases are made in slices (SEC-05, CRS-01, GRC-03): no request and no tick releases more
 * than a few owners' locks, other clients are served meanwhile, what the client is granted
 * meanwhile stays, and the answer leaves when the last slice is durable.
 */
#include "core_world.h"

enum {
    GRANTED = HF_STAT_GRANTED,
    DENIED = HF_STAT_DENIED,
    NOLOCKS = HF_STAT_DENIED_NOLOCKS,
    BLOCKED = HF_STAT_BLOCKED,
    IN_GRACE = HF_STAT_DENIED_GRACE_PERIOD,

    OWNERS = 40,
    PER_OWNER = 3,
    ALL = OWNERS * PER_OWNER,
    SLICE = 20,           /* the budget of one slice, in objects */
    BOUND = SLICE + 6 * 4 /* a slice also finishes the owner that it has begun, and its waiters */
};

/* Prepares client 1 with many locks in file "f", three for each of its processes, at 100 * svid. */
static int open_full(void **state)
{
    struct world *w = test_malloc(sizeof(*w));

    world_open(w);
    w->config.budgets.release = SLICE;
    world_start(w);
    for (int svid = 1; svid <= OWNERS; svid++) {
        for (uint64_t i = 0; i < PER_OWNER; i++)
            assert_int_equal(
                LOCK(w, .svid = svid, .off = 100 * (uint64_t)svid + 2 * i, .len = 1, .state = 5),
                GRANTED);
    }
    *state = w;
    return 0;
}

static struct hf_answer free_all(struct world *w)
{
    struct hf_peer peer = world_peer(w, 1);
    struct hf_answer answer = hf_core_free_all(w->core, w->now, &peer, 0, true);

    world_step(w);
    return answer;
}

static struct hf_sm_answer notify(struct world *w, int32_t state)
{
    struct hf_addr from = world_addr(1);
    struct hf_sm_answer answer =
        hf_core_sm_notify(w->core, w->now, &from, hf_bytes_str("client1.example"), state, true);

    world_step(w);
    return answer;
}

static uint64_t n_locks(struct world *w)
{
    return world_status(w).locks;
}

/* Ticks once if the core asks for a tick at once. False: it does not. */
static bool slice(struct world *w)
{
    uint64_t before = hf_core_work(w->core);

    if (hf_core_deadline(w->core) != 0)
        return false;
    hf_core_tick(w->core, w->now);
    assert_true(hf_core_work(w->core) - before <= BOUND);
    world_step(w);
    return true;
}

static void finish(struct world *w)
{
    while (slice(w))
        ;
}

static bool decided(struct world *w, uint64_t id, struct hf_decision *out)
{
    bool found = false;
    struct hf_decision decision = {0};

    while (hf_core_next_decision(w->core, &decision)) {
        if (decision.id == id) {
            *out = decision;
            found = true;
        }
    }
    return found;
}

/* CRS-01b, SEC-05g: FREE_ALL is done in slices, each with the same bound, and makes one decision,
 * with the last slice. */
static void free_all_in_slices(void **state)
{
    struct world *w = *state;
    struct hf_decision decision = {0};
    struct hf_peer peer = world_peer(w, 1);
    struct hf_answer answer;
    uint64_t work;
    uint64_t left;
    int slices = 0;

    assert_int_equal(LOCK(w, .client = 2, .off = 100 * OWNERS + 4, .len = 1, .block = true),
                     BLOCKED);
    w->by_hand = true;
    work = hf_core_work(w->core);
    answer = hf_core_free_all(w->core, w->now, &peer, 0, true);
    assert_true(hf_core_work(w->core) - work <= BOUND);
    assert_int_not_equal(answer.ticket.decision, 0);
    left = n_locks(w);
    assert_true(left > 0 && left < ALL);
    assert_int_not_equal(hf_core_deadline(w->core), 0); /* each batch has one slice */
    w->by_hand = false;
    world_commit(w);
    while (slice(w)) {
        slices++;
        assert_true(n_locks(w) < left || n_locks(w) <= 1);
        left = n_locks(w);
        if (left > 1)
            assert_false(decided(w, answer.ticket.decision, &decision));
    }
    assert_true(slices > 5);
    assert_true(decided(w, answer.ticket.decision, &decision));
    assert_false(decision.failed);
    assert_int_equal(n_locks(w), 1); /* the waiter's */
    assert_int_equal(world_call_of(w, HF_OUTCALL_GRANTED).kind, HF_OUTCALL_GRANTED);
    assert_int_equal(world_count(w, HF_RECORD_LOCK), 1);
}

/* Meanwhile the locks are held, and the rest of the service goes on. */
static void others_are_served_meanwhile(void **state)
{
    struct world *w = *state;

    free_all(w);
    assert_int_equal(LOCK(w, .client = 2, .off = 100, .len = 1), GRANTED);
    assert_int_equal(LOCK(w, .client = 2, .off = 100 * OWNERS, .len = 1), DENIED);
    assert_int_equal(TEST(w, .client = 2, .off = 100 * OWNERS, .len = 1), DENIED);
    assert_int_equal(LOCK(w, .client = 2, .fh = "g"), GRANTED);
    finish(w);
    assert_int_equal(LOCK(w, .client = 2, .off = 100 * OWNERS, .len = 1), GRANTED);
    assert_int_equal(n_locks(w), 3);
}

/* SEC-05h: The answer leaves when the last slice is durable, and carries its batch until then. */
static void the_answer_waits_for_the_last_slice(void **state)
{
    struct world *w = *state;
    struct hf_decision decision = {0};
    struct hf_answer answer = free_all(w);

    w->by_hand = true;
    while (n_locks(w) > 0) {
        assert_true(world_commit_one(w, 0) || n_locks(w) > 0);
        slice(w);
    }
    assert_true(decided(w, answer.ticket.decision, &decision));
    assert_true(decision.seq > hf_core_durable(w->core));
    world_commit(w);
    assert_true(decision.seq <= hf_core_durable(w->core));
}

/* CRS-01c: a lock that a process of the new life gets where the old one's is not released yet stays
 * as a whole. */
static void what_is_granted_meanwhile_stays(void **state)
{
    struct world *w = *state;
    uint64_t at = 100 * OWNERS;

    notify(w, 7);
    assert_true(n_locks(w) > PER_OWNER);
    assert_int_equal(LOCK(w, .svid = OWNERS, .off = at, .len = 2), GRANTED); /* over and beside */
    assert_int_equal(LOCK(w, .svid = OWNERS - 1, .off = at - 100, .len = 1), GRANTED);
    finish(w);
    assert_int_equal(n_locks(w), 2);
    assert_int_equal(TEST(w, .client = 2, .off = at + 1, .len = 1), DENIED);
    assert_int_equal(TEST(w, .client = 2, .off = at + 2, .len = 90), GRANTED);
    assert_int_equal(TEST(w, .client = 2, .off = at - 100, .len = 1), DENIED);
    world_restart(w); /* the store has the same locks */
    assert_int_equal(world_status(w).locks, 2);
}

/* The new life had a lock before its notice came, and locks more while the release is in progress.
 * Its state number tells of no other restart, so what an UNLOCK leaves of the first lock stays. */
static void what_the_new_life_unlocks_in_part_stays(void **state)
{
    struct world *w = *state;

    assert_int_equal(LOCK(w, .svid = 77, .fh = "new", .off = 0, .len = 2, .state = 7), GRANTED);
    notify(w, 7);
    assert_true(n_locks(w) > PER_OWNER);
    assert_int_equal(LOCK(w, .svid = 78, .fh = "other", .state = 7), GRANTED);
    assert_int_equal(UNLOCK(w, .svid = 77, .fh = "new", .off = 1, .len = 1), GRANTED);
    finish(w);
    assert_int_equal(n_locks(w), 2);
    assert_int_equal(TEST(w, .client = 2, .fh = "new", .off = 0, .len = 1), DENIED);
    assert_int_equal(hf_core_counters(w->core)->state_hints, 1);
}

/* A part of a lock that is being released is unlocked: the rest is released as well. */
static void a_part_is_unlocked_meanwhile(void **state)
{
    struct world *w = *state;

    assert_int_equal(LOCK(w, .svid = OWNERS + 1, .fh = "long", .off = 0, .len = 100), GRANTED);
    notify(w, 7);
    assert_int_equal(UNLOCK(w, .svid = OWNERS + 1, .fh = "long", .off = 50, .len = 1), GRANTED);
    finish(w);
    assert_int_equal(n_locks(w), 0);
    assert_int_equal(world_count(w, HF_RECORD_LOCK), 0);
}

/* A notice that is repeated while its release is in progress waits for that release, and takes
 * nothing more. */
static void a_repeated_notice_joins(void **state)
{
    struct world *w = *state;
    uint64_t first = notify(w, 7).ticket.decision;

    assert_int_not_equal(first, 0);
    assert_int_equal(LOCK(w, .svid = 77, .fh = "new", .state = 0), GRANTED);
    assert_int_equal(notify(w, 7).ticket.decision, first);
    finish(w);
    assert_int_equal(n_locks(w), 1);
    assert_int_equal(notify(w, 7).ticket.decision, 0);
    assert_int_equal(n_locks(w), 1);
}

/* The client restarts again while the release for its first restart is in progress: everything from
 * before goes. */
static void it_restarts_once_more(void **state)
{
    struct world *w = *state;

    notify(w, 7);
    assert_int_equal(LOCK(w, .svid = 77, .fh = "second life", .state = 0), GRANTED);
    notify(w, 9);
    assert_int_equal(LOCK(w, .svid = 78, .fh = "third life", .state = 0), GRANTED);
    finish(w);
    assert_int_equal(n_locks(w), 1);
    assert_int_equal(TEST(w, .client = 2, .fh = "third life"), DENIED);
}

/* kill -9 between two slices: no answer was sent, so the client repeats its notice, and the rest is
 * released then; or it is released at the end of grace. */
static void the_server_crashes_between_slices(void **state)
{
    struct world *w = *state;
    uint64_t left;

    notify(w, 7);
    slice(w);
    left = n_locks(w);
    assert_true(left > 0 && left < ALL);
    world_restart(w);
    assert_int_equal(n_locks(w), left);
    assert_true(world_status(w).grace_active);
    assert_int_not_equal(notify(w, 7).ticket.decision, 0);
    finish(w);
    assert_int_equal(n_locks(w), 0);
    assert_false(world_status(w).grace_active);
}

static void the_server_crashes_and_no_notice_comes(void **state)
{
    struct world *w = *state;

    notify(w, 7);
    slice(w);
    world_restart(w);
    world_later(w, w->config.grace_ms);
    finish(w);
    assert_int_equal(n_locks(w), 0);
    assert_int_equal(world_count(w, HF_RECORD_LOCK), 0);
    assert_int_equal(LOCK(w, .client = 2), GRANTED);
}

/* The end of grace is made in slices as well. What is left of a client's locks can no longer be
 * reclaimed, because it is about to be released; a new lock of the same process stays. */
static void grace_ends_in_slices(void **state)
{
    struct world *w = *state;
    uint64_t at = 100 * OWNERS;

    world_restart(w);
    assert_int_equal(LOCK(w, .svid = 1, .off = 100, .len = 1, .reclaim = true), GRANTED);
    world_later(w, w->config.grace_ms);
    assert_false(world_status(w).grace_active);
    assert_true(n_locks(w) > PER_OWNER);
    assert_int_equal(LOCK(w, .svid = OWNERS, .off = at, .len = 1, .reclaim = true), IN_GRACE);
    assert_int_equal(LOCK(w, .svid = 1, .off = 100, .len = 1, .reclaim = true), GRANTED);
    assert_int_equal(LOCK(w, .svid = OWNERS, .off = at + 2, .len = 1), GRANTED);
    finish(w);
    assert_int_equal(n_locks(w), 2);
    assert_int_equal(TEST(w, .client = 2, .off = at + 2, .len = 1), DENIED);
    assert_int_equal(TEST(w, .client = 2, .off = 100, .len = 1), DENIED);
}

/* In grace, a client is found dead: its locks that are being released cannot be reclaimed. */
static void reclaims_of_the_dead_are_denied(void **state)
{
    struct world *w = *state;
    uint64_t at = 100 * OWNERS;

    world_restart(w);
    notify(w, 7);
    assert_int_equal(LOCK(w, .svid = OWNERS, .off = at, .len = 1, .reclaim = true), DENIED);
    assert_int_equal(LOCK(w, .svid = OWNERS, .off = at, .len = 1), IN_GRACE);
    finish(w);
    assert_int_equal(n_locks(w), 0);
}

/* A release that is retried after a failed commit does not take what the client got meanwhile. */
static void a_retry_takes_nothing_new(void **state)
{
    struct world *w = *state;

    w->config.budgets.release = 100000;
    world_restart(w);
    world_later(w, w->config.grace_ms);
    assert_int_equal(n_locks(w), 0);
    assert_int_equal(LOCK(w, .off = 0, .len = 10), GRANTED);
    assert_int_equal(LOCK(w, .off = 20, .len = 10), GRANTED);
    w->by_hand = true;
    notify(w, 7);
    assert_int_equal(n_locks(w), 0);
    assert_true(world_commit_one(w, HF_EIO));
    w->by_hand = false;
    assert_int_equal(n_locks(w), 2); /* until the retry */
    assert_int_equal(LOCK(w, .off = 0, .len = 10), GRANTED);
    assert_int_equal(LOCK(w, .off = 15, .len = 10), GRANTED); /* this lock touches the other one */
    world_later(w, 10000);
    assert_int_equal(n_locks(w), 2);
    assert_int_equal(TEST(w, .client = 2, .off = 0, .len = 10), DENIED);
    assert_int_equal(TEST(w, .client = 2, .off = 25, .len = 5), GRANTED);
    assert_int_equal(TEST(w, .client = 2, .off = 15, .len = 1), DENIED);
}

/* A client is found dead, its release waits for a retry, and then the client cannot be reached: the
 * second release, of unclaimed locks only, does not replace the first. */
static void unreachable_besides(void **state)
{
    struct world *w = *state;
    struct hf_outcall_attempt call;

    world_restart(w);
    assert_int_equal(LOCK(w, .svid = 1, .off = 100, .len = 1, .reclaim = true), GRANTED);
    w->by_hand = true;
    notify(w, 7);
    while (world_commit_one(w, HF_EIO))
        ;
    assert_int_equal(n_locks(w), ALL);
    for (unsigned i = 0; i < w->config.call_attempts; i++) {
        call = world_call_of(w, HF_OUTCALL_NOTIFY);
        assert_int_not_equal(call.id, 0);
        w->now.mono_ms += 5000;
        world_called(w, call.id, HF_OUTCALL_FAILED);
        while (world_commit_one(w, HF_EIO))
            ;
    }
    w->by_hand = false;
    world_later(w, 10000);
    finish(w);
    assert_int_equal(n_locks(w), 0); /* also the lock that was reclaimed before the notice */
}

/* Many clients that cannot be reached are given up at once: no batch releases what all of them had.
 * With standbys, a batch that takes longer than the lease would cost the service. */
static void many_unreachable_together(void **state)
{
    enum { CLIENTS = 30, EACH = 5 };
    struct world *w = *state;
    struct hf_outcall_attempt call;
    unsigned batches = 0;

    for (int client = 2; client < 2 + CLIENTS; client++) {
        for (uint64_t i = 0; i < EACH; i++)
            LOCK(w, .client = client, .fh = "g", .off = 1000 * (uint64_t)client + 2 * i, .len = 1);
    }
    world_restart(w);
    w->by_hand = true;
    for (unsigned i = 0; i < w->config.call_attempts; i++) {
        while (hf_core_next_outcall(w->core, w->now, &call))
            world_called(w, call.id, HF_OUTCALL_FAILED);
        world_later(w, 5000);
    }
    while (n_locks(w) > 0) {
        uint64_t before = world_count(w, HF_RECORD_LOCK);

        hf_core_tick(w->core, w->now);
        while (world_commit_one(w, 0))
            ;
        assert_true(before - world_count(w, HF_RECORD_LOCK) <= 2 * BOUND); /* two batches */
        batches++;
    }
    assert_true(batches >= (ALL + CLIENTS * EACH) / (2 * BOUND));
}

/* Commits that fail in the middle: what was durable stays released, the rest is retried, and the
 * decision comes in the end. */
static void commits_fail_between(void **state)
{
    struct world *w = *state;
    struct hf_decision decision = {0};
    uint64_t id = notify(w, 7).ticket.decision;
    uint64_t durable;

    slice(w);
    durable = n_locks(w);
    w->by_hand = true;
    assert_true(slice(w));
    assert_true(n_locks(w) < durable);
    assert_true(world_commit_one(w, HF_EIO));
    assert_int_equal(n_locks(w), durable);
    /* The release must not go on before the retry. */
    assert_int_not_equal(hf_core_deadline(w->core), 0);
    w->by_hand = false;
    world_later(w, 10000);
    finish(w);
    assert_int_equal(n_locks(w), 0);
    assert_true(decided(w, id, &decision));
    assert_true(decision.seq <= hf_core_durable(w->core));
}

/* The last batch fails before the decision was taken out: its answer must be a refusal. */
static void a_decision_fails_with_its_batch(void **state)
{
    struct world *w = *state;
    struct hf_decision decision = {0};
    uint64_t id = free_all(w).ticket.decision;

    while (n_locks(w) > 5)
        slice(w);
    w->by_hand = true;
    while (n_locks(w) > 0) {
        slice(w);
        if (n_locks(w) > 0)
            assert_true(world_commit_one(w, 0));
    }
    assert_true(world_commit_one(w, HF_EIO));
    assert_true(decided(w, id, &decision));
    assert_true(decision.failed);
    w->by_hand = false;
    world_later(w, 10000); /* the release is still completed */
    finish(w);
    assert_int_equal(n_locks(w), 0);
}

/* CRS-01d: Memory runs out during a slice: retried, and complete in the end. */
static void memory_runs_out_between(void **state)
{
    struct world *w = *state;
    struct hf_decision decision = {0};
    uint64_t id = notify(w, 7).ticket.decision;

    for (int i = 0; i < 40; i++) {
        w->heap.after = i;
        world_later(w, 2000);
        w->heap.after = -1;
        hf_core_verify_invariants(w->core);
    }
    world_later(w, 10000);
    finish(w);
    assert_int_equal(n_locks(w), 0);
    assert_true(decided(w, id, &decision));
}

/* Memory runs out during a release that needs no second slice: retried, and not at once. A core
 * that has just started has none set aside. */
static void memory_runs_out_in_a_small_release(void **state)
{
    struct world *w = *state;
    int retried = 0;

    for (int i = 0; i < 10; i++) {
        assert_int_equal(LOCK(w, .state = 5 + 2 * i), GRANTED);
        world_restart(w);
        w->heap.after = i;
        notify(w, 7 + 2 * i);
        w->heap.after = -1;
        assert_int_not_equal(hf_core_deadline(w->core), 0);
        retried += n_locks(w) > 0;
        world_later(w, 10000);
        notify(w, 7 + 2 * i);
        assert_int_equal(n_locks(w), 0);
        world_later(w, 100000);
    }
    assert_true(retried > 0 && retried < 10);
}

/* Shares are released in slices, too; a share that the client asks for meanwhile stays. */
static void shares_in_slices(void **state)
{
    struct world *w = *state;
    char fh[8];

    for (int i = 0; i < ALL; i++) {
        snprintf(fh, sizeof(fh), "s%d", i);
        assert_int_equal(SHARE(w, .fh = fh, .access = 1, .mode = 1), GRANTED);
    }
    free_all(w);
    assert_true(world_status(w).shares > 0);
    assert_int_equal(SHARE(w, .fh = fh, .access = 1, .mode = 1), GRANTED);
    finish(w);
    assert_int_equal(world_status(w).shares, 1);
    assert_int_equal(SHARE(w, .client = 2, .fh = fh, .access = 1), DENIED);
    assert_int_equal(n_locks(w), 0);
}

/* The operator's release returns how much there is to release, and its answer waits in the same
 * way. */
static void the_operator_releases(void **state)
{
    struct world *w = *state;
    struct hf_view_client client;
    struct hf_ticket awaited;
    struct hf_decision decision = {0};
    uint64_t cursor = 0;

    assert_int_equal(hf_core_view_clients(w->core, &cursor, UINT64_MAX, &client, 1), 1);
    assert_int_equal(hf_core_release_client(w->core, w->now, client.record.id, &awaited), ALL);
    world_step(w);
    assert_int_not_equal(awaited.decision, 0);
    finish(w);
    assert_true(decided(w, awaited.decision, &decision));
    assert_int_equal(n_locks(w), 0);
}

/* The operator ends grace: the answer waits for the last slice of the last client. */
static void the_operator_ends_grace(void **state)
{
    struct world *w = *state;
    struct hf_ticket awaited;
    struct hf_decision decision = {0};

    world_restart(w);
    awaited = hf_core_grace_end(w->core, w->now);
    world_step(w);
    assert_int_not_equal(awaited.decision, 0);
    assert_true(n_locks(w) > 0);
    finish(w);
    assert_int_equal(n_locks(w), 0);
    assert_true(decided(w, awaited.decision, &decision));
}

/* SM_SIMU_CRASH while locks that were not reclaimed are being released: they may be reclaimed once
 * more, as after any restart. */
static void a_new_epoch_keeps_what_is_unclaimed(void **state)
{
    struct world *w = *state;
    uint64_t left;

    world_restart(w);
    world_later(w, w->config.grace_ms);
    left = n_locks(w);
    assert_true(left > 0 && left < ALL);
    hf_core_simu_crash(w->core, w->now);
    world_step(w);
    finish(w);
    assert_int_equal(n_locks(w), left);
    assert_int_equal(LOCK(w, .svid = OWNERS, .off = 100 * OWNERS, .len = 1, .reclaim = true),
                     GRANTED);
}

/* SEC-05i: the changes of one LOCK or UNLOCK cannot be divided into slices, so the locks of one
 * owner are limited. */
static void locks_of_an_owner_are_limited(void **state)
{
    struct world *w = *state;

    w->config.limits.locks_per_owner = 10;
    hf_core_set_limits(w->core, &w->config.limits);
    for (uint64_t i = 0; i < 10; i++)
        assert_int_equal(LOCK(w, .client = 3, .fh = "g", .off = 2 * i, .len = 1), GRANTED);
    assert_int_equal(LOCK(w, .client = 3, .fh = "g", .off = 100, .len = 1), NOLOCKS);
    assert_int_equal(LOCK(w, .client = 3, .fh = "h"), NOLOCKS); /* on any file */
    assert_int_equal(hf_core_counters(w->core)->limit_hits[HF_LIMIT_LOCKS_PER_OWNER], 2);
    assert_int_equal(LOCK(w, .client = 3, .fh = "g", .off = 2, .len = 1), GRANTED); /* has it */
    assert_int_equal(LOCK(w, .client = 3, .fh = "g", .off = 1, .len = 1), GRANTED); /* merges */
    assert_int_equal(LOCK(w, .client = 3, .svid = 2, .fh = "h"), GRANTED); /* another process */
    assert_int_equal(LOCK(w, .client = 3, .fh = "h", .block = true), BLOCKED);
    assert_int_equal(LOCK(w, .client = 3, .fh = "h", .off = 5, .block = true), NOLOCKS);
    assert_int_equal(UNLOCK(w, .client = 3, .fh = "g"), GRANTED);
}

#define T(test) cmocka_unit_test_setup_teardown(test, open_full, close_world)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(free_all_in_slices),
        T(others_are_served_meanwhile),
        T(the_answer_waits_for_the_last_slice),
        T(what_is_granted_meanwhile_stays),
        T(what_the_new_life_unlocks_in_part_stays),
        T(a_part_is_unlocked_meanwhile),
        T(a_repeated_notice_joins),
        T(it_restarts_once_more),
        T(the_server_crashes_between_slices),
        T(the_server_crashes_and_no_notice_comes),
        T(grace_ends_in_slices),
        T(reclaims_of_the_dead_are_denied),
        T(a_retry_takes_nothing_new),
        T(unreachable_besides),
        T(many_unreachable_together),
        T(commits_fail_between),
        T(a_decision_fails_with_its_batch),
        T(memory_runs_out_between),
        cmocka_unit_test_setup_teardown(memory_runs_out_in_a_small_release, open_world,
                                        close_world),
        T(shares_in_slices),
        T(the_operator_releases),
        T(the_operator_ends_grace),
        T(a_new_epoch_keeps_what_is_unclaimed),
        T(locks_of_an_owner_are_limited),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
