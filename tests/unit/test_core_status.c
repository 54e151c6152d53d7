/* NSM: registrations, restarts of others, notices of ours, crashes; and the view on all of it. */
#include "core_world.h"

enum { GRANTED = HF_STAT_GRANTED, DENIED = HF_STAT_DENIED, BLOCKED = HF_STAT_BLOCKED };

static struct hf_mon_args mon_of(const char *host)
{
    return (struct hf_mon_args){hf_bytes_str(host), hf_bytes_str("kernel"), 100021, 3, 16, {42}};
}

static struct hf_sm_answer mon(struct world *w, const char *host)
{
    struct hf_peer peer = world_peer(w, 100);
    struct hf_mon_args args = mon_of(host);
    struct hf_sm_answer a = hf_core_sm_mon(w->core, w->now, &peer, &args);

    world_step(w);
    return a;
}

static uint64_t notify(struct world *w, int from, const char *name, int32_t state)
{
    struct hf_addr addr = world_addr(from);
    uint64_t seq =
        hf_core_sm_notify(w->core, w->now, &addr, hf_bytes_str(name), state, false).ticket.seq;

    world_step(w);
    return seq;
}

/* NSM-03a, NSM-02c, -03, -04: a registration is durable, unique, updated in place, and removed by
 * its identity. */
static void registrations(void **state)
{
    struct world *w = *state;
    struct hf_peer peer = world_peer(w, 100);
    struct hf_mon_args args = mon_of("SERVER9.example");
    struct hf_sm_answer a = mon(w, "server9.example");

    assert_true(a.ok && a.ticket.seq != 0 && a.state == 1);
    assert_true(mon(w, "server9.example").ok);
    /* Upper and lower case are equal. */
    assert_true(hf_core_sm_mon(w->core, w->now, &peer, &args).ok);
    assert_int_equal(world_count(w, HF_RECORD_CLIENT), 1);
    args.proc = 17;
    assert_true(hf_core_sm_mon(w->core, w->now, &peer, &args).ok);
    assert_int_equal(world_status(w).nsm_clients, 2);
    args.my_name = hf_bytes_str("other");
    hf_core_sm_unmon(w->core, w->now, &peer, &args); /* no such registration */
    args.my_name = hf_bytes_str("kernel");
    peer.addr = world_addr(101);
    hf_core_sm_unmon(w->core, w->now, &peer, &args); /* not from there */
    assert_int_equal(world_status(w).nsm_clients, 2);
    peer.addr = world_addr(100);
    assert_true(hf_core_sm_unmon(w->core, w->now, &peer, &args).ok);
    world_step(w);
    assert_int_equal(world_status(w).nsm_clients, 1);
    assert_int_equal(world_count(w, HF_RECORD_CLIENT), 1);
    mon(w, "server10");
    LOCK(w, .client = 1);
    args = mon_of("");
    assert_true(hf_core_sm_unmon_all(w->core, w->now, &peer, &args).ok);
    world_step(w);
    assert_int_equal(world_status(w).nsm_clients, 0);
    assert_int_equal(world_status(w).locks, 1); /* this touches no lock */
}

/* NSM-02: the limit is exact, an update still works, a cycle of MON and UNMON leaks no slot. */
static void registration_limit(void **state)
{
    static char long_name[HF_NAME_MAX + 2];
    struct world *w = *state;
    struct hf_peer peer = world_peer(w, 100);
    struct hf_mon_args args = mon_of("b");

    world_crash(w);
    w->config.limits.clients = 2;
    world_start(w);
    assert_true(mon(w, "a").ok && mon(w, "b").ok);
    assert_false(mon(w, "c").ok);
    assert_true(mon(w, "a").ok);
    for (int i = 0; i < 10; i++) {
        hf_core_sm_unmon(w->core, w->now, &peer, &args);
        world_step(w);
        assert_true(mon(w, "b").ok);
    }
    assert_int_equal(hf_core_counters(w->core)->limit_hits[HF_LIMIT_MONITORS], 1);
    assert_int_equal(LOCK(w, .client = 1), GRANTED); /* SM_MON takes no resources of NLM */
    memset(long_name, 'n', HF_NAME_MAX + 1);
    assert_false(mon(w, long_name).ok);
    assert_false(mon(w, "").ok);
    args.my_name = hf_bytes_str(long_name);
    assert_false(hf_core_sm_mon(w->core, w->now, &peer, &args).ok);
    args = mon_of("");
    assert_true(hf_core_sm_unmon(w->core, w->now, &peer, &args).ok);
}

/* NSM-05, CRS-01a: a client's restart frees all that it has, in all files, and serves the waiters.
 */
static void client_restart_frees_its_locks(void **state)
{
    struct world *w = *state;
    struct hf_event event;

    LOCK(w, .client = 1, .fh = "a", .state = 5);
    LOCK(w, .client = 1, .fh = "b", .nm = true);
    SHARE(w, .client = 1, .fh = "c", .mode = 3, .access = 3);
    LOCK(w, .client = 2, .fh = "d");
    LOCK(w, .client = 1, .fh = "d", .block = true);
    LOCK(w, .client = 3, .fh = "a", .block = true);
    assert_int_not_equal(notify(w, 1, "client1.example", 7), 0);
    assert_int_equal(world_status(w).locks, 2);
    assert_int_equal(world_status(w).waiters + world_status(w).shares, 0);
    assert_int_equal(hf_core_counters(w->core)->crashes_detected, 1);
    assert_int_equal(hf_core_counters(w->core)->locks_cleaned, 2);
    assert_true(world_event(w, HF_EVENT_CLIENT_CRASHED, &event));
    assert_int_equal(event.a, 7);
    assert_int_not_equal(world_call_of(w, HF_OUTCALL_GRANTED).id, 0);
    assert_int_equal(LOCK(w, .client = 1, .fh = "a2", .state = 7), GRANTED);
    /* The same notice once more, by the short name. */
    assert_int_equal(notify(w, 1, "client1", 7), 0);
    assert_int_equal(hf_core_counters(w->core)->notifies_in_repeated, 1);
    assert_int_equal(world_status(w).locks, 3);
}

/* NSM-05a: a notice from another address, with another name, or with an impossible state, changes
 * nothing. */
static void spoofed_and_senseless_notices(void **state)
{
    struct world *w = *state;
    static char long_name[HF_NAME_MAX + 2];

    memset(long_name, 'n', HF_NAME_MAX + 1);
    LOCK(w, .client = 1, .state = 5);
    notify(w, 66, "client1.example", 7);
    notify(w, 1, "somebody.else", 7);
    notify(w, 1, "client", 7);
    /* The name is an address, but not the one that the notice comes from. */
    notify(w, 1, "10.0.0.2", 7);
    assert_int_equal(hf_core_counters(w->core)->notifies_in_stranger, 4);
    assert_true(world_event(w, HF_EVENT_NOTIFY_STRANGER, NULL));
    notify(w, 1, "client1.example", 0);
    notify(w, 1, "client1.example", -7);
    notify(w, 1, "", 7);
    notify(w, 1, long_name, 7);
    assert_int_equal(hf_core_counters(w->core)->notifies_in_bad, 4);
    assert_int_equal(world_status(w).locks, 1);
    /* Named by its address, and going down, because the number is even. */
    notify(w, 1, "10.0.0.1", 8);
    assert_int_equal(world_status(w).locks, 0);
}

/* SPEC section 2, kind 1: the monitor of a host is told of the host's restart, with its private
 * bytes. */
static void monitor_is_told(void **state)
{
    struct world *w = *state;
    struct hf_outcall_attempt call;

    mon(w, "10.0.0.7");
    notify(w, 7, "whatever.name", 3); /* the host is monitored by its address, as Linux does */
    call = world_call_of(w, HF_OUTCALL_STATUS);
    assert_int_equal(call.prog, 100021);
    assert_int_equal(call.vers, 3);
    assert_int_equal(call.proc, 16);
    assert_int_equal(call.state, 3);
    assert_int_equal(call.priv[0], 42);
    assert_true(hf_bytes_equal(call.mon_name, hf_bytes_str("10.0.0.7")));
    struct hf_addr host = world_addr(100);
    assert_true(call.n_to == 1 && hf_addr_same_host(&call.to[0], &host));
    assert_int_equal(call.to[0].port, 0);
    world_called(w, call.id, HF_OUTCALL_FAILED); /* the call is repeated, with growing pauses */
    for (int i = 2; i < 6; i++) {
        world_later(w, hf_core_deadline(w->core) - w->now.mono_ms);
        call = world_call_of(w, HF_OUTCALL_STATUS);
        assert_int_equal(call.attempt, i);
        world_called(w, call.id, HF_OUTCALL_FAILED);
    }
    notify(w, 7, "whatever.name", 5); /* the host restarted again, so the calls begin anew */
    call = world_call_of(w, HF_OUTCALL_STATUS);
    assert_int_equal(call.attempt, 1);
    assert_int_equal(call.state, 5);
    world_called(w, call.id, HF_OUTCALL_ACCEPTED);
    assert_int_equal(world_call_of(w, HF_OUTCALL_STATUS).id, 0);
}

/* A host that is monitored by name is known by the addresses to which the name resolved, up to a
 * bound. */
static void monitored_by_name(void **state)
{
    struct world *w = *state;
    struct hf_view_client row;
    struct hf_addr addr = world_addr(7);
    uint64_t cursor = 0;

    mon(w, "server7.example");
    notify(w, 7, "server7", 3);
    assert_int_equal(hf_core_counters(w->core)->notifies_in_stranger, 1);
    hf_core_view_clients(w->core, &cursor, UINT64_MAX, &row, 1);
    assert_int_equal(hf_core_client_learn(w->core, w->now, 12345, &addr), HF_ENOENT);
    for (int i = 0; i < HF_CLIENT_ADDRS_MAX; i++) {
        addr = world_addr(7 + i);
        assert_int_equal(hf_core_client_learn(w->core, w->now, row.record.id, &addr), 0);
        assert_int_equal(hf_core_client_learn(w->core, w->now, row.record.id, &addr), 0);
    }
    world_step(w);
    addr = world_addr(99);
    assert_int_equal(hf_core_client_learn(w->core, w->now, row.record.id, &addr), HF_ELIMIT);
    notify(w, 9, "SERVER7", 3);
    assert_int_equal(world_call_of(w, HF_OUTCALL_STATUS).state, 3);
    world_restart(w); /* the addresses are durable, in their order */
    assert_int_equal(hf_core_view_client(w->core, row.record.id, &row), 0);
    assert_int_equal(row.record.n_addrs, HF_CLIENT_ADDRS_MAX);
    addr = world_addr(7);
    assert_true(hf_addr_same_host(&row.record.addrs[0], &addr));
    LOCK(w, .client = 1);
    cursor = 0;
    assert_int_equal(hf_core_client_learn(w->core, w->now, 0, &addr), HF_ENOENT);
}

/* An NLM client, an SM_MON about it and another client share one address: all are found by it. */
static void several_at_one_address(void **state)
{
    struct world *w = *state;
    struct hf_peer peer = world_peer(w, 101);
    struct hf_mon_args args = mon_of("10.0.0.1");
    struct hf_outcall_attempt call;
    unsigned calls = 0;

    mon(w, "10.0.0.1");
    LOCK(w, .client = 1);
    hf_core_sm_mon(w->core, w->now, &peer, &args);
    world_step(w);
    notify(w, 1, "client1", 9);
    assert_int_equal(world_status(w).locks, 0);
    while (hf_core_next_outcall(w->core, w->now, &call)) {
        world_called(w, call.id, HF_OUTCALL_ACCEPTED);
        calls++;
    }
    assert_int_equal(calls, 2);
    peer = world_peer(w, 100); /* one of them is removed; the others are still found */
    hf_core_sm_unmon(w->core, w->now, &peer, &args);
    world_step(w);
    notify(w, 1, "client1", 11);
    assert_int_equal(world_call_of(w, HF_OUTCALL_STATUS).state, 11);
}

/* Procedure 16: the server believes the local status monitor without verification. */
static void host_restarted(void **state)
{
    struct world *w = *state;

    LOCK(w, .client = 1, .state = 5);
    LOCK(w, .client = 2, .fh = "g", .state = 5);
    hf_core_host_restarted(w->core, w->now, hf_bytes_str("CLIENT1"),
                           7); /* another host may have that name */
    world_step(w);
    assert_int_equal(world_status(w).locks, 2);
    hf_core_host_restarted(w->core, w->now, hf_bytes_str("CLIENT1.example"), 7);
    world_step(w);
    assert_int_equal(world_status(w).locks, 1);
    hf_core_host_restarted(w->core, w->now, hf_bytes_str("10.0.0.2"), 7);
    world_step(w);
    assert_int_equal(world_status(w).locks, 0);
    assert_int_equal(
        hf_core_host_restarted(w->core, w->now, hf_bytes_str("10.0.0.2"), 0).ticket.seq, 0);
    hf_core_host_restarted(w->core, w->now, hf_bytes_str("nobody"), 7);
}

/* A LOCK with another state than the recorded one is a hint: it is counted and reported, but
 * releases nothing. */
static void state_hint(void **state)
{
    struct world *w = *state;
    struct hf_event event;

    LOCK(w, .client = 1, .state = 5);
    LOCK(w, .client = 1, .fh = "g", .state = 0);
    LOCK(w, .client = 1, .fh = "g", .state = 5);
    assert_int_equal(hf_core_counters(w->core)->state_hints, 0);
    LOCK(w, .client = 1, .fh = "h", .state = 7);
    assert_int_equal(hf_core_counters(w->core)->state_hints, 1);
    assert_true(world_event(w, HF_EVENT_STATE_HINT, &event));
    assert_int_equal(event.a, 7);
    assert_int_equal(event.b, 5);
    assert_int_equal(world_status(w).locks, 3);
}

static void notice_of_client_1(struct world *w, int32_t state)
{
    struct hf_addr from = world_addr(1);

    hf_core_sm_notify(w->core, w->now, &from, hf_bytes_str("client1.example"), state, false);
    world_step(w);
}

/* A LOCK of the old life that was in flight for long comes after the first LOCK of the new one. The
 * notice takes it as well, granted or waiting, and leaves what the new life holds, even if the
 * delayed LOCK asks for the same range or for one beside it. */
static void a_delayed_lock_of_the_old_life_goes_with_it(void **state)
{
    struct world *w = *state;

    LOCK(w, .client = 1, .fh = "old", .state = 5);
    LOCK(w, .client = 2, .fh = "busy");
    LOCK(w, .client = 1, .off = 10, .len = 10, .state = 7);
    assert_int_equal(LOCK(w, .client = 1, .fh = "late", .state = 5), GRANTED);
    assert_int_equal(LOCK(w, .client = 1, .fh = "late", .state = 5), GRANTED);
    assert_int_equal(LOCK(w, .client = 1, .off = 12, .len = 2, .state = 5), GRANTED);
    assert_int_equal(LOCK(w, .client = 1, .off = 20, .len = 5, .state = 5), GRANTED);
    assert_int_equal(LOCK(w, .client = 1, .fh = "busy", .block = true, .state = 5), BLOCKED);
    assert_int_equal(LOCK(w, .client = 1, .fh = "unknown", .state = 0), GRANTED);
    notice_of_client_1(w, 7);
    assert_int_equal(TEST(w, .client = 3, .fh = "old"), GRANTED);
    assert_int_equal(TEST(w, .client = 3, .fh = "late"), GRANTED);
    assert_int_equal(TEST(w, .client = 3, .off = 20), GRANTED);
    assert_int_equal(world_status(w).waiters, 0);
    assert_int_equal(TEST(w, .client = 3, .off = 10, .len = 1), DENIED);
    assert_int_equal(TEST(w, .client = 3, .off = 12, .len = 1), DENIED);
    assert_int_equal(TEST(w, .client = 3, .off = 19, .len = 1), DENIED);
    /* This lock may belong to the new life. */
    assert_int_equal(TEST(w, .client = 3, .fh = "unknown"), DENIED);
}

/* The new life unlocks the middle of a lock of the old one: both ends still belong to the old one.
 */
static void both_ends_of_a_lock_of_the_old_life_go(void **state)
{
    struct world *w = *state;

    LOCK(w, .client = 1, .off = 0, .len = 30, .state = 5);
    LOCK(w, .client = 1, .off = 10, .len = 10, .state = 7);
    UNLOCK(w, .client = 1, .off = 10, .len = 10);
    notice_of_client_1(w, 7);
    assert_int_equal(world_status(w).locks, 0);
}

/* The new life takes over what a delayed LOCK of the old one got: from then on the lock is its own.
 */
static void the_new_life_takes_over_a_delayed_lock(void **state)
{
    struct world *w = *state;

    LOCK(w, .client = 1, .fh = "old", .state = 5);
    LOCK(w, .client = 1, .fh = "new", .state = 7);
    LOCK(w, .client = 1, .off = 0, .len = 10, .state = 5);
    assert_int_equal(LOCK(w, .client = 1, .off = 0, .len = 5, .state = 7), GRANTED);

    /* A waiter is granted over what the new life has got meanwhile. */
    LOCK(w, .client = 2, .off = 29, .len = 1);
    assert_int_equal(LOCK(w, .client = 1, .off = 20, .len = 10, .block = true, .state = 5),
                     BLOCKED);
    LOCK(w, .client = 1, .off = 20, .len = 5, .state = 7);
    UNLOCK(w, .client = 2);
    notice_of_client_1(w, 7);
    assert_int_equal(TEST(w, .client = 3, .off = 4, .len = 1), DENIED);
    assert_int_equal(TEST(w, .client = 3, .off = 5, .len = 15), GRANTED);
    assert_int_equal(TEST(w, .client = 3, .off = 24, .len = 1), DENIED);
}

/* A lock for which a delayed LOCK waited goes with the old life, too, even when the release fails
 * at first. */
static void a_delayed_lock_that_waited_goes_when_a_commit_works(void **state)
{
    struct world *w = *state;

    LOCK(w, .client = 1, .fh = "old", .state = 5);
    LOCK(w, .client = 2, .fh = "busy");
    LOCK(w, .client = 1, .fh = "new", .state = 7);
    assert_int_equal(LOCK(w, .client = 1, .fh = "busy", .block = true, .state = 5), BLOCKED);
    UNLOCK(w, .client = 2, .fh = "busy");
    assert_int_equal(TEST(w, .client = 3, .fh = "busy"), DENIED);
    w->by_hand = true;
    notice_of_client_1(w, 7);
    assert_true(world_commit_one(w, HF_EIO));
    assert_int_equal(TEST(w, .client = 3, .fh = "busy"), DENIED);
    w->by_hand = false;
    world_later(w, 2000);
    assert_int_equal(TEST(w, .client = 3, .fh = "busy"), GRANTED);
    assert_int_equal(TEST(w, .client = 3, .fh = "old"), GRANTED);
    assert_int_equal(TEST(w, .client = 3, .fh = "new"), DENIED);
}

/* What a request of the old life waited for, and got after the first LOCK of the new one, goes as
 * well; unless the new life has asked for the same range before it was granted or during its
 * callback. */
static void what_the_old_life_waited_for_goes_with_it(void **state)
{
    static const char *const files[] = {"before", "during", "never"};
    struct world *w = *state;

    for (size_t i = 0; i < HF_COUNT_OF(files); i++) {
        LOCK(w, .client = 2, .fh = files[i]);
        LOCK(w, .client = 1, .fh = files[i], .block = true, .state = 5);
    }
    LOCK(w, .client = 1, .fh = "new", .state = 7);
    assert_int_equal(LOCK(w, .client = 1, .fh = "before", .block = true, .state = 7), BLOCKED);
    for (size_t i = 0; i < HF_COUNT_OF(files); i++)
        UNLOCK(w, .client = 2, .fh = files[i]);
    assert_int_equal(LOCK(w, .client = 1, .fh = "during", .block = true, .state = 7), GRANTED);
    notice_of_client_1(w, 7);
    assert_int_equal(TEST(w, .client = 3, .fh = "before"), DENIED);
    /* The client is told of the grant. */
    assert_int_not_equal(world_call_of(w, HF_OUTCALL_GRANTED).id, 0);
    assert_int_equal(world_call_of(w, HF_OUTCALL_GRANTED).id, 0);
    assert_int_equal(TEST(w, .client = 3, .fh = "during"), DENIED);
    assert_int_equal(TEST(w, .client = 3, .fh = "never"), GRANTED);
}

/* The notice comes late, when the client has already locked in its new life: only the old one's
 * locks go, even where an owner of the same name now holds the same range. */
static void late_notice_spares_the_new_life(void **state)
{
    struct world *w = *state;
    struct hf_addr from = world_addr(1);

    LOCK(w, .client = 1, .off = 0, .len = 10, .state = 5);
    LOCK(w, .client = 1, .off = 20, .len = 10, .state = 5);
    SHARE(w, .client = 1, .fh = "s", .mode = 3, .access = 3);
    assert_int_equal(LOCK(w, .client = 1, .off = 0, .len = 10, .state = 7), HF_STAT_GRANTED);
    assert_int_equal(LOCK(w, .client = 1, .off = 10, .len = 5, .state = 7), HF_STAT_GRANTED);
    assert_int_equal(SHARE(w, .client = 1, .fh = "t", .mode = 3, .access = 3), HF_STAT_GRANTED);
    assert_int_equal(world_status(w).locks, 2);
    hf_core_sm_notify(w->core, w->now, &from, hf_bytes_str("client1.example"), 7, false);
    world_step(w);
    assert_int_equal(TEST(w, .client = 2, .off = 0, .len = 15), HF_STAT_DENIED);
    assert_int_equal(TEST(w, .client = 2, .off = 15), HF_STAT_GRANTED);
    assert_int_equal(SHARE(w, .client = 2, .fh = "s", .access = 1), HF_STAT_GRANTED);
    assert_int_equal(SHARE(w, .client = 2, .fh = "t", .access = 1), HF_STAT_DENIED);
    /* Then a notice of yet another life: */
    LOCK(w, .client = 1, .off = 40, .len = 1, .state = 9);
    hf_core_sm_notify(w->core, w->now, &from, hf_bytes_str("client1.example"), 11, false);
    world_step(w);
    assert_int_equal(world_status(w).locks, 0); /* all of it */
}

/* NSM-07: after a restart every registered client is notified, from the address that it uses. */
static void restart_notifies_every_client(void **state)
{
    struct world *w = *state;
    struct hf_addr local = world_addr(250);
    struct hf_outcall_attempt call;

    LOCK(w, .client = 1);
    mon(w, "10.0.0.9");
    mon(w, "holdfast"); /* kind 2: a registration about ourselves, by our short name */
    mon(w, "10.0.0.250");
    world_restart(w);
    call = world_call_of(w, HF_OUTCALL_NOTIFY);
    assert_true(hf_bytes_equal(call.host, hf_bytes_str("client1.example")));
    assert_true(hf_bytes_equal(call.mon_name, hf_bytes_str("holdfast.example")));
    assert_true(hf_bytes_equal(call.mon_name_short, hf_bytes_str("holdfast")));
    assert_int_equal(call.state, 3);
    assert_int_equal(call.prog, 100024);
    assert_int_equal(call.proc, 6);
    assert_true(hf_addr_same_host(&call.from, &local));
    world_called(w, call.id, HF_OUTCALL_ACCEPTED);
    call = world_call_of(w, HF_OUTCALL_NOTIFY);
    assert_true(hf_bytes_equal(call.host, hf_bytes_str("10.0.0.9")));
    /* Not the address to which SM_MON came, which is mostly loopback. */
    assert_int_equal(call.from.family, HF_ADDR_NONE);
    call = world_call_of(w, HF_OUTCALL_STATUS);
    assert_int_equal(call.state, 3);
    assert_true(hf_bytes_equal(call.mon_name, hf_bytes_str("holdfast")));
    call = world_call_of(w, HF_OUTCALL_STATUS);
    assert_true(hf_bytes_equal(call.mon_name, hf_bytes_str("10.0.0.250")));
    assert_int_equal(world_status(w).notices[HF_NOTICE_DELIVERED], 1);
    assert_int_equal(world_status(w).notices[HF_NOTICE_PENDING], 3);
}

/* NOT-03: after three attempts of five seconds the client counts as crashed; the notice is repeated
 * for a while. */
static void unreachable_client_is_crashed(void **state)
{
    struct world *w = *state;
    struct hf_view_client row;
    struct hf_outcall_attempt call;
    unsigned attempts = 0;
    uint64_t began;

    LOCK(w, .client = 1);
    LOCK(w, .client = 2, .fh = "g");
    world_restart(w);
    LOCK(w, .client = 2, .fh = "g", .reclaim = true);
    began = w->now.mono_ms;
    while (world_status(w).notices[HF_NOTICE_GIVEN_UP] < 2) {
        while (hf_core_next_outcall(w->core, w->now, &call)) {
            attempts++;
            world_called(w, call.id, HF_OUTCALL_FAILED);
        }
        if (w->now.mono_ms < began + 10000)
            assert_int_equal(world_status(w).locks, 2);
        else
            assert_int_equal(world_status(w).locks, 1); /* client 2 has reclaimed, so it is alive */
        hf_core_view_client(w->core, call.client_id, &row);
        if (world_status(w).notices[HF_NOTICE_GIVEN_UP] < 2)
            world_later(w, hf_core_deadline(w->core) - w->now.mono_ms);
    }
    assert_true(w->now.mono_ms - began <= 900000);
    assert_true(w->now.mono_ms - began > 600000);
    assert_int_equal(row.notice, HF_NOTICE_GIVEN_UP);
    assert_int_equal(row.notice_error, HF_ETIMEDOUT);
    assert_int_equal(row.notice_attempts * 2, attempts);
    assert_int_equal(hf_core_counters(w->core)->crashes_detected, 2);
    assert_false(world_status(w).grace_active);
    assert_true(world_event(w, HF_EVENT_NOTICE_GIVEN_UP, NULL));
}

/* NOT-03: a client that cannot be reached but took a lock since our restart is alive, and keeps it.
 */
static void unreachable_client_keeps_new_locks(void **state)
{
    struct world *w = *state;
    struct hf_outcall_attempt call;

    LOCK(w, .client = 1);
    LOCK(w, .client = 1, .fh = "g");
    world_restart(w);
    assert_int_equal(LOCK(w, .client = 1, .reclaim = true), GRANTED);
    assert_int_equal(hf_core_grace_end(w->core, w->now).seq, hf_core_durable(w->core) + 1);
    world_step(w);
    assert_int_equal(LOCK(w, .client = 1, .fh = "h"), GRANTED);
    for (int i = 0; i < 3; i++) {
        while (hf_core_next_outcall(w->core, w->now, &call))
            world_called(w, call.id, HF_OUTCALL_FAILED);
        world_later(w, 5000);
    }
    assert_int_equal(hf_core_counters(w->core)->crashes_detected, 1);
    /* The lock was not reclaimed in grace. */
    assert_int_equal(LOCK(w, .client = 2, .fh = "g"), GRANTED);
    assert_int_equal(LOCK(w, .client = 2), DENIED);
    assert_int_equal(LOCK(w, .client = 2, .fh = "h"), DENIED);
}

/* NSM-05: a callback that was due when the server stopped is made after the start, and no other
 * call is. */
static void told_again_after_a_restart(void **state)
{
    struct world *w = *state;
    struct hf_outcall_attempt call;
    unsigned statuses = 0;

    mon(w, "10.0.0.7");
    mon(w, "10.0.0.8");
    notify(w, 7, "host7", 17);
    world_restart(w);
    while (hf_core_next_outcall(w->core, w->now, &call)) {
        if (call.kind == HF_OUTCALL_STATUS) {
            statuses++;
            assert_int_equal(call.state, 17);
            assert_int_equal(call.priv[0], 42);
            assert_memory_equal(call.mon_name.data, "10.0.0.7", call.mon_name.len);
        }
        world_called(w, call.id, HF_OUTCALL_ACCEPTED);
    }
    assert_int_equal(statuses, 1);
}

/* NOT-03b: a shortage of our own says nothing about a client: it is asked again, at each of its
 * addresses, and keeps its locks. */
static void our_own_lack_is_no_crash(void **state)
{
    static const int lacks[] = {HF_ENOMEM,   HF_ELIMIT,   HF_EBUSY,
                                HF_EUNAVAIL, HF_EUNREACH, HF_EINVAL};
    struct world *w = *state;
    struct hf_outcall_attempt call;

    LOCK(w, .client = 1);
    world_restart(w);
    for (int i = 0; i < 12; i++) {
        assert_true(hf_core_next_outcall(w->core, w->now, &call));
        assert_int_equal(call.attempt, i + 1);
        hf_core_outcall_done(w->core, w->now, call.id, HF_OUTCALL_UNTRIED, lacks[i % 6]);
        assert_false(hf_core_next_outcall(w->core, w->now, &call));
        world_later(w, hf_core_deadline(w->core) - w->now.mono_ms);
    }
    assert_int_equal(world_status(w).locks, 1);
    assert_int_equal(world_status(w).notices[HF_NOTICE_FAILING], 1);
    assert_true(hf_core_next_outcall(w->core, w->now, &call));
    world_called(w, call.id, HF_OUTCALL_ACCEPTED);
    assert_int_equal(world_status(w).notices[HF_NOTICE_DELIVERED], 1);
    hf_core_verify_invariants(w->core);
}

/* NOT-03: only attempts that sent a packet count towards notify.attempts, and the client counts as
 * crashed once. */
static void attempts_that_were_tried_count(void **state)
{
    static const enum hf_outcall_outcome outcomes[] = {HF_OUTCALL_FAILED,  HF_OUTCALL_UNTRIED,
                                                       HF_OUTCALL_UNSENT,  HF_OUTCALL_UNTRIED,
                                                       HF_OUTCALL_UNTRIED, HF_OUTCALL_FAILED};
    struct world *w = *state;
    struct hf_outcall_attempt call;

    LOCK(w, .client = 1);
    world_restart(w);
    for (unsigned i = 0; i < HF_COUNT_OF(outcomes); i++) {
        assert_int_equal(world_status(w).locks, 1);
        assert_true(hf_core_next_outcall(w->core, w->now, &call));
        world_called(w, call.id, outcomes[i]);
        world_later(w, hf_core_deadline(w->core) - w->now.mono_ms);
    }
    assert_int_equal(world_status(w).locks, 0);
    assert_int_equal(hf_core_counters(w->core)->crashes_detected, 1);
    assert_true(hf_core_next_outcall(w->core, w->now, &call));
    world_called(w, call.id, HF_OUTCALL_UNTRIED);
    assert_int_equal(hf_core_counters(w->core)->crashes_detected, 1);
}

/* NOT-03a, notify.on_failure = keep: the locks stay reclaimable until grace ends. */
static void unreachable_client_is_kept(void **state)
{
    struct world *w = *state;
    struct hf_outcall_attempt call;
    struct hf_event event;

    world_crash(w);
    w->config.on_failure = HF_ON_FAILURE_KEEP;
    world_start(w);
    LOCK(w, .client = 1);
    mon(w, "10.0.0.9");
    world_restart(w);
    for (int i = 0; i < 4; i++) {
        while (hf_core_next_outcall(w->core, w->now, &call))
            world_called(w, call.id, HF_OUTCALL_FAILED);
        world_later(w, 5000);
    }
    assert_int_equal(world_status(w).locks, 1);
    assert_int_equal(world_status(w).notices[HF_NOTICE_FAILING], 2);
    assert_true(world_event(w, HF_EVENT_CLIENT_UNTOLD, &event)); /* the operator is warned, once */
    assert_int_equal(event.b, 1);
    assert_false(world_event(w, HF_EVENT_CLIENT_UNTOLD, &event));
    world_later(w, 90000);
    assert_int_equal(world_status(w).locks, 0);
}

/* NOT-02b: as many notices in flight as configured, and grants do not queue behind them. */
static void notices_in_flight_are_bounded(void **state)
{
    struct world *w = *state;
    struct hf_outcall_attempt call;
    unsigned n = 0;

    world_crash(w);
    w->config.notify_in_flight = 3;
    world_start(w);
    for (int i = 1; i <= 10; i++)
        LOCK(w, .client = i, .off = (uint64_t)i, .len = 1);
    world_restart(w);
    hf_core_grace_end(w->core, w->now);
    world_step(w);
    while (hf_core_next_outcall(w->core, w->now, &call))
        n++;
    assert_int_equal(n, 3);
    LOCK(w, .client = 1);
    LOCK(w, .client = 2, .block = true);
    UNLOCK(w, .client = 1);
    assert_true(hf_core_next_outcall(w->core, w->now, &call));
    assert_int_equal(call.kind, HF_OUTCALL_GRANTED);
    assert_int_equal(world_status(w).calls_in_flight, 4);
    /* The notice is cancelled while in flight: its place is free. */
    LOCK(w, .client = 2, .block = true);
    assert_int_equal(world_status(w).calls_in_flight, 3);
}

static unsigned begin_all(struct world *w, uint64_t *last)
{
    struct hf_outcall_attempt call;
    unsigned n = 0;

    for (; hf_core_next_outcall(w->core, w->now, &call); n++)
        *last = call.id;
    return n;
}

/* NOT-02: notices begin no faster than they are answered. Notices that stay unanswered for some
 * milliseconds and some turns of the loop do not count: their hosts may be dead, and cost no work.
 */
static void notices_that_began_just_now_are_bounded(void **state)
{
    struct world *w = *state;
    uint64_t last = 0;

    for (int i = 1; i <= 300; i++)
        LOCK(w, .client = i, .off = (uint64_t)i, .len = 1);
    w->unchecked = true;
    world_restart(w);
    assert_int_equal(begin_all(w, &last), 64);
    for (int i = 1; i < 20; i++) /* enough turns, but not enough time */
        assert_int_equal(begin_all(w, &last), 0);
    assert_true(hf_core_deadline(w->core) <= w->now.mono_ms + 3);
    world_called(w, last, HF_OUTCALL_ACCEPTED);
    assert_int_equal(begin_all(w, &last), 1);
    world_called(w, last, HF_OUTCALL_FAILED);
    assert_int_equal(begin_all(w, &last), 1);
    world_later(w, 3);
    /* As many as have been unanswered since the first turn. */
    assert_int_equal(begin_all(w, &last), 63);
    world_later(w, 3);
    for (int i = 0; i < 6; i++) { /* enough time, but too few turns: the next turn is due at once */
        assert_int_equal(begin_all(w, &last), 0);
        assert_true(hf_core_deadline(w->core) <= w->now.mono_ms);
    }
    assert_int_equal(begin_all(w, &last), 1);
    assert_int_equal(begin_all(w, &last), 63);
    assert_int_equal(world_status(w).calls_in_flight, 63 + 1 + 63 + 1 + 63);
    hf_core_verify_invariants(w->core);
}

/* The operator can have the notice sent again, to one client or to all. */
static void notify_again(void **state)
{
    struct world *w = *state;
    struct hf_outcall_attempt call;

    LOCK(w, .client = 1);
    LOCK(w, .client = 2, .fh = "g", .nm = true);
    assert_int_equal(hf_core_notify_again(w->core, w->now, 999), HF_ENOENT);
    assert_int_equal(hf_core_notify_again(w->core, w->now, 0), 0);
    call = world_call_of(w, HF_OUTCALL_NOTIFY);
    world_called(w, call.id, HF_OUTCALL_ACCEPTED);
    assert_int_equal(world_call_of(w, HF_OUTCALL_NOTIFY).id, 0); /* client 2 is not registered */
    assert_int_equal(hf_core_notify_again(w->core, w->now, call.client_id), 0);
    assert_int_not_equal(world_call_of(w, HF_OUTCALL_NOTIFY).id, 0);
    for (uint64_t id = 1ULL << 40; id < (1ULL << 40) + 20; id++) {
        if (id != call.client_id)
            assert_int_equal(hf_core_notify_again(w->core, w->now, id), HF_ENOENT);
    }
}

/* SPEC 4: a registration outlives the last lock by the linger time, and not longer. */
static void registration_lingers(void **state)
{
    struct world *w = *state;
    struct hf_event event;

    LOCK(w, .client = 1);
    assert_true(world_event(w, HF_EVENT_CLIENT_REGISTERED, &event));
    assert_memory_equal(event.name, "client1.example", event.name_len);
    UNLOCK(w, .client = 1);
    world_later(w, 200000);
    LOCK(w, .client = 1); /* the client is busy when the timer fires */
    world_later(w, 200000);
    assert_int_equal(world_count(w, HF_RECORD_CLIENT), 1);
    UNLOCK(w, .client = 1);
    world_later(w, 100000);
    LOCK(w, .client = 1);
    UNLOCK(w, .client = 1); /* the client has been idle for less time than the timer was set */
    world_later(w, 200000);
    assert_int_equal(world_count(w, HF_RECORD_CLIENT), 1);
    world_later(w, 100000);
    assert_int_equal(world_count(w, HF_RECORD_CLIENT), 0);
    assert_int_equal(world_status(w).nlm_clients, 0);
    assert_true(world_event(w, HF_EVENT_CLIENT_UNREGISTERED, NULL));
    assert_int_equal(hf_core_deadline(w->core), UINT64_MAX);
}

/* A client that has not yet been told of our restart is not forgotten, however long it is idle. */
static void linger_waits_for_the_notice(void **state)
{
    struct world *w = *state;
    struct hf_outcall_attempt call;

    for (int with_lock = 0; with_lock < 2; with_lock++) {
        LOCK(w, .client = 1);
        if (!with_lock)
            UNLOCK(w, .client = 1);
        world_restart(w);
        assert_true(hf_core_next_outcall(w->core, w->now, &call));
        if (with_lock)
            UNLOCK(w, .client = 1);
        world_later(w, 300000);
        assert_int_equal(world_count(w, HF_RECORD_CLIENT), 1);
        world_called(w, call.id, HF_OUTCALL_ACCEPTED);
        world_later(w, 300000);
        assert_int_equal(world_count(w, HF_RECORD_CLIENT), 0);
    }
}

/* The record keeps the version and the transport by which the client last asked. */
static void record_follows_the_client(void **state)
{
    struct world *w = *state;
    struct hf_peer peer = world_peer(w, 1);
    struct hf_lock_args args = {.fh = hf_bytes_str("x"), .version = 4, .exclusive = true};
    struct hf_view_client row;
    uint64_t cursor = 0;

    LOCK(w, .client = 1);
    args.state = 9;
    assert_int_equal(hf_core_lock(w->core, w->now, &peer, &args).stat, GRANTED);
    world_step(w);
    world_restart(w);
    assert_int_equal(hf_core_view_clients(w->core, &cursor, UINT64_MAX, &row, 1), 1);
    assert_int_equal(row.record.transport, HF_TRANSPORT_TCP);
    assert_true(hf_addr_same_host(&row.record.local, &peer.local));
    assert_int_equal(row.record.state, 9);
    assert_int_equal(row.n_unreclaimed, 2);
}

/* NLM-07a: For a Linux kernel that mounts by two of our addresses we are two servers: the same svid
 * is another process, and each server's notice must come from its address. FREE_ALL and a crash are
 * the host's.
 */
static void two_addresses_of_ours_are_two_servers(void **state)
{
    struct world *w = *state;
    struct hf_peer first = world_peer(w, 1), second = first;
    struct hf_lock_args args = {.fh = hf_bytes_str("x"), .version = 4, .exclusive = true};
    struct hf_addr from = world_addr(1);
    struct hf_outcall_attempt one, other;

    second.local = world_addr(251);
    assert_int_equal(hf_core_lock(w->core, w->now, &first, &args).stat, GRANTED);
    assert_int_equal(hf_core_lock(w->core, w->now, &second, &args).stat, DENIED);
    args.fh = hf_bytes_str("y");
    assert_int_equal(hf_core_lock(w->core, w->now, &second, &args).stat, GRANTED);
    world_step(w);
    world_restart(w);
    one = world_call_of(w, HF_OUTCALL_NOTIFY);
    other = world_call_of(w, HF_OUTCALL_NOTIFY);
    assert_false(hf_addr_same_host(&one.from, &other.from));
    assert_true(hf_addr_same_host(&one.from, &second.local) ||
                hf_addr_same_host(&other.from, &second.local));
    args.reclaim = true;
    assert_int_equal(hf_core_lock(w->core, w->now, &second, &args).stat, GRANTED);
    world_step(w);
    assert_int_equal(world_status(w).locks, 2);
    hf_core_free_all(w->core, w->now, &first, 0, false);
    world_step(w);
    assert_int_equal(world_status(w).locks, 0);
    args.reclaim = false;
    assert_int_equal(hf_core_lock(w->core, w->now, &first, &args).stat, GRANTED);
    args.fh = hf_bytes_str("z");
    assert_int_equal(hf_core_lock(w->core, w->now, &second, &args).stat, GRANTED);
    world_step(w);
    hf_core_sm_notify(w->core, w->now, &from, first.name, 99, false);
    world_step(w);
    assert_int_equal(world_status(w).locks, 0);
}

/*
 * NLM-07a: a Linux kernel that mounts one address of ours by TCP and by UDP numbers its processes
 * for each: the same svid and owner handle by the other transport is another process. A crash,
 * FREE_ALL and our restart concern both.
 */
static void two_transports_are_two_clients(void **state)
{
    struct world *w = *state;
    struct hf_peer tcp = world_peer(w, 1), udp = tcp;
    struct hf_lock_args args = {.fh = hf_bytes_str("x"), .version = 4, .exclusive = true};
    struct hf_addr from = world_addr(1);
    struct hf_outcall_attempt call;

    udp.transport = HF_TRANSPORT_UDP;
    assert_int_equal(hf_core_lock(w->core, w->now, &tcp, &args).stat, GRANTED);
    assert_int_equal(hf_core_lock(w->core, w->now, &udp, &args).stat, DENIED);
    assert_int_equal(hf_core_test(w->core, w->now, &udp, &args).stat, DENIED);
    /* A client cannot unlock what it does not hold: its UNLOCK changes nothing. */
    assert_int_equal(hf_core_unlock(w->core, w->now, &udp, &args).stat, GRANTED);
    world_step(w);
    assert_int_equal(world_status(w).locks, 1);
    args.block = true;
    assert_int_equal(hf_core_lock(w->core, w->now, &udp, &args).stat, HF_STAT_BLOCKED);
    args.block = false;
    assert_int_equal(hf_core_unlock(w->core, w->now, &tcp, &args).stat, GRANTED);
    world_step(w);
    call = world_call_of(w, HF_OUTCALL_GRANTED); /* the callback uses the transport of the LOCK */
    assert_int_equal(call.transport, HF_TRANSPORT_UDP);
    world_called(w, call.id, HF_OUTCALL_ACCEPTED);
    args.fh = hf_bytes_str("y");
    assert_int_equal(hf_core_lock(w->core, w->now, &tcp, &args).stat, GRANTED);
    world_step(w);

    world_restart(w); /* each client reclaims its own locks by its own transport */
    args.reclaim = true;
    assert_int_equal(hf_core_lock(w->core, w->now, &udp, &args).stat, DENIED);
    assert_int_equal(hf_core_lock(w->core, w->now, &tcp, &args).stat, GRANTED);
    args.fh = hf_bytes_str("x");
    assert_int_equal(hf_core_lock(w->core, w->now, &udp, &args).stat, GRANTED);
    world_step(w);
    args.reclaim = false;
    assert_int_equal(world_status(w).locks, 2);
    assert_int_equal(hf_core_lock(w->core, w->now, &tcp, &args).stat, DENIED);

    hf_core_free_all(w->core, w->now, &udp, 0, false);
    world_step(w);
    assert_int_equal(world_status(w).locks, 0);
    assert_int_equal(hf_core_lock(w->core, w->now, &tcp, &args).stat, GRANTED);
    args.fh = hf_bytes_str("y");
    assert_int_equal(hf_core_lock(w->core, w->now, &udp, &args).stat, GRANTED);
    world_step(w);
    hf_core_sm_notify(w->core, w->now, &from, tcp.name, 99, false);
    world_step(w);
    assert_int_equal(world_status(w).locks, 0);
}

/* A store of an earlier version has one record for both transports, with the transport used last.
 * Its locks are reclaimed by that transport; the other one is another client, and gets none of
 * them. */
static void a_record_of_before_has_one_transport(void **state)
{
    struct world *w = *state;
    struct hf_peer tcp = world_peer(w, 1), udp = tcp;
    struct hf_lock_args args = {.fh = hf_bytes_str("x"), .version = 4, .exclusive = true};

    udp.transport = HF_TRANSPORT_UDP;
    assert_int_equal(hf_core_lock(w->core, w->now, &udp, &args).stat, GRANTED);
    world_step(w);
    world_restart(w);
    args.reclaim = true;
    assert_int_equal(hf_core_lock(w->core, w->now, &tcp, &args).stat, DENIED);
    world_step(w);
    assert_int_equal(world_status(w).locks, 1);
    assert_int_equal(hf_core_lock(w->core, w->now, &udp, &args).stat, GRANTED);
    world_step(w);
}

/* ADM-01: the operator releases a lock, a file or a client; waiters are served. */
static void operator_releases(void **state)
{
    struct world *w = *state;
    struct hf_view_lock row;
    uint64_t cursor = 0;
    struct hf_ticket wait;

    LOCK(w, .client = 1, .len = 10);
    LOCK(w, .client = 2, .len = 10, .block = true);
    hf_core_view_locks(w->core, &cursor, UINT64_MAX, &row, 1);
    assert_int_equal(hf_core_release_lock(w->core, w->now, row.record.id, &wait), 1);
    assert_int_not_equal(wait.seq, 0);
    world_step(w);
    assert_int_equal(hf_core_release_lock(w->core, w->now, row.record.id, &wait), HF_ENOENT);
    assert_int_not_equal(world_call_of(w, HF_OUTCALL_GRANTED).id, 0);
    LOCK(w, .client = 3, .off = 20, .len = 5);
    LOCK(w, .client = 3, .len = 0, .block = true);
    SHARE(w, .client = 3, .access = 1);
    assert_int_equal(hf_core_release_file(w->core, w->now, hf_bytes_str("f"), &wait), 4);
    world_step(w);
    assert_int_equal(hf_core_release_file(w->core, w->now, hf_bytes_str("f"), &wait), HF_ENOENT);
    LOCK(w, .client = 3, .fh = "z");
    cursor = 0;
    assert_int_equal(hf_core_view_locks(w->core, &cursor, UINT64_MAX, &row, 1), 1);
    assert_int_equal(hf_core_release_client(w->core, w->now, row.record.client_id, &wait), 1);
    world_step(w);
    assert_int_equal(hf_core_release_client(w->core, w->now, 4711, &wait), HF_ENOENT);
    assert_int_equal(world_status(w).locks, 0);
    assert_int_equal(world_count(w, HF_RECORD_LOCK), 0);
}

/* ADM-12: a client that the operator declares dead loses what it has, as after its crash notice: it
 * counts as a crash, its waiters go too, and what it gets afterwards stays when its own notice
 * comes. If the store refuses the release, it is made again. */
static void operator_declares_dead(void **state)
{
    struct world *w = *state;
    struct hf_ticket wait;
    struct hf_view_client client;
    struct hf_event event;
    uint64_t cursor = 0;

    LOCK(w, .client = 1, .len = 10);
    LOCK(w, .client = 1, .fh = "g");
    LOCK(w, .client = 2, .len = 10, .block = true);
    LOCK(w, .client = 2, .fh = "h");
    LOCK(w, .client = 1, .svid = 2, .fh = "h", .block = true);
    assert_int_equal(hf_core_view_clients(w->core, &cursor, UINT64_MAX, &client, 1), 1);
    assert_int_equal(hf_core_client_dead(w->core, w->now, client.record.id, &wait), 3);
    assert_int_not_equal(wait.seq, 0);
    world_commit_one(w, HF_EIO);
    assert_int_equal(world_status(w).locks, 3);
    world_later(w, 5000);
    assert_int_equal(world_status(w).locks, 2); /* file h, and what client 2 waited for */
    assert_int_equal(world_status(w).waiters, 0);
    assert_int_equal(hf_core_counters(w->core)->crashes_detected, 1);
    assert_true(world_event(w, HF_EVENT_CLIENT_DEAD, &event));
    assert_int_equal(event.b, 3);
    assert_int_equal(LOCK(w, .client = 1, .fh = "g"), GRANTED);
    assert_int_equal(hf_core_client_dead(w->core, w->now, 4711, &wait), HF_ENOENT);
    hf_core_verify_invariants(w->core);
}

/* ADM-12: after our restart the server still knows since when a client was heard from: what the
 * client holds or waits for shows it. So a declaration that comes late takes nothing from its new
 * life. */
static void heard_from_before_a_restart(void **state)
{
    struct world *w = *state;
    struct hf_view_client clients[2];
    uint64_t cursor = 0;
    int64_t locked_ms;

    w->config.continues = true;
    world_restart(w);
    LOCK(w, .client = 1, .fh = "f");
    LOCK(w, .client = 2, .fh = "g");
    world_later(w, 60000);
    locked_ms = w->now.wall_ms;
    LOCK(w, .client = 1, .fh = "h");
    LOCK(w, .client = 2, .fh = "h", .block = true);
    world_later(w, 60000);
    world_restart(w);
    assert_int_equal(hf_core_view_clients(w->core, &cursor, UINT64_MAX, clients, 2), 2);
    assert_true(clients[0].last_seen_ms == locked_ms);
    assert_true(clients[1].last_seen_ms == locked_ms);
}

/* TRK-01: one tracker for whatever protocol brings a client; what it knows outlives a restart. */
static void tracker_of_both_protocols(void **state)
{
    struct world *w = *state;
    struct hf_view_client clients[3];
    const struct hf_record_client *nlm = &clients[0].record;
    const struct hf_record_client *nsm = &clients[1].record;
    struct hf_addr host = world_addr(7);
    struct hf_addr ours = world_addr(250);
    uint64_t cursor = 0;
    int64_t began_ms = w->now.wall_ms;

    LOCK(w, .client = 7, .state = 5, .len = 1);
    mon(w, "server9.example");
    w->now.wall_ms += 1000;
    LOCK(w, .client = 7, .state = 5, .off = 10, .len = 1);
    assert_int_equal(hf_core_view_clients(w->core, &cursor, UINT64_MAX, clients, 3), 2);
    assert_true(nlm->protocol == HF_PROTOCOL_NLM && nsm->protocol == HF_PROTOCOL_NSM);
    assert_true(nlm->id != 0 && nsm->id != 0 && nlm->id != nsm->id);
    assert_true(hf_bytes_equal(nlm->name, hf_bytes_str("client7.example")));
    assert_true(nlm->n_addrs == 1 && hf_addr_same_host(&nlm->addrs[0], &host));
    assert_true(hf_addr_same_host(&nlm->local, &ours));
    assert_true(nlm->state == 5 && clients[0].n_locks == 2 && clients[1].n_locks == 0);
    assert_true(clients[0].first_seen_ms == began_ms && clients[0].last_seen_ms == began_ms + 1000);
    assert_true(hf_bytes_equal(nsm->my_name, hf_bytes_str("kernel")) && nsm->prog == 100021);

    world_crash(w);
    world_start(w);
    cursor = 0;
    assert_int_equal(hf_core_view_clients(w->core, &cursor, UINT64_MAX, clients, 3), 2);
    assert_true(nlm->state == 5 && clients[0].n_locks == 2 && clients[0].first_seen_ms == began_ms);
    assert_true(hf_bytes_equal(nsm->my_name, hf_bytes_str("kernel")) && nsm->prog == 100021);
}

/* ADM-01: pages show everything exactly once, with shares by their pattern. */
static void pages(void **state)
{
    static const struct hf_export_rule rules[] = {
        {{(const uint8_t *)"left", 4}, 0, {(const uint8_t *)"L", 1}},
        {{(const uint8_t *)"right", 5}, 2, {(const uint8_t *)"R", 1}},
    };
    struct world *w = *state;
    struct hf_view_lock locks[3];
    struct hf_view_client clients[3];
    struct hf_view_waiter waiters[3];
    struct hf_view_share shares[3];
    uint64_t cursor = 0;
    size_t n, seen = 0, left = 0, right = 0;

    world_crash(w);
    w->config.export_rules = rules;
    w->config.n_export_rules = HF_COUNT_OF(rules);
    world_start(w);
    LOCK(w, .client = 1, .fh = "Lxx");
    LOCK(w, .client = 2, .fh = "xxR");
    LOCK(w, .client = 3, .fh = "x");
    for (uint64_t i = 0; i < 7; i++)
        LOCK(w, .client = 4, .fh = "LLR", .off = 2 * i, .len = 1);
    LOCK(w, .client = 5, .fh = "Lxx", .block = true);
    LOCK(w, .client = 6, .fh = "Lxx", .shared = true, .block = true);
    SHARE(w, .client = 6, .fh = "xxR", .mode = 1, .access = 2);
    w->by_hand = true;
    UNLOCK(w, .client = 3, .fh = "x"); /* removed, but not durably yet, so not shown */
    while ((n = hf_core_view_locks(w->core, &cursor, UINT64_MAX, locks, 3)) > 0) {
        for (size_t i = 0; i < n; i++) {
            seen++;
            left += hf_bytes_equal(locks[i].record.export, hf_bytes_str("left"));
            right += hf_bytes_equal(locks[i].record.export, hf_bytes_str("right"));
            assert_true(locks[i].durable && !locks[i].unreclaimed);
        }
    }
    assert_int_equal(seen, 9);
    assert_int_equal(left, 8);
    assert_int_equal(right, 1);
    cursor = seen = 0;
    while ((n = hf_core_view_clients(w->core, &cursor, UINT64_MAX, clients, 3)) > 0)
        seen += n;
    assert_int_equal(seen, 6);
    cursor = 0;
    assert_int_equal(hf_core_view_waiters(w->core, &cursor, UINT64_MAX, waiters, 3), 2);
    assert_int_not_equal(waiters[0].blocked_by, 0);
    assert_false(waiters[0].granting);
    cursor = 0;
    assert_int_equal(hf_core_view_shares(w->core, &cursor, UINT64_MAX, shares, 3), 1);
    assert_int_equal(shares[0].mode, 1);
    assert_int_equal(shares[0].access, 2);
    UNSHARE(w, .client = 6, .fh = "xxR");
    cursor = 0;
    assert_int_equal(hf_core_view_shares(w->core, &cursor, UINT64_MAX, shares, 3), 0);
    UNLOCK(w, .client = 1, .fh = "Lxx");
    cursor = 0;
    assert_int_equal(hf_core_view_waiters(w->core, &cursor, UINT64_MAX, waiters, 3), 2);
    assert_true(waiters[0].granting != waiters[1].granting);
    /* removed, but an undo may need it, so it still exists. */
    LOCK(w, .client = 5, .fh = "Lxx", .block = true);
    cursor = 0;
    assert_int_equal(hf_core_view_waiters(w->core, &cursor, UINT64_MAX, waiters, 3), 1);
    assert_int_equal(hf_core_view_client(w->core, clients[0].record.id, &clients[1]), 0);
    assert_int_equal(hf_core_view_client(w->core, 3, &clients[1]), HF_ENOENT);
}

/* ADM-01: of all waiters being granted, those of one release are listed, in order and in pages. */
static void granted_waiters_are_listed(void **state)
{
    struct world *w = *state;
    struct hf_view_waiter rows[2];
    struct hf_view_client client;
    uint64_t cursor = 0;
    uint64_t mark;
    struct hf_ticket wait;

    LOCK(w, .client = 1, .fh = "x");
    LOCK(w, .client = 1, .len = 30);
    LOCK(w, .client = 5, .fh = "x", .block = true);
    for (int i = 0; i < 3; i++)
        LOCK(w, .client = 2 + i, .off = 10 * (uint64_t)i, .len = 10, .block = true);
    UNLOCK(w, .client = 1, .fh = "x"); /* this one was granted to client 5 before the release */
    assert_int_equal(hf_core_view_clients(w->core, &cursor, UINT64_MAX, &client, 1), 1);
    mark = hf_core_view_grant_mark(w->core);
    assert_int_equal(hf_core_view_granted(w->core, &mark, rows, 2), 0);
    assert_int_equal(hf_core_release_client(w->core, w->now, client.record.id, &wait), 1);
    assert_int_equal(hf_core_view_granted(w->core, &mark, rows, 2), 2);
    assert_true(rows[0].granting && rows[0].first == 0 && rows[1].first == 10);
    assert_int_equal(hf_core_view_granted(w->core, &mark, rows, 2), 1);
    assert_int_equal(rows[0].first, 20);
    assert_int_equal(hf_core_view_granted(w->core, &mark, rows, 2), 0);
}

/* An SM_MON that is being removed is not shown any more. */
static void leaving_monitor_is_not_shown(void **state)
{
    struct world *w = *state;
    struct hf_peer peer = world_peer(w, 100);
    struct hf_mon_args args = mon_of("10.0.0.7");
    struct hf_view_client row;
    uint64_t cursor = 0;

    mon(w, "10.0.0.7");
    hf_core_view_clients(w->core, &cursor, UINT64_MAX, &row, 1);
    w->by_hand = true;
    hf_core_sm_unmon(w->core, w->now, &peer, &args);
    cursor = 0;
    assert_int_equal(hf_core_view_client(w->core, row.record.id, &row), HF_ENOENT);
    assert_int_equal(hf_core_view_clients(w->core, &cursor, UINT64_MAX, &row, 1), 0);
    assert_int_equal(hf_core_client_learn(w->core, w->now, row.record.id, &peer.addr), HF_ENOENT);
    assert_int_equal(hf_core_notify_again(w->core, w->now, row.record.id), HF_ENOENT);
    notify(w, 7, "10.0.0.7", 3);
    assert_int_equal(hf_core_counters(w->core)->notifies_in_stranger, 1);
    world_commit(w);
}

/* Events that the daemon does not read in time are lost, and counted; long names are cut. */
static void events_overflow(void **state)
{
    static char name[300];
    struct world *w = *state;
    struct hf_event event;

    memset(name, 'n', sizeof(name) - 1);
    for (int i = 0; i < 300; i++) /* the queue grows before it is read */
        notify(w, 66, "x", i + 1);
    for (int i = 0; i < 200; i++) {
        assert_true(hf_core_next_event(w->core, &event));
        assert_int_equal(event.a, i + 1);
    }
    for (int i = 300; i < 1300; i++)
        notify(w, 66, "x", i + 1);
    for (int i = 200; i < 1300; i++) {
        assert_true(hf_core_next_event(w->core, &event));
        assert_int_equal(event.a, i + 1);
    }
    assert_int_equal(hf_core_counters(w->core)->events_lost, 0);
    for (int i = 0; i < 32768 + 44; i++)
        notify(w, 66, i % 2 ? name : "x", 1);
    LOCK(w, .client = 1);
    notify(w, 1, "client1", 3); /* this event, too, finds no room */
    assert_true(hf_core_counters(w->core)->events_lost >= 45);
    assert_true(hf_core_next_event(w->core, &event));
    assert_true(hf_core_next_event(w->core, &event));
    assert_true(event.name_len <= HF_EVENT_NAME_MAX);
    while (hf_core_next_event(w->core, &event))
        ;
    assert_false(hf_core_next_event(w->core, &event));
}

/* Hosts have such names. */
static void odd_names(void **state)
{
    struct world *w = *state;
    struct hf_peer peer = world_peer(w, 1);
    struct hf_lock_args args = {.fh = hf_bytes_str("x"), .exclusive = true, .version = 4};

    peer.name = hf_bytes(NULL, 0); /* an empty name is a name */
    assert_int_equal(hf_core_lock(w->core, w->now, &peer, &args).stat, GRANTED);
    peer.name = hf_bytes("a\0b", 3);
    args.fh = hf_bytes_str("y");
    assert_int_equal(hf_core_lock(w->core, w->now, &peer, &args).stat, GRANTED);
    world_step(w);
    notify(w, 1, "a", 3);
    assert_int_equal(world_status(w).locks, 2);
    mon(w, "a.host.name.that.is.longer.than.any.address.text.could.ever.be.so.it.is.a.name");
    mon(w, "/etc/passwd%n");
    assert_int_equal(world_status(w).nsm_clients, 2);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, open_world, close_world)
    const struct CMUnitTest tests[] = {
        T(registrations),
        T(registration_limit),
        T(client_restart_frees_its_locks),
        T(spoofed_and_senseless_notices),
        T(monitor_is_told),
        T(monitored_by_name),
        T(several_at_one_address),
        T(host_restarted),
        T(state_hint),
        T(a_delayed_lock_of_the_old_life_goes_with_it),
        T(what_the_old_life_waited_for_goes_with_it),
        T(both_ends_of_a_lock_of_the_old_life_go),
        T(the_new_life_takes_over_a_delayed_lock),
        T(a_delayed_lock_that_waited_goes_when_a_commit_works),
        T(late_notice_spares_the_new_life),
        T(restart_notifies_every_client),
        T(unreachable_client_is_crashed),
        T(unreachable_client_keeps_new_locks),
        T(our_own_lack_is_no_crash),
        T(attempts_that_were_tried_count),
        T(told_again_after_a_restart),
        T(unreachable_client_is_kept),
        T(notices_in_flight_are_bounded),
        T(notices_that_began_just_now_are_bounded),
        T(notify_again),
        T(registration_lingers),
        T(linger_waits_for_the_notice),
        T(record_follows_the_client),
        T(two_addresses_of_ours_are_two_servers),
        T(two_transports_are_two_clients),
        T(a_record_of_before_has_one_transport),
        T(operator_releases),
        T(operator_declares_dead),
        T(heard_from_before_a_restart),
        T(tracker_of_both_protocols),
        T(pages),
        T(granted_waiters_are_listed),
        T(leaving_monitor_is_not_shown),
        T(events_overflow),
        T(odd_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
