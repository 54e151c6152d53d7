/*
 * What a client believes. A Linux kernel matches a GRANTED callback by file handle, svid and range,
 * and not by the mode; it forgets a lock whatever the answer to its UNLOCK was; and its copies of
 * one request can overtake each other. Each test here failed on a server that assumed otherwise: a
 * byte then had two owners, or a lock stayed that no client knew of.
 */
#include "core_world.h"

#include "base/programs.h"

#define GRANTED HF_STAT_GRANTED
#define DENIED  HF_STAT_DENIED
#define NOLOCKS HF_STAT_DENIED_NOLOCKS
#define BLOCKED HF_STAT_BLOCKED
#define DEADLCK HF_STAT_DEADLCK

/* ---- waiters ---- */

/*
 * A grant only ever adds (NLM-08). A repeat of S [0,3] overtook its CANCEL and waits; the process
 * has gone on and holds X [0,0]. When the stale waiter is granted, X [0,0] stays exclusive, also
 * while the callback is in flight, and after the client has refused it.
 */
static void a_shared_grant_leaves_what_is_exclusive(void **state)
{
    struct world *w = *state;
    struct hf_outcall_attempt call;

    LOCK(w, .client = 2, .off = 2, .len = 1);
    assert_int_equal(LOCK(w, .len = 4, .shared = true, .block = true), BLOCKED);
    assert_int_equal(LOCK(w, .len = 1), GRANTED);
    assert_int_equal(UNLOCK(w, .client = 2, .off = 2, .len = 1), GRANTED);
    call = world_call_of(w, HF_OUTCALL_GRANTED);
    assert_int_not_equal(call.id, 0);
    assert_int_equal(TEST(w, .client = 3, .len = 1, .shared = true), DENIED);
    assert_int_equal(TEST(w, .client = 3, .off = 1, .len = 3), DENIED);
    world_called(w, call.id, HF_OUTCALL_DENIED);
    assert_int_equal(TEST(w, .client = 3, .len = 1, .shared = true), DENIED);
    assert_int_equal(TEST(w, .client = 3, .off = 1, .len = 3), GRANTED);
    world_restart(w); /* the records say so as well */
    assert_int_equal(LOCK(w, .off = 1, .len = 1, .shared = true, .reclaim = true), DENIED);
    assert_int_equal(LOCK(w, .len = 1, .reclaim = true), GRANTED);
}

/* A refused grant puts back exactly what was there: here a part exclusive, a part shared, gaps. */
static void a_refused_grant_puts_back_what_was_there(void **state)
{
    struct world *w = *state;

    LOCK(w, .client = 2, .off = 9, .len = 1);
    LOCK(w, .off = 2, .len = 2);
    LOCK(w, .off = 4, .len = 2, .shared = true);
    LOCK(w, .off = 10, .len = 5, .shared = true);
    assert_int_equal(LOCK(w, .off = 0, .len = 12, .block = true), BLOCKED);
    UNLOCK(w, .client = 2, .off = 9, .len = 1);
    world_called(w, world_call_of(w, HF_OUTCALL_GRANTED).id, HF_OUTCALL_DENIED);
    assert_int_equal(TEST(w, .client = 3, .off = 0, .len = 2), GRANTED);
    assert_int_equal(TEST(w, .client = 3, .off = 2, .len = 1, .shared = true), DENIED);
    assert_int_equal(TEST(w, .client = 3, .off = 3, .len = 1, .shared = true), DENIED);
    assert_int_equal(TEST(w, .client = 3, .off = 4, .len = 2, .shared = true), GRANTED);
    assert_int_equal(TEST(w, .client = 3, .off = 4, .len = 1), DENIED);
    assert_int_equal(TEST(w, .client = 3, .off = 5, .len = 1), DENIED);
    assert_int_equal(TEST(w, .client = 3, .off = 6, .len = 4), GRANTED);
    assert_int_equal(TEST(w, .client = 3, .off = 10, .len = 5, .shared = true), GRANTED);
    assert_int_equal(TEST(w, .client = 3, .off = 10, .len = 1), DENIED);
    assert_int_equal(TEST(w, .client = 3, .off = 14, .len = 1), DENIED);
}

/* An owner has one waiter for each file and range, in the strongest mode that it asked for: a
 * callback for S [0,3] would end a wait for X [0,3] as well. */
static void a_callback_is_true_for_each_request_it_can_answer(void **state)
{
    struct world *w = *state;
    struct hf_outcall_attempt call;

    LOCK(w, .client = 2, .len = 4);
    assert_int_equal(LOCK(w, .len = 4, .shared = true, .block = true), BLOCKED);
    assert_int_equal(LOCK(w, .len = 4, .block = true), BLOCKED);
    assert_int_equal(world_status(w).waiters, 1);
    /* Other readers get a lock now, but no writer does. */
    LOCK(w, .client = 2, .len = 4, .shared = true);
    assert_int_equal(world_call_of(w, HF_OUTCALL_GRANTED).id, 0);
    UNLOCK(w, .client = 2, .len = 4);
    call = world_call_of(w, HF_OUTCALL_GRANTED);
    assert_true(call.exclusive);
    assert_int_equal(world_call_of(w, HF_OUTCALL_GRANTED).id, 0);
    world_called(w, call.id, HF_OUTCALL_ACCEPTED);
    assert_int_equal(TEST(w, .client = 3, .len = 4, .shared = true), DENIED);
}

/* A late copy of the shared request, or its CANCEL, does not weaken the exclusive one. */
static void a_late_copy_does_not_weaken_a_waiter(void **state)
{
    struct world *w = *state;

    LOCK(w, .client = 2, .len = 4, .shared = true);
    assert_int_equal(LOCK(w, .len = 4, .block = true), BLOCKED);
    LOCK(w, .client = 3, .off = 2, .len = 1, .shared = true);
    LOCK(w, .client = 2, .len = 4);
    UNLOCK(w, .client = 3);
    LOCK(w, .client = 2, .len = 4);
    assert_int_equal(LOCK(w, .len = 4, .shared = true, .block = true), BLOCKED);
    assert_int_equal(CANCEL(w, .len = 4, .shared = true), GRANTED);
    assert_int_equal(world_status(w).waiters, 1);
    UNLOCK(w, .client = 2);
    assert_true(world_call_of(w, HF_OUTCALL_GRANTED).exclusive);
}

/* The stronger request waits at the end of the queue, and closes no cycle unseen. */
static void a_stronger_request_waits_at_the_end(void **state)
{
    struct world *w = *state;
    struct hf_outcall_attempt call;

    LOCK(w, .client = 2, .len = 4);
    LOCK(w, .len = 4, .shared = true, .block = true);
    LOCK(w, .client = 3, .len = 4, .shared = true, .block = true);
    LOCK(w, .len = 4, .block = true);
    UNLOCK(w, .client = 2);
    call = world_call_of(w, HF_OUTCALL_GRANTED);
    assert_false(call.exclusive); /* client 3 */
    world_called(w, call.id, HF_OUTCALL_ACCEPTED);
    assert_int_equal(world_status(w).waiters, 1);
    assert_int_equal(LOCK(w, .fh = "g"), GRANTED);
    assert_int_equal(LOCK(w, .client = 3, .fh = "g", .block = true), DEADLCK);
}

/* NM_LOCK waits, then a LOCK for the same range: the lock that it gets is recorded. */
static void a_lock_after_an_nm_lock_is_recorded(void **state)
{
    struct world *w = *state;

    LOCK(w, .client = 2);
    assert_int_equal(LOCK(w, .nm = true, .block = true), BLOCKED);
    assert_int_equal(LOCK(w, .block = true), BLOCKED);
    UNLOCK(w, .client = 2);
    world_called(w, world_call_of(w, HF_OUTCALL_GRANTED).id, HF_OUTCALL_ACCEPTED);
    assert_int_equal(world_count(w, HF_RECORD_LOCK), 1);
    UNLOCK(w, .client = 1);

    /* The same holds when the NM_LOCK has just been granted, and its callback is in flight. */
    LOCK(w, .client = 2);
    assert_int_equal(LOCK(w, .nm = true, .block = true), BLOCKED);
    UNLOCK(w, .client = 2);
    assert_int_equal(world_count(w, HF_RECORD_LOCK), 0);
    assert_int_equal(LOCK(w, .block = true), GRANTED);
    assert_int_equal(world_count(w, HF_RECORD_LOCK), 1);
}

/* ---- UNLOCK ---- */

/*
 * An operator lowers limits, by a restart or by SIGHUP, below what clients hold (NLM-09). An UNLOCK
 * that cuts a lock in two is served: the client forgets the lock whatever it is told.
 */
static void lowered_limits_do_not_hold_up_an_unlock(void **state)
{
    struct world *w = *state;
    struct hf_limits low = w->config.limits;

    low.locks_per_owner = low.locks_per_client = low.locks_per_file = 1;
    low.locks = low.locks_per_host = 1;
    low.beyond = 5;
    for (uint64_t i = 0; i < 20; i++)
        assert_int_equal(LOCK(w, .off = 10 * i, .len = 5), GRANTED);
    hf_core_set_limits(w->core, &low);
    assert_int_equal(UNLOCK(w, .off = 2, .len = 1), GRANTED);
    assert_int_equal(LOCK(w, .off = 1000, .len = 1), NOLOCKS);
    w->config.limits = low;
    world_restart(w);
    assert_int_equal(UNLOCK(w, .off = 12, .len = 1), GRANTED);
    assert_int_equal(TEST(w, .client = 2, .off = 12, .len = 1), GRANTED);
    assert_int_equal(TEST(w, .client = 2, .off = 13, .len = 1), DENIED);
    hf_core_grace_end(w->core, w->now);
    world_step(w);
    assert_int_equal(world_status(w).locks, 0);

    /* But one lock is not cut into any number. */
    assert_int_equal(LOCK(w, .len = 10000), GRANTED);
    for (uint64_t i = 0; i < 25; i++)
        assert_int_equal(UNLOCK(w, .off = 2 * i + 1, .len = 1), GRANTED);
    assert_int_equal(UNLOCK(w, .off = 101, .len = 1), NOLOCKS);
}

/* A waiter is no lock yet, and must not keep its host from unlocking. */
static void waiters_of_a_host_do_not_hold_up_an_unlock(void **state)
{
    struct world *w = *state;
    struct hf_limits low = w->config.limits;

    low.locks_per_host = 4;
    low.beyond = 1;
    w->config.limits = low;
    world_restart(w);
    assert_int_equal(LOCK(w, .len = 100), GRANTED);
    for (uint64_t i = 1; i <= 3; i++) {
        assert_int_equal(LOCK(w, .client = 2, .off = 1000 * i, .len = 5), GRANTED);
        assert_int_equal(LOCK(w, .off = 1000 * i, .len = 5, .block = true), BLOCKED);
    }
    assert_int_equal(LOCK(w, .off = 200, .len = 1), NOLOCKS);
    for (uint64_t i = 1; i <= 3; i++)
        assert_int_equal(UNLOCK(w, .off = 10 * i, .len = 1), GRANTED);
}

/* ---- lives ---- */

static void verify_notices(struct world *w)
{
    world_crash(w);
    w->config.verify_notices = true;
    world_start(w);
}

/* The client's monitor does not answer, so the notice is believed. */
static void monitor_is_silent(struct world *w)
{
    struct hf_outcall_attempt call = world_call_of(w, HF_OUTCALL_STAT);
    struct hf_decision decision;

    assert_int_not_equal(call.id, 0);
    world_called(w, call.id, HF_OUTCALL_FAILED);
    while (hf_core_next_decision(w->core, &decision))
        assert_false(decision.failed);
}

/* Prepares what the client had when its notice came, and what it gets while the notice is verified:
 * a repeat of a lock that it holds, a lock beside it, and the same reservation. None of these LOCKs
 * tells a state. */
static void has_old_and_new(struct world *w, bool nm, bool free_all)
{
    struct hf_peer peer = world_peer(w, 1);

    assert_int_equal(LOCK(w, .off = 0, .len = 10, .nm = nm), GRANTED);
    assert_int_equal(LOCK(w, .off = 50, .len = 10, .nm = nm), GRANTED);
    assert_int_equal(SHARE(w, .mode = 2, .access = 1), GRANTED);
    assert_int_equal(SHARE(w, .fh = "g", .mode = 2, .access = 1), GRANTED);
    if (free_all)
        assert_int_not_equal(hf_core_free_all(w->core, w->now, &peer, 7, false).ticket.decision, 0);
    else
        assert_int_not_equal(
            hf_core_sm_notify(w->core, w->now, &peer.addr, peer.name, 7, false).ticket.decision, 0);
    assert_int_equal(LOCK(w, .off = 2, .len = 5, .nm = nm), GRANTED);
    assert_int_equal(LOCK(w, .off = 60, .len = 10, .nm = nm), GRANTED);
    assert_int_equal(SHARE(w, .mode = 2, .access = 1), GRANTED);
    monitor_is_silent(w);
}

/*
 * SEC-04: what a client gets while its crash notice is being verified stays, and the rest goes.
 */
static void what_is_got_during_a_verification_stays(void **state)
{
    struct world *w = *state;

    verify_notices(w);
    for (int i = 0; i < 4; i++) {
        has_old_and_new(w, i & 1, i & 2);
        assert_int_equal(TEST(w, .client = 2, .off = 0, .len = 2), GRANTED);
        assert_int_equal(TEST(w, .client = 2, .off = 2, .len = 5), DENIED);
        assert_int_equal(TEST(w, .client = 2, .off = 7, .len = 53), GRANTED);
        assert_int_equal(TEST(w, .client = 2, .off = 60, .len = 10), DENIED);
        assert_int_equal(SHARE(w, .client = 2, .mode = 0, .access = 2), DENIED);
        assert_int_equal(SHARE(w, .client = 2, .fh = "g", .mode = 0, .access = 2), GRANTED);
        world_crash(w); /* the next variant begins with an empty store */
        world_forget(w);
        world_start(w);
    }
}

/* A request of the old life that comes after the notice is released with the old locks. A forged
 * notice takes nothing, and the next notice is not taken for a repeat of it. */
static void a_request_of_the_old_life_goes_with_it(void **state)
{
    struct world *w = *state;
    struct hf_peer peer = world_peer(w, 1);
    struct hf_decision decision;

    verify_notices(w);
    assert_int_equal(LOCK(w, .off = 0, .len = 1, .state = 5), GRANTED);
    assert_int_not_equal(
        hf_core_sm_notify(w->core, w->now, &peer.addr, peer.name, 9, false).ticket.decision, 0);
    hf_core_stat_answered(w->core, w->now, world_call_of(w, HF_OUTCALL_STAT).id, 5);
    world_step(w);
    assert_true(hf_core_next_decision(w->core, &decision));
    assert_int_equal(LOCK(w, .off = 1, .len = 1, .state = 5), GRANTED);
    world_later(w, 2000);
    assert_int_not_equal(
        hf_core_sm_notify(w->core, w->now, &peer.addr, peer.name, 7, false).ticket.decision, 0);
    /* This request was in flight when the notice came. */
    assert_int_equal(LOCK(w, .off = 10, .len = 1, .state = 5), GRANTED);
    assert_int_equal(LOCK(w, .off = 20, .len = 1, .state = 7), GRANTED);
    monitor_is_silent(w);
    assert_int_equal(TEST(w, .client = 2, .off = 0, .len = 11), GRANTED);
    assert_int_equal(TEST(w, .client = 2, .off = 20, .len = 1), DENIED);
}

/* A forged notice, which is refuted, does not let a grant weaken what the client holds. */
static void a_grant_after_a_forged_notice_only_adds(void **state)
{
    struct world *w = *state;
    struct hf_peer peer = world_peer(w, 1);

    verify_notices(w);
    LOCK(w, .client = 2, .off = 2, .len = 1);
    LOCK(w, .len = 1, .state = 5);
    hf_core_sm_notify(w->core, w->now, &peer.addr, peer.name, 9, false);
    hf_core_stat_answered(w->core, w->now, world_call_of(w, HF_OUTCALL_STAT).id, 5);
    world_step(w);
    LOCK(w, .len = 4, .shared = true, .block = true, .state = 5);
    UNLOCK(w, .client = 2);
    assert_int_not_equal(world_call_of(w, HF_OUTCALL_GRANTED).id, 0);
    assert_int_equal(TEST(w, .client = 3, .len = 1, .shared = true), DENIED);
    assert_int_equal(TEST(w, .client = 3, .off = 1, .len = 3), DENIED);
}

/* CRS-02: the client restarts twice before any notice comes. A delayed LOCK of the life in between
 * does not count as a third restart. */
static void a_delayed_lock_of_a_life_in_the_middle(void **state)
{
    struct world *w = *state;
    struct hf_peer peer = world_peer(w, 1);

    assert_int_equal(LOCK(w, .off = 0, .len = 1, .state = 1), GRANTED);
    assert_int_equal(LOCK(w, .off = 10, .len = 1, .state = 3), GRANTED);
    assert_int_equal(LOCK(w, .off = 20, .len = 1, .state = 5), GRANTED);
    assert_int_equal(LOCK(w, .off = 30, .len = 1, .state = 3), GRANTED);
    assert_int_equal(LOCK(w, .off = 40, .len = 1, .state = 5), GRANTED);
    hf_core_sm_notify(w->core, w->now, &peer.addr, peer.name, 5, true);
    world_step(w);
    assert_int_equal(TEST(w, .client = 2, .off = 0, .len = 20), GRANTED);
    assert_int_equal(TEST(w, .client = 2, .off = 20, .len = 1), DENIED);
    assert_int_equal(TEST(w, .client = 2, .off = 30, .len = 1), GRANTED);
    assert_int_equal(TEST(w, .client = 2, .off = 40, .len = 1), DENIED);
}

/*
 * A host that uses two of our addresses is two clients. Its notice is answered when both are
 * decided: until then it is left unanswered, and the repeat waits for the decision that is left.
 */
static void a_notice_about_two_clients_is_answered_for_both(void **state)
{
    struct world *w = *state;
    struct hf_peer peer = world_peer(w, 1);
    struct hf_lock_args args = world_args(&(struct ask){.fh = "g"});
    struct hf_sm_answer answer;

    verify_notices(w);
    LOCK(w, .state = 5);
    args.state = 5;
    peer.local = world_addr(251);
    assert_int_equal(hf_core_lock(w->core, w->now, &peer, &args).stat, GRANTED);
    world_step(w);
    answer = hf_core_sm_notify(w->core, w->now, &peer.addr, peer.name, 7, false);
    assert_false(answer.ok);
    monitor_is_silent(w);
    answer = hf_core_sm_notify(w->core, w->now, &peer.addr, peer.name, 7, false);
    assert_true(answer.ok);
    assert_int_not_equal(answer.ticket.decision, 0);
    monitor_is_silent(w);
    assert_int_equal(TEST(w, .client = 2), GRANTED);
    assert_int_equal(TEST(w, .client = 2, .fh = "g"), GRANTED);
    answer = hf_core_sm_notify(w->core, w->now, &peer.addr, peer.name, 7, false);
    assert_true(answer.ok && answer.ticket.decision == 0);

    peer = world_peer(w, 1);
    assert_int_equal(LOCK(w, .state = 7), GRANTED);
    peer.local = world_addr(251);
    assert_int_equal(hf_core_lock(w->core, w->now, &peer, &args).stat, GRANTED);
    world_step(w);
    assert_int_equal(hf_core_free_all(w->core, w->now, &peer, 9, false).stat, NOLOCKS);
}

/* A client that has nothing left after its last share is forgotten as after its last lock. */
static void a_client_goes_after_its_last_share(void **state)
{
    struct world *w = *state;

    assert_int_equal(LOCK(w, .client = 1), GRANTED);
    assert_int_equal(SHARE(w, .client = 1, .mode = 2, .access = 1), GRANTED);
    assert_int_equal(UNLOCK(w, .client = 1), GRANTED);
    world_later(w, w->config.linger_ms);
    assert_int_equal(world_count(w, HF_RECORD_CLIENT), 1);
    assert_int_equal(UNSHARE(w, .client = 1, .mode = 2, .access = 1), GRANTED);
    world_later(w, w->config.linger_ms);
    assert_int_equal(world_count(w, HF_RECORD_CLIENT), 0);
    assert_int_equal(world_status(w).nlm_clients, 0);
}

/* The removal of a registration fails to commit: it is tried again after the linger time. */
static void a_registration_whose_removal_failed_ends(void **state)
{
    struct world *w = *state;

    LOCK(w, .client = 1);
    UNLOCK(w, .client = 1);
    assert_int_equal(world_count(w, HF_RECORD_CLIENT), 1);
    w->by_hand = true;
    world_later(w, w->config.linger_ms);
    assert_true(world_commit_one(w, HF_EIO));
    w->by_hand = false;
    world_later(w, w->config.linger_ms);
    assert_int_equal(world_count(w, HF_RECORD_CLIENT), 0);

    /* The registration stays if the client has something again. */
    LOCK(w, .client = 1);
    UNLOCK(w, .client = 1);
    w->by_hand = true;
    world_later(w, w->config.linger_ms);
    assert_true(world_commit_one(w, HF_EIO));
    w->by_hand = false;
    LOCK(w, .client = 1);
    world_later(w, w->config.linger_ms);
    assert_int_equal(world_count(w, HF_RECORD_CLIENT), 1);
    assert_int_equal(TEST(w, .client = 2), DENIED);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, open_world, close_world)
    const struct CMUnitTest tests[] = {
        T(a_shared_grant_leaves_what_is_exclusive),
        T(a_refused_grant_puts_back_what_was_there),
        T(a_callback_is_true_for_each_request_it_can_answer),
        T(a_late_copy_does_not_weaken_a_waiter),
        T(a_stronger_request_waits_at_the_end),
        T(a_lock_after_an_nm_lock_is_recorded),
        T(lowered_limits_do_not_hold_up_an_unlock),
        T(waiters_of_a_host_do_not_hold_up_an_unlock),
        T(a_client_goes_after_its_last_share),
        T(what_is_got_during_a_verification_stays),
        T(a_request_of_the_old_life_goes_with_it),
        T(a_delayed_lock_of_a_life_in_the_middle),
        T(a_grant_after_a_forged_notice_only_adds),
        T(a_notice_about_two_clients_is_answered_for_both),
        T(a_registration_whose_removal_failed_ends),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
