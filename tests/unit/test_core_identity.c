/* One file by several handles (COH-05), without the keeper. */
#include "core_world.h"

#define GRANTED HF_STAT_GRANTED
#define DENIED  HF_STAT_DENIED
#define BLOCKED HF_STAT_BLOCKED

/* Stands in for a server whose handles begin with "e" and the number of the export. */
static struct hf_bytes identity(struct hf_bytes fh, uint8_t room[HF_IDENTITY_MAX])
{
    if (fh.len < 2 || fh.len > HF_IDENTITY_MAX || fh.data[0] != 'e')
        return fh;
    memcpy(room, fh.data, fh.len);
    room[1] = '0';
    return hf_bytes(room, fh.len);
}

static int open_merged(void **state)
{
    struct world *w = test_malloc(sizeof(*w));

    world_open(w);
    w->config.identity = identity;
    world_start(w);
    *state = w;
    return 0;
}

/* Two handles of one inode are one file, as for lockd: another owner is refused, and an owner meets
 * its own lock. */
static void two_handles_are_one_file(void **state)
{
    struct world *w = *state;
    struct hf_answer a;

    assert_int_equal(LOCK(w, .fh = "e1file", .len = 10), GRANTED);
    assert_int_equal(LOCK(w, .client = 2, .fh = "e2file", .off = 5, .len = 10), DENIED);
    assert_int_equal(LOCK(w, .client = 2, .fh = "e2other", .off = 5, .len = 10), GRANTED);
    assert_int_equal(LOCK(w, .client = 2, .fh = "x2file", .off = 5, .len = 10), GRANTED);
    assert_int_equal(LOCK(w, .fh = "e2file", .len = 10), GRANTED);
    assert_int_equal(world_status(w).locks, 3);
    a = ASK(w, hf_core_test, .client = 2, .fh = "e3file", .len = 1);
    assert_int_equal(a.stat, DENIED);
    assert_int_equal(a.holder.length, 10);
    UNLOCK(w, .fh = "e2file", .len = 10);
    assert_int_equal(LOCK(w, .client = 2, .fh = "e1file", .len = 10), GRANTED);
}

/* A client finds the wait of a callback by the handle that it has sent itself. */
static void a_callback_has_the_handle_of_the_request(void **state)
{
    struct world *w = *state;
    struct hf_outcall_attempt call;

    assert_int_equal(LOCK(w, .fh = "e1file"), GRANTED);
    assert_int_equal(LOCK(w, .client = 2, .fh = "e2file", .block = true), BLOCKED);
    assert_int_equal(LOCK(w, .client = 2, .fh = "e3file", .block = true), BLOCKED); /* a repeat */
    assert_int_equal(world_status(w).waiters, 1);
    UNLOCK(w, .fh = "e1file");
    call = world_call_of(w, HF_OUTCALL_GRANTED);
    assert_true(hf_bytes_equal(call.fh, hf_bytes_str("e3file")));
}

/* The record has one of the handles; a client may reclaim by the other. */
static void a_reclaim_may_come_by_another_handle(void **state)
{
    struct world *w = *state;

    assert_int_equal(LOCK(w, .fh = "e1file", .len = 10), GRANTED);
    world_restart(w);
    assert_int_equal(LOCK(w, .client = 2, .fh = "e2file", .len = 10, .reclaim = true), DENIED);
    assert_int_equal(LOCK(w, .fh = "e2file", .len = 10, .reclaim = true), GRANTED);
    assert_int_equal(world_status(w).locks, 1);
    assert_int_equal(world_count(w, HF_RECORD_LOCK), 1);
}

/* Records of a version that took each handle for a file: one of two owners keeps the bytes, the
 * other one's loss is reported, and the server starts. */
static void records_of_two_handles_are_merged(void **state)
{
    struct world *w = *state;
    struct hf_event event;

    world_crash(w);
    w->config.identity = NULL;
    world_start(w);
    assert_int_equal(LOCK(w, .fh = "e1file", .len = 10), GRANTED);
    assert_int_equal(LOCK(w, .client = 2, .fh = "e2file", .off = 5, .len = 10), GRANTED);
    assert_int_equal(LOCK(w, .client = 3, .fh = "e3file", .off = 50, .len = 10), GRANTED);
    world_crash(w);
    w->config.identity = identity;
    world_start(w);
    assert_int_equal(world_status(w).locks, 2);
    assert_int_equal(world_count(w, HF_RECORD_LOCK), 2);
    assert_true(world_event(w, HF_EVENT_CLIENT_UNRECLAIMED, &event));
    assert_int_equal(hf_core_counters(w->core)->locks_lost[HF_LOSS_UNRECLAIMED], 1);
    assert_int_equal(LOCK(w, .client = 3, .fh = "e1file", .off = 50, .len = 10, .reclaim = true),
                     GRANTED);
    world_restart(w);
    assert_int_equal(world_status(w).locks, 2);
}

#define MERGED(test) cmocka_unit_test_setup_teardown(test, open_merged, close_world)

int main(void)
{
    const struct CMUnitTest tests[] = {
        MERGED(two_handles_are_one_file),
        MERGED(a_callback_has_the_handle_of_the_request),
        MERGED(a_reclaim_may_come_by_another_handle),
        MERGED(records_of_two_handles_are_merged),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
