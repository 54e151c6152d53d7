/*
 * Claims in the kernel (COH-10 to COH-14), request by request. tests/coherence has the long
 * stories.
 */
#include "core_world.h"

#define GRANTED             HF_STAT_GRANTED
#define DENIED              HF_STAT_DENIED
#define BLOCKED             HF_STAT_BLOCKED
#define DENIED_NOLOCKS      HF_STAT_DENIED_NOLOCKS
#define DENIED_GRACE_PERIOD HF_STAT_DENIED_GRACE_PERIOD

enum { OPS = 16 };

/* A kernel that the test plays: what was asked of it, and what it answers. */
struct kernel {
    struct hf_claim ops[OPS];
    unsigned n;
    enum hf_claim_outcome outcome;
};

static struct kernel kernel;

static void note(void *ctx, const struct hf_claim *claim)
{
    (void)ctx;
    assert_true(kernel.n < OPS);
    kernel.ops[kernel.n++] = *claim;
}

/* Takes the decisions of the core: the requests that waited for them are to be made again. */
static void settle(struct world *w)
{
    struct hf_decision decision;

    while (hf_core_next_decision(w->core, &decision))
        ;
}

static void flush(struct world *w)
{
    settle(w);
    hf_core_claims_flush(w->core, w->now, note, NULL);
}

/* Lets the kernel answer everything that it was asked. Returns how much that was. */
static unsigned answer(struct world *w)
{
    unsigned n = kernel.n;

    kernel.n = 0;
    for (unsigned i = 0; i < n; i++) {
        struct hf_claim_result result = {.id = kernel.ops[i].id, .outcome = kernel.outcome};

        if (kernel.ops[i].kind == HF_CLAIM_SET)
            result.outcome = HF_CLAIM_DONE;
        if (kernel.outcome == HF_CLAIM_HELD)
            result.holder = (struct hf_claim_holder){5, 6, true, 4711};
        if (kernel.ops[i].kind != HF_CLAIM_WAIT && kernel.ops[i].kind != HF_CLAIM_CANCEL)
            assert_int_equal(hf_core_claim_done(w->core, w->now, &result), 0);
    }
    world_check(w);
    return n;
}

static int open_coherent(void **state)
{
    struct world *w = test_malloc(sizeof(*w));

    kernel = (struct kernel){0};
    world_open(w);
    w->config.coherent = true;
    world_start(w);
    hf_core_claims_begin(w->core, w->now);
    flush(w);
    assert_true(hf_core_claims_ready(w->core));
    *state = w;
    return 0;
}

/* Sends a LOCK, and lets the kernel do what it needs. */
static enum hf_stat lock(struct world *w, struct ask a)
{
    uint64_t asked = hf_core_asked(w->core);
    struct hf_answer first = world_ask(w, hf_core_lock, a);
    struct hf_answer second = first;

    if (first.claim != 0) {
        flush(w);
        answer(w);
        settle(w);
        a.asked = asked;
        second = world_ask(w, hf_core_lock, a);
        assert_int_equal(second.claim, 0);
        flush(w);
    }
    return second.stat;
}

#define LOCKED(w, ...) lock(w, (struct ask){__VA_ARGS__})

/* COH-10a: the LOCK is decided when the kernel holds the range, and nothing is recorded before. */
static void a_lock_is_claimed_first(void **state)
{
    struct world *w = *state;
    struct hf_answer a = ASK(w, hf_core_lock, .off = 10, .len = 10);

    assert_int_not_equal(a.claim, 0);
    assert_int_equal(world_count(w, HF_RECORD_LOCK), 0);
    flush(w);
    assert_int_equal(kernel.n, 1);
    assert_int_equal(kernel.ops[0].kind, HF_CLAIM_RAISE);
    assert_int_equal(kernel.ops[0].mode, HF_CLAIM_EXCLUSIVE);
    assert_int_equal(kernel.ops[0].first, 10);
    assert_int_equal(kernel.ops[0].last, 19);
    answer(w);
    settle(w);
    a = ASK(w, hf_core_lock, .off = 10, .len = 10);
    assert_int_equal(a.stat, GRANTED);
    assert_int_equal(a.claim, 0);
    assert_int_equal(world_count(w, HF_RECORD_LOCK), 1);
    flush(w);
    assert_int_equal(kernel.n, 0); /* the kernel already holds what this needs */
}

/* COH-10b: an unlocked range is released in the kernel when the UNLOCK is durable, and answered
 * after that. */
static void an_unlock_is_answered_when_the_kernel_has_let_go(void **state)
{
    struct world *w = *state;
    struct hf_answer a;

    assert_int_equal(LOCKED(w, .len = 10), GRANTED);
    w->by_hand = true;
    a = ASK(w, hf_core_unlock, .off = 3, .len = 2);
    flush(w);
    assert_int_equal(kernel.n, 0);
    assert_true(world_commit_one(w, 0));
    assert_true(a.ticket.seq > hf_core_released(w->core));
    flush(w);
    assert_int_equal(kernel.n, 1);
    assert_int_equal(kernel.ops[0].kind, HF_CLAIM_SET);
    assert_int_equal(kernel.ops[0].mode, HF_CLAIM_NONE);
    assert_int_equal(kernel.ops[0].first, 3);
    assert_int_equal(kernel.ops[0].last, 4);
    assert_true(a.ticket.seq > hf_core_released(w->core));
    answer(w);
    assert_int_equal(a.ticket.seq, hf_core_released(w->core));
}

/* COH-10: bytes that pass from one NLM client to the next cost nothing in the kernel. */
static void a_lock_passes_without_the_kernel(void **state)
{
    struct world *w = *state;

    assert_int_equal(LOCKED(w, .len = 10), GRANTED);
    assert_int_equal(LOCK(w, .client = 2, .len = 10, .block = true), BLOCKED);
    UNLOCK(w, .len = 10);
    flush(w);
    assert_int_equal(kernel.n, 0);
    assert_int_not_equal(world_call_of(w, HF_OUTCALL_GRANTED).id, 0);
}

/* COH-10c: shared locks of several owners are one shared range, as long as any of them is held. */
static void the_kernel_holds_the_sum(void **state)
{
    struct world *w = *state;

    assert_int_equal(LOCKED(w, .len = 10, .shared = true), GRANTED);
    assert_int_equal(LOCKED(w, .client = 2, .off = 5, .len = 10, .shared = true), GRANTED);
    assert_int_equal(world_status(w).claimed_ranges, 1);
    UNLOCK(w, .len = 10);
    flush(w);
    assert_int_equal(kernel.n, 1);
    assert_int_equal(kernel.ops[0].first, 0);
    assert_int_equal(kernel.ops[0].last, 4);
    answer(w);
    flush(w);
    UNLOCK(w, .client = 2, .off = 5, .len = 10);
    flush(w);
    answer(w);
    flush(w);
    assert_int_equal(world_status(w).claimed_files, 0);
}

/* COH-10d: what was claimed for a LOCK whose batch failed is given back. */
static void a_failed_batch_gives_its_claim_back(void **state)
{
    struct world *w = *state;

    assert_int_equal(LOCKED(w, .fh = "other"), GRANTED); /* registers the client */
    w->by_hand = true;
    assert_int_equal(LOCKED(w, .len = 10), GRANTED);
    assert_true(world_commit_one(w, HF_EIO));
    flush(w);
    assert_int_equal(kernel.n, 1);
    assert_int_equal(kernel.ops[0].kind, HF_CLAIM_SET);
    answer(w);
}

/* COH-10e: an UNLOCK does not overtake the LOCK that waits for the kernel. */
static void requests_keep_their_order(void **state)
{
    struct world *w = *state;
    uint64_t claim = ASK(w, hf_core_lock, .len = 10).claim;
    struct hf_answer a = ASK(w, hf_core_unlock, .len = 10);

    assert_int_not_equal(claim, 0);
    assert_int_equal(a.claim, claim);
    flush(w);
    answer(w);
    assert_int_equal(ASK(w, hf_core_unlock, .len = 10).claim, claim); /* the LOCK came first */
}

/* COH-11: a holder outside denies, and a blocking LOCK waits in the kernel. */
static void a_holder_outside_denies_and_is_waited_for(void **state)
{
    struct world *w = *state;
    struct hf_claim_result waited = {.outcome = HF_CLAIM_DONE};

    kernel.outcome = HF_CLAIM_HELD;
    assert_int_equal(LOCKED(w, .len = 10), DENIED);
    assert_int_equal(LOCKED(w, .len = 10, .block = true), BLOCKED);
    assert_int_equal(kernel.n, 1);
    assert_int_equal(kernel.ops[0].kind, HF_CLAIM_WAIT);
    waited.id = kernel.ops[0].id;
    kernel.n = 0;
    assert_int_equal(hf_core_counters(w->core)->outside_conflicts, 2);
    assert_int_equal(hf_core_claim_done(w->core, w->now, &waited), 0);
    world_step(w);
    assert_int_not_equal(world_call_of(w, HF_OUTCALL_GRANTED).id, 0);
    flush(w);
    assert_int_equal(kernel.n, 0);
}

/* COH-11: a waiter that cancels leaves no wait in the kernel, and a lock that came too late is
 * released. */
static void a_cancelled_wait_gives_back(void **state)
{
    struct world *w = *state;
    struct hf_claim_result waited = {.outcome = HF_CLAIM_DONE};

    kernel.outcome = HF_CLAIM_HELD;
    assert_int_equal(LOCKED(w, .len = 10, .block = true), BLOCKED);
    waited.id = kernel.ops[0].id;
    kernel.n = 0;
    assert_int_equal(CANCEL(w, .len = 10, .block = true), GRANTED);
    flush(w);
    assert_int_equal(kernel.ops[0].kind, HF_CLAIM_CANCEL);
    kernel.n = 0;
    assert_int_equal(hf_core_claim_done(w->core, w->now, &waited), 0);
    flush(w);
    assert_int_equal(kernel.n, 1);
    assert_int_equal(kernel.ops[0].kind, HF_CLAIM_SET);
    answer(w);
    flush(w);
    assert_int_equal(world_status(w).claimed_files, 0);
}

/* COH-12: TEST names the holder outside. */
static void test_names_the_holder_outside(void **state)
{
    struct world *w = *state;
    uint64_t asked = hf_core_asked(w->core);
    struct hf_answer a = ASK(w, hf_core_test, .len = 10);

    assert_int_not_equal(a.claim, 0);
    kernel.outcome = HF_CLAIM_HELD;
    flush(w);
    assert_int_equal(kernel.ops[0].kind, HF_CLAIM_TEST);
    answer(w);
    settle(w);
    a = ASK(w, hf_core_test, .len = 10, .asked = asked);
    assert_int_equal(a.stat, DENIED);
    assert_int_equal(a.holder.svid, 4711);
    assert_int_equal(a.holder.offset, 5);
    assert_int_equal(a.holder.length, 2);
    assert_true(a.holder.exclusive);
}

/* COH-13: without a keeper nothing is granted; a lock that was taken outside meanwhile is lost. */
static void a_keeper_that_died_costs_what_others_took(void **state)
{
    struct world *w = *state;
    struct hf_event event;

    assert_int_equal(LOCKED(w, .len = 10), GRANTED);
    hf_core_claims_lost(w->core, w->now);
    assert_false(hf_core_claims_ready(w->core));
    assert_int_equal(LOCK(w, .off = 20, .len = 10), DENIED_GRACE_PERIOD);
    assert_int_equal(UNLOCK(w, .client = 2, .off = 20), GRANTED);
    hf_core_claims_begin(w->core, w->now);
    flush(w);
    assert_int_equal(kernel.n, 1);
    assert_int_equal(kernel.ops[0].kind, HF_CLAIM_RAISE);
    kernel.outcome = HF_CLAIM_HELD;
    answer(w);
    world_step(w);
    flush(w);
    assert_true(hf_core_claims_ready(w->core));
    assert_true(world_event(w, HF_EVENT_CLIENT_OUTSIDE, &event));
    assert_int_equal(hf_core_counters(w->core)->locks_lost[HF_LOSS_OUTSIDE], 1);
    assert_int_equal(world_count(w, HF_RECORD_LOCK), 0);
}

/* COH-13: a lock that becomes free while there is no keeper goes to its waiter when one is back. */
static void waiters_go_on_when_the_keeper_is_back(void **state)
{
    struct world *w = *state;

    assert_int_equal(LOCKED(w, .len = 10), GRANTED);
    assert_int_equal(LOCK(w, .client = 2, .len = 10, .block = true), BLOCKED);
    hf_core_claims_lost(w->core, w->now);
    assert_int_equal(UNLOCK(w, .len = 10), GRANTED);
    assert_int_equal(world_call_of(w, HF_OUTCALL_GRANTED).id, 0);
    hf_core_claims_begin(w->core, w->now);
    flush(w);
    flush(w);
    assert_int_equal(kernel.n, 1);
    assert_int_equal(kernel.ops[0].kind, HF_CLAIM_RAISE);
    answer(w);
    world_step(w);
    assert_int_not_equal(world_call_of(w, HF_OUTCALL_GRANTED).id, 0);
}

/* COH-13: the daemon was killed, the keeper was not: the next daemon corrects the difference. */
static void a_restart_corrects_the_difference(void **state)
{
    struct world *w = *state;

    assert_int_equal(LOCKED(w, .len = 10), GRANTED);
    world_restart(w);
    assert_int_equal(hf_core_claims_listed(w->core, hf_bytes_str("f"), 0, 4, true), 0);
    assert_int_equal(hf_core_claims_listed(w->core, hf_bytes_str("gone"), 7, 8, false), 0);
    hf_core_claims_begin(w->core, w->now);
    flush(w);
    assert_int_equal(kernel.n, 2);
    for (unsigned i = 0; i < 2; i++) {
        bool missing = hf_bytes_equal(kernel.ops[i].fh, hf_bytes_str("f"));
        assert_int_equal(kernel.ops[i].kind, missing ? HF_CLAIM_RAISE : HF_CLAIM_SET);
        assert_int_equal(kernel.ops[i].first, missing ? 5 : 7);
        assert_int_equal(kernel.ops[i].last, missing ? 9 : 8);
    }
    assert_false(hf_core_claims_ready(w->core));
    answer(w);
    flush(w);
    assert_true(hf_core_claims_ready(w->core));
}

/* COH-13: while the keeper is away, reclaims are not answered. Grace does not end before their
 * clients have had an answer; otherwise another client would get what they still ask for. */
static void grace_waits_for_the_keeper(void **state)
{
    struct world *w = *state;

    w->config.grace_ms = 1000;
    assert_int_equal(LOCKED(w, .len = 10), GRANTED);
    world_restart(w);
    for (unsigned i = 0; i < 3; i++)
        world_later(w, 1000);
    assert_true(world_status(w).grace_active);
    assert_int_equal(world_count(w, HF_RECORD_LOCK), 1);
    hf_core_claims_begin(w->core, w->now);
    flush(w);
    answer(w);
    flush(w);
    assert_true(hf_core_claims_ready(w->core));
    world_later(w, 1000);
    assert_true(world_status(w).grace_active); /* the whole grace period begins anew */
    world_later(w, 1000);
    assert_false(world_status(w).grace_active);
}

/* COH-14: what the kernel cannot hold is refused, or granted if the configuration says so. */
static void what_cannot_be_mirrored_is_refused_or_counted(void **state)
{
    struct world *w = *state;

    kernel.outcome = HF_CLAIM_UNMIRRORED;
    assert_int_equal(LOCKED(w, .len = 10), DENIED_NOLOCKS);
    kernel.outcome = HF_CLAIM_STALE;
    assert_int_equal(LOCKED(w, .len = 10), HF_STAT_STALE_FH);
    assert_int_equal(hf_core_counters(w->core)->claims_refused[HF_CLAIM_UNMIRRORED], 1);
    world_crash(w);
    w->config.grant_unmirrored = true;
    world_start(w);
    hf_core_claims_begin(w->core, w->now);
    flush(w);
    kernel.outcome = HF_CLAIM_UNMIRRORED;
    assert_int_equal(LOCKED(w, .len = 10), GRANTED);
    assert_int_equal(world_status(w).unmirrored_files, 1);
}

/* COH-14: a file with many ranges costs the kernel's list; beyond a limit they are refused. */
static void ranges_of_a_file_are_limited(void **state)
{
    struct world *w = *state;

    world_crash(w);
    w->config.claim_ranges = 2;
    world_start(w);
    hf_core_claims_begin(w->core, w->now);
    flush(w);
    assert_int_equal(LOCKED(w, .off = 0, .len = 1), GRANTED);
    assert_int_equal(LOCKED(w, .off = 2, .len = 1), GRANTED);
    assert_int_equal(LOCKED(w, .off = 4, .len = 1), DENIED_NOLOCKS);
}

/* Makes the kernel answer one of the operations that it was asked for. */
static void say(struct world *w, unsigned i, enum hf_claim_outcome outcome)
{
    struct hf_claim_result result = {.id = kernel.ops[i].id, .outcome = outcome};

    assert_int_equal(hf_core_claim_done(w->core, w->now, &result), 0);
    world_check(w);
}

static void start_again(struct world *w)
{
    kernel.n = 0;
    world_start(w);
    hf_core_claims_begin(w->core, w->now);
    flush(w);
}

/* COH-14: for recorded locks the kernel is asked for as many ranges as it may hold, and the rest is
 * counted as unmirrored, because the limit may have been lowered since. */
static void a_restart_asks_for_no_more_ranges_than_the_limit(void **state)
{
    struct world *w = *state;

    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(LOCKED(w, .off = 10 * i, .len = 1), GRANTED);
    world_crash(w);
    w->config.claim_ranges = 3;
    start_again(w);
    assert_int_equal(kernel.n, 3);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(kernel.ops[i].kind, HF_CLAIM_RAISE);
    assert_int_equal(hf_core_counters(w->core)->claims_refused[HF_CLAIM_UNMIRRORED], 1);
    answer(w);
    flush(w);
    assert_true(hf_core_claims_ready(w->core));
}

/* COH-14: given a keeper that may open fewer files than are locked, at a start or because the
 * configuration grants what is not mirrored, when a file is released, then one that had no room is
 * held by the kernel. Nothing is asked again before that. */
static void a_file_that_is_released_makes_room_for_another(void **state)
{
    struct world *w = *state;
    unsigned full;

    assert_int_equal(LOCKED(w, .fh = "f", .len = 10), GRANTED);
    assert_int_equal(LOCKED(w, .fh = "g", .len = 10), GRANTED);
    world_crash(w);
    start_again(w);
    assert_int_equal(kernel.n, 2);
    full = hf_bytes_equal(kernel.ops[0].fh, hf_bytes_str("g")) ? 0 : 1;
    say(w, full, HF_CLAIM_FULL);
    say(w, 1 - full, HF_CLAIM_DONE);
    kernel.n = 0;
    flush(w);
    world_later(w, 5000);
    flush(w);
    assert_int_equal(kernel.n, 0);
    assert_true(hf_core_claims_ready(w->core));
    assert_int_equal(world_status(w).unmirrored_files, 1);
    assert_int_equal(UNLOCK(w, .fh = "f", .len = 10), GRANTED);
    flush(w);
    flush(w);
    assert_int_equal(kernel.n, 2);
    assert_int_equal(kernel.ops[0].kind, HF_CLAIM_SET);
    assert_int_equal(kernel.ops[1].kind, HF_CLAIM_RAISE);
    assert_true(hf_bytes_equal(kernel.ops[1].fh, hf_bytes_str("g")));
    answer(w);
    flush(w);
    assert_int_equal(world_status(w).unmirrored_files, 0);
    assert_int_equal(world_status(w).claimed_files, 1);
}

/* COH-11: the keeper has no room for another wait: the core asks again after a while. */
static void a_wait_without_a_place_is_tried_again(void **state)
{
    struct world *w = *state;

    kernel.outcome = HF_CLAIM_HELD;
    assert_int_equal(LOCKED(w, .len = 10, .block = true), BLOCKED);
    assert_int_equal(kernel.ops[0].kind, HF_CLAIM_WAIT);
    say(w, 0, HF_CLAIM_LATER);
    kernel.n = 0;
    flush(w);
    assert_int_equal(kernel.n, 0);
    assert_true(hf_core_deadline(w->core) <=
                w->now.mono_ms + 2000); /* no other event would wake the loop */
    world_later(w, 2000);
    flush(w);
    assert_int_equal(kernel.n, 1);
    assert_int_equal(kernel.ops[0].kind, HF_CLAIM_WAIT);
    say(w, 0, HF_CLAIM_DONE);
    world_step(w);
    assert_int_not_equal(world_call_of(w, HF_OUTCALL_GRANTED).id, 0);
}

/* COH-14: the range that the kernel cannot hold is left alone, and every other one is claimed. */
static void what_cannot_be_mirrored_is_a_range(void **state)
{
    struct world *w = *state;

    assert_int_equal(LOCKED(w, .len = 10), GRANTED);
    assert_int_equal(LOCKED(w, .off = 20, .len = 10), GRANTED);
    world_crash(w);
    start_again(w);
    assert_int_equal(kernel.n, 2);
    assert_int_equal(kernel.ops[0].first, 0);
    say(w, 0, HF_CLAIM_READ_ONLY);
    say(w, 1, HF_CLAIM_LATER);
    kernel.n = 0;
    flush(w);
    world_later(w, 2000);
    flush(w);
    assert_int_equal(kernel.n, 1);
    assert_int_equal(kernel.ops[0].kind, HF_CLAIM_RAISE);
    assert_int_equal(kernel.ops[0].first, 20);
    answer(w);
    flush(w);
    assert_true(hf_core_claims_ready(w->core));
    assert_int_equal(world_status(w).unmirrored_files, 1);
    assert_int_equal(LOCK(w, .len = 10, .reclaim = true), GRANTED); /* it stays */
    assert_int_equal(LOCK(w, .off = 20, .len = 10, .reclaim = true), GRANTED);
    UNLOCK(w, .len = 10);
    flush(w);
    assert_int_equal(world_status(w).unmirrored_files, 0);
}

/* COH-14: where unmirrored locks are granted, one of them does not excuse the rest of its file. */
static void a_file_with_an_unmirrored_range_is_still_claimed(void **state)
{
    struct world *w = *state;

    world_crash(w);
    w->config.grant_unmirrored = true;
    start_again(w);
    kernel.outcome = HF_CLAIM_READ_ONLY;
    assert_int_equal(LOCKED(w, .len = 10), GRANTED);
    kernel.outcome = HF_CLAIM_DONE;
    assert_int_not_equal(ASK(w, hf_core_lock, .client = 2, .off = 20, .len = 10).claim, 0);
    flush(w);
    assert_int_equal(kernel.n, 1);
    assert_int_equal(kernel.ops[0].first, 20);
    answer(w);
    settle(w);
    /* The core still tries, because a weaker mode may be possible. */
    assert_int_not_equal(ASK(w, hf_core_lock, .len = 10, .shared = true).claim, 0);
}

/* COH-14: an UNLOCK at the end of a range makes no range more, so the kernel is told of it even at
 * the limit. */
static void an_unlock_at_the_end_of_a_range_makes_none_more(void **state)
{
    struct world *w = *state;

    world_crash(w);
    w->config.claim_ranges = 2;
    start_again(w);
    assert_int_equal(LOCKED(w, .off = 0, .len = 10), GRANTED);
    assert_int_equal(LOCKED(w, .off = 20, .len = 10), GRANTED);
    UNLOCK(w, .off = 5, .len = 5);
    flush(w);
    /* The file has two ranges as before, so the kernel releases the bytes. */
    assert_int_equal(kernel.n, 1);
    assert_int_equal(kernel.ops[0].kind, HF_CLAIM_SET);
    assert_int_equal(kernel.ops[0].first, 5);
    assert_int_equal(kernel.ops[0].last, 9);
}

/* COH-14: an UNLOCK cannot exceed the limit of ranges either. The kernel holds a little more than
 * needed instead. */
static void an_unlock_makes_no_more_ranges_than_the_limit(void **state)
{
    struct world *w = *state;

    world_crash(w);
    w->config.claim_ranges = 4;
    start_again(w);
    assert_int_equal(LOCKED(w, .len = 0), GRANTED);
    for (uint64_t i = 1; i <= 20; i++) {
        assert_int_equal(UNLOCK(w, .off = 10 * i, .len = 1), GRANTED);
        flush(w);
        answer(w);
        flush(w);
        assert_true(world_status(w).claimed_ranges <= 4);
    }
    assert_int_equal(world_status(w).coarse_files, 1);
    UNLOCK(w, .len = 205); /* what is left can be held as one range */
    flush(w);
    answer(w);
    flush(w);
    assert_int_equal(answer(w), 0);
    assert_int_equal(world_status(w).coarse_files, 0);
    assert_int_equal(world_status(w).claimed_ranges, 1);
    UNLOCK(w, .len = 0);
    flush(w);
    assert_int_equal(answer(w), 1);
    flush(w);
    assert_int_equal(world_status(w).claimed_files, 0);
}

/* COH-10: the requests of a turn for one file are asked of the kernel together. */
static void many_requests_for_a_file_are_one_round(void **state)
{
    struct world *w = *state;

    for (int i = 1; i <= 8; i++)
        assert_int_not_equal(
            ASK(w, hf_core_lock, .client = i, .off = 10 * (uint64_t)i, .len = 5).claim, 0);
    flush(w);
    assert_int_equal(answer(w), 8);
    settle(w);
    for (int i = 1; i <= 8; i++)
        assert_int_equal(LOCK(w, .client = i, .off = 10 * (uint64_t)i, .len = 5), GRANTED);
    flush(w);
    assert_int_equal(kernel.n, 0);
}

/* COH-13: a file that cannot be opened yet delays only its own requests. */
static void a_file_that_must_wait_keeps_no_other_waiting(void **state)
{
    struct world *w = *state;
    struct hf_answer a;

    assert_int_equal(LOCKED(w, .len = 10), GRANTED);
    assert_int_equal(LOCKED(w, .fh = "g", .len = 10), GRANTED);
    assert_int_equal(LOCKED(w, .off = 20, .len = 10), GRANTED);
    world_crash(w);
    w->config.grace_mode = HF_GRACE_CONFLICT;
    start_again(w);
    assert_int_equal(kernel.n, 3);
    for (unsigned i = 0; i < 3; i++)
        say(w, i,
            kernel.ops[i].first == 0 && hf_bytes_equal(kernel.ops[i].fh, hf_bytes_str("f"))
                ? HF_CLAIM_LATER
                : HF_CLAIM_DONE);
    kernel.n = 0;
    flush(w);
    assert_false(hf_core_claims_ready(w->core));
    assert_int_equal(LOCKED(w, .fh = "new", .len = 10), GRANTED);
    assert_int_equal(LOCK(w, .fh = "g", .len = 10, .reclaim = true), GRANTED);
    assert_int_equal(LOCK(w, .off = 40, .len = 10), DENIED_GRACE_PERIOD);
    assert_true(ASK(w, hf_core_lock, .len = 10, .reclaim = true).silent);
    /* What the kernel holds of the file is released at once, and no answer waits for the rest. */
    a = ASK(w, hf_core_unlock, .off = 20, .len = 10);
    flush(w);
    assert_int_equal(kernel.n, 1);
    assert_int_equal(kernel.ops[0].kind, HF_CLAIM_SET);
    answer(w);
    flush(w);
    assert_true(a.ticket.seq <= hf_core_released(w->core));
    world_later(w, 2000);
    flush(w);
    answer(w);
    flush(w);
    assert_true(hf_core_claims_ready(w->core));
    assert_int_equal(LOCK(w, .len = 10, .reclaim = true), GRANTED);
}

/* COH-13: a file that stays closed does not hold up the end of grace for ever. */
static void grace_waits_for_a_closed_file_once(void **state)
{
    struct world *w = *state;

    w->config.grace_ms = 10000;
    assert_int_equal(LOCKED(w, .len = 10), GRANTED);
    world_crash(w);
    kernel.outcome = HF_CLAIM_LATER;
    start_again(w);
    for (unsigned i = 0; i < 10; i++) {
        answer(w);
        flush(w);
        world_later(w, 1900);
        flush(w);
    }
    assert_true(world_status(w).grace_active);
    world_later(w, 2500);
    assert_false(world_status(w).grace_active);
}

/* COH-10: a repeated UNLOCK is not answered before the first one is. */
static void a_repeated_unlock_waits_for_the_kernel(void **state)
{
    struct world *w = *state;

    assert_int_equal(LOCKED(w, .len = 10), GRANTED);
    UNLOCK(w, .len = 10);
    flush(w);
    assert_int_equal(kernel.n, 1);
    assert_true(ASK(w, hf_core_unlock, .len = 10).ticket.seq > hf_core_released(w->core));
    answer(w);
    assert_true(ASK(w, hf_core_unlock, .len = 10).ticket.seq <= hf_core_released(w->core));
}

/* COH-13: SM_SIMU_CRASH begins an epoch as any start does: what clients may reclaim stays theirs.
 */
static void a_simulated_crash_releases_nothing_before_grace_ends(void **state)
{
    struct world *w = *state;

    world_crash(w);
    w->config.durable_locks = false;
    start_again(w);
    assert_int_equal(LOCKED(w, .len = 10), GRANTED);
    hf_core_simu_crash(w->core, w->now);
    world_step(w);
    flush(w);
    assert_true(world_status(w).grace_active);
    assert_int_equal(kernel.n, 0);
    assert_int_equal(LOCK(w, .len = 10, .reclaim = true), GRANTED);
    hf_core_simu_crash(w->core, w->now);
    world_step(w);
    hf_core_grace_end(w->core, w->now);
    world_step(w);
    flush(w);
    assert_int_equal(kernel.n, 1);
    assert_int_equal(kernel.ops[0].kind, HF_CLAIM_SET);
}

/* COH-10: a LOCK that waits for the kernel ends when its client crashes. */
static void a_request_ends_with_its_client(void **state)
{
    struct world *w = *state;
    struct ask ask = {.len = 10};
    struct hf_peer peer = world_peer(w, 1);
    struct hf_lock_args args = world_args(&ask);
    struct hf_answer a;

    args.asked = hf_core_asked(w->core);
    assert_int_not_equal(hf_core_lock(w->core, w->now, &peer, &args).claim, 0);
    (void)hf_core_sm_notify(w->core, w->now, &peer.addr, peer.name, 7, true);
    flush(w);
    answer(w);
    settle(w);
    a = hf_core_lock(w->core, w->now, &peer, &args);
    assert_true(a.silent);
    assert_int_equal(world_status(w).locks, 0);
    flush(w);
    assert_int_equal(kernel.ops[0].kind, HF_CLAIM_SET);
    args.asked = hf_core_asked(w->core);
    a = hf_core_lock(w->core, w->now, &peer, &args);
    assert_false(a.silent);
}

/* COH-12: what the kernel said before a request came does not count as its answer. */
static void an_answer_is_not_older_than_its_request(void **state)
{
    struct world *w = *state;
    uint64_t first = hf_core_asked(w->core), second;

    assert_int_not_equal(ASK(w, hf_core_lock, .len = 10).claim, 0);
    flush(w);
    kernel.outcome = HF_CLAIM_HELD;
    second = hf_core_asked(w->core); /* the kernel may have refused this request already */
    assert_int_not_equal(ASK(w, hf_core_lock, .client = 2, .len = 10).claim, 0);
    answer(w);
    settle(w);
    assert_int_equal(LOCK(w, .len = 10, .asked = first), DENIED);
    assert_int_not_equal(ASK(w, hf_core_lock, .client = 2, .len = 10, .asked = second).claim, 0);
    kernel.outcome = HF_CLAIM_DONE; /* the holder outside has released its lock */
    flush(w);
    assert_int_equal(answer(w), 1);
    settle(w);
    assert_int_equal(LOCK(w, .client = 2, .len = 10, .asked = second), GRANTED);
}

/* COH-11: a waiter that is served while a round is in flight is asked for in the next one. */
static void a_waiter_asks_after_the_round_in_flight(void **state)
{
    struct world *w = *state;

    assert_int_equal(LOCKED(w, .len = 10, .shared = true), GRANTED);
    assert_int_equal(LOCKED(w, .off = 50, .len = 10), GRANTED);
    assert_int_equal(LOCK(w, .client = 2, .len = 10, .block = true), BLOCKED);
    UNLOCK(w, .off = 50, .len = 10);
    flush(w);
    assert_int_equal(kernel.n, 1); /* the release is in flight */
    UNLOCK(w, .len = 10);
    flush(w);
    answer(w);
    flush(w);
    assert_true(kernel.n > 0);
    assert_int_equal(kernel.ops[kernel.n - 1].kind, HF_CLAIM_RAISE);
    answer(w);
    world_step(w);
    assert_int_not_equal(world_call_of(w, HF_OUTCALL_GRANTED).id, 0);
}

/* ---- a keeper that was taken over ---- */

enum { ASKED_MAX = 256 };

struct hostile {
    uint64_t dice;
    uint64_t asked[ASKED_MAX]; /* the ids of the latest operations */
    unsigned n_asked;
};

static unsigned roll(struct hostile *h, unsigned sides)
{
    h->dice = h->dice * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)(h->dice >> 33) % sides;
}

static void note_id(void *ctx, const struct hf_claim *claim)
{
    struct hostile *h = ctx;

    h->asked[h->n_asked++ % ASKED_MAX] = claim->id;
}

static void ask_something(struct world *w, struct hostile *h)
{
    static const char *const FILES[] = {"a", "b", "c"};
    static const world_call CALLS[] = {hf_core_lock, hf_core_lock, hf_core_unlock, hf_core_cancel,
                                       hf_core_test};

    (void)world_ask(w, CALLS[roll(h, 5)],
                    (struct ask){.client = (int)roll(h, 3),
                                 .svid = 1 + (int)roll(h, 2),
                                 .fh = FILES[roll(h, 3)],
                                 .off = roll(h, 6),
                                 .len = roll(h, 4),
                                 .shared = roll(h, 2),
                                 .block = roll(h, 2),
                                 .asked = hf_core_asked(w->core)});
}

/* Makes the keeper say something, about an operation or about nothing, true or not. */
static int say_something(struct world *w, struct hostile *h)
{
    struct hf_claim_result result = {
        .id = h->n_asked && roll(h, 8) ? h->asked[roll(h, ASKED_MAX)] : roll(h, 1000),
        .outcome = (enum hf_claim_outcome)roll(h, HF_CLAIM_OUTCOMES + 1),
        .holder = {roll(h, 9), roll(h, 3) ? UINT64_MAX : roll(h, 9), roll(h, 2),
                   (int32_t)roll(h, 9) - 2},
    };

    return hf_core_claim_done(w->core, w->now, &result);
}

/* Makes a new connection after one that broke; the keeper lists whatever it likes. */
static void begin_anew(struct world *w, struct hostile *h)
{
    hf_core_claims_lost(w->core, w->now);
    for (unsigned n = roll(h, 5); n > 0; n--)
        (void)hf_core_claims_listed(w->core, hf_bytes_str(roll(h, 2) ? "a" : "never locked"),
                                    roll(h, 9), 9 + roll(h, 9), roll(h, 2));
    hf_core_claims_begin(w->core, w->now);
    h->n_asked = 0;
}

/* COH-02: whatever the keeper answers, in whichever order, and whenever it goes, the core stays
 * consistent: each result is accepted, or refused, and then the connection begins anew. */
static void a_keeper_may_say_anything(void **state)
{
    struct world *w = *state;

    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct hostile h = {.dice = seed};

        for (unsigned step = 0; step < 1500; step++) {
            unsigned what = roll(&h, 16);

            if (what < 6)
                ask_something(w, &h);
            else if (what < 12 && say_something(w, &h) < 0)
                begin_anew(w, &h);
            else if (what == 12)
                world_later(w, roll(&h, 3000));
            else if (what == 13 && roll(&h, 10) == 0)
                begin_anew(w, &h);
            settle(w);
            hf_core_claims_flush(w->core, w->now, note_id, &h);
            world_step(w);
        }
    }
}

#define COHERENT(test) cmocka_unit_test_setup_teardown(test, open_coherent, close_world)

int main(void)
{
    const struct CMUnitTest tests[] = {
        COHERENT(a_lock_is_claimed_first),
        COHERENT(an_unlock_is_answered_when_the_kernel_has_let_go),
        COHERENT(a_lock_passes_without_the_kernel),
        COHERENT(the_kernel_holds_the_sum),
        COHERENT(a_failed_batch_gives_its_claim_back),
        COHERENT(requests_keep_their_order),
        COHERENT(a_holder_outside_denies_and_is_waited_for),
        COHERENT(a_cancelled_wait_gives_back),
        COHERENT(test_names_the_holder_outside),
        COHERENT(a_keeper_that_died_costs_what_others_took),
        COHERENT(waiters_go_on_when_the_keeper_is_back),
        COHERENT(a_restart_corrects_the_difference),
        COHERENT(grace_waits_for_the_keeper),
        COHERENT(what_cannot_be_mirrored_is_refused_or_counted),
        COHERENT(ranges_of_a_file_are_limited),
        COHERENT(a_restart_asks_for_no_more_ranges_than_the_limit),
        COHERENT(a_file_that_is_released_makes_room_for_another),
        COHERENT(a_wait_without_a_place_is_tried_again),
        COHERENT(an_unlock_at_the_end_of_a_range_makes_none_more),
        COHERENT(what_cannot_be_mirrored_is_a_range),
        COHERENT(a_file_with_an_unmirrored_range_is_still_claimed),
        COHERENT(an_unlock_makes_no_more_ranges_than_the_limit),
        COHERENT(many_requests_for_a_file_are_one_round),
        COHERENT(a_file_that_must_wait_keeps_no_other_waiting),
        COHERENT(grace_waits_for_a_closed_file_once),
        COHERENT(a_repeated_unlock_waits_for_the_kernel),
        COHERENT(a_simulated_crash_releases_nothing_before_grace_ends),
        COHERENT(a_request_ends_with_its_client),
        COHERENT(an_answer_is_not_older_than_its_request),
        COHERENT(a_waiter_asks_after_the_round_in_flight),
        COHERENT(a_keeper_may_say_anything),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
