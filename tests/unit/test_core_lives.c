/* The lives of a client over restarts of ours (CRS-02). A client restarts, and its new life locks
 * before its notice comes; then we restart. The notice, which comes late, takes what the old life
 * had and nothing that the new one has; otherwise a byte would have two owners. */
#include "core_world.h"

#define GRANTED HF_STAT_GRANTED
#define DENIED  HF_STAT_DENIED
#define BLOCKED HF_STAT_BLOCKED
#define GRACE   HF_STAT_DENIED_GRACE_PERIOD

static void notice(struct world *w, int32_t number)
{
    struct hf_peer peer = world_peer(w, 1);

    hf_core_sm_notify(w->core, w->now, &peer.addr, peer.name, number, false);
    world_step(w);
}

/* True if the file is free: client 2 asks for it, and gives it back. */
static bool is_free(struct world *w, const char *fh)
{
    if (LOCK(w, .client = 2, .fh = fh) != GRANTED)
        return false;
    UNLOCK(w, .client = 2, .fh = fh);
    return true;
}

/* The record of client 1, the only client; its bytes are valid until the next commit. */
static struct hf_record_client record_of(const struct world *w)
{
    struct hf_record_client record;

    assert_int_equal(world_count(w, HF_RECORD_CLIENT), 1);
    for (unsigned i = 0; i < w->records.count; i++) {
        if (w->records.at[i]->kind == HF_RECORD_CLIENT)
            assert_int_equal(hf_record_decode_client(record_bytes(w->records.at[i]), &record), 0);
    }
    return record;
}

/* Prepares each test: client 1 holds "old" in its first life, state 5, and "new" in its second,
 * state 7, whose notice has not come. Grace refuses nothing but conflicts. */
static void lock_in_two_lives(struct world *w)
{
    world_crash(w);
    w->config.grace_mode = HF_GRACE_CONFLICT;
    world_start(w);
    assert_int_equal(LOCK(w, .fh = "old", .state = 5), GRANTED);
    assert_int_equal(LOCK(w, .fh = "new", .state = 7), GRANTED);
}

/* Clients reclaim without a state number: the lock still belongs to the life that took it. */
static void a_late_notice_spares_what_was_reclaimed(void **state)
{
    struct world *w = *state;

    lock_in_two_lives(w);
    world_restart(w);
    assert_int_equal(LOCK(w, .fh = "new", .reclaim = true), GRANTED);
    notice(w, 7);
    assert_false(is_free(w, "new"));
    assert_true(is_free(w, "old"));
    notice(w, 7); /* the same again */
    assert_false(is_free(w, "new"));
    notice(w, 9); /* and then the notice of the next restart */
    assert_true(is_free(w, "new"));
}

/* The notice comes before the reclaim, which must then still be granted. */
static void a_late_notice_spares_what_is_to_be_reclaimed(void **state)
{
    struct world *w = *state;

    lock_in_two_lives(w);
    world_restart(w);
    notice(w, 7);
    assert_true(is_free(w, "old"));
    assert_int_equal(LOCK(w, .fh = "new", .reclaim = true), GRANTED);
    assert_false(is_free(w, "new"));
}

/* Where locks are not recorded, the life that asks must be known as well. */
static void a_late_notice_without_recorded_locks(void **state)
{
    struct world *w = *state;

    world_crash(w);
    w->config.durable_locks = false;
    world_start(w);
    assert_int_equal(LOCK(w, .fh = "old", .state = 5), GRANTED);
    assert_int_equal(LOCK(w, .fh = "new", .state = 7), GRANTED);
    world_restart(w);
    assert_int_equal(LOCK(w, .fh = "new", .reclaim = true), GRANTED);
    notice(w, 7);
    (void)hf_core_grace_end(w->core, w->now);
    world_step(w);
    assert_false(is_free(w, "new"));
    assert_true(is_free(w, "old"));
}

/* The client and the server restart twice, and a grant comes by callback instead of by answer. */
static void lives_are_counted_over_many_restarts(void **state)
{
    struct world *w = *state;

    lock_in_two_lives(w);
    world_restart(w);
    assert_int_equal(LOCK(w, .fh = "new", .reclaim = true), GRANTED);
    LOCK(w, .client = 3, .fh = "third");
    assert_int_equal(LOCK(w, .fh = "third", .block = true, .state = 9), BLOCKED);
    UNLOCK(w, .client = 3, .fh = "third");
    world_called(w, world_call_of(w, HF_OUTCALL_GRANTED).id, HF_OUTCALL_ACCEPTED);
    world_restart(w);
    assert_int_equal(LOCK(w, .fh = "third", .reclaim = true), GRANTED);
    /* The notice of the life in between: it still has its own locks, as far as it knows. */
    notice(w, 7);
    assert_true(is_free(w, "old"));
    assert_false(is_free(w, "new"));
    notice(w, 9);
    assert_true(is_free(w, "new"));
    assert_false(is_free(w, "third"));
    world_restart(w);
    assert_int_equal(LOCK(w, .fh = "third", .reclaim = true), GRANTED);
    notice(w, 9);
    assert_false(is_free(w, "third"));
}

/* Once its notice has come, the client's record is the same again: an older version can read it. */
static void the_record_tells_lives_apart_for_as_long_as_needed(void **state)
{
    struct world *w = *state;

    lock_in_two_lives(w);
    assert_int_equal(record_of(w).lives.n, 2);
    assert_int_equal(record_of(w).state, 5);
    notice(w, 7);
    assert_int_equal(record_of(w).lives.n, 0);
    assert_int_equal(record_of(w).state, 7);
}

/* The record is also the same again when the operator has released all that the client had. */
static void a_release_of_all_ends_former_lives(void **state)
{
    struct world *w = *state;
    struct hf_ticket wait;

    lock_in_two_lives(w);
    assert_int_equal(hf_core_release_client(w->core, w->now, record_of(w).id, &wait), 2);
    world_step(w);
    assert_int_equal(record_of(w).lives.n, 0);
    assert_int_equal(LOCK(w, .fh = "new", .state = 7), GRANTED);
    notice(w, 7);
    assert_false(is_free(w, "new"));
    assert_int_equal(record_of(w).lives.n, 0);
}

/* A forged notice was refuted: the client has the life and the record that it had. */
static void a_refuted_notice_leaves_one_life(void **state)
{
    struct world *w = *state;
    struct hf_outcall_attempt stat;

    world_crash(w);
    w->config.verify_notices = true;
    world_start(w);
    assert_int_equal(LOCK(w, .fh = "old", .state = 5), GRANTED);
    notice(w, 99);
    assert_int_equal(LOCK(w, .fh = "meanwhile", .state = 5), GRANTED);
    assert_int_equal(record_of(w).lives.n, 2);
    stat = world_call_of(w, HF_OUTCALL_STAT);
    hf_core_stat_answered(w->core, w->now, stat.id, 5);
    world_step(w);
    assert_int_equal(record_of(w).lives.n, 0);
    assert_int_equal(LOCK(w, .fh = "new", .state = 5), GRANTED);
    assert_int_equal(record_of(w).lives.n, 0);
}

/* The server is killed while it verifies a forged notice: the new life is recorded, and no answer
 * refutes it. What the client had before, and reclaims, still belongs to its first life, and goes
 * with the FREE_ALL of that; what came later goes with the next notice. */
static void a_forged_notice_that_our_restart_cut_off(void **state)
{
    struct world *w = *state;
    struct hf_peer peer = world_peer(w, 1);

    world_crash(w);
    w->config.verify_notices = true;
    world_start(w);
    assert_int_equal(LOCK(w, .fh = "old", .len = 10, .state = 5), GRANTED);
    notice(w, 99);
    assert_int_equal(LOCK(w, .fh = "new", .state = 5), GRANTED);
    world_restart(w);
    assert_int_equal(LOCK(w, .fh = "old", .off = 2, .len = 3, .reclaim = true), GRANTED);
    assert_int_equal(LOCK(w, .fh = "new", .reclaim = true), GRANTED);
    hf_core_free_all(w->core, w->now, &peer, 5, true);
    world_step(w);
    assert_int_equal(TEST(w, .client = 2, .fh = "old"), GRANTED);
    hf_core_sm_notify(w->core, w->now, &peer.addr, peer.name, 7, true);
    world_step(w);
    assert_int_equal(world_status(w).locks, 0);
}

/* CRS-02: a FREE_ALL of a former life comes late, and twice: it releases nothing of the new life.
 */
static void a_late_free_all_changes_nothing_when_repeated(void **state)
{
    struct world *w = *state;
    struct hf_peer peer;

    assert_int_equal(LOCK(w, .fh = "old", .len = 10, .state = 5), GRANTED);
    assert_int_equal(LOCK(w, .fh = "new", .len = 10, .state = 7), GRANTED);
    for (int i = 0; i < 3; i++) {
        peer = world_peer(w, 1);
        hf_core_free_all(w->core, w->now, &peer, 5, true);
        world_step(w);
        assert_int_equal(TEST(w, .client = 2, .fh = "old"), GRANTED);
        assert_int_equal(TEST(w, .client = 2, .fh = "new"), DENIED);
    }
    peer = world_peer(w, 1);
    hf_core_free_all(w->core, w->now, &peer, 7, true);
    world_step(w);
    assert_int_equal(world_status(w).locks, 0);
}

/* SEC-04: what is reclaimed after a notice came stays, whether that was true or forged. */
static void what_is_reclaimed_after_a_notice_stays(void **state)
{
    struct world *w = *state;

    world_crash(w);
    w->config.grace_mode = HF_GRACE_CONFLICT;
    w->config.verify_notices = true;
    world_start(w);
    assert_int_equal(LOCK(w, .fh = "kept", .state = 5), GRANTED);
    assert_int_equal(LOCK(w, .fh = "old", .state = 5), GRANTED);
    world_restart(w);
    notice(w, 99);
    assert_int_equal(LOCK(w, .fh = "kept", .reclaim = true), GRANTED);
    world_called(w, world_call_of(w, HF_OUTCALL_STAT).id, HF_OUTCALL_FAILED);
    assert_false(is_free(w, "kept"));
    assert_true(is_free(w, "old"));
}

/* The store refuses the first grant of the new life, and with it the record of that life. */
static void a_failed_commit_leaves_no_life_unrecorded(void **state)
{
    struct world *w = *state;

    world_crash(w);
    w->config.grace_mode = HF_GRACE_CONFLICT;
    world_start(w);
    assert_int_equal(LOCK(w, .fh = "old", .state = 5), GRANTED);
    w->by_hand = true;
    LOCK(w, .fh = "refused", .state = 7);
    assert_true(world_commit_one(w, HF_EIO));
    w->by_hand = false;
    assert_int_equal(LOCK(w, .fh = "new", .state = 7), GRANTED);
    world_restart(w);
    assert_int_equal(LOCK(w, .fh = "new", .reclaim = true), GRANTED);
    notice(w, 7);
    assert_false(is_free(w, "new"));
    assert_true(is_free(w, "old"));
}

/* The server restarts while a notice is being verified and its release is not durable: the notice
 * is repeated after that. What the client got meanwhile, without a state number, stays. */
static void a_notice_that_our_restart_cut_off_is_repeated(void **state)
{
    struct world *w = *state;

    world_crash(w);
    w->config.grace_mode = HF_GRACE_CONFLICT;
    w->config.verify_notices = true;
    world_start(w);
    assert_int_equal(LOCK(w, .fh = "old", .state = 5), GRANTED);
    notice(w, 7);
    assert_int_equal(LOCK(w, .fh = "new"), GRANTED);
    world_restart(w);
    assert_int_equal(LOCK(w, .fh = "new", .reclaim = true), GRANTED);
    notice(w, 7);
    world_called(w, world_call_of(w, HF_OUTCALL_STAT).id, HF_OUTCALL_FAILED);
    assert_false(is_free(w, "new"));
    assert_true(is_free(w, "old"));
}

/* The server is killed in the middle of a release in slices. The client repeats its notice, which
 * takes the rest of what its old life had. */
static void a_release_in_slices_that_was_cut_off(void **state)
{
    struct world *w = *state;
    struct hf_view_status status;

    world_crash(w);
    w->config.grace_mode = HF_GRACE_CONFLICT;
    w->config.budgets.release = 4;
    world_start(w);
    for (int i = 0; i < 20; i++)
        LOCK(w, .svid = i + 2, .fh = "old", .off = (uint64_t)i * 2, .len = 1, .state = 5);
    notice(w, 7);
    assert_int_equal(LOCK(w, .fh = "new"), GRANTED);
    assert_int_equal(LOCK(w, .fh = "newer", .state = 7), GRANTED);
    assert_true(world_status(w).locks > 2);
    world_restart(w);
    assert_true(world_status(w).locks > 2);
    assert_int_equal(LOCK(w, .fh = "new", .reclaim = true), GRANTED);
    notice(w, 7);
    for (int i = 0; i < 20; i++)
        world_later(w, 10);
    status = world_status(w);
    assert_int_equal(status.locks, 2);
    assert_true(status.grace_active);
    assert_int_equal(LOCK(w, .fh = "newer", .reclaim = true), GRANTED);
    assert_true(is_free(w, "old"));
    assert_false(is_free(w, "new"));
}

/* A client tells its new state when it reclaims: the lock belongs to the new life from then on,
 * also after another restart. */
static void a_reclaim_that_tells_a_state_is_recorded(void **state)
{
    struct world *w = *state;

    world_crash(w);
    w->config.grace_mode = HF_GRACE_CONFLICT;
    world_start(w);
    assert_int_equal(LOCK(w, .fh = "kept", .state = 5), GRANTED);
    assert_int_equal(LOCK(w, .fh = "old", .state = 5), GRANTED);
    world_restart(w);
    assert_int_equal(LOCK(w, .fh = "kept", .reclaim = true, .state = 7), GRANTED);
    world_restart(w);
    notice(w, 7);
    assert_true(is_free(w, "old"));
    assert_int_equal(LOCK(w, .fh = "kept", .reclaim = true), GRANTED);
    assert_false(is_free(w, "kept"));
}

/* An NM_LOCK over a recorded lock makes it a recorded lock of the new life. */
static void an_unmonitored_lock_over_a_recorded_one(void **state)
{
    struct world *w = *state;

    world_crash(w);
    w->config.grace_mode = HF_GRACE_CONFLICT;
    world_start(w);
    assert_int_equal(LOCK(w, .fh = "old", .state = 5), GRANTED);
    assert_int_equal(LOCK(w, .fh = "new", .len = 10, .state = 5), GRANTED);
    assert_int_equal(LOCK(w, .fh = "new", .len = 10, .nm = true, .state = 7), GRANTED);
    world_restart(w);
    notice(w, 7);
    assert_int_equal(LOCK(w, .fh = "new", .len = 10, .reclaim = true), GRANTED);
    assert_false(is_free(w, "new"));
    assert_true(is_free(w, "old"));
}

/* The first lock told no state number, and a request that had to wait told the first one: the
 * notice of the next life still takes what the first had, and only that. */
static void a_state_that_was_told_late(void **state)
{
    struct world *w = *state;

    assert_int_equal(LOCK(w, .fh = "old"), GRANTED);
    LOCK(w, .client = 2, .fh = "busy");
    assert_int_equal(LOCK(w, .fh = "busy", .block = true, .state = 5), BLOCKED);
    assert_int_equal(LOCK(w, .fh = "new", .state = 7), GRANTED);
    notice(w, 7);
    assert_true(is_free(w, "old"));
    assert_false(is_free(w, "new"));
}

/* In strict grace, a repeat of what the new life took before our restart is still a repeat. */
static void a_repeat_of_the_new_life_in_strict_grace(void **state)
{
    struct world *w = *state;

    LOCK(w, .client = 2, .fh = "other");
    assert_int_equal(LOCK(w, .fh = "old", .state = 5), GRANTED);
    assert_int_equal(LOCK(w, .fh = "new", .state = 7), GRANTED);
    world_restart(w);
    assert_int_equal(LOCK(w, .fh = "new", .state = 7), GRANTED);
    assert_int_equal(LOCK(w, .fh = "old", .state = 7), GRACE);
    assert_int_equal(LOCK(w, .fh = "old", .state = 0), GRACE);
    notice(w, 7);
    (void)hf_core_grace_end(w->core, w->now);
    world_step(w);
    assert_false(is_free(w, "new"));
    assert_true(is_free(w, "old"));
}

/* There are more lives than the record can tell apart: the newest ones count. */
static void many_lives_before_a_notice(void **state)
{
    struct world *w = *state;

    lock_in_two_lives(w);
    for (int number = 9; number <= 21; number += 2)
        assert_int_equal(LOCK(w, .svid = number, .fh = "middle", .off = (uint64_t)number, .len = 1,
                              .state = number),
                         GRANTED);
    assert_int_equal(LOCK(w, .fh = "newest", .state = 23), GRANTED);
    world_restart(w);
    assert_int_equal(LOCK(w, .fh = "newest", .reclaim = true), GRANTED);
    notice(w, 17); /* the oldest life that is told apart: its locks and later ones stay */
    assert_true(is_free(w, "old"));
    assert_true(is_free(w, "new"));
    assert_int_equal(world_status(w).locks, 4); /* the locks of 17, 19, 21 and 23 */
    assert_false(is_free(w, "newest"));
    notice(w, 23);
    assert_true(is_free(w, "middle"));
    assert_false(is_free(w, "newest"));
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, open_world, close_world)
    const struct CMUnitTest tests[] = {
        T(a_late_notice_spares_what_was_reclaimed),
        T(a_late_notice_spares_what_is_to_be_reclaimed),
        T(a_late_notice_without_recorded_locks),
        T(lives_are_counted_over_many_restarts),
        T(the_record_tells_lives_apart_for_as_long_as_needed),
        T(a_release_of_all_ends_former_lives),
        T(a_refuted_notice_leaves_one_life),
        T(a_forged_notice_that_our_restart_cut_off),
        T(a_late_free_all_changes_nothing_when_repeated),
        T(what_is_reclaimed_after_a_notice_stays),
        T(a_failed_commit_leaves_no_life_unrecorded),
        T(a_notice_that_our_restart_cut_off_is_repeated),
        T(a_release_in_slices_that_was_cut_off),
        T(a_reclaim_that_tells_a_state_is_recorded),
        T(an_unmonitored_lock_over_a_recorded_one),
        T(a_state_that_was_told_late),
        T(a_repeat_of_the_new_life_in_strict_grace),
        T(many_lives_before_a_notice),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
