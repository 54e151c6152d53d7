/*
 * What setbacks leave behind: a client that refuses a grant, a commit that fails after it, limits
 * that a grant exceeds.
 */
#include "core_world.h"

#include "base/programs.h"

#define GRANTED HF_STAT_GRANTED
#define DENIED  HF_STAT_DENIED
#define NOLOCKS HF_STAT_DENIED_NOLOCKS
#define BLOCKED HF_STAT_BLOCKED

/*
 * CRS-01: a crashed client's locks are freed. The client crashed with X [0,9]. Its kernel numbers
 * svids from 0 again, so the first process of its new life is the same owner. That waits for
 * S [0,19], is killed, and its CANCEL is lost, so it refuses the grant. Then the notice of the
 * crash comes: X [0,9] is of the life before it, and no process knows of it.
 */
static void a_refused_grant_leaves_a_lock_in_its_life(void **state)
{
    struct world *w = *state;
    struct hf_peer peer = world_peer(w, 1);

    assert_int_equal(LOCK(w, .len = 10, .state = 5), GRANTED);
    assert_int_equal(LOCK(w, .client = 2, .off = 10, .len = 10), GRANTED);
    assert_int_equal(LOCK(w, .len = 20, .shared = true, .block = true, .state = 7), BLOCKED);
    assert_int_equal(UNLOCK(w, .client = 2, .off = 10, .len = 10), GRANTED);
    world_called(w, world_call_of(w, HF_CALL_GRANTED).id, HF_CALL_DENIED);
    hf_core_sm_notify(w->core, w->now, &peer.addr, peer.name, 7, true);
    world_step(w);
    assert_int_equal(TEST(w, .client = 2, .len = 20), GRANTED);
}

/* CRS-01: what was shared before the crash, and exclusive until the client refused an upgrade, is
 * of the life before it, too. */
static void a_refused_upgrade_leaves_a_lock_in_its_life(void **state)
{
    struct world *w = *state;
    struct hf_peer peer = world_peer(w, 1);

    assert_int_equal(LOCK(w, .len = 10, .shared = true, .state = 5), GRANTED);
    assert_int_equal(LOCK(w, .client = 2, .off = 10, .len = 10), GRANTED);
    assert_int_equal(LOCK(w, .len = 20, .block = true, .state = 7), BLOCKED);
    assert_int_equal(UNLOCK(w, .client = 2, .off = 10, .len = 10), GRANTED);
    world_called(w, world_call_of(w, HF_CALL_GRANTED).id, HF_CALL_DENIED);
    hf_core_sm_notify(w->core, w->now, &peer.addr, peer.name, 7, true);
    world_step(w);
    assert_int_equal(TEST(w, .client = 2, .len = 20), GRANTED);
}

/*
 * NOT-04: a lock that its client refuses goes to the next waiter. If the commit of that fails, the
 * lock is held again, and so its client must be asked again: it has said that it does not want the
 * lock, and will never unlock it.
 */
static void a_refused_grant_survives_a_failed_commit(void **state)
{
    struct world *w = *state;
    struct hf_call call;

    assert_int_equal(LOCK(w, .client = 2), GRANTED);
    assert_int_equal(LOCK(w, .client = 1, .block = true), BLOCKED);
    assert_int_equal(LOCK(w, .client = 3, .block = true), BLOCKED);
    assert_int_equal(UNLOCK(w, .client = 2), GRANTED);
    call = world_call_of(w, HF_CALL_GRANTED);
    w->by_hand = true;
    world_called(w, call.id, HF_CALL_DENIED);
    assert_true(world_commit_one(w, HF_EIO));
    w->by_hand = false;
    for (int i = 0; i < 60; i++) {
        world_later(w, 10000);
        while ((call = world_call_of(w, HF_CALL_GRANTED)).id != 0) {
            struct hf_bytes first = hf_bytes_str("client1.example");
            world_called(w, call.id,
                         hf_bytes_equal(call.host, first) ? HF_CALL_DENIED : HF_CALL_ACCEPTED);
        }
    }
    assert_int_equal(world_status(w).waiters, 0);
    assert_int_equal(LOCK(w, .client = 3), GRANTED);
}

/* NOT-04: the lock of a client whose callback was given up does not stay with it because a commit
 * failed. */
static void a_silent_clients_grant_survives_a_failed_commit(void **state)
{
    struct world *w = *state;
    struct hf_call call;

    assert_int_equal(LOCK(w, .client = 2), GRANTED);
    assert_int_equal(LOCK(w, .client = 1, .block = true), BLOCKED);
    assert_int_equal(UNLOCK(w, .client = 2), GRANTED);
    for (unsigned i = 1; i <= w->config.call_attempts; i++) {
        call = world_call_of(w, HF_CALL_GRANTED);
        assert_int_not_equal(call.id, 0);
        w->by_hand = i == w->config.call_attempts;
        world_called(w, call.id, HF_CALL_FAILED);
        if (!w->by_hand)
            world_later(w, w->config.call_timeout_ms);
    }
    assert_true(world_commit_one(w, HF_EIO));
    w->by_hand = false;
    for (int i = 0; i < 60; i++) {
        world_later(w, 10000);
        while ((call = world_call_of(w, HF_CALL_GRANTED)).id != 0)
            world_called(w, call.id, HF_CALL_FAILED);
    }
    assert_int_equal(LOCK(w, .client = 3), GRANTED);
}

/*
 * SPEC section 5: an UNLOCK is never refused, also not because of a limit, unless a peer cuts its
 * locks into thousands. A shared grant fills the gaps between its owner's exclusive locks, each
 * with a lock, and so may exceed the limits; that must leave the UNLOCK as much as before.
 */
static void a_grant_does_not_use_up_what_is_left_for_unlock(void **state)
{
    struct world *w = *state;
    struct hf_limits limits = w->config.limits;

    limits.locks_per_owner = 100;
    limits.beyond = 10;
    world_crash(w);
    world_forget(w);
    w->config.limits = limits;
    world_start(w);
    assert_int_equal(LOCK(w, .client = 2, .off = 5, .len = 1), GRANTED);
    for (uint64_t i = 0; i < 99; i++)
        assert_int_equal(LOCK(w, .off = 100 + 10 * i, .len = 5), GRANTED);
    assert_int_equal(LOCK(w, .len = 5000, .shared = true, .block = true), BLOCKED);
    assert_int_equal(UNLOCK(w, .client = 2, .off = 5, .len = 1), GRANTED);
    world_called(w, world_call_of(w, HF_CALL_GRANTED).id, HF_CALL_ACCEPTED);
    assert_int_equal(UNLOCK(w, .off = 102, .len = 1), GRANTED);
}

/* The deletions that a start owes are in a batch once, however often the loop asks for a batch
 * while the store is down. */
static void a_failed_start_does_not_let_the_batch_grow(void **state)
{
    struct world *w = *state;
    const struct hf_batch *batch;

    for (uint64_t i = 0; i < 50; i++)
        assert_int_equal(LOCK(w, .off = 10 * i, .len = 5), GRANTED);
    world_crash(w);
    w->config.durable_locks = false;
    w->by_hand = true;
    world_start(w);
    assert_true(world_commit_one(w, HF_EIO));
    for (int i = 0; i < 100; i++) /* turns of the loop until the retry */
        assert_null(hf_core_take_batch(w->core));
    world_later(w, 60000);
    batch = hf_core_take_batch(w->core);
    assert_non_null(batch);
    assert_true(batch->n_ops <= 60);
    hf_core_batch_done(w->core, w->now, batch->seq, 0);
}

/*
 * SPEC section 5: memory goes back to what is durable. With standbys BLOCKED waits for a batch.
 * When that fails, BLOCKED becomes a refusal, the client does not wait, and no waiter may stay.
 */
static void a_refused_wait_leaves_no_waiter_with_standbys(void **state)
{
    struct world *w = *state;
    struct hf_answer answer;

    world_crash(w);
    w->config.fenced = true;
    world_start(w);
    assert_int_equal(LOCK(w, .client = 2), GRANTED);
    w->by_hand = true;
    answer = ASK(w, hf_core_lock, .block = true);
    assert_int_equal(answer.stat, BLOCKED);
    assert_int_not_equal(answer.seq, 0);
    assert_true(world_commit_one(w, HF_EIO));
    assert_int_equal(world_status(w).waiters, 0);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, open_world, close_world)
    const struct CMUnitTest tests[] = {
        T(a_refused_grant_leaves_a_lock_in_its_life),
        T(a_refused_upgrade_leaves_a_lock_in_its_life),
        T(a_refused_grant_survives_a_failed_commit),
        T(a_silent_clients_grant_survives_a_failed_commit),
        T(a_refused_wait_leaves_no_waiter_with_standbys),
        T(a_grant_does_not_use_up_what_is_left_for_unlock),
        T(a_failed_start_does_not_let_the_batch_grow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
