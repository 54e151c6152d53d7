/* Corner cases: lack of memory at one certain point, late and repeated reports, damaged records. */
#include "core_world.h"

enum { GRANTED = HF_STAT_GRANTED, DENIED = HF_STAT_DENIED, BLOCKED = HF_STAT_BLOCKED };

static const struct hf_mon_args monitor = {
    {(const uint8_t *)"10.0.0.7", 8}, {(const uint8_t *)"me", 2}, 100021, 3, 16, {1}};

/* Fills the batch completely with deletions, the smallest of records. */
static void use_up_memory(struct world *w)
{
    uint64_t at;

    for (at = 0; at < 50; at++)
        LOCK(w, .client = 1, .fh = "brim", .off = at * 2, .len = 1);
    w->by_hand = true;
    w->heap.after = 0;
    do
        assert_true(--at > 0);
    while (UNLOCK(w, .client = 1, .fh = "brim", .off = at * 2, .len = 1) == HF_STAT_GRANTED);
}

/* Every operation that changes something durable is refused without memory, and works with it. */
static void refused_without_memory(void **state)
{
    struct world *w = *state;
    struct hf_peer peer = world_peer(w, 1);
    struct hf_addr addr = world_addr(33);
    struct hf_view_client rows[4];
    uint64_t cursor = 0;
    struct hf_ticket wait;

    hf_core_sm_mon(w->core, w->now, &peer, &monitor);
    LOCK(w, .client = 1, .fh = "brim");
    UNLOCK(w, .client = 1, .fh = "brim");
    LOCK(w, .client = 2, .fh = "g");
    hf_core_view_clients(w->core, &cursor, UINT64_MAX, rows, 4);
    use_up_memory(w);
    assert_int_equal(hf_core_client_learn(w->core, w->now, rows[0].record.id, &addr), HF_ENOMEM);
    assert_false(hf_core_sm_unmon(w->core, w->now, &peer, &monitor).ok);
    assert_false(hf_core_sm_unmon_all(w->core, w->now, &peer, &monitor).ok);
    assert_int_equal(hf_core_free_all(w->core, w->now, &peer, 0, false).stat,
                     HF_STAT_DENIED_NOLOCKS);
    assert_int_equal(UNLOCK(w, .client = 2, .fh = "g"), HF_STAT_DENIED_NOLOCKS);
    assert_int_equal(hf_core_release_file(w->core, w->now, hf_bytes_str("g"), &wait), HF_ENOMEM);
    peer = world_peer(w, 2);
    assert_int_equal(hf_core_release_client(w->core, w->now, rows[2].record.id, &wait), HF_ENOMEM);
    world_check(w);
    w->heap.after = -1;
    world_commit(w);
    assert_int_equal(hf_core_client_learn(w->core, w->now, rows[0].record.id, &addr), 0);
    assert_int_equal(UNLOCK(w, .client = 2, .fh = "g"), GRANTED);
    world_commit(w);
    assert_int_equal(world_status(w).nsm_clients, 1);
}

/* The linger time ends while there is no memory: the registration is removed later. */
static void linger_without_memory(void **state)
{
    struct world *w = *state;

    LOCK(w, .client = 2, .fh = "g");
    UNLOCK(w, .client = 2, .fh = "g");
    LOCK(w, .client = 1);
    use_up_memory(w);
    world_later(w, 300000);
    w->heap.after = -1;
    world_commit(w);
    assert_int_equal(world_count(w, HF_RECORD_CLIENT), 2);
    world_later(w, 300000);
    world_commit(w);
    assert_int_equal(world_count(w, HF_RECORD_CLIENT), 1);
}

/* A crash and the end of grace are completed as soon as there is memory again. */
static void crash_and_grace_without_memory(void **state)
{
    struct world *w = *state;
    struct hf_addr from = world_addr(2);

    LOCK(w, .client = 2, .fh = "g");
    LOCK(w, .client = 1);
    use_up_memory(w);
    hf_core_sm_notify(w->core, w->now, &from, hf_bytes_str("client2"), 5, false);
    world_check(w);
    assert_int_equal(TEST(w, .client = 3, .fh = "g"), DENIED);
    w->heap.after = -1;
    world_commit(w);
    world_later(w, 1000);
    assert_int_equal(TEST(w, .client = 3, .fh = "g"), GRANTED);
    world_commit(w);
    world_restart(w);
    world_commit(w);
    w->heap.after = 0;
    hf_core_grace_end(w->core, w->now);
    world_check(w);
    w->heap.after = -1;
    world_later(w, 1000);
    world_commit(w);
    assert_int_equal(world_status(w).locks, 0);
}

/* A denied callback whose lock cannot be taken back for lack of memory is made again. */
static void denied_callback_without_memory(void **state)
{
    struct world *w = *state;
    struct hf_outcall_attempt call;

    LOCK(w, .client = 2, .fh = "g");
    LOCK(w, .client = 3, .fh = "g", .block = true);
    UNLOCK(w, .client = 2, .fh = "g");
    LOCK(w, .client = 1);
    call = world_call_of(w, HF_OUTCALL_GRANTED);
    use_up_memory(w);
    hf_core_outcall_done(w->core, w->now, call.id, HF_OUTCALL_DENIED, 0);
    hf_core_outcall_done(w->core, w->now, call.id, HF_OUTCALL_DENIED, 0); /* one report too many */
    w->heap.after = -1;
    world_commit(w);
    world_later(w, 5000);
    call = world_call_of(w, HF_OUTCALL_GRANTED);
    world_called(w, call.id, HF_OUTCALL_DENIED);
    world_commit(w);
    assert_int_equal(TEST(w, .client = 2, .fh = "g"), GRANTED);
}

/* An attempt that took its whole time is followed by the next at once. */
static void slow_failure(void **state)
{
    struct world *w = *state;
    struct hf_peer peer = world_peer(w, 1);
    struct hf_outcall_attempt call;

    LOCK(w, .client = 1);
    world_restart(w);
    call = world_call_of(w, HF_OUTCALL_NOTIFY);
    /* This answer is to a notice, not to a grant. */
    hf_core_granted_res(w->core, w->now, &peer, call.id, true);
    w->now.mono_ms += 5000;
    world_called(w, call.id, HF_OUTCALL_FAILED);
    assert_int_equal(world_call_of(w, HF_OUTCALL_NOTIFY).attempt, 2);
}

/* If a restart of a host is undone, the monitor that waits for such news is not called. */
static void told_of_what_was_undone(void **state)
{
    struct world *w = *state;
    struct hf_peer peer = world_peer(w, 1);
    struct hf_addr from = world_addr(7);

    hf_core_sm_mon(w->core, w->now, &peer, &monitor);
    world_step(w);
    w->by_hand = true;
    hf_core_sm_notify(w->core, w->now, &from, hf_bytes_str("10.0.0.7"), 3, false);
    assert_int_equal(world_call_of(w, HF_OUTCALL_STATUS).id, 0); /* not durable yet */
    assert_true(world_commit_one(w, HF_EIO));
    world_commit(w);
    assert_int_equal(world_call_of(w, HF_OUTCALL_STATUS).id, 0);
    hf_core_sm_notify(w->core, w->now, &from, hf_bytes_str("10.0.0.7"), 3, false);
    world_commit(w);
    assert_int_equal(world_call_of(w, HF_OUTCALL_STATUS).state, 3);
}

/* Whichever allocation fails in a new client's first LOCK, neither the client nor anything else of
 * it is left behind. */
static void a_first_lock_without_memory_leaves_nothing(void **state)
{
    struct world *w = *state;
    int failed = 0;

    for (int after = 0;; after++) {
        enum hf_stat stat;

        world_forget(w);
        world_restart(w);
        w->heap.after = after;
        stat = LOCK(w, .client = 1);
        w->heap.after = -1;
        if (stat == HF_STAT_GRANTED)
            break;
        assert_int_equal(stat, HF_STAT_DENIED_NOLOCKS);
        assert_int_equal(world_status(w).nlm_clients, 0);
        assert_int_equal(world_status(w).locks, 0);
        failed++;
    }
    assert_true(failed >= 3);
}

/* Hundreds of locks are released in one batch, and come back when it fails. */
static void many_undone_at_once(void **state)
{
    struct world *w = *state;
    struct hf_peer peer = world_peer(w, 1);

    for (uint64_t i = 0; i < 300; i++)
        LOCK(w, .client = 1, .off = 2 * i, .len = 1, .shared = i % 2);
    w->by_hand = true;
    hf_core_free_all(w->core, w->now, &peer, 0, false);
    assert_int_equal(world_status(w).locks, 0);
    world_commit_one(w, HF_EIO);
    assert_int_equal(world_status(w).locks, 300);
    assert_int_equal(LOCK(w, .client = 2, .off = 596, .len = 1, .shared = true), DENIED);
    assert_int_equal(LOCK(w, .client = 2, .off = 2, .len = 1, .shared = true), GRANTED);
    assert_int_equal(LOCK(w, .client = 1, .off = 0, .len = 700), DENIED); /* client 2 reads */
}

/* A page that is full ends, and the next one continues there. */
static void full_pages(void **state)
{
    struct world *w = *state;
    struct hf_view_waiter waiter;
    struct hf_view_share share;
    uint64_t cursor = 0;
    size_t n = 0;

    LOCK(w, .client = 1);
    for (int i = 2; i < 6; i++) {
        LOCK(w, .client = i, .block = true);
        SHARE(w, .client = i, .oh = "");
    }
    CANCEL(w, .client = 3);
    while (hf_core_view_waiters(w->core, &cursor, UINT64_MAX, &waiter, 1) == 1)
        n++;
    assert_int_equal(n, 3);
    cursor = n = 0;
    while (hf_core_view_shares(w->core, &cursor, UINT64_MAX, &share, 1) == 1)
        n++;
    assert_int_equal(n, 4);
    assert_int_equal(SHARE(w, .client = 2, .oh = "", .access = 1), GRANTED);
    world_restart(w);
    w->now.mono_ms += 100000; /* no tick has come in this time */
    assert_int_equal(world_status(w).grace_remaining_ms, 0);
}

/* SM_MON registrations that differ in one part of the identity are different registrations. */
static void monitors_differ_in_each_part(void **state)
{
    struct world *w = *state;
    struct hf_peer peer = world_peer(w, 1);
    struct hf_mon_args args = monitor;

    hf_core_sm_mon(w->core, w->now, &peer, &args);
    args.prog++;
    hf_core_sm_mon(w->core, w->now, &peer, &args);
    args.vers++;
    hf_core_sm_mon(w->core, w->now, &peer, &args);
    args.my_name = hf_bytes_str("you");
    hf_core_sm_mon(w->core, w->now, &peer, &args);
    args.mon_name = hf_bytes_str("10.0.0.8");
    hf_core_sm_mon(w->core, w->now, &peer, &args);
    peer.transport = HF_TRANSPORT_UDP; /* this updates the registration, and so do the next two */
    hf_core_sm_mon(w->core, w->now, &peer, &args);
    peer.local = world_addr(251);
    hf_core_sm_mon(w->core, w->now, &peer, &args);
    args.priv[0]++;
    hf_core_sm_mon(w->core, w->now, &peer, &args);
    world_step(w);
    assert_int_equal(world_status(w).nsm_clients, 5);
    args = monitor;
    args.vers++;
    hf_core_sm_unmon_all(w->core, w->now, &peer, &args);
    args = monitor;
    args.proc++;
    hf_core_sm_unmon_all(w->core, w->now, &peer, &args);
    args = monitor;
    args.my_name = hf_bytes_str("who");
    hf_core_sm_unmon_all(w->core, w->now, &peer, &args);
    world_step(w);
    assert_int_equal(world_status(w).nsm_clients, 5);
}

/* Records with any byte changed, or cut anywhere, are loaded or refused, never believed. */
static void damaged_records(void **state)
{
    struct world *w = *state;
    struct hf_peer peer = world_peer(w, 3);
    unsigned refused = 0;

    hf_core_sm_mon(w->core, w->now, &peer, &monitor);
    LOCK(w, .client = 1);
    world_crash(w);
    for (unsigned i = 0; i < w->records.count; i++) {
        const struct stored_record *record = w->records.at[i];

        for (size_t at = 0; at < 2 * record->len; at++) {
            uint8_t bytes[4096];
            size_t len = at < record->len ? at : record->len;
            memcpy(bytes, record->value, record->len);
            if (at >= record->len)
                bytes[at - record->len] ^= 0xff;
            w->core = hf_core_new(&w->config, &w->alloc);
            for (unsigned k = 0; k < w->records.count; k++) {
                const struct stored_record *other = w->records.at[k];
                if (other->kind == HF_RECORD_CLIENT && k != i)
                    hf_core_load(w->core, HF_RECORD_CLIENT, record_bytes(other));
            }
            refused += hf_core_load(w->core, record->kind, hf_bytes(bytes, len)) < 0;
            hf_core_verify_invariants(w->core);
            world_crash(w);
        }
    }
    assert_true(refused > 100);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, open_world, close_world)
    const struct CMUnitTest tests[] = {
        T(refused_without_memory),
        T(linger_without_memory),
        T(crash_and_grace_without_memory),
        T(denied_callback_without_memory),
        T(slow_failure),
        T(told_of_what_was_undone),
        T(many_undone_at_once),
        T(a_first_lock_without_memory_leaves_nothing),
        T(full_pages),
        T(monitors_differ_in_each_part),
        T(damaged_records),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
