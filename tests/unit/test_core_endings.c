/* What the core reports about locks and waits that have ended (ADM-11, core/ending.h). */
#include "core_world.h"

#define GRANTED HF_STAT_GRANTED
#define BLOCKED HF_STAT_BLOCKED

enum { TOLD_MAX = 16 };
static struct hf_ending told[TOLD_MAX];
static char told_client[TOLD_MAX][32];
static unsigned n_told;
static bool deaf; /* the listener hears of endings, and wants none reported */

static void on_ending(void *ctx, const struct hf_ending *ending)
{
    assert_ptr_equal(ctx, told);
    assert_true(n_told < TOLD_MAX);
    told[n_told] = *ending;
    snprintf(told_client[n_told++], sizeof(told_client[0]), "%.*s", (int)ending->client.len,
             (const char *)ending->client.data);
}

static bool heard(void *ctx, enum hf_end end, bool wait, int64_t since_ms)
{
    (void)end;
    (void)wait;
    assert_ptr_equal(ctx, told);
    assert_true(since_ms > 0);
    return !deaf;
}

static void listen_to(struct world *w)
{
    n_told = 0;
    deaf = false;
    hf_core_tell_endings(w->core, heard, on_ending, told);
}

/* Expects that the oldest report is this one, and forgets it. */
static void expect(enum hf_end end, bool wait, const char *client, uint64_t first, uint64_t last)
{
    assert_true(n_told > 0);
    assert_int_equal(told[0].end, end);
    assert_int_equal(told[0].wait, wait);
    assert_string_equal(told_client[0], client);
    assert_int_equal(told[0].first, first);
    assert_true(told[0].last == last);
    n_told--;
    memmove(told, told + 1, n_told * sizeof(told[0]));
    memmove(told_client, told_client + 1, n_told * sizeof(told_client[0]));
}

/* An UNLOCK of the middle ends exactly that range; the rest ends later, and was held all the time.
 */
static void an_unlock_ends_its_range(void **state)
{
    struct world *w = *state;
    int64_t since = w->now.wall_ms;

    assert_int_equal(LOCK(w, .len = 100), GRANTED);
    world_later(w, 5000);
    assert_int_equal(UNLOCK(w, .off = 10, .len = 20), GRANTED);
    assert_int_equal(told[0].since_ms, since);
    assert_true(told[0].exclusive);
    expect(HF_END_UNLOCKED, false, "client1.example", 10, 29);
    assert_int_equal(n_told, 0);
    world_later(w, 5000);
    assert_int_equal(UNLOCK(w, 0), GRANTED);
    assert_int_equal(told[0].since_ms, since);
    assert_int_equal(told[1].since_ms, since);
    expect(HF_END_UNLOCKED, false, "client1.example", 0, 9);
    expect(HF_END_UNLOCKED, false, "client1.example", 30, 99);
    assert_int_equal(n_told, 0);
    assert_int_equal(UNLOCK(w, 0), GRANTED); /* of nothing */
    assert_int_equal(n_told, 0);
}

/* Locks that merge do not end; a range that changes its mode is reported. */
static void a_merge_ends_nothing_and_a_conversion_does(void **state)
{
    struct world *w = *state;

    assert_int_equal(LOCK(w, .len = 10), GRANTED);
    assert_int_equal(LOCK(w, .off = 10, .len = 10), GRANTED);
    assert_int_equal(LOCK(w, .off = 5, .len = 10), GRANTED);
    assert_int_equal(n_told, 0);
    assert_int_equal(LOCK(w, .off = 5, .len = 10, .shared = true), GRANTED);
    expect(HF_END_CONVERTED, false, "client1.example", 5, 14);
    assert_int_equal(n_told, 0);
}

static void waits_end_in_their_ways(void **state)
{
    struct world *w = *state;

    assert_int_equal(LOCK(w, 0), GRANTED);
    assert_int_equal(LOCK(w, .client = 2, .block = true), BLOCKED);
    assert_int_equal(LOCK(w, .client = 3, .block = true), BLOCKED);
    assert_int_equal(CANCEL(w, .client = 3), GRANTED);
    expect(HF_END_CANCELLED, true, "client3.example", 0, UINT64_MAX);
    assert_int_equal(UNLOCK(w, 0), GRANTED);
    expect(HF_END_UNLOCKED, false, "client1.example", 0, UINT64_MAX);
    expect(HF_END_GRANTED, true, "client2.example", 0, UINT64_MAX);
    world_called(w, world_call_of(w, HF_OUTCALL_GRANTED).id, HF_OUTCALL_DENIED);
    expect(HF_END_NOT_TAKEN, false, "client2.example", 0, UINT64_MAX);
    assert_int_equal(n_told, 0);
}

static void a_crash_and_an_operator_are_told_apart(void **state)
{
    struct world *w = *state;
    struct hf_peer peer = world_peer(w, 1);
    struct hf_ticket wait;

    assert_int_equal(LOCK(w, .len = 5, .state = 3), GRANTED);
    assert_int_equal(LOCK(w, .client = 2, .len = 5, .block = true), BLOCKED);
    assert_int_equal(LOCK(w, .len = 9, .fh = "g", .client = 3), GRANTED);
    assert_int_equal(LOCK(w, .len = 9, .fh = "g", .block = true, .state = 3), BLOCKED);
    hf_core_sm_notify(w->core, w->now, &peer.addr, peer.name, 5, true);
    world_step(w);
    expect(HF_END_CRASHED, true, "client1.example", 0, 8);
    expect(HF_END_CRASHED, false, "client1.example", 0, 4);
    expect(HF_END_GRANTED, true, "client2.example", 0, 4);
    assert_true(hf_core_release_file(w->core, w->now, hf_bytes_str("g"), &wait) > 0);
    world_step(w);
    expect(HF_END_OPERATOR, false, "client3.example", 0, 8);
    assert_int_equal(n_told, 0);
}

/* What is lost after a restart is reported file by file, so that `holdfastctl losses` can name it.
 */
static void what_is_not_reclaimed_is_told(void **state)
{
    struct world *w = *state;
    int64_t since = w->now.wall_ms;

    assert_int_equal(LOCK(w, .len = 5), GRANTED);
    assert_int_equal(LOCK(w, .len = 7, .fh = "g"), GRANTED);
    world_restart(w);
    listen_to(w);
    assert_int_equal(LOCK(w, .len = 5, .reclaim = true), GRANTED);
    world_later(w, 100000);
    assert_int_equal(told[0].since_ms, since);
    assert_memory_equal(told[0].fh.data, "g", 1);
    expect(HF_END_UNRECLAIMED, false, "client1.example", 0, 6);
    assert_int_equal(n_told, 0);
}

/* The batch of an UNLOCK fails: the lock is still held, the waiter still waits, and the report is
 * taken back. */
static void an_end_that_is_undone_is_told(void **state)
{
    struct world *w = *state;
    uint64_t id;

    assert_int_equal(LOCK(w, .len = 5), GRANTED);
    assert_int_equal(LOCK(w, .client = 2, .len = 5, .block = true), BLOCKED);
    w->by_hand = true;
    assert_int_equal(UNLOCK(w, .len = 5), GRANTED);
    id = told[0].id;
    expect(HF_END_UNLOCKED, false, "client1.example", 0, 4);
    expect(HF_END_GRANTED, true, "client2.example", 0, 4);
    assert_true(world_commit_one(w, HF_EIO));
    expect(HF_END_UNDONE, true, "client2.example", 0, 4);
    assert_int_equal(told[0].id, id);
    expect(HF_END_UNDONE, false, "client1.example", 0, 4);
    assert_int_equal(n_told, 0);
}

/* A merge whose batch fails brings back a lock whose end was never reported. */
static void a_merge_that_is_undone_tells_nothing(void **state)
{
    struct world *w = *state;

    assert_int_equal(LOCK(w, .len = 10), GRANTED);
    w->by_hand = true;
    assert_int_equal(LOCK(w, .off = 10, .len = 10), GRANTED);
    assert_true(world_commit_one(w, HF_EIO));
    assert_int_equal(n_told, 0);
}

static int set_up(void **state)
{
    static struct world w;

    world_open(&w);
    world_start(&w);
    listen_to(&w);
    *state = &w;
    return 0;
}

static int tear_down(void **state)
{
    n_told = 0;
    world_close(*state);
    assert_int_equal(n_told, 0); /* the process stops, which ends no lock */
    return 0;
}

/* An ending that the listener does not want is not reported, and neither is its undoing. */
static void what_is_not_wanted_is_not_told(void **state)
{
    struct world *w = *state;

    deaf = true;
    assert_int_equal(LOCK(w, .len = 100), GRANTED);
    w->by_hand = true;
    assert_int_equal(UNLOCK(w, .len = 100), GRANTED);
    assert_true(world_commit_one(w, HF_EIO));
    assert_int_equal(world_status(w).locks, 1);
    w->by_hand = false;
    world_later(w, 5000);
    assert_int_equal(UNLOCK(w, .len = 100), GRANTED);
    assert_int_equal(n_told, 0);
}

/* How long the oldest request has waited, and how many wait by export: for metrics. A request that
 * is being granted waits no more; one whose grant is undone waits again, and its wait counts from
 * its arrival. */
static void waits_are_counted(void **state)
{
    struct world *w = *state;
    struct hf_bytes name;
    uint64_t waiting;

    assert_int_equal(LOCK(w, .len = 10), GRANTED);
    assert_int_equal(world_status(w).oldest_wait_ms, 0);
    assert_int_equal(LOCK(w, .client = 2, .len = 10, .block = true), BLOCKED);
    world_later(w, 3000);
    assert_int_equal(LOCK(w, .client = 3, .len = 10, .block = true), BLOCKED);
    assert_int_equal(world_status(w).oldest_wait_ms, 3000);
    assert_true(hf_core_view_waits(w->core, 0, &name, &waiting));
    assert_true(hf_bytes_equal(name, hf_bytes_str("default")));
    assert_int_equal(waiting, 2);
    assert_false(hf_core_view_waits(w->core, 1, &name, &waiting));
    w->by_hand = true;
    assert_int_equal(UNLOCK(w, .len = 10), GRANTED);
    assert_int_equal(world_status(w).oldest_wait_ms, 0); /* client 3 has come a moment ago */
    assert_true(hf_core_view_waits(w->core, 0, &name, &waiting));
    assert_int_equal(waiting, 1);
    assert_true(world_commit_one(w, HF_EIO));
    assert_int_equal(world_status(w).oldest_wait_ms, 3000);
    assert_true(hf_core_view_waits(w->core, 0, &name, &waiting));
    assert_int_equal(waiting, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_unlock_ends_its_range, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_merge_ends_nothing_and_a_conversion_does, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(waits_end_in_their_ways, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_crash_and_an_operator_are_told_apart, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_not_reclaimed_is_told, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_end_that_is_undone_is_told, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_merge_that_is_undone_tells_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_not_wanted_is_not_told, set_up, tear_down),
        cmocka_unit_test_setup_teardown(waits_are_counted, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
