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

/* A kernel in the hands of the test: what was asked of it, and what it says. */
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

/* The requests that waited are to be made again. */
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

/* The kernel answers all that it was asked. Returns how much that was. */
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

/* LOCK, whatever the kernel has to do for it. */
static enum hf_stat lock(struct world *w, struct ask a)
{
    struct hf_answer first = world_ask(w, hf_core_lock, a);
    struct hf_answer second = first;

    if (first.claim != 0) {
        flush(w);
        answer(w);
        settle(w);
        second = world_ask(w, hf_core_lock, a);
        assert_int_equal(second.claim, 0);
        flush(w);
    }
    return second.stat;
}

#define LOCKED(w, ...) lock(w, (struct ask){__VA_ARGS__})

/* COH-10: the LOCK is decided when the kernel holds the range, and nothing is recorded before. */
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
    assert_int_equal(kernel.n, 0); /* it has all, and no more */
}

/* COH-10: released in the kernel when that is durable, and answered after it. */
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
    assert_true(a.seq > hf_core_released(w->core));
    flush(w);
    assert_int_equal(kernel.n, 1);
    assert_int_equal(kernel.ops[0].kind, HF_CLAIM_SET);
    assert_int_equal(kernel.ops[0].mode, HF_CLAIM_NONE);
    assert_int_equal(kernel.ops[0].first, 3);
    assert_int_equal(kernel.ops[0].last, 4);
    assert_true(a.seq > hf_core_released(w->core));
    answer(w);
    assert_int_equal(a.seq, hf_core_released(w->core));
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
    assert_int_not_equal(world_call_of(w, HF_CALL_GRANTED).id, 0);
}

/* COH-10: shared locks of several owners are one shared range, as long as any of them is held. */
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

/* COH-10: what was claimed for a LOCK whose batch failed is given back. */
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

/* COH-10: an UNLOCK does not overtake the LOCK that waits for the kernel. */
static void requests_keep_their_order(void **state)
{
    struct world *w = *state;
    uint64_t claim = ASK(w, hf_core_lock, .len = 10).claim;
    struct hf_answer a = ASK(w, hf_core_unlock, .len = 10);

    assert_int_not_equal(claim, 0);
    assert_int_equal(a.claim, claim);
    flush(w);
    answer(w);
    assert_int_equal(ASK(w, hf_core_unlock, .len = 10).claim, claim); /* the LOCK is first */
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
    assert_int_not_equal(world_call_of(w, HF_CALL_GRANTED).id, 0);
    flush(w);
    assert_int_equal(kernel.n, 0);
}

/* COH-11: a waiter that cancels leaves no wait, and what it got too late is given back. */
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
    struct hf_answer a = ASK(w, hf_core_test, .len = 10);

    assert_int_not_equal(a.claim, 0);
    kernel.outcome = HF_CLAIM_HELD;
    flush(w);
    assert_int_equal(kernel.ops[0].kind, HF_CLAIM_TEST);
    answer(w);
    settle(w);
    a = ASK(w, hf_core_test, .len = 10);
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
    assert_int_equal(world_call_of(w, HF_CALL_GRANTED).id, 0);
    hf_core_claims_begin(w->core, w->now);
    flush(w);
    flush(w);
    assert_int_equal(kernel.n, 1);
    assert_int_equal(kernel.ops[0].kind, HF_CLAIM_RAISE);
    answer(w);
    world_step(w);
    assert_int_not_equal(world_call_of(w, HF_CALL_GRANTED).id, 0);
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

/*
 * COH-13: while the keeper is away, reclaims are not answered. Grace does not end before their
 * clients have been heard: else another client would get what they still ask for.
 */
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
    assert_true(world_status(w).grace_active); /* the whole period, from now */
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
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
