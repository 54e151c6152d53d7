/* Restarts: what is loaded, grace, reclaims, and the digest (GRC-01..03, NSM-06, NSM-07). */
#include "core_world.h"

enum {
    GRANTED = HF_STAT_GRANTED,
    DENIED = HF_STAT_DENIED,
    BLOCKED = HF_STAT_BLOCKED,
    GRACE = HF_STAT_DENIED_GRACE_PERIOD,
};

/* GRC-03d: a first start, or one with nothing held, has no grace at all. */
static void no_grace_when_nothing_was_held(void **state)
{
    struct world *w = *state;

    assert_false(world_status(w).grace_active);
    LOCK(w, .client = 1);
    UNLOCK(w, .client = 1);
    world_restart(w);
    assert_false(world_status(w).grace_active);
    assert_int_equal(LOCK(w, .client = 2), GRANTED);
}

/* NSM-06g: the state number is odd and grows with each start; a clean stop is remembered. */
static void state_numbers_and_clean_stop(void **state)
{
    struct world *w = *state;

    assert_int_equal(world_status(w).state, 1);
    world_restart(w);
    assert_int_equal(world_status(w).state, 3);
    assert_false(world_status(w).was_clean);
    assert_int_equal(hf_core_stop(w->core, w->now), hf_core_durable(w->core) + 1);
    world_commit(w);
    world_restart(w);
    assert_int_equal(world_status(w).state, 5);
    assert_true(world_status(w).was_clean);
    world_restart(w);
    assert_false(world_status(w).was_clean);
}

/* The server's record is lost, the locks are not: ids and state numbers still grow. */
static void epoch_follows_from_ids(void **state)
{
    struct world *w = *state;

    world_restart(w);
    LOCK(w, .client = 1);
    assert_int_equal(world_count(w, HF_RECORD_SERVER), 1);
    records_delete(&w->records, HF_RECORD_SERVER, w->records.at[0]->id);
    assert_int_equal(world_count(w, HF_RECORD_SERVER), 0);
    world_restart(w);
    assert_int_equal(world_status(w).state, 5);
}

/* A loaded lock is released as any other: its file and its owner are freed with the last lock. */
static void nothing_is_left_of_loaded_locks(void **state)
{
    struct world *w = *state;

    LOCK(w, .client = 1);
    LOCK(w, .client = 1, .svid = 2, .fh = "g", .shared = true);
    world_restart(w);
    assert_int_equal(world_status(w).files, 2);
    assert_int_equal(world_status(w).owners, 2);
    UNLOCK(w, .client = 1);
    UNLOCK(w, .client = 1, .svid = 2, .fh = "g");
    assert_int_equal(world_status(w).locks, 0);
    assert_int_equal(world_status(w).files, 0);
    assert_int_equal(world_status(w).owners, 0);
}

/* GRC-01: strict grace refuses everything new and grants reclaims; TEST, UNLOCK, CANCEL work. */
static void strict_grace(void **state)
{
    struct world *w = *state;
    struct hf_event event;

    LOCK(w, .client = 1, .len = 10);
    LOCK(w, .client = 2, .off = 20, .len = 10);
    world_restart(w);
    assert_true(world_status(w).grace_active);
    assert_int_equal(world_status(w).unreclaimed, 2);
    assert_true(world_event(w, HF_EVENT_GRACE_BEGAN, &event));
    assert_int_equal(event.b, 2);
    assert_int_equal(LOCK(w, .client = 3, .off = 100, .len = 1), GRACE);
    assert_int_equal(LOCK(w, .client = 3, .off = 100, .len = 1, .block = true), GRACE);
    assert_int_equal(LOCK(w, .client = 3, .off = 100, .len = 1, .nm = true), GRACE);
    assert_int_equal(SHARE(w, .client = 3), GRACE);
    assert_int_equal(SHARE(w, .client = 3, .reclaim = true, .access = 1), GRANTED);
    assert_int_equal(TEST(w, .client = 3, .len = 1), DENIED);
    assert_int_equal(TEST(w, .client = 3, .off = 100, .len = 1), GRANTED);
    assert_int_equal(CANCEL(w, .client = 3), GRANTED);
    assert_int_equal(LOCK(w, .client = 1, .len = 10, .reclaim = true), GRANTED);
    assert_int_equal(LOCK(w, .client = 1, .len = 10, .reclaim = true), GRANTED); /* repeated */
    assert_int_equal(world_status(w).reclaimed, 1); /* and counted once */
    assert_true(world_status(w).grace_active);
    assert_int_equal(UNLOCK(w, .client = 2), GRANTED); /* this was the last unreclaimed lock */
    assert_false(world_status(w).grace_active);
    assert_int_equal(LOCK(w, .client = 3, .off = 20, .len = 1), GRANTED);
}

/* NLM-08a: a LOCK whose answer was lost in our restart is repeated: its owner holds it, so grace
 * need not last for it. */
static void strict_grace_grants_what_is_held(void **state)
{
    struct world *w = *state;

    LOCK(w, .client = 1, .len = 10, .state = 5);
    LOCK(w, .client = 2, .off = 20, .len = 10, .state = 5);
    world_restart(w);
    assert_int_equal(LOCK(w, .client = 1, .len = 11, .state = 5), GRACE);
    assert_int_equal(LOCK(w, .client = 1, .len = 10, .shared = true, .state = 5), GRACE);
    assert_int_equal(LOCK(w, .client = 1, .len = 10, .svid = 2, .state = 5), GRACE);
    assert_int_equal(LOCK(w, .client = 1, .len = 10, .state = 5), GRANTED);
    assert_int_equal(LOCK(w, .client = 2, .off = 20, .len = 10, .state = 7),
                     GRACE); /* a new life? */
    assert_true(world_status(w).grace_active);
    assert_int_equal(LOCK(w, .client = 2, .off = 20, .len = 10, .block = true), GRANTED);
    assert_false(world_status(w).grace_active);
    assert_int_equal(world_status(w).locks, 2);
}

/* GRC-02: a reclaim of what no owner, or another owner, held is denied; so is a stronger mode. */
static void reclaims_are_checked(void **state)
{
    struct world *w = *state;

    LOCK(w, .client = 1, .len = 10, .shared = true);
    LOCK(w, .client = 2, .off = 20, .len = 10);
    world_restart(w);
    assert_int_equal(LOCK(w, .client = 2, .len = 10, .shared = true, .reclaim = true), DENIED);
    assert_int_equal(LOCK(w, .client = 1, .len = 11, .shared = true, .reclaim = true), DENIED);
    assert_int_equal(LOCK(w, .client = 1, .len = 10, .reclaim = true), DENIED);
    assert_int_equal(LOCK(w, .client = 1, .svid = 2, .len = 10, .shared = true, .reclaim = true),
                     DENIED);
    assert_int_equal(LOCK(w, .client = 9, .fh = "x", .reclaim = true), DENIED);
    w->at = world_addr(66);
    assert_int_equal(LOCK(w, .client = 2, .off = 20, .len = 10, .reclaim = true), DENIED);
    w->at = (struct hf_addr){0};
    assert_int_equal(LOCK(w, .client = 2, .off = 20, .len = 10, .shared = true, .reclaim = true),
                     GRANTED); /* a weaker mode than the owner held may be reclaimed */
    assert_int_equal(TEST(w, .client = 3, .off = 20, .len = 10, .shared = true), GRANTED);
    assert_int_equal(hf_core_counters(w->core)->reclaims_denied, 6);
}

/* A reclaim of what is recorded, lock by lock, writes nothing: the store has it already. */
static void a_reclaim_as_recorded_writes_nothing(void **state)
{
    struct world *w = *state;

    LOCK(w, .client = 1, .len = 10);
    LOCK(w, .client = 1, .off = 20, .len = 10);
    world_restart(w);
    assert_int_equal(ASK(w, hf_core_lock, .client = 1, .len = 10, .reclaim = true).ticket.seq, 0);
    assert_int_equal(
        ASK(w, hf_core_lock, .client = 1, .off = 20, .len = 10, .reclaim = true).ticket.seq, 0);
}

/* A reclaim may cover a part of a lock, or several locks; what is left is released at the end. */
static void reclaims_of_parts_and_several(void **state)
{
    struct world *w = *state;
    struct hf_event event;

    LOCK(w, .client = 1, .off = 0, .len = 30);
    LOCK(w, .client = 1, .off = 40, .len = 10, .shared = true);
    LOCK(w, .client = 1, .off = 50, .len = 10);
    LOCK(w, .client = 1, .off = 100, .len = 10);
    world_restart(w);
    assert_int_equal(LOCK(w, .client = 1, .off = 10, .len = 10, .reclaim = true), GRANTED);
    /* Both parts of the first lock that were not reclaimed. */
    assert_int_equal(world_status(w).unreclaimed, 5);
    assert_int_equal(world_status(w).reclaimed, 1);
    assert_int_equal(LOCK(w, .client = 1, .off = 0, .len = 30, .reclaim = true), GRANTED);
    assert_int_equal(world_status(w).unreclaimed, 3);
    assert_int_equal(LOCK(w, .client = 1, .off = 40, .len = 20, .shared = true, .reclaim = true),
                     GRANTED);
    assert_int_equal(world_status(w).unreclaimed, 1);
    /* Each part is a lock; two reclaimed at once are two. */
    assert_int_equal(world_status(w).reclaimed, 5);
    world_later(w, 89000);
    assert_true(world_status(w).grace_active);
    assert_int_equal(world_status(w).grace_remaining_ms,
                     hf_core_deadline(w->core) - w->now.mono_ms);
    world_later(w, 1000);
    assert_false(world_status(w).grace_active);
    assert_true(world_event(w, HF_EVENT_GRACE_ENDED, &event));
    assert_int_equal(event.b, 1);
    assert_int_equal(TEST(w, .client = 2, .off = 100, .len = 10), GRANTED);
    assert_int_equal(TEST(w, .client = 2, .off = 29, .len = 1), DENIED);
    assert_int_equal(LOCK(w, .client = 1, .off = 100, .len = 10, .reclaim = true), GRACE);
}

/* Conflict mode: only what conflicts with something unreclaimed must wait. */
static void conflict_mode(void **state)
{
    struct world *w = *state;

    world_crash(w);
    w->config.grace_mode = HF_GRACE_CONFLICT;
    world_start(w);
    LOCK(w, .client = 1, .len = 10);
    LOCK(w, .client = 2, .off = 20, .len = 10);
    world_restart(w);
    assert_int_equal(LOCK(w, .client = 3, .off = 100, .len = 1), GRANTED);
    assert_int_equal(LOCK(w, .client = 3, .len = 1), GRACE);
    assert_int_equal(LOCK(w, .client = 3, .len = 1, .block = true), BLOCKED);
    assert_int_equal(LOCK(w, .client = 2, .off = 20, .len = 10, .reclaim = true), GRANTED);
    assert_int_equal(LOCK(w, .client = 3, .off = 20, .len = 1), DENIED); /* reclaimed: held */
    assert_true(world_status(w).grace_active);
    world_later(w, 90000);
    /* Client 1 never came, so its lock went to the waiter. */
    assert_int_equal(world_status(w).waiters, 0);
    assert_int_equal(TEST(w, .client = 1, .len = 1), DENIED);
}

/* Conflict mode: an owner that locks again what it held has reclaimed it. */
static void conflict_mode_lock_claims(void **state)
{
    struct world *w = *state;

    world_crash(w);
    w->config.grace_mode = HF_GRACE_CONFLICT;
    world_start(w);
    LOCK(w, .client = 1, .len = 10);
    world_restart(w);
    assert_int_equal(LOCK(w, .client = 1, .len = 10), GRANTED);
    assert_false(world_status(w).grace_active);
    assert_int_equal(world_status(w).locks, 1);
}

/* Conflict mode: an owner upgrades a part of what it held, and its kernel then reclaims all of it
 * as it was: the upgrade stays, and only the rest is reclaimed (seed 300085203). */
static void conflict_mode_reclaim_keeps_an_upgrade(void **state)
{
    struct world *w = *state;

    world_crash(w);
    w->config.grace_mode = HF_GRACE_CONFLICT;
    world_start(w);
    LOCK(w, .client = 1, .len = 10, .shared = true);
    LOCK(w, .client = 2, .off = 100, .len = 1); /* this lock keeps the grace period open */
    world_restart(w);
    assert_int_equal(LOCK(w, .client = 1, .off = 2, .len = 3), GRANTED);
    assert_int_equal(LOCK(w, .client = 1, .len = 10, .shared = true, .reclaim = true), GRANTED);
    assert_int_equal(TEST(w, .client = 3, .off = 2, .len = 3, .shared = true), DENIED);
    assert_int_equal(TEST(w, .client = 3, .len = 2, .shared = true), GRANTED);
    assert_int_equal(TEST(w, .client = 3, .off = 5, .len = 5, .shared = true), GRANTED);
    assert_int_equal(TEST(w, .client = 3, .off = 9, .len = 1), DENIED);
    assert_int_equal(world_status(w).unreclaimed, 1);
    world_restart(w);
    assert_int_equal(TEST(w, .client = 3, .off = 2, .len = 3, .shared = true), DENIED);
}

/* Locks not durable: any registered client may reclaim what is free; TEST cannot know what is held.
 */
static void grace_without_durable_locks(void **state)
{
    struct world *w = *state;

    LOCK(w, .client = 7, .fh = "left over"); /* a lock from a time when locks were durable */
    world_crash(w);
    w->config.durable_locks = false;
    world_start(w);
    assert_int_equal(world_count(w, HF_RECORD_LOCK), 0);
    world_later(w, 90000);
    LOCK(w, .client = 1);
    LOCK(w, .client = 2, .fh = "g");
    world_restart(w);
    assert_true(world_status(w).grace_active);
    assert_int_equal(world_status(w).unreclaimed, 3);
    assert_int_equal(LOCK(w, .client = 1, .reclaim = true), GRANTED);
    assert_int_equal(LOCK(w, .client = 1, .reclaim = true), GRANTED);
    assert_int_equal(world_status(w).reclaimed, 1);
    assert_int_equal(LOCK(w, .client = 2, .reclaim = true), DENIED); /* client 1 has reclaimed it */
    assert_int_equal(LOCK(w, .client = 3, .fh = "x", .reclaim = true), DENIED);
    assert_int_equal(TEST(w, .client = 3, .fh = "x"), GRACE);
    assert_int_equal(LOCK(w, .client = 3, .fh = "x"), GRACE);
    assert_int_equal(UNLOCK(w, .client = 2, .fh = "g"), GRANTED);
    w->config.limits.locks = 0;
    world_later(w, 90000);
    assert_false(world_status(w).grace_active);
    assert_int_equal(world_status(w).locks, 1);
    assert_int_equal(LOCK(w, .client = 2, .fh = "g", .reclaim = true), GRACE);
}

/* Locks not durable: a client that cannot be reached may not reclaim, unless it already has
 * reclaimed. */
static void unreachable_without_durable_locks(void **state)
{
    struct world *w = *state;
    struct hf_outcall_attempt call;

    world_crash(w);
    w->config.durable_locks = false;
    world_start(w);
    LOCK(w, .client = 1);
    LOCK(w, .client = 2, .fh = "g");
    world_restart(w);
    LOCK(w, .client = 1, .reclaim = true);
    for (int i = 0; i < 3; i++) {
        while (hf_core_next_outcall(w->core, w->now, &call))
            world_called(w, call.id, HF_OUTCALL_FAILED);
        world_later(w, 5000);
    }
    assert_int_equal(LOCK(w, .client = 2, .fh = "g", .reclaim = true), DENIED);
    assert_int_equal(LOCK(w, .client = 1, .reclaim = true), GRANTED);
    assert_int_equal(world_status(w).unreclaimed, 1);
}

/* Returns how long after a restart the locks of a client are released whose host fails each attempt
 * to notify it after so many milliseconds. */
static uint64_t released_after_ms(struct world *w, uint64_t failing_ms)
{
    struct hf_outcall_attempt call;
    uint64_t began_ms;

    LOCK(w, .client = 1);
    world_restart(w);
    began_ms = w->now.mono_ms;
    while (world_status(w).locks > 0) {
        if (hf_core_next_outcall(w->core, w->now, &call)) {
            world_later(w, failing_ms);
            world_called(w, call.id, HF_OUTCALL_FAILED);
        } else {
            world_later(w, 10);
        }
    }
    return w->now.mono_ms - began_ms;
}

/* NOT-03a: attempts begin five seconds apart, so a client whose host refuses is given up when the
 * third attempt is refused, and a silent one when the third attempt ends. */
static void a_refusing_host_is_given_up_sooner_than_a_silent_one(void **state)
{
    struct world *w = *state;
    uint64_t refused_ms = released_after_ms(w, 1);
    uint64_t silent_ms = released_after_ms(w, 5000);

    assert_true(refused_ms >= 10000 && refused_ms <= 10100);
    assert_true(silent_ms >= 15000 && silent_ms <= 15100);
}

/* The operator ends grace: unreclaimed locks are released. Doing so twice changes nothing. */
static void operator_ends_grace(void **state)
{
    struct world *w = *state;

    LOCK(w, .client = 1);
    world_restart(w);
    assert_int_equal(hf_core_grace_end(w->core, w->now).seq, hf_core_durable(w->core) + 1);
    world_step(w);
    assert_int_equal(hf_core_grace_end(w->core, w->now).seq, 0);
    assert_int_equal(LOCK(w, .client = 2), GRANTED);
}

/* ADM-06: each client that does not reclaim is reported with its locks, once, although the commit
 * of their release fails. */
static void losses_are_reported_once(void **state)
{
    struct world *w = *state;
    const struct hf_counters *counters;
    struct hf_event event;

    LOCK(w, .client = 1);
    LOCK(w, .client = 1, .fh = "g");
    LOCK(w, .client = 2, .fh = "h");
    world_restart(w);
    assert_int_equal(LOCK(w, .client = 2, .fh = "h", .reclaim = true), GRANTED);
    w->by_hand = true;
    hf_core_grace_end(w->core, w->now);
    assert_true(world_event(w, HF_EVENT_CLIENT_UNRECLAIMED, &event));
    assert_int_equal(event.b, 2);
    assert_memory_equal(event.name, "client1.example", event.name_len);
    assert_true(world_commit_one(w, HF_EIO));
    w->by_hand = false;
    world_later(w, 60000);
    assert_int_equal(LOCK(w, .client = 3), GRANTED); /* released at last */
    assert_false(world_event(w, HF_EVENT_CLIENT_UNRECLAIMED, NULL));
    counters = hf_core_counters(w->core);
    assert_int_equal(counters->locks_lost[HF_LOSS_UNRECLAIMED], 2);
    assert_int_equal(counters->clients_lost[HF_LOSS_UNRECLAIMED], 1);
    assert_int_equal(counters->clients_lost[HF_LOSS_UNREACHABLE], 0);
}

/* ADM-06: of a client that reclaims some of its locks, only the others are lost. */
static void reclaimed_locks_are_no_loss(void **state)
{
    struct world *w = *state;
    struct hf_event event;

    LOCK(w, .client = 1, .fh = "f");
    LOCK(w, .client = 1, .fh = "g");
    LOCK(w, .client = 1, .fh = "h");
    world_restart(w);
    assert_int_equal(LOCK(w, .client = 1, .fh = "g", .reclaim = true), GRANTED);
    hf_core_grace_end(w->core, w->now);
    world_step(w);
    assert_true(world_event(w, HF_EVENT_CLIENT_UNRECLAIMED, &event));
    assert_int_equal(event.b, 2);
    assert_int_equal(hf_core_counters(w->core)->locks_lost[HF_LOSS_UNRECLAIMED], 2);
    assert_int_equal(LOCK(w, .client = 2, .fh = "g"), DENIED);
    assert_int_equal(LOCK(w, .client = 2, .fh = "h"), GRANTED);
}

/* NLM-11: two clients cannot both reclaim reservations that exclude each other: the second has lost
 * its own, whatever it believes. */
static void a_reclaimed_share_respects_others(void **state)
{
    struct world *w = *state;

    LOCK(w, .client = 1); /* this lock makes the next start have a grace period */
    world_restart(w);
    assert_int_equal(SHARE(w, .client = 2, .fh = "s", .mode = 3, .access = 3, .reclaim = true),
                     GRANTED);
    assert_int_equal(SHARE(w, .client = 3, .fh = "s", .mode = 3, .access = 3, .reclaim = true),
                     DENIED);
    assert_int_equal(SHARE(w, .client = 3, .fh = "t", .mode = 3, .access = 3, .reclaim = true),
                     GRANTED);
}

/* NLM-09b, ADM-07: a limit that refuses again and again makes one event at a time, which names the
 * client. */
static void a_limit_that_is_hit_has_one_event(void **state)
{
    struct world *w = *state;
    struct hf_event event;
    int seen = 0;

    w->config.limits.locks_per_client = 1;
    world_restart(w);
    LOCK(w, .client = 1);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 100; i++)
            assert_int_equal(LOCK(w, .client = 1, .fh = "g"), HF_STAT_DENIED_NOLOCKS);
        while (hf_core_next_event(w->core, &event)) {
            if (event.kind != HF_EVENT_LIMIT_HIT)
                continue;
            seen++;
            assert_int_equal(event.a, HF_LIMIT_LOCKS_PER_CLIENT);
            assert_memory_equal(event.name, "client1.example", event.name_len);
        }
        assert_int_equal(seen, round + 1);
    }
    assert_int_equal(hf_core_counters(w->core)->limit_hits[HF_LIMIT_LOCKS_PER_CLIENT], 200);
}

/* The digest of the durable state is the same after a restart; NM_LOCKs are no part of it. */
static void digest_survives_a_restart(void **state)
{
    struct world *w = *state;
    struct hf_peer peer = world_peer(w, 5);
    struct hf_mon_args mon = {hf_bytes_str("10.0.0.3"), hf_bytes_str("me"), 100021, 4, 16, {9}};
    uint64_t digest;

    for (int i = 0; i < 40; i++)
        LOCK(w, .client = 1 + i % 3, .off = (uint64_t)i * 10, .len = 5, .shared = i % 2);
    hf_core_sm_mon(w->core, w->now, &peer, &mon);
    world_step(w);
    digest = hf_core_digest(w->core);
    LOCK(w, .client = 4, .fh = "nm", .nm = true);
    LOCK(w, .client = 1, .fh = "nm", .block = true);
    assert_int_equal(hf_core_digest(w->core), digest);
    w->config.hash_key = (struct hf_hash_key){77, 78};
    world_restart(w);
    assert_int_equal(hf_core_digest(w->core), digest);
    assert_int_equal(world_status(w).locks, 40);
    UNLOCK(w, .client = 1, .off = 0, .len = 1);
    assert_int_not_equal(hf_core_digest(w->core), digest);
}

static int load_bad(struct world *w, enum hf_record_kind kind, const void *data, size_t len)
{
    return hf_core_load(w->core, kind, hf_bytes(data, len));
}

static int load_lock(struct world *w, const struct hf_record_lock *record)
{
    struct hf_buf buf;
    int rv;

    hf_buf_init(&buf, &hf_alloc_heap);
    hf_record_encode_lock(record, &buf);
    rv = hf_core_load(w->core, HF_RECORD_LOCK, hf_buf_view(&buf));
    hf_buf_free(&buf);
    return rv;
}

static int load_client(struct world *w, const struct hf_record_client *record)
{
    struct hf_buf buf;
    int rv;

    hf_buf_init(&buf, &hf_alloc_heap);
    hf_record_encode_client(record, &buf);
    rv = hf_core_load(w->core, HF_RECORD_CLIENT, hf_buf_view(&buf));
    hf_buf_free(&buf);
    return rv;
}

/* TRK-01: a client with a reconnect window is forgotten after that window, any other after the
 * linger time. */
static void a_reconnect_window_is_kept(void **state)
{
    static const struct {
        uint64_t ttl_ms, stays_ms, goes_ms;
    } CASES[] = {{0, 299999, 1}, {1000, 999, 1}, {900000, 899999, 1}, {UINT64_MAX, 1 << 30, 0}};
    struct world *w = *state;
    struct hf_record_client c = {.id = 5,
                                 .protocol = HF_PROTOCOL_NLM,
                                 .transport = HF_TRANSPORT_TCP,
                                 .name = hf_bytes_str("client1.example"),
                                 .addrs = {world_addr(1)},
                                 .n_addrs = 1,
                                 .local = world_addr(250)};

    for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
        struct hf_outcall_attempt call;

        world_crash(w);
        world_forget(w);
        w->core = hf_core_new(&w->config, &w->alloc);
        c.ttl_ms = CASES[i].ttl_ms;
        assert_int_equal(load_client(w, &c), 0);
        assert_int_equal(hf_core_start(w->core, w->now), 0);
        world_commit(w);
        assert_true(hf_core_next_outcall(w->core, w->now, &call));
        world_called(w, call.id, HF_OUTCALL_ACCEPTED);
        LOCK(w, .client = 1);
        UNLOCK(w, .client = 1);
        world_later(w, CASES[i].stays_ms);
        assert_int_equal(world_status(w).nlm_clients, 1);
        world_later(w, CASES[i].goes_ms);
        assert_int_equal(world_status(w).nlm_clients, CASES[i].goes_ms ? 0 : 1);
    }
}

/* Records come from a disk: an impossible record is refused and leaves no trace. */
static void bad_records_are_refused(void **state)
{
    struct world *w = *state;
    struct hf_record_client c = {.id = 5,
                                 .protocol = HF_PROTOCOL_NLM,
                                 .transport = HF_TRANSPORT_TCP,
                                 .name = hf_bytes_str("a")};
    struct hf_record_lock l = {.id = 9, .client_id = 5, .fh = hf_bytes_str("f"), .last = 9};
    struct hf_load_conflict found;

    world_crash(w);
    w->core = hf_core_new(&w->config, &w->alloc);
    assert_int_equal(load_bad(w, HF_RECORD_SERVER, "xx", 2), HF_EFORMAT);
    assert_int_equal(load_bad(w, HF_RECORD_CLIENT, "xx", 2), HF_EFORMAT);
    assert_int_equal(load_bad(w, HF_RECORD_LOCK, "xx", 2), HF_EFORMAT);
    assert_int_equal(load_bad(w, (enum hf_record_kind)77, "xx", 2), HF_EFORMAT);
    /* The record of a client without an address. */
    assert_int_equal(load_client(w, &c), HF_EFORMAT);
    c.n_addrs = 1;
    c.addrs[0] = world_addr(1);
    c.id = 0;
    assert_int_equal(load_client(w, &c), HF_EFORMAT);
    c.id = 5;
    assert_int_equal(load_lock(w, &l), HF_ENOENT); /* before its client */
    found = hf_core_load_conflict(w->core);
    assert_true(found.kind == HF_RECORD_LOCK && found.id == l.id);
    assert_true(found.other_kind == HF_RECORD_CLIENT && found.other_id == l.client_id);
    assert_int_equal(load_client(w, &c), 0);
    assert_int_equal(load_client(w, &c), HF_EEXIST);
    c.id = 6; /* the same client under another id */
    assert_int_equal(load_client(w, &c), HF_EEXIST);
    c = (struct hf_record_client){.id = 7,
                                  .protocol = HF_PROTOCOL_NSM,
                                  .transport = HF_TRANSPORT_UDP,
                                  .name = hf_bytes_str("m"),
                                  .my_name = hf_bytes_str("n")};
    assert_int_equal(load_client(w, &c), 0);
    c.id = 8;
    assert_int_equal(load_client(w, &c), HF_EEXIST);
    assert_int_equal(load_lock(w, &l), 0);
    l.id = 10;
    /* A lock that overlaps another lock of the same owner. */
    assert_int_equal(load_lock(w, &l), HF_EEXIST);
    l.svid = 3;
    l.exclusive = true;
    assert_int_equal(load_lock(w, &l), HF_EEXIST); /* conflicts with another's */
    found = hf_core_load_conflict(w->core); /* the report names both locks, for an operator */
    assert_true(found.kind == HF_RECORD_LOCK && found.id == l.id);
    assert_true(found.other_kind == HF_RECORD_LOCK && found.other_id == 9);
    l.client_id = 7;
    assert_int_equal(load_lock(w, &l), HF_ENOENT); /* a monitor holds no locks */
    l.id = 0;
    assert_int_equal(load_lock(w, &l), HF_EFORMAT);
    assert_int_equal(hf_core_start(w->core, w->now), 0);
    world_step(w);
    assert_int_equal(world_status(w).locks, 1);
    assert_int_equal(world_status(w).nlm_clients, 1);
    assert_int_equal(world_status(w).nsm_clients, 1);
}

/* The loader works on several locks at a time, which may have one owner, or one file. */
static void the_loader_loads_everything(void **state)
{
    static const unsigned COUNTS[] = {1, 7, 24, 31, 32, 33, 300};
    static const char *const FILES[] = {"a", "b", "c", "d", "e"};
    struct world *w = *state;

    for (size_t n = 0; n < HF_COUNT_OF(COUNTS); n++) {
        uint64_t digest;

        world_crash(w);
        world_forget(w);
        world_start(w);
        for (unsigned i = 0; i < COUNTS[n]; i++)
            LOCK(w, .client = (int)(1 + i % 2), .svid = (int)(i % 3),
                 .fh = FILES[i * i % HF_COUNT_OF(FILES)], .off = (uint64_t)i * 10, .len = 5);
        digest = hf_core_digest(w->core);
        world_restart(w);
        assert_int_equal(hf_core_digest(w->core), digest);
        assert_int_equal(world_status(w).locks, COUNTS[n]);
    }
}

/* A lock that cannot be loaded is reported, however many follow it; none is loaded after it. */
static void the_loader_reports_a_bad_lock(void **state)
{
    struct world *w = *state;

    for (unsigned after = 0; after < 70; after += 23) {
        struct hf_loader *loader;
        struct hf_buf buf;
        int rv = 0;

        world_crash(w);
        w->core = hf_core_new(&w->config, &w->alloc);
        loader = hf_loader_new(w->core);
        hf_buf_init(&buf, &hf_alloc_heap);
        hf_record_encode_lock(
            &(struct hf_record_lock){.id = 9, .client_id = 5, .fh = hf_bytes_str("f")}, &buf);
        for (unsigned i = 0; i <= after && rv == 0; i++)
            rv = hf_loader_add(loader, HF_RECORD_LOCK, hf_buf_view(&buf));
        if (rv == 0)
            rv = hf_loader_end(loader);
        assert_int_equal(rv, HF_ENOENT); /* the lock's client is missing */
        assert_int_equal(hf_loader_add(loader, HF_RECORD_LOCK, hf_bytes("x", 1)), HF_EFORMAT);
        hf_buf_free(&buf);
        hf_loader_del(loader);
        assert_int_equal(hf_core_start(w->core, w->now), 0);
        world_step(w);
        assert_int_equal(world_status(w).locks, 0);
    }
}

/* SM_SIMU_CRASH does what a restart would: epoch, grace, notices; what is volatile goes. */
static void simulated_crash(void **state)
{
    struct world *w = *state;

    LOCK(w, .client = 1, .len = 10);
    LOCK(w, .client = 2, .off = 20, .len = 10, .nm = true);
    LOCK(w, .client = 2, .len = 1, .block = true);
    SHARE(w, .client = 2, .access = 1);
    assert_int_equal(hf_core_simu_crash(w->core, w->now), hf_core_durable(w->core) + 1);
    world_step(w);
    assert_int_equal(world_status(w).state, 3);
    assert_true(world_status(w).grace_active);
    assert_int_equal(world_status(w).locks, 1);
    assert_int_equal(world_status(w).waiters + world_status(w).shares, 0);
    assert_int_equal(world_call_of(w, HF_OUTCALL_NOTIFY).state, 3);
    assert_int_equal(LOCK(w, .client = 1, .len = 10, .reclaim = true), GRANTED);
    assert_false(world_status(w).grace_active);
}

/* SM_SIMU_CRASH without durable locks: every registered client may reclaim, and no other. */
static void simulated_crash_without_durable_locks(void **state)
{
    struct world *w = *state;

    world_crash(w);
    w->config.durable_locks = false;
    world_start(w);
    LOCK(w, .client = 1);
    LOCK(w, .client = 2, .fh = "n", .nm = true);
    hf_core_simu_crash(w->core, w->now);
    world_step(w);
    assert_int_equal(world_status(w).locks, 0);
    hf_core_simu_crash(w->core, w->now); /* a second SM_SIMU_CRASH, in grace */
    world_step(w);
    assert_int_equal(world_status(w).unreclaimed, 1);
    assert_int_equal(LOCK(w, .client = 1, .reclaim = true), GRANTED);
}

/*
 * GRC-03: the last lock is reclaimed while the UNLOCK of another is being committed. If that fails
 * the other lock is held again, and unclaimed. So grace must not end before the batch in flight is
 * durable.
 */
static void grace_waits_for_the_batch_in_flight(void **state)
{
    struct world *w = *state;
    const struct hf_batch *batch;

    assert_int_equal(LOCK(w, .fh = "f"), GRANTED);
    assert_int_equal(LOCK(w, .fh = "g"), GRANTED);
    world_restart(w);
    w->by_hand = true;
    assert_int_equal(UNLOCK(w, .fh = "f"), GRANTED);
    batch = hf_core_take_batch(w->core);
    assert_non_null(batch);
    assert_int_equal(LOCK(w, .fh = "g", .reclaim = true), GRANTED);
    assert_true(world_status(w).grace_active);
    hf_core_batch_done(w->core, w->now, batch->seq, HF_EIO);
    assert_true(world_status(w).grace_active);
    assert_int_equal(LOCK(w, .client = 2, .fh = "f"), HF_STAT_DENIED_GRACE_PERIOD);
    assert_int_equal(LOCK(w, .fh = "f", .reclaim = true), GRANTED);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, open_world, close_world)
    const struct CMUnitTest tests[] = {
        T(grace_waits_for_the_batch_in_flight),
        T(no_grace_when_nothing_was_held),
        T(state_numbers_and_clean_stop),
        T(nothing_is_left_of_loaded_locks),
        T(epoch_follows_from_ids),
        T(strict_grace),
        T(strict_grace_grants_what_is_held),
        T(reclaims_are_checked),
        T(a_reclaim_as_recorded_writes_nothing),
        T(reclaims_of_parts_and_several),
        T(conflict_mode),
        T(conflict_mode_lock_claims),
        T(conflict_mode_reclaim_keeps_an_upgrade),
        T(grace_without_durable_locks),
        T(unreachable_without_durable_locks),
        T(a_refusing_host_is_given_up_sooner_than_a_silent_one),
        T(operator_ends_grace),
        T(losses_are_reported_once),
        T(reclaimed_locks_are_no_loss),
        T(a_reclaimed_share_respects_others),
        T(a_limit_that_is_hit_has_one_event),
        T(digest_survives_a_restart),
        T(a_reconnect_window_is_kept),
        T(bad_records_are_refused),
        T(the_loader_loads_everything),
        T(the_loader_reports_a_bad_lock),
        T(simulated_crash),
        T(simulated_crash_without_durable_locks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
