/* What is left after a setback: a client refuses a grant, a commit fails after it, or a grant
 * exceeds limits. */
#include "core_world.h"

#include "base/programs.h"

#define GRANTED HF_STAT_GRANTED
#define DENIED  HF_STAT_DENIED
#define NOLOCKS HF_STAT_DENIED_NOLOCKS
#define BLOCKED HF_STAT_BLOCKED

/* CRS-01: a crashed client's locks are freed. The client crashed with X [0,9]. Its kernel numbers
 * svids from 0 again, so the first process of its new life is the same owner. That waits for S
 * [0,19], is killed, and its CANCEL is lost, so it refuses the grant. Then the notice of the crash
 * comes: X [0,9] belongs to the life before it, and no process knows of it. */
static void a_refused_grant_leaves_a_lock_in_its_life(void **state)
{
    struct world *w = *state;
    struct hf_peer peer = world_peer(w, 1);

    assert_int_equal(LOCK(w, .len = 10, .state = 5), GRANTED);
    assert_int_equal(LOCK(w, .client = 2, .off = 10, .len = 10), GRANTED);
    assert_int_equal(LOCK(w, .len = 20, .shared = true, .block = true, .state = 7), BLOCKED);
    assert_int_equal(UNLOCK(w, .client = 2, .off = 10, .len = 10), GRANTED);
    world_called(w, world_call_of(w, HF_OUTCALL_GRANTED).id, HF_OUTCALL_DENIED);
    hf_core_sm_notify(w->core, w->now, &peer.addr, peer.name, 7, true);
    world_step(w);
    assert_int_equal(TEST(w, .client = 2, .len = 20), GRANTED);
}

/* CRS-01: a lock that was shared before the crash, and exclusive until the client refused an
 * upgrade, belongs to the life before the crash, too. */
static void a_refused_upgrade_leaves_a_lock_in_its_life(void **state)
{
    struct world *w = *state;
    struct hf_peer peer = world_peer(w, 1);

    assert_int_equal(LOCK(w, .len = 10, .shared = true, .state = 5), GRANTED);
    assert_int_equal(LOCK(w, .client = 2, .off = 10, .len = 10), GRANTED);
    assert_int_equal(LOCK(w, .len = 20, .block = true, .state = 7), BLOCKED);
    assert_int_equal(UNLOCK(w, .client = 2, .off = 10, .len = 10), GRANTED);
    world_called(w, world_call_of(w, HF_OUTCALL_GRANTED).id, HF_OUTCALL_DENIED);
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
    struct hf_outcall_attempt call;

    assert_int_equal(LOCK(w, .client = 2), GRANTED);
    assert_int_equal(LOCK(w, .client = 1, .block = true), BLOCKED);
    assert_int_equal(LOCK(w, .client = 3, .block = true), BLOCKED);
    assert_int_equal(UNLOCK(w, .client = 2), GRANTED);
    call = world_call_of(w, HF_OUTCALL_GRANTED);
    w->by_hand = true;
    world_called(w, call.id, HF_OUTCALL_DENIED);
    assert_true(world_commit_one(w, HF_EIO));
    w->by_hand = false;
    /* While the store is down, the client is not called as often as it answers. */
    assert_int_equal(world_call_of(w, HF_OUTCALL_GRANTED).id, 0);
    assert_int_equal(hf_core_deadline(w->core), w->now.mono_ms + 1000);
    for (int i = 0; i < 60; i++) {
        world_later(w, 10000);
        while ((call = world_call_of(w, HF_OUTCALL_GRANTED)).id != 0) {
            struct hf_bytes first = hf_bytes_str("client1.example");
            world_called(w, call.id,
                         hf_bytes_equal(call.host, first) ? HF_OUTCALL_DENIED
                                                          : HF_OUTCALL_ACCEPTED);
        }
    }
    assert_int_equal(world_status(w).waiters, 0);
    assert_int_equal(LOCK(w, .client = 3), GRANTED);
}

/* NOT-04: a client whose callback was given up does not keep the lock because a commit failed. */
static void a_silent_clients_grant_survives_a_failed_commit(void **state)
{
    struct world *w = *state;
    struct hf_outcall_attempt call;

    assert_int_equal(LOCK(w, .client = 2), GRANTED);
    assert_int_equal(LOCK(w, .client = 1, .block = true), BLOCKED);
    assert_int_equal(UNLOCK(w, .client = 2), GRANTED);
    for (unsigned i = 1; i <= w->config.call_attempts; i++) {
        call = world_call_of(w, HF_OUTCALL_GRANTED);
        assert_int_not_equal(call.id, 0);
        w->by_hand = i == w->config.call_attempts;
        world_called(w, call.id, HF_OUTCALL_FAILED);
        if (!w->by_hand)
            world_later(w, w->config.call_timeout_ms);
    }
    assert_true(world_commit_one(w, HF_EIO));
    w->by_hand = false;
    for (int i = 0; i < 60; i++) {
        world_later(w, 10000);
        while ((call = world_call_of(w, HF_OUTCALL_GRANTED)).id != 0)
            world_called(w, call.id, HF_OUTCALL_FAILED);
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
    world_called(w, world_call_of(w, HF_OUTCALL_GRANTED).id, HF_OUTCALL_ACCEPTED);
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
    for (int i = 0; i < 100; i++) /* turns of the loop before the retry */
        assert_null(hf_core_take_batch(w->core));
    world_later(w, 60000);
    batch = hf_core_take_batch(w->core);
    assert_non_null(batch);
    assert_true(batch->n_ops <= 60);
    hf_core_batch_done(w->core, w->now, batch->seq, 0);
}

/*
 * SPEC section 5: memory goes back to what is durable. With standbys BLOCKED waits for a batch.
 * When that batch fails, BLOCKED becomes a refusal and the client does not wait, so no waiter may
 * stay.
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
    assert_int_not_equal(answer.ticket.seq, 0);
    assert_true(world_commit_one(w, HF_EIO));
    assert_int_equal(world_status(w).waiters, 0);
}

/*
 * HA-03: a machine that stood still together with its clock does not know that another node serves.
 * A client gives up a lock whose reclaim is refused, and never learns of a lock that the other node
 * gave it if this one says DENIED. So a refusal waits for a commit, as a promise does.
 */
static void refusals_wait_for_a_commit_with_standbys(void **state)
{
    struct world *w = *state;
    struct hf_answer answer;

    world_crash(w);
    w->config.fenced = true;
    world_start(w);
    assert_int_equal(LOCK(w, .client = 2, .len = 10), GRANTED);
    w->by_hand = true;
    answer = ASK(w, hf_core_lock, .off = 50, .reclaim = true);
    assert_int_equal(answer.stat, HF_STAT_DENIED_GRACE_PERIOD);
    assert_true(answer.ticket.seq > hf_core_durable(w->core));
    assert_true(world_commit_one(w, 0));
    answer = ASK(w, hf_core_lock, .len = 10);
    assert_int_equal(answer.stat, DENIED);
    assert_true(answer.ticket.seq > hf_core_durable(w->core));
    assert_true(world_commit_one(w, 0));
}

/* GRC-03: locks that are unclaimed at the end of grace are released. Here grace.mode is conflict;
 * the owner of such a lock waits for a larger range and refuses the grant, so it has reclaimed
 * nothing. */
static void a_refused_grant_leaves_a_lock_unclaimed(void **state)
{
    struct world *w = *state;

    assert_int_equal(LOCK(w, .len = 10), GRANTED);
    assert_int_equal(LOCK(w, .client = 2, .off = 10, .len = 10), GRANTED);
    w->config.grace_mode = HF_GRACE_CONFLICT;
    world_restart(w);
    assert_int_equal(LOCK(w, .len = 20, .block = true), BLOCKED);
    assert_int_equal(UNLOCK(w, .client = 2, .off = 10, .len = 10), GRANTED);
    assert_true(world_status(w).grace_active); /* the range [0,9] may still have to be reclaimed */
    world_called(w, world_call_of(w, HF_OUTCALL_GRANTED).id, HF_OUTCALL_DENIED);
    assert_true(world_status(w).grace_active);
    assert_int_equal(world_status(w).unreclaimed, 1);
    assert_int_equal(LOCK(w, .client = 2, .len = 10), HF_STAT_DENIED_GRACE_PERIOD);
    hf_core_grace_end(w->core, w->now);
    world_step(w);
    world_later(w, 1000);
    assert_int_equal(TEST(w, .client = 2, .len = 20), GRANTED);
}

/* STO-02: a recorded lock stays recorded when its owner refuses an NM_LOCK over it. */
static void a_refused_grant_leaves_a_lock_recorded(void **state)
{
    struct world *w = *state;

    assert_int_equal(LOCK(w, .len = 10), GRANTED);
    assert_int_equal(LOCK(w, .client = 2, .off = 10, .len = 10), GRANTED);
    assert_int_equal(LOCK(w, .len = 20, .nm = true, .block = true), BLOCKED);
    assert_int_equal(UNLOCK(w, .client = 2, .off = 10, .len = 10), GRANTED);
    world_called(w, world_call_of(w, HF_OUTCALL_GRANTED).id, HF_OUTCALL_DENIED);
    assert_int_equal(world_count(w, HF_RECORD_LOCK), 1);
    world_restart(w);
    assert_int_equal(LOCK(w, .len = 10, .reclaim = true), GRANTED);
}

/* STO-02: a LOCK is granted over what its owner has exclusively by NM_LOCK, and is recorded as a
 * whole: the client counts on all of it after our restart. */
static void a_grant_records_what_was_not(void **state)
{
    struct world *w = *state;

    assert_int_equal(LOCK(w, .off = 3, .len = 3, .nm = true), GRANTED);
    assert_int_equal(LOCK(w, .client = 2, .off = 8, .len = 2), GRANTED);
    assert_int_equal(LOCK(w, .len = 10, .shared = true, .block = true), BLOCKED);
    assert_int_equal(UNLOCK(w, .client = 2, .off = 8, .len = 2), GRANTED);
    world_called(w, world_call_of(w, HF_OUTCALL_GRANTED).id, HF_OUTCALL_ACCEPTED);
    world_restart(w);
    assert_int_equal(LOCK(w, .len = 10, .shared = true, .reclaim = true), GRANTED);
}

/* STO-02: outside grace, a reclaim of what its owner holds is granted. If the owner got it by
 * NM_LOCK, the reclaim records it: the client counts on it after the next restart. */
static void a_reclaim_records_what_was_not(void **state)
{
    struct world *w = *state;

    assert_int_equal(LOCK(w, .len = 10, .nm = true), GRANTED);
    assert_int_equal(world_count(w, HF_RECORD_LOCK), 0);
    assert_int_equal(LOCK(w, .len = 10, .reclaim = true), GRANTED);
    assert_int_equal(world_count(w, HF_RECORD_LOCK), 1);
    assert_int_equal(world_count(w, HF_RECORD_CLIENT), 1);
    world_restart(w);
    assert_int_equal(LOCK(w, .len = 10, .reclaim = true), GRANTED);
}

/* GRC-03: a client that accepts the grant shows that it knows of the restart, and keeps all its
 * locks. */
static void an_accepted_grant_reclaims(void **state)
{
    struct world *w = *state;

    LOCK(w, .len = 10);
    LOCK(w, .client = 2, .off = 10, .len = 10);
    w->config.grace_mode = HF_GRACE_CONFLICT;
    world_restart(w);
    assert_int_equal(LOCK(w, .len = 20, .block = true), BLOCKED);
    UNLOCK(w, .client = 2, .off = 10, .len = 10);
    world_called(w, world_call_of(w, HF_OUTCALL_GRANTED).id, HF_OUTCALL_ACCEPTED);
    world_later(w, 1000);
    assert_false(world_status(w).grace_active);
    assert_int_equal(TEST(w, .client = 2, .len = 20), DENIED);
}

/* GRC-03: so does one that accepts a shared grant over what it held exclusively: the end of grace
 * takes nothing that was granted in it (seed 130093365). */
static void an_accepted_shared_grant_reclaims(void **state)
{
    struct world *w = *state;

    LOCK(w, .len = 10);
    LOCK(w, .client = 2, .off = 10, .len = 10);
    LOCK(w, .client = 3, .fh = "z");
    w->config.grace_mode = HF_GRACE_CONFLICT;
    world_restart(w);
    assert_int_equal(LOCK(w, .len = 20, .shared = true, .block = true), BLOCKED);
    UNLOCK(w, .client = 2, .off = 10, .len = 10);
    world_called(w, world_call_of(w, HF_OUTCALL_GRANTED).id, HF_OUTCALL_ACCEPTED);
    assert_true(world_status(w).grace_active);
    world_later(w, w->config.grace_ms);
    world_later(w, 1000);
    assert_false(world_status(w).grace_active);
    assert_int_equal(TEST(w, .client = 2, .off = 10, .len = 10), DENIED);
    assert_int_equal(TEST(w, .client = 2, .len = 10, .shared = true), DENIED);
}

/* GRC-03, ADM-06: grace ends while the client has not answered, and then it refuses: the lock was
 * not reclaimed in time, and is reported as lost. */
static void a_grant_refused_after_grace_loses_the_unclaimed(void **state)
{
    struct world *w = *state;
    struct hf_event event = {0};
    uint64_t id;

    LOCK(w, .len = 10);
    LOCK(w, .client = 2, .off = 10, .len = 10);
    w->config.grace_mode = HF_GRACE_CONFLICT;
    world_restart(w);
    LOCK(w, .len = 20, .block = true);
    UNLOCK(w, .client = 2, .off = 10, .len = 10);
    id = world_call_of(w, HF_OUTCALL_GRANTED).id;
    hf_core_grace_end(w->core, w->now);
    world_step(w);
    /* The client may still accept the grant. */
    assert_int_equal(TEST(w, .client = 2, .len = 20), DENIED);
    world_called(w, id, HF_OUTCALL_DENIED);
    assert_int_equal(TEST(w, .client = 2, .len = 20), GRANTED);
    assert_true(world_event(w, HF_EVENT_CLIENT_UNRECLAIMED, &event));
    assert_int_equal(hf_core_counters(w->core)->locks_lost[HF_LOSS_UNRECLAIMED], 1);
}

/*
 * SPEC section 5: memory goes back to what is durable. A thread waits and is granted its lock;
 * before that is durable another thread of the process asks, without waiting, for a range that
 * overlaps, and is denied. The batch fails, and the first thread, which was told BLOCKED, waits
 * again.
 */
static void a_wait_survives_a_failed_commit(void **state)
{
    struct world *w = *state;

    LOCK(w, .client = 2, .len = 10);
    LOCK(w, .client = 3, .off = 30, .len = 10);
    assert_int_equal(LOCK(w, .len = 10, .block = true), BLOCKED);
    w->by_hand = true;
    UNLOCK(w, .client = 2, .len = 10);
    assert_int_equal(LOCK(w, .off = 5, .len = 30), DENIED); /* by client 3 */
    assert_true(world_commit_one(w, HF_EIO));
    w->by_hand = false;
    world_later(w, 1000);
    UNLOCK(w, .client = 2, .len = 10);
    assert_int_not_equal(world_call_of(w, HF_OUTCALL_GRANTED).id, 0);
}

/* NLM-03: a request of another thread that is denied does not call off the callback. */
static void a_denied_thread_calls_off_no_callback(void **state)
{
    struct world *w = *state;

    LOCK(w, .client = 2, .len = 10);
    LOCK(w, .client = 3, .off = 30, .len = 10);
    assert_int_equal(LOCK(w, .len = 10, .block = true), BLOCKED);
    UNLOCK(w, .client = 2, .len = 10);
    assert_int_equal(LOCK(w, .off = 5, .len = 30), DENIED); /* by client 3 */
    assert_int_not_equal(world_call_of(w, HF_OUTCALL_GRANTED).id, 0);
}

/* The other thread's request calls the callback off: it unlocks part of the range, or gets a lock
 * over it. The failed commit undoes that together with the grant, and the first thread waits again.
 */
static void a_wait_that_was_called_off_survives_a_failed_commit(void **state)
{
    struct world *w = *state;

    for (int unlocks = 0; unlocks < 2; unlocks++) {
        LOCK(w, .client = 2, .len = 10);
        assert_int_equal(LOCK(w, .len = 10, .block = true), BLOCKED);
        w->by_hand = true;
        UNLOCK(w, .client = 2, .len = 10);
        if (unlocks)
            assert_int_equal(UNLOCK(w, .off = 5, .len = 30), GRANTED);
        else
            assert_int_equal(LOCK(w, .off = 5, .len = 30), GRANTED);
        assert_true(world_commit_one(w, HF_EIO));
        w->by_hand = false;
        world_later(w, 1000);
        assert_int_equal(world_status(w).waiters, 1);
        UNLOCK(w, .client = 2, .len = 10);
        assert_int_not_equal(world_call_of(w, HF_OUTCALL_GRANTED).id, 0);
        UNLOCK(w, .len = 0);
    }
}

/* CRS-01: a wait of a former life does not come back with a failed commit. */
static void a_wait_of_a_dead_client_stays_gone(void **state)
{
    struct world *w = *state;
    struct hf_peer peer = world_peer(w, 1);

    LOCK(w, .client = 2, .len = 10);
    assert_int_equal(LOCK(w, .len = 10, .block = true, .state = 5), BLOCKED);
    w->by_hand = true;
    UNLOCK(w, .client = 2, .len = 10);
    assert_int_equal(UNLOCK(w, .off = 5, .len = 30), GRANTED);
    hf_core_sm_notify(w->core, w->now, &peer.addr, peer.name, 7, true);
    assert_true(world_commit_one(w, HF_EIO));
    w->by_hand = false;
    world_later(w, 1000);
    assert_int_equal(world_status(w).waiters, 0);
}

/* NLM-08: a wait that a second request of the range has replaced does not come back beside it. */
static void a_wait_comes_back_once(void **state)
{
    struct world *w = *state;

    LOCK(w, .client = 2, .len = 10);
    assert_int_equal(LOCK(w, .len = 10, .shared = true, .block = true), BLOCKED);
    w->by_hand = true;
    UNLOCK(w, .client = 2, .len = 10);
    assert_int_equal(UNLOCK(w, .off = 5, .len = 5), GRANTED); /* this calls the callback off */
    assert_int_equal(LOCK(w, .client = 2, .len = 5, .shared = true), GRANTED);
    assert_int_equal(LOCK(w, .len = 10, .block = true), BLOCKED);
    assert_true(world_commit_one(w, HF_EIO));
    w->by_hand = false;
    world_later(w, 1000);
    assert_int_equal(world_status(w).waiters, 1);
}

/*
 * SPEC section 4: a LOCK that leaves no more locks than before is never refused by a limit on
 * locks, and a blocking LOCK that must wait gets BLOCKED.
 */
static void an_upgrade_at_the_limit_waits(void **state)
{
    struct world *w = *state;
    struct hf_limits limits = w->config.limits;

    limits.locks_per_owner = 1;
    hf_core_set_limits(w->core, &limits);
    assert_int_equal(LOCK(w, .len = 10, .shared = true), GRANTED);
    assert_int_equal(LOCK(w, .client = 2, .len = 10, .shared = true), GRANTED);
    assert_int_equal(LOCK(w, .len = 10, .block = true), BLOCKED);
    /* One waiter for each lock: a second one will become a lock more, and exceeds the limit. */
    assert_int_equal(LOCK(w, .len = 11, .block = true), NOLOCKS);
}

/* NLM-09: an upgrade waits at each limit that counts a waiter as a lock; a wait for more than the
 * owner holds is refused. */
static void an_upgrade_waits_whatever_limit_on_locks_is_reached(void **state)
{
    struct world *w = *state;
    struct hf_limits start = w->config.limits;
    struct hf_limits limits[4] = {start, start, start, start};

    limits[0].locks_per_client = 1;
    limits[1].locks_per_host = 1;
    limits[2].locks_per_file = 2;
    limits[3].locks = 2;
    assert_int_equal(LOCK(w, .len = 10, .shared = true), GRANTED);
    assert_int_equal(LOCK(w, .client = 2, .len = 20, .shared = true), GRANTED);
    for (int i = 0; i < 4; i++) {
        hf_core_set_limits(w->core, &limits[i]);
        assert_int_equal(LOCK(w, .off = 15, .len = 2, .block = true), NOLOCKS);
        assert_int_equal(LOCK(w, .len = 10, .block = true), BLOCKED);
        assert_int_equal(CANCEL(w, .len = 10, .block = true), GRANTED);
    }
}

/* SPEC section 5: an upgrade that waits beyond a limit does not hold up an UNLOCK that splits. */
static void an_upgrade_that_waits_holds_up_no_unlock(void **state)
{
    struct world *w = *state;

    world_crash(w);
    w->config.limits.locks = 2;
    w->config.limits.locks_per_client = 1;
    w->config.limits.locks_per_host = 1;
    w->config.limits.beyond = 1;
    world_start(w);
    assert_int_equal(LOCK(w, .len = 10, .shared = true), GRANTED);
    assert_int_equal(LOCK(w, .client = 2, .len = 10, .shared = true), GRANTED);
    assert_int_equal(LOCK(w, .len = 10, .block = true), BLOCKED);
    assert_int_equal(UNLOCK(w, .off = 4, .len = 2), GRANTED);
}

/* SEC-04, GRC-01: in strict grace, a LOCK that repeats one from before our restart is granted. Here
 * the client has restarted since, and its notice is being verified: the first process of its new
 * life is the same owner, and its LOCK, which tells no state number, repeats nothing. If it were
 * granted, the notice would take it. */
static void a_new_life_repeats_nothing_in_strict_grace(void **state)
{
    struct world *w = *state;
    struct hf_peer peer = world_peer(w, 1);

    assert_int_equal(LOCK(w, .len = 10, .state = 5), GRANTED);
    assert_int_equal(LOCK(w, .client = 2, .off = 90, .len = 10), GRANTED);
    w->config.verify_notices = true;
    world_restart(w);
    /* This is a repeat: the client has not restarted. */
    assert_int_equal(LOCK(w, .len = 10), GRANTED);
    hf_core_sm_notify(w->core, w->now, &peer.addr, peer.name, 7, false);
    world_step(w);
    assert_int_equal(LOCK(w, .len = 10), HF_STAT_DENIED_GRACE_PERIOD);
    world_called(w, world_call_of(w, HF_OUTCALL_STAT).id, HF_OUTCALL_FAILED);
    assert_int_equal(LOCK(w, .len = 10), HF_STAT_DENIED_GRACE_PERIOD);
}

/* SEC-04: what a client gets while its crash notice is verified stays. Forged LOCKs in the name of
 * the client, each with another state number and all of them denied, must not use up the lives that
 * its record can have, or the notice would take what came after it as well. */
static void forged_states_do_not_use_up_lives(void **state)
{
    struct world *w = *state;
    struct hf_peer peer = world_peer(w, 1);

    world_crash(w);
    w->config.verify_notices = true;
    w->unchecked = true;
    world_start(w);
    LOCK(w, .client = 2, .fh = "z");
    assert_int_equal(LOCK(w, .len = 10, .state = 5), GRANTED);
    for (int i = 0; i < 70000; i++)
        LOCK(w, .fh = "z", .state = 1000 + i);
    hf_core_sm_notify(w->core, w->now, &peer.addr, peer.name, 7, false);
    assert_int_equal(LOCK(w, .off = 50, .len = 10, .state = 7), GRANTED);
    world_called(w, world_call_of(w, HF_OUTCALL_STAT).id, HF_OUTCALL_FAILED);
    assert_int_equal(TEST(w, .client = 2, .off = 50, .len = 10), DENIED);
    /* The lock of the old life is gone. */
    assert_int_equal(TEST(w, .client = 2, .len = 10), GRANTED);
}

/* SPEC section 4: a registration outlives its client's last lock by the linger time, even if the
 * last thing that the client had was a waiter on a file that the operator released. */
static void a_released_waiter_leaves_no_registration(void **state)
{
    struct world *w = *state;
    struct hf_ticket wait;

    assert_int_equal(LOCK(w, .client = 2, .fh = "z"), GRANTED);
    assert_int_equal(LOCK(w, .len = 10), GRANTED);
    assert_int_equal(LOCK(w, .fh = "z", .block = true), BLOCKED);
    assert_int_equal(UNLOCK(w, .len = 10), GRANTED);
    world_later(w, w->config.linger_ms + 1000);
    assert_int_equal(world_count(w, HF_RECORD_CLIENT), 2);
    assert_int_equal(hf_core_release_file(w->core, w->now, hf_bytes_str("z"), &wait), 2);
    world_step(w);
    world_later(w, 2 * w->config.linger_ms + 2000);
    world_later(w, 1000);
    assert_int_equal(world_count(w, HF_RECORD_CLIENT), 0);
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
        T(refusals_wait_for_a_commit_with_standbys),
        T(a_grant_does_not_use_up_what_is_left_for_unlock),
        T(a_failed_start_does_not_let_the_batch_grow),
        T(a_refused_grant_leaves_a_lock_unclaimed),
        T(a_refused_grant_leaves_a_lock_recorded),
        T(a_grant_records_what_was_not),
        T(a_reclaim_records_what_was_not),
        T(an_accepted_grant_reclaims),
        T(an_accepted_shared_grant_reclaims),
        T(a_grant_refused_after_grace_loses_the_unclaimed),
        T(a_wait_survives_a_failed_commit),
        T(a_denied_thread_calls_off_no_callback),
        T(a_wait_that_was_called_off_survives_a_failed_commit),
        T(a_wait_of_a_dead_client_stays_gone),
        T(a_wait_comes_back_once),
        T(an_upgrade_at_the_limit_waits),
        T(an_upgrade_waits_whatever_limit_on_locks_is_reached),
        T(an_upgrade_that_waits_holds_up_no_unlock),
        T(a_new_life_repeats_nothing_in_strict_grace),
        T(forged_states_do_not_use_up_lives),
        T(a_released_waiter_leaves_no_registration),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
