/*
 * What a start means: one test for each row of the tables in SPEC section 14 (NSM-06, NSM-07,
 * GRC-01, DUR-02, DUR-03). Each is a run with one configuration, its end, and a start with another.
 */
#include "core_world.h"

enum { GRANTED = HF_STAT_GRANTED, DENIED = HF_STAT_DENIED, IN_GRACE = HF_STAT_DENIED_GRACE_PERIOD };

enum how { KILLED, STOPPED };

static void set_durability(struct world *w, enum hf_durability durability)
{
    w->config.durable_locks = durability != HF_DURABILITY_NONE;
    w->config.unflushed = durability == HF_DURABILITY_PROCESS;
}

/* Makes a run with this role and durability, in boot 1. */
static void run_before(struct world *w, enum hf_role role, enum hf_durability durability)
{
    world_crash(w);
    world_forget(w);
    w->config.boot_id[0] = 1;
    w->config.role = role;
    set_durability(w, durability);
    world_start(w);
}

static void end_run(struct world *w, enum how how)
{
    if (how == STOPPED) {
        hf_core_stop(w->core, w->now);
        world_commit(w);
    }
    world_crash(w);
    w->now.mono_ms += 100;
}

static void start_as(struct world *w, enum hf_role role, enum hf_durability durability,
                     uint8_t boot)
{
    w->config.boot_id[0] = boot;
    w->config.role = role;
    set_durability(w, durability);
    world_start(w);
}

/* Registers a host as a program of this host does, such as its kernel. */
static void monitor(struct world *w, const char *name)
{
    struct hf_peer peer = world_peer(w, 200);
    struct hf_mon_args args = {
        .mon_name = hf_bytes_str(name), .my_name = hf_bytes_str("here"), 100021, 4, 16};

    assert_true(hf_core_sm_mon(w->core, w->now, &peer, &args).ok);
    world_step(w);
}

/* Counts the hosts that are told of our restart; each answers. */
static unsigned told(struct world *w)
{
    struct hf_outcall_attempt call;
    unsigned n = 0;

    while (hf_core_next_outcall(w->core, w->now, &call)) {
        n += call.kind == HF_OUTCALL_NOTIFY;
        world_called(w, call.id, HF_OUTCALL_ACCEPTED);
    }
    return n;
}

static int32_t number(struct world *w)
{
    return world_status(w).state;
}

static const enum hf_durability DURABILITIES[] = {HF_DURABILITY_NONE, HF_DURABILITY_PROCESS,
                                                  HF_DURABILITY_FULL};

/* ---- the state number ---- */

/* NSM-06c: a monitor that starts again in the same boot sends no notice, however it was stopped and
 * however often: the kernel's locks have not ended. */
static void monitor_keeps_its_number_within_a_boot(void **state)
{
    static const enum how hows[] = {KILLED, STOPPED, KILLED};
    struct world *w = *state;
    int32_t before;

    run_before(w, HF_ROLE_MONITOR, HF_DURABILITY_FULL);
    monitor(w, "10.0.0.9");
    before = number(w);
    for (size_t i = 0; i < HF_COUNT_OF(hows); i++) {
        end_run(w, hows[i]);
        start_as(w, HF_ROLE_MONITOR, DURABILITIES[i], 1);
        assert_int_equal(told(w), 0);
        assert_int_equal(number(w), before);
        assert_int_equal(hf_core_sm_stat(w->core).state, before);
        assert_false(world_status(w).grace_active);
    }
    monitor(w, "10.0.0.10"); /* the registration has an id of its own */
    assert_int_equal(world_count(w, HF_RECORD_CLIENT), 2);
}

/* The host was booted, so the kernel's locks have ended, and each host is told, once. */
static void monitor_tells_of_a_boot_once(void **state)
{
    struct world *w = *state;
    int32_t before;

    run_before(w, HF_ROLE_MONITOR, HF_DURABILITY_FULL);
    monitor(w, "10.0.0.9");
    before = number(w);
    end_run(w, STOPPED);
    start_as(w, HF_ROLE_MONITOR, HF_DURABILITY_FULL, 2);
    assert_true(number(w) > before);
    monitor(w, "10.0.0.10"); /* a host that registers after the boot has no earlier lock to lose */
    assert_int_equal(told(w), 1);
    end_run(w, KILLED);
    start_as(w, HF_ROLE_MONITOR, HF_DURABILITY_FULL, 2);
    assert_int_equal(told(w), 0);
}

/* The daemon is killed before a host has answered: the next start in that boot goes on telling it.
 */
static void monitor_goes_on_to_tell_of_a_boot(void **state)
{
    struct world *w = *state;
    struct hf_outcall_attempt call;
    int32_t after;

    run_before(w, HF_ROLE_MONITOR, HF_DURABILITY_FULL);
    monitor(w, "10.0.0.9");
    end_run(w, KILLED);
    start_as(w, HF_ROLE_MONITOR, HF_DURABILITY_FULL, 2);
    after = number(w);
    call = world_call_of(w, HF_OUTCALL_NOTIFY);
    assert_int_equal(call.state, after);
    world_called(w, call.id, HF_OUTCALL_FAILED);
    for (int i = 0; i < 2; i++) {
        end_run(w, KILLED);
        start_as(w, HF_ROLE_MONITOR, HF_DURABILITY_FULL, 2);
        assert_int_equal(number(w), after);
    }
    assert_int_equal(told(w), 1);
    end_run(w, KILLED);
    start_as(w, HF_ROLE_MONITOR, HF_DURABILITY_FULL, 2);
    assert_int_equal(told(w), 0);
}

/* If the boot is unknown, the host may have been booted. */
static void unknown_boot_is_another(void **state)
{
    struct world *w = *state;

    run_before(w, HF_ROLE_MONITOR, HF_DURABILITY_FULL);
    monitor(w, "10.0.0.9");
    end_run(w, KILLED);
    start_as(w, HF_ROLE_MONITOR, HF_DURABILITY_FULL, 0);
    assert_int_equal(told(w), 1);
    end_run(w, KILLED);
    start_as(w, HF_ROLE_MONITOR, HF_DURABILITY_FULL, 0);
    assert_int_equal(told(w), 1);
}

/* SM_SIMU_CRASH makes the monitor tell each host, in the same boot. */
static void simulated_crash_tells_all(void **state)
{
    struct world *w = *state;
    int32_t before;

    run_before(w, HF_ROLE_MONITOR, HF_DURABILITY_FULL);
    monitor(w, "10.0.0.9");
    before = number(w);
    hf_core_simu_crash(w->core, w->now);
    world_step(w);
    assert_true(number(w) > before);
    assert_int_equal(told(w), 1);
    before = number(w);
    end_run(w, KILLED);
    start_as(w, HF_ROLE_MONITOR, HF_DURABILITY_FULL, 1);
    assert_int_equal(number(w), before);
    assert_int_equal(told(w), 0);
}

/* NSM-06b: locks that the daemon serves end with it: each start has a new number, in each role that
 * it changes to or from, and all hosts are told. */
static void lock_service_has_a_new_number_at_each_start(void **state)
{
    static const enum hf_role roles[] = {HF_ROLE_LOCKS, HF_ROLE_LOCKS, HF_ROLE_MONITOR,
                                         HF_ROLE_LOCKS};
    static const enum how hows[] = {KILLED, STOPPED, KILLED, STOPPED};
    struct world *w = *state;

    run_before(w, HF_ROLE_LOCKS, HF_DURABILITY_FULL);
    LOCK(w, .client = 1);
    monitor(w, "10.0.0.9");
    for (size_t i = 0; i < HF_COUNT_OF(roles); i++) {
        int32_t before = number(w);

        end_run(w, hows[i]);
        start_as(w, roles[i], HF_DURABILITY_FULL, 1);
        assert_true(number(w) > before);
        assert_int_equal(told(w), 2);
        assert_true(world_status(w).grace_active);
    }
    assert_int_equal(LOCK(w, .client = 1, .reclaim = true), GRANTED);
}

/* NSM-06e: A run that ended before its epoch was durable has promised nothing: the next start takes
 * its number, and tells each host what that run would have told. */
static void run_that_was_not_recorded_leaves_no_trace(void **state)
{
    static const enum hf_role roles[] = {HF_ROLE_LOCKS, HF_ROLE_MONITOR};
    struct world *w = *state;

    for (size_t i = 0; i < HF_COUNT_OF(roles); i++) {
        int32_t before;

        run_before(w, roles[i], HF_DURABILITY_FULL);
        monitor(w, "10.0.0.9");
        before = number(w);
        w->by_hand = true;
        for (int n = 0; n < 3; n++) {
            end_run(w, KILLED);
            start_as(w, roles[i], HF_DURABILITY_FULL, 2);
            assert_int_equal(told(w), 0);
            assert_int_not_equal(hf_core_sm_stat(w->core).ticket.seq, 0); /* not answered yet */
        }
        w->by_hand = false;
        world_step(w);
        assert_int_equal(number(w), before + 2);
        assert_int_equal(told(w), 1);
    }
}

/* ---- locks that are not recorded ---- */

/* Durability before and now, how the earlier run ended, the boot now; and whether locks may be
 * unknown. */
struct row {
    enum hf_durability before, now;
    enum how how;
    uint8_t boot;
    bool unknown;
};

static const struct row ROWS[] = {
    {HF_DURABILITY_NONE, HF_DURABILITY_FULL, KILLED, 1, true},
    {HF_DURABILITY_NONE, HF_DURABILITY_FULL, STOPPED, 1, true},
    {HF_DURABILITY_NONE, HF_DURABILITY_PROCESS, KILLED, 1, true},
    {HF_DURABILITY_NONE, HF_DURABILITY_PROCESS, STOPPED, 2, true},
    {HF_DURABILITY_NONE, HF_DURABILITY_NONE, KILLED, 1, true},
    {HF_DURABILITY_PROCESS, HF_DURABILITY_NONE, STOPPED, 1, true},
    {HF_DURABILITY_FULL, HF_DURABILITY_NONE, KILLED, 1, true},
    {HF_DURABILITY_PROCESS, HF_DURABILITY_PROCESS, KILLED, 1, false},
    {HF_DURABILITY_PROCESS, HF_DURABILITY_PROCESS, KILLED, 2, true},
    {HF_DURABILITY_PROCESS, HF_DURABILITY_PROCESS, STOPPED, 2, false},
    {HF_DURABILITY_PROCESS, HF_DURABILITY_FULL, KILLED, 1, false},
    {HF_DURABILITY_PROCESS, HF_DURABILITY_FULL, KILLED, 2, true},
    {HF_DURABILITY_PROCESS, HF_DURABILITY_FULL, KILLED, 0, true},
    {HF_DURABILITY_PROCESS, HF_DURABILITY_FULL, STOPPED, 2, false},
    {HF_DURABILITY_FULL, HF_DURABILITY_PROCESS, KILLED, 2, false},
    {HF_DURABILITY_FULL, HF_DURABILITY_FULL, KILLED, 2, false},
    {HF_DURABILITY_FULL, HF_DURABILITY_FULL, STOPPED, 1, false},
};

/* Client 1 holds a lock on f. In each row, no other client gets it, and its holder does. Where
 * locks may be unknown, no client gets any other lock either, not even in conflict mode. */
static void holder_keeps_its_lock(struct world *w, const struct row *row, enum hf_grace_mode mode)
{
    w->config.grace_mode = HF_GRACE_STRICT;
    run_before(w, HF_ROLE_LOCKS, row->before);
    assert_int_equal(LOCK(w, .client = 1), GRANTED);
    end_run(w, row->how);
    w->config.grace_mode = row->now == HF_DURABILITY_NONE ? HF_GRACE_STRICT : mode;
    start_as(w, HF_ROLE_LOCKS, row->now, row->boot);
    assert_true(world_status(w).grace_active);
    assert_int_equal(told(w), 1);
    assert_int_equal(LOCK(w, .client = 2), IN_GRACE);
    assert_int_equal(LOCK(w, .client = 2, .reclaim = true), DENIED);
    if (row->unknown)
        assert_int_equal(LOCK(w, .client = 2, .fh = "g"), IN_GRACE);
    assert_int_equal(LOCK(w, .client = 1, .reclaim = true), GRANTED);
    assert_int_equal(world_status(w).grace_active, row->unknown); /* more such locks may exist */
    world_later(w, w->config.grace_ms);
    assert_false(world_status(w).grace_active);
    assert_int_equal(LOCK(w, .client = 2), DENIED);
    assert_int_equal(LOCK(w, .client = 2, .fh = "g"), GRANTED);
}

static void no_change_of_durability_costs_a_lock(void **state)
{
    struct world *w = *state;

    for (size_t i = 0; i < HF_COUNT_OF(ROWS); i++) {
        holder_keeps_its_lock(w, &ROWS[i], HF_GRACE_STRICT);
        holder_keeps_its_lock(w, &ROWS[i], HF_GRACE_CONFLICT);
    }
}

/* ADM-06: a client that does not come back is reported, whether its locks were recorded or not. */
static void what_is_lost_is_reported(void **state)
{
    struct world *w = *state;

    for (size_t i = 0; i < HF_COUNT_OF(ROWS); i++) {
        const struct hf_counters *counters;

        w->config.grace_mode = HF_GRACE_STRICT;
        run_before(w, HF_ROLE_LOCKS, ROWS[i].before);
        assert_int_equal(LOCK(w, .client = 1), GRANTED);
        end_run(w, ROWS[i].how);
        start_as(w, HF_ROLE_LOCKS, ROWS[i].now, ROWS[i].boot);
        assert_int_equal(told(w), 1);
        world_later(w, w->config.grace_ms);
        counters = hf_core_counters(w->core);
        assert_int_equal(counters->clients_lost[HF_LOSS_UNRECLAIMED], 1);
        assert_true(world_event(w, HF_EVENT_CLIENT_UNRECLAIMED, NULL));
        assert_int_equal(LOCK(w, .client = 2), GRANTED);
    }
}

/* DUR-02d: a start that is interrupted in its grace leaves the question to the next one, and to no
 * later one. */
static void unknown_locks_outlast_a_grace_that_was_cut_off(void **state)
{
    struct world *w = *state;

    run_before(w, HF_ROLE_LOCKS, HF_DURABILITY_NONE);
    LOCK(w, .client = 1);
    for (int i = 0; i < 3; i++) {
        end_run(w, i % 2 ? STOPPED : KILLED);
        start_as(w, HF_ROLE_LOCKS, HF_DURABILITY_FULL, 1);
        assert_int_equal(LOCK(w, .client = 2), IN_GRACE);
    }
    assert_int_equal(LOCK(w, .client = 1, .reclaim = true), GRANTED);
    world_later(w, w->config.grace_ms);
    end_run(w, KILLED);
    start_as(w, HF_ROLE_LOCKS, HF_DURABILITY_FULL, 1);
    assert_int_equal(LOCK(w, .client = 1, .fh = "g", .reclaim = true), DENIED);
    assert_int_equal(LOCK(w, .client = 1, .reclaim = true), GRANTED);
}

/* The first record of a run also deletes the lock records that this run does not use, even if the
 * store fails at first: their clients may be forgotten, and a lock without a client cannot be
 * loaded. */
static void unused_lock_records_go(void **state)
{
    struct world *w = *state;

    run_before(w, HF_ROLE_LOCKS, HF_DURABILITY_FULL);
    LOCK(w, .client = 1);
    end_run(w, KILLED);
    w->by_hand = true;
    start_as(w, HF_ROLE_LOCKS, HF_DURABILITY_NONE, 1);
    assert_true(world_commit_one(w, HF_EIO));
    assert_int_equal(world_count(w, HF_RECORD_LOCK), 1);
    w->by_hand = false;
    world_later(w, 1000);
    assert_int_equal(world_count(w, HF_RECORD_LOCK), 0);
    assert_int_equal(LOCK(w, .client = 1, .reclaim = true), GRANTED);
}

/* ---- records of earlier versions, and restored ones ---- */

/* Puts another server's record into the store of a run that has ended. */
static void rewrite_server(struct world *w, struct hf_record_server record)
{
    struct hf_batch batch;

    hf_batch_init(&batch, &hf_alloc_heap);
    assert_int_equal(hf_batch_put_server(&batch, &record), 0);
    records_apply(&w->records, &batch);
    hf_batch_free(&batch);
}

/* Version 1 does not say whether locks were recorded. Without any lock record, there may have been
 * unrecorded locks. */
static void old_record_without_locks_may_hide_some(void **state)
{
    struct world *w = *state;

    run_before(w, HF_ROLE_LOCKS, HF_DURABILITY_NONE);
    LOCK(w, .client = 1);
    end_run(w, KILLED);
    rewrite_server(w, (struct hf_record_server){.epoch = 1});
    start_as(w, HF_ROLE_LOCKS, HF_DURABILITY_FULL, 1);
    assert_int_equal(number(w), 3);
    assert_int_equal(told(w), 1);
    assert_int_equal(LOCK(w, .client = 2), IN_GRACE);
    assert_int_equal(LOCK(w, .client = 1, .reclaim = true), GRANTED);
}

static void old_record_with_locks_knows_all_of_them(void **state)
{
    struct world *w = *state;

    run_before(w, HF_ROLE_LOCKS, HF_DURABILITY_FULL);
    LOCK(w, .client = 1);
    end_run(w, KILLED);
    rewrite_server(w, (struct hf_record_server){.epoch = 1});
    start_as(w, HF_ROLE_LOCKS, HF_DURABILITY_FULL, 1);
    assert_int_equal(LOCK(w, .client = 1, .fh = "g", .reclaim = true), DENIED);
    assert_int_equal(LOCK(w, .client = 1, .reclaim = true), GRANTED);
}

/* A record of version 2: locks were not flushed, and the boot is another one. */
static void old_record_of_a_host_that_crashed(void **state)
{
    struct world *w = *state;

    run_before(w, HF_ROLE_LOCKS, HF_DURABILITY_PROCESS);
    LOCK(w, .client = 1);
    LOCK(w, .client = 1, .fh = "g");
    end_run(w, KILLED);
    rewrite_server(w, (struct hf_record_server){.epoch = 1, .boot_id = {1}});
    start_as(w, HF_ROLE_LOCKS, HF_DURABILITY_FULL, 2);
    assert_int_equal(LOCK(w, .client = 1, .fh = "h", .reclaim = true), GRANTED);
}

/* The first start after an upgrade cannot know the boot, and tells each host once more. */
static void old_record_of_a_monitor(void **state)
{
    struct world *w = *state;

    run_before(w, HF_ROLE_MONITOR, HF_DURABILITY_FULL);
    monitor(w, "10.0.0.9");
    end_run(w, STOPPED);
    rewrite_server(w, (struct hf_record_server){.epoch = 1, .clean = true});
    start_as(w, HF_ROLE_MONITOR, HF_DURABILITY_FULL, 1);
    assert_int_equal(told(w), 1);
    end_run(w, STOPPED);
    start_as(w, HF_ROLE_MONITOR, HF_DURABILITY_FULL, 1);
    assert_int_equal(told(w), 0);
}

/* GRC-03c: a first start has nothing to lose, whatever the configuration says. */
static void first_start_has_no_grace(void **state)
{
    struct world *w = *state;

    for (size_t i = 0; i < HF_COUNT_OF(DURABILITIES); i++) {
        run_before(w, HF_ROLE_LOCKS, DURABILITIES[i]);
        assert_false(world_status(w).grace_active);
        assert_int_equal(number(w), 1);
        assert_int_equal(LOCK(w, .client = 1), GRANTED);
    }
}

#define T(f) cmocka_unit_test_setup_teardown(f, open_world, close_world)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(monitor_keeps_its_number_within_a_boot),
        T(monitor_tells_of_a_boot_once),
        T(monitor_goes_on_to_tell_of_a_boot),
        T(unknown_boot_is_another),
        T(simulated_crash_tells_all),
        T(lock_service_has_a_new_number_at_each_start),
        T(run_that_was_not_recorded_leaves_no_trace),
        T(no_change_of_durability_costs_a_lock),
        T(what_is_lost_is_reported),
        T(unknown_locks_outlast_a_grace_that_was_cut_off),
        T(unused_lock_records_go),
        T(old_record_without_locks_may_hide_some),
        T(old_record_with_locks_knows_all_of_them),
        T(old_record_of_a_host_that_crashed),
        T(old_record_of_a_monitor),
        T(first_start_has_no_grace),
    };
    return cmocka_run_group_tests_name("core_start", tests, NULL, NULL);
}
