/* Busy polling (RPC-04): when the server looks for input before it sleeps, and when it gives up. */
#include "base/busy_poll.h"
#include "unit.h"

enum { US = 1000, BOUND = 50 * US };

static struct hf_busy_poll bp;
static uint64_t now;

static int setup(void **state)
{
    (void)state;
    hf_busy_poll_init(&bp, BOUND);
    now = 1;
    assert_false(hf_busy_poll_turn(&bp, now, false, 0));
    return 0;
}

/* A single request, which arrives this long after the last one. */
static bool request(uint64_t gap)
{
    now += gap;
    return hf_busy_poll_turn(&bp, now, true, 0);
}

static bool nothing(uint64_t pause)
{
    now += pause;
    return hf_busy_poll_turn(&bp, now, false, 0);
}

static void row(unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        (void)request(HF_BUSY_POLL_SLEEP * BOUND);
}

static void a_row_of_short_gaps_begins_it(void **state)
{
    (void)state;
    row(HF_BUSY_POLL_ROW - 1);
    assert_false(bp.looking);
    assert_true(request(HF_BUSY_POLL_SLEEP * BOUND));
    assert_true(nothing(BOUND - 1));
    assert_true(request(0));
    assert_int_equal(bp.looked_ns, BOUND - 1);
}

static void one_long_gap_begins_the_row_again(void **state)
{
    (void)state;
    row(HF_BUSY_POLL_ROW - 1);
    assert_false(request(HF_BUSY_POLL_SLEEP * BOUND + 1));
    row(HF_BUSY_POLL_ROW - 1);
    assert_false(bp.looking);
    assert_true(request(1));
}

/* A client that sends a hundred requests a second costs no busy polling. */
static void a_client_now_and_then_costs_nothing(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 10000; i++)
        assert_false(request(10000 * US));
    assert_int_equal(bp.looked_ns, 0);
}

static void a_look_ends_at_its_bound(void **state)
{
    (void)state;
    row(HF_BUSY_POLL_ROW);
    assert_false(nothing(BOUND));
    assert_int_equal(bp.looked_ns, BOUND);
    for (unsigned i = 0; i < 1000; i++) /* the loop sleeps, and a timer wakes it */
        assert_false(nothing(BOUND / 2));
    assert_int_equal(bp.looked_ns, BOUND);
}

/* Rows of requests that are just long enough to begin a look cost fewer and fewer looks. */
static void misses_make_it_careful(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 1000; i++) {
        row(HF_BUSY_POLL_ROW);
        (void)nothing(1000 * BOUND);
    }
    assert_int_equal(bp.looked_ns, 1000 * BOUND); /* only the first row costs a look */
    assert_int_equal(bp.wanted, 2 * HF_BUSY_POLL_ROW);
    for (unsigned i = 0; i < 20; i++) {
        row(1 + bp.wanted); /* there was a long gap before the first request */
        assert_true(bp.looking);
        (void)nothing(1000 * BOUND);
    }
    assert_int_equal(bp.wanted, HF_BUSY_POLL_ROW_MAX);
}

static void success_forgives_misses(void **state)
{
    (void)state;
    row(HF_BUSY_POLL_ROW);
    (void)nothing(BOUND);
    assert_int_equal(bp.wanted, 2 * HF_BUSY_POLL_ROW);
    row(1 + 2 * HF_BUSY_POLL_ROW);
    for (unsigned i = 0; i < HF_BUSY_POLL_FORGIVE; i++)
        assert_true(request(BOUND / 4));
    assert_int_equal(bp.wanted, HF_BUSY_POLL_ROW);
}

/* The loop's turn when n requests wait, for the store's thread or for a client that is called back.
 */
static bool waiting(uint64_t pause, bool input, unsigned n)
{
    now += pause;
    return hf_busy_poll_turn(&bp, now, input, n);
}

/* While several requests wait, their clients and the store's thread may need the processor. The gap
 * counts from the answer. */
static void it_does_not_look_while_several_requests_wait(void **state)
{
    (void)state;
    row(HF_BUSY_POLL_ROW);
    assert_true(bp.looking);
    assert_false(waiting(BOUND / 2, true, 2));
    assert_false(waiting(1, false, 2));
    assert_true(waiting(100 * BOUND, false, 0)); /* answered */
    assert_true(request(BOUND / 2));
    assert_int_equal(bp.looked_ns, BOUND);
}

/* A client sends one request at a time, and each must become durable. */
static void it_looks_for_the_answer_of_a_request_that_waits_alone(void **state)
{
    (void)state;
    row(HF_BUSY_POLL_ROW);
    assert_true(waiting(1, true, 1));
    assert_true(waiting(HF_BUSY_POLL_ANSWER * BOUND - 1, false, 1));
    /* The request is answered, so the server looks for the next one. */
    assert_true(waiting(0, false, 0));
    assert_false(bp.awaiting);
    assert_int_equal(bp.looked_ns, HF_BUSY_POLL_ANSWER * BOUND);
    assert_true(waiting(BOUND / 2, true, 1));
    assert_false(waiting(1, false, 2)); /* another client came */
    assert_false(bp.awaiting);
}

static void a_request_now_and_then_is_not_looked_for(void **state)
{
    (void)state;
    row(HF_BUSY_POLL_ROW);
    assert_false(waiting(10000 * US, true, 1));
    assert_false(waiting(1, false, 1));
}

/* A request that waits only for a moment. Returns true if the server looked for its answer. */
static bool answered(void)
{
    bool looked = waiting(1, true, 1);

    (void)waiting(1, false, 0);
    return looked;
}

/* On a disk with slow flushes, the first answers cost a look, and later ones ever fewer. */
static void slow_answers_are_not_looked_for(void **state)
{
    (void)state;
    row(HF_BUSY_POLL_ROW);
    assert_true(waiting(1, true, 1));
    assert_false(waiting(HF_BUSY_POLL_ANSWER * BOUND, false, 1));
    assert_int_equal(bp.looked_ns, 1 + HF_BUSY_POLL_ANSWER * BOUND);
    (void)waiting(1, false, 0);
    for (unsigned wave = 0, skipped = 1; wave < 15; wave++) {
        for (unsigned i = 0; i < skipped; i++)
            assert_false(answered());
        assert_true(waiting(1, true, 1));
        assert_false(waiting(HF_BUSY_POLL_ANSWER * BOUND, false, 1)); /* late again */
        (void)waiting(1, false, 0);
        skipped = skipped < HF_BUSY_POLL_SKIP_MAX ? 2 * skipped : HF_BUSY_POLL_SKIP_MAX;
    }
}

/* A disk whose flush is slow now and then costs only that look. */
static void one_slow_answer_is_forgiven(void **state)
{
    (void)state;
    row(HF_BUSY_POLL_ROW);
    for (unsigned i = 0; i < 100; i++) {
        assert_true(waiting(1, true, 1));
        assert_false(waiting(HF_BUSY_POLL_ANSWER * BOUND, false, 1));
        (void)waiting(1, false, 0);
        assert_false(answered());
        assert_true(answered());
    }
}

static void a_bound_of_zero_switches_it_off(void **state)
{
    (void)state;
    hf_busy_poll_init(&bp, 0);
    for (unsigned i = 0; i < 10000; i++)
        assert_false(request(1));
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup(f, setup)
    const struct CMUnitTest tests[] = {
        TEST(a_row_of_short_gaps_begins_it),
        TEST(one_long_gap_begins_the_row_again),
        TEST(a_client_now_and_then_costs_nothing),
        TEST(a_look_ends_at_its_bound),
        TEST(misses_make_it_careful),
        TEST(success_forgives_misses),
        TEST(it_does_not_look_while_several_requests_wait),
        TEST(it_looks_for_the_answer_of_a_request_that_waits_alone),
        TEST(a_request_now_and_then_is_not_looked_for),
        TEST(slow_answers_are_not_looked_for),
        TEST(one_slow_answer_is_forgiven),
        TEST(a_bound_of_zero_switches_it_off),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
