/* Nothing is promised before it is durable, and what fails leaves no trace (SPEC sections 4, 5). */
#include "core_world.h"

enum {
    GRANTED = HF_STAT_GRANTED,
    DENIED = HF_STAT_DENIED,
    NOLOCKS = HF_STAT_DENIED_NOLOCKS,
    BLOCKED = HF_STAT_BLOCKED,
};

/* Commits happen only when the test says so. */
static int open_world_by_hand(void **state)
{
    open_world(state);
    ((struct world *)*state)->by_hand = true;
    return 0;
}

/* NSM-06d: the epoch is durable before anything leaves, even SM_STAT. */
static void nothing_leaves_before_the_epoch(void **state)
{
    struct world *w = *state;
    struct hf_sm_answer stat;
    struct hf_answer a;

    world_crash(w);
    world_start(w);
    stat = hf_core_sm_stat(w->core);
    assert_int_equal(stat.state, 3); /* the second epoch */
    assert_int_equal(stat.ticket.seq, 1);
    a = ASK(w, hf_core_test, .client = 1);
    assert_int_equal(a.ticket.seq, 1);
    assert_int_equal(ASK(w, hf_core_unlock, .client = 1).ticket.seq, 1);
    assert_true(world_commit_one(w, HF_EIO)); /* first the store refuses the epoch */
    assert_int_equal(hf_core_durable(w->core), 0);
    assert_int_equal(hf_core_sm_stat(w->core).ticket.seq, 2);
    assert_true(world_commit_one(w, 0)); /* then the store takes it */
    assert_int_equal(hf_core_sm_stat(w->core).ticket.seq, 0);
    assert_int_equal(world_count(w, HF_RECORD_SERVER), 1);
}

/*
 * No answer leaves before the epoch is durable, not even BLOCKED. If the epoch fails the client is
 * refused, so nothing of its request may be left: no waiter, and no lock that has no record.
 */
static void nothing_is_left_of_a_failed_epoch(void **state)
{
    struct world *w = *state;

    hf_core_simu_crash(w->core, w->now);
    for (int i = 0; i < 300; i++) { /* more requests than an owner may have in the queue */
        uint64_t next = hf_core_durable(w->core) + 1;
        struct hf_answer a;

        assert_true(ASK(w, hf_core_lock, .client = 1, .nm = true).ticket.seq >= next);
        a = ASK(w, hf_core_lock, .client = 2, .off = (uint64_t)i, .len = 1, .block = true);
        assert_int_equal(a.stat, BLOCKED);
        assert_true(a.ticket.seq >= next);
        a = ASK(w, hf_core_lock, .client = 2, .off = (uint64_t)i, .len = 1, .block = true);
        assert_true(a.ticket.seq >= next); /* a repeat */
        assert_int_equal(SHARE(w, .client = 3, .fh = "g", .mode = 1, .access = 1),
                         HF_STAT_DENIED_GRACE_PERIOD);
        assert_int_equal(world_status(w).waiters, 1);
        assert_true(world_commit_one(w, HF_EIO));
        assert_int_equal(world_status(w).waiters, 0);
        assert_int_equal(world_status(w).locks, 0);
        assert_int_equal(world_status(w).nlm_clients, 0);
    }
    world_later(w, 1000);
    world_commit(w);
    assert_int_equal(LOCK(w, .client = 3), GRANTED);
    assert_int_equal(SHARE(w, .client = 3, .fh = "g", .mode = 1, .access = 1), GRANTED);
}

/* A failed epoch also leaves no lock without a record, even of a client that is registered already.
 */
static void no_volatile_lock_is_left_of_a_failed_epoch(void **state)
{
    struct world *w = *state;

    world_crash(w);
    w->config.durable_locks = false;
    w->config.grace_ms = 0;
    world_start(w);
    world_commit(w);
    LOCK(w, .client = 1, .fh = "g");
    world_commit(w);
    hf_core_simu_crash(w->core, w->now);
    world_later(w, 1); /* grace is over */
    assert_false(world_status(w).grace_active);
    assert_int_equal(LOCK(w, .client = 1), GRANTED);
    assert_true(world_commit_one(w, HF_EIO));
    assert_int_equal(world_status(w).locks, 0);
    assert_int_equal(world_status(w).nlm_clients, 1);
}

/* A waiter that came while the epoch was in flight is undone with its own batch, and its grant
 * before that. */
static void a_grant_goes_before_its_waiter(void **state)
{
    struct world *w = *state;
    uint64_t seq;

    hf_core_simu_crash(w->core, w->now);
    assert_non_null(hf_core_take_batch(w->core)); /* the epoch is in flight */
    seq = hf_core_durable(w->core) + 1;
    LOCK(w, .client = 1, .nm = true);
    assert_int_equal(ASK(w, hf_core_lock, .client = 2, .nm = true, .block = true).ticket.seq,
                     seq + 1);
    hf_core_batch_done(w->core, w->now, seq, 0);
    assert_int_equal(ASK(w, hf_core_lock, .client = 2, .nm = true, .block = true).ticket.seq,
                     seq + 1);
    UNLOCK(w, .client = 1); /* client 2 gets the lock */
    assert_int_equal(world_status(w).waiters, 0);
    /* The callback must not leave before the BLOCKED. */
    assert_int_equal(world_call_of(w, HF_OUTCALL_GRANTED).id, 0);
    assert_true(world_commit_one(w, HF_EIO));
    assert_int_equal(world_status(w).waiters, 0);
    assert_int_equal(world_status(w).locks, 0);
    assert_int_equal(world_call_of(w, HF_OUTCALL_GRANTED).id, 0);

    hf_core_simu_crash(w->core, w->now); /* the same once more, and the commits succeed */
    LOCK(w, .client = 1, .nm = true);
    LOCK(w, .client = 2, .nm = true, .block = true);
    LOCK(w, .client = 3, .nm = true, .block = true);
    CANCEL(w, .client = 3); /* client 3 came and left in one batch */
    UNLOCK(w, .client = 1);
    world_commit(w);
    assert_int_not_equal(world_call_of(w, HF_OUTCALL_GRANTED).id, 0);
    assert_int_equal(world_status(w).waiters, 0);
}

/* An answer waits for its own batch, and so does everything that depends on it. */
static void dependent_answers_wait(void **state)
{
    struct world *w = *state;
    uint64_t seq = hf_core_durable(w->core) + 1;
    const struct hf_batch *batch;

    assert_int_equal(ASK(w, hf_core_lock, .client = 1, .len = 10).ticket.seq, seq);
    assert_int_equal(ASK(w, hf_core_lock, .client = 1, .len = 10).ticket.seq, seq); /* a repeat */
    assert_int_equal(ASK(w, hf_core_test, .client = 2).ticket.seq, seq);
    assert_int_equal(ASK(w, hf_core_lock, .client = 2).ticket.seq, seq); /* DENIED */
    assert_int_equal(ASK(w, hf_core_cancel, .client = 1, .len = 10).ticket.seq, seq);
    assert_int_equal(ASK(w, hf_core_lock, .client = 2, .block = true).ticket.seq, 0); /* BLOCKED */
    assert_int_equal(ASK(w, hf_core_test, .client = 2, .fh = "other").ticket.seq, 0);
    assert_int_equal(ASK(w, hf_core_lock, .client = 3, .fh = "quiet", .nm = true).ticket.seq, 0);
    batch = hf_core_take_batch(w->core);
    assert_int_equal(batch->n_ops, 2); /* the client and its first lock together */
    assert_null(hf_core_take_batch(w->core));
    /* An NM_LOCK on the file in flight needs no record, and still waits. */
    assert_int_equal(ASK(w, hf_core_lock, .client = 3, .off = 50, .len = 1, .nm = true).ticket.seq,
                     seq + 1);
    assert_int_equal(ASK(w, hf_core_cancel, .client = 2).ticket.seq, 0);
    hf_core_batch_done(w->core, w->now, seq, 0);
    batch = hf_core_take_batch(w->core);
    assert_non_null(batch);
    assert_int_equal(batch->n_ops, 0);
    hf_core_batch_done(w->core, w->now, batch->seq, 0);
    assert_int_equal(ASK(w, hf_core_test, .client = 2).ticket.seq, 0);
    assert_null(hf_core_take_batch(w->core));
}

/* Starts a service with standbys, whose clients have no lock yet. */
static void open_fenced(struct world *w, bool durable_locks)
{
    world_commit(w);
    w->config.fenced = true;
    w->config.durable_locks = durable_locks;
    world_restart(w);
    world_commit(w);
}

/*
 * HA-03b: with standbys, no promise leaves without a commit that began after it was made, because
 * only the database knows which node has the service. That holds for promises without a record,
 * too.
 */
static void with_standbys_every_promise_waits_for_a_commit(void **state)
{
    struct world *w = *state;
    struct hf_peer peer = world_peer(w, 3);
    struct hf_share_args share = {.fh = hf_bytes_str("f"), .oh = hf_bytes_str("owner"), .mode = 1};
    uint64_t seq;

    open_fenced(w, true);
    seq = hf_core_durable(w->core);
    assert_int_equal(ASK(w, hf_core_lock, .client = 1, .nm = true).ticket.seq, ++seq);
    world_commit(w);
    assert_int_equal(ASK(w, hf_core_lock, .client = 1, .nm = true).ticket.seq,
                     ++seq); /* a repeat */
    world_commit(w);
    assert_int_equal(ASK(w, hf_core_lock, .client = 2, .nm = true, .block = true).ticket.seq,
                     ++seq);
    world_commit(w);
    assert_int_equal(ASK(w, hf_core_lock, .client = 4, .nm = true).ticket.seq, ++seq); /* DENIED */
    world_commit(w);
    /* Client 2 gets the lock. */
    assert_int_equal(ASK(w, hf_core_unlock, .client = 1).ticket.seq, ++seq);
    assert_int_equal(world_call_of(w, HF_OUTCALL_GRANTED).id, 0);
    world_commit(w);
    assert_int_not_equal(world_call_of(w, HF_OUTCALL_GRANTED).id, 0);
    assert_int_equal(ASK(w, hf_core_lock, .client = 2, .nm = true, .block = true).ticket.seq,
                     ++seq);
    world_commit(w);
    assert_int_equal(hf_core_share(w->core, w->now, &peer, &share).ticket.seq, ++seq);
    world_commit(w);
    assert_int_equal(hf_core_unshare(w->core, w->now, &peer, &share).ticket.seq, ++seq);
    world_commit(w);
    assert_null(hf_core_take_batch(w->core));
}

static void with_standbys_what_is_not_recorded_is_undone_with_its_batch(void **state)
{
    struct world *w = *state;

    open_fenced(w, true);
    assert_int_equal(LOCK(w, .client = 1, .nm = true), GRANTED);
    assert_true(world_commit_one(w, HF_EUNREACH));
    assert_int_equal(world_status(w).locks, 0);
    LOCK(w, .client = 1, .nm = true);
    world_commit(w);
    UNLOCK(w, .client = 1);
    /* The request is not answered, so the client repeats it. */
    assert_true(world_commit_one(w, HF_EUNREACH));
    assert_int_equal(world_status(w).locks, 1);
}

/* HA-03c */
static void with_standbys_locks_that_are_not_durable_wait(void **state)
{
    struct world *w = *state;
    uint64_t seq;

    open_fenced(w, false);
    LOCK(w, .client = 1);
    world_commit(w); /* records the client */
    seq = hf_core_durable(w->core);
    assert_int_equal(ASK(w, hf_core_lock, .client = 1, .fh = "g").ticket.seq, seq + 1);
    assert_int_equal(hf_core_take_batch(w->core)->n_ops, 0);
    hf_core_batch_done(w->core, w->now, seq + 1, HF_EUNREACH);
    assert_int_equal(world_status(w).locks, 1);
}

/* SPEC 5: a failed commit undoes locks, splits, upgrades and registrations; the digest is as
 * before. */
static void failed_commit_undoes_everything(void **state)
{
    struct world *w = *state;
    uint64_t digest;

    LOCK(w, .client = 1, .len = 30);
    LOCK(w, .client = 2, .fh = "g", .shared = true);
    world_commit(w);
    digest = hf_core_digest(w->core);
    UNLOCK(w, .client = 1, .off = 10, .len = 10);
    LOCK(w, .client = 2, .fh = "g");
    LOCK(w, .client = 3, .fh = "h");
    assert_non_null(hf_core_take_batch(w->core));
    /* This UNLOCK goes into the next batch while the first one is in flight. */
    UNLOCK(w, .client = 1);
    UNLOCK(w, .client = 3, .fh = "h");
    LOCK(w, .client = 4, .off = 0, .len = 5);
    assert_int_not_equal(hf_core_digest(w->core), digest);
    hf_core_batch_done(w->core, w->now, hf_core_durable(w->core) + 1, HF_ENOSPC);
    world_check(w);
    assert_int_equal(hf_core_digest(w->core), digest);
    assert_int_equal(world_status(w).nlm_clients, 2);
    assert_int_equal(TEST(w, .client = 4, .off = 12, .len = 1), DENIED);
    assert_int_equal(TEST(w, .client = 4, .fh = "g", .shared = true), GRANTED);
    assert_int_equal(hf_core_counters(w->core)->commits_failed, 1);
    assert_true(world_event(w, HF_EVENT_COMMIT_FAILED, NULL));
    world_commit(w);
    world_restart(w);
    assert_int_equal(hf_core_digest(w->core), digest);
}

/* A waiter whose grant is undone waits again, in its old place, and is served later. */
static void undone_grant_waits_again(void **state)
{
    struct world *w = *state;

    LOCK(w, .client = 1);
    world_commit(w);
    LOCK(w, .client = 2, .block = true);
    LOCK(w, .client = 3, .block = true);
    UNLOCK(w, .client = 1); /* client 2 gets the lock, provided that the commit succeeds */
    assert_int_equal(world_call_of(w, HF_OUTCALL_GRANTED).id, 0);
    assert_true(world_commit_one(w, HF_EIO));
    assert_int_equal(world_status(w).waiters, 2);
    assert_int_equal(world_call_of(w, HF_OUTCALL_GRANTED).id, 0);
    UNLOCK(w, .client = 1);
    world_commit(w);
    assert_true(
        hf_bytes_equal(world_call_of(w, HF_OUTCALL_GRANTED).host, hf_bytes_str("client2.example")));
    assert_int_equal(world_status(w).waiters, 1);
    /* The client was registered when it began to wait. */
    assert_int_equal(world_count(w, HF_RECORD_CLIENT), 2);
}

/* If a commit fails and undoes a lock for which a waiter waits, the waiter soon gets the lock. */
static void waiter_behind_an_undone_lock(void **state)
{
    struct world *w = *state;

    LOCK(w, .client = 1);
    LOCK(w, .client = 2, .block = true);
    assert_true(world_commit_one(w, HF_EIO));
    assert_int_equal(world_status(w).waiters, 1);
    assert_int_equal(hf_core_deadline(w->core), w->now.mono_ms + 1000);
    world_later(w, 1000);
    world_commit(w);
    assert_int_not_equal(world_call_of(w, HF_OUTCALL_GRANTED).id, 0);
}

/* A granted waiter that leaves before its commit fails stays away. */
static void undone_grant_of_a_waiter_that_left(void **state)
{
    struct world *w = *state;
    struct hf_answer a;

    LOCK(w, .client = 1);
    world_commit(w);
    LOCK(w, .client = 2, .block = true);
    UNLOCK(w, .client = 1);
    /* A repeat, whose answer tells the grant. */
    a = ASK(w, hf_core_lock, .client = 2, .block = true);
    assert_int_equal(a.stat, GRANTED);
    assert_int_equal(a.ticket.seq, hf_core_durable(w->core) + 1);
    assert_true(world_commit_one(w, HF_EIO)); /* the failed commit makes the answer a refusal */
    assert_int_equal(world_status(w).waiters, 0);
    assert_int_equal(world_status(w).locks, 1);
    UNLOCK(w, .client = 1);
    LOCK(w, .client = 2);
    LOCK(w, .client = 3, .block = true);
    UNLOCK(w, .client = 2);
    UNLOCK(w, .client = 3); /* granted and removed in one batch, which succeeds */
    world_commit(w);
    assert_int_equal(world_status(w).locks, 0);
}

/* Locks not durable: a lock of a client whose registration fails goes with it. */
static void volatile_lock_of_an_undone_client(void **state)
{
    struct world *w = *state;

    world_crash(w);
    w->config.durable_locks = false;
    world_start(w);
    world_commit(w);
    assert_int_equal(ASK(w, hf_core_lock, .client = 1).ticket.seq, 2);
    assert_int_equal(ASK(w, hf_core_lock, .client = 1, .fh = "g").ticket.seq,
                     2); /* same registration */
    assert_int_equal(ASK(w, hf_core_lock, .client = 1, .fh = "g").ticket.seq,
                     2); /* a repeat of the request */
    assert_true(world_commit_one(w, HF_EIO));
    assert_int_equal(world_status(w).locks, 0);
    assert_int_equal(world_status(w).nlm_clients, 0);
    LOCK(w, .client = 1);
    world_commit(w);
    assert_int_equal(world_count(w, HF_RECORD_LOCK), 0);
    assert_int_equal(world_count(w, HF_RECORD_CLIENT), 1);
    assert_int_equal(ASK(w, hf_core_unlock, .client = 1).ticket.seq,
                     0); /* there is nothing to write, so the answer leaves at once */
    assert_int_equal(ASK(w, hf_core_lock, .client = 1).ticket.seq, 0);
    assert_null(hf_core_take_batch(w->core));
}

static void expect_no_client_in_the_end(struct world *w)
{
    assert_int_equal(world_status(w).locks, 0);
    for (int i = 0; i < 2; i++) {
        world_later(w, w->config.linger_ms);
        world_commit(w);
    }
    assert_int_equal(world_status(w).nlm_clients, 0);
    assert_int_equal(world_count(w, HF_RECORD_CLIENT), 0);
}

/* When the linger time ends, the client has a lock whose commit fails later: its registration still
 * ends. */
static void linger_ends_after_an_undone_lock(void **state)
{
    struct world *w = *state;

    LOCK(w, .client = 1);
    world_commit(w);
    UNLOCK(w, .client = 1);
    world_commit(w);
    world_later(w, w->config.linger_ms - 1);
    LOCK(w, .client = 1);
    world_later(w, 2); /* the timer fires while the client has a lock */
    assert_true(world_commit_one(w, HF_EIO));
    expect_no_client_in_the_end(w);
}

/* A lock is granted while the notice of our restart is under way, and its commit fails when the
 * notice has been delivered: the registration still ends (seed 130163230). */
static void linger_begins_when_a_lock_is_undone(void **state)
{
    struct world *w = *state;

    w->config.grace_mode = HF_GRACE_CONFLICT;
    LOCK(w, .client = 1);
    world_commit(w);
    UNLOCK(w, .client = 1);
    world_commit(w);
    world_restart(w);
    world_commit(w);
    assert_int_equal(world_status(w).nlm_clients, 1);
    assert_int_equal(LOCK(w, .client = 1), GRANTED);
    world_called(w, world_call_of(w, HF_OUTCALL_NOTIFY).id, HF_OUTCALL_ACCEPTED);
    assert_true(world_commit_one(w, HF_EIO));
    expect_no_client_in_the_end(w);
}

/* CRS-01f: A crash whose release could not be committed is processed again until it is. */
static void crash_is_repeated_until_durable(void **state)
{
    struct world *w = *state;
    struct hf_addr from = world_addr(1);
    uint64_t seq;

    LOCK(w, .client = 1, .state = 5);
    LOCK(w, .client = 1, .fh = "g");
    world_commit(w);
    seq = hf_core_sm_notify(w->core, w->now, &from, hf_bytes_str("client1.example"), 7, false)
              .ticket.seq;
    assert_int_equal(seq, hf_core_durable(w->core) + 1);
    /* the same notice once more is no news, but its answer waits for the first one */
    assert_int_equal(
        hf_core_sm_notify(w->core, w->now, &from, hf_bytes_str("client1"), 7, false).ticket.seq,
        seq);
    assert_int_equal(world_status(w).locks, 0);
    assert_true(world_commit_one(w, HF_EIO));
    assert_int_equal(world_status(w).locks, 2);
    LOCK(w, .client = 1, .fh = "new life"); /* a lock of the restarted client */
    world_commit(w);
    world_later(w, 1000);
    assert_int_equal(world_status(w).locks, 1);
    world_commit(w);
    assert_int_equal(world_count(w, HF_RECORD_LOCK), 1);
    world_later(w, 5000);
    assert_int_equal(world_status(w).locks, 1);
}

/* An SM_MON whose commit fails is removed, and counts no more; an UNMON whose commit fails leaves
 * the registration. */
static void monitors_undone(void **state)
{
    struct world *w = *state;
    struct hf_peer peer = world_peer(w, 1);
    struct hf_mon_args mon = {hf_bytes_str("10.0.0.9"), hf_bytes_str("me"), 100021, 3, 16, {1}};
    struct hf_addr other = world_addr(10);
    struct hf_sm_answer a = hf_core_sm_mon(w->core, w->now, &peer, &mon);

    assert_true(a.ok);
    assert_int_equal(a.ticket.seq, hf_core_durable(w->core) + 1);
    assert_int_equal(hf_core_sm_mon(w->core, w->now, &peer, &mon).ticket.seq,
                     a.ticket.seq); /* again */
    assert_true(world_commit_one(w, HF_EIO));
    assert_int_equal(world_status(w).nsm_clients, 0);
    hf_core_sm_mon(w->core, w->now, &peer, &mon);
    world_commit(w);
    mon.priv[0] = 2; /* an update, undone */
    hf_core_sm_mon(w->core, w->now, &peer, &mon);
    uint64_t digest = 0, cursor = 0;
    struct hf_view_client row;
    assert_true(world_commit_one(w, HF_EIO));
    assert_int_equal(hf_core_view_clients(w->core, &cursor, UINT64_MAX, &row, 1), 1);
    assert_int_equal(row.record.priv[0], 1);
    digest = hf_core_digest(w->core);
    assert_int_equal(hf_core_client_learn(w->core, w->now, row.record.id, &other), 0);
    hf_core_sm_unmon(w->core, w->now, &peer, &mon);
    hf_core_sm_unmon(w->core, w->now, &peer, &mon); /* the registration is being removed already */
    hf_core_sm_unmon_all(w->core, w->now, &peer, &mon);
    assert_int_equal(world_status(w).nsm_clients, 0);
    assert_true(world_commit_one(w, HF_EIO));
    assert_int_equal(world_status(w).nsm_clients, 1);
    assert_int_equal(hf_core_digest(w->core), digest);
    hf_core_sm_unmon(w->core, w->now, &peer, &mon);
    /* The registration comes back, in the same batch. */
    hf_core_sm_mon(w->core, w->now, &peer, &mon);
    world_commit(w);
    assert_int_equal(world_count(w, HF_RECORD_CLIENT), 1);
}

/* The end of grace whose commit fails is completed later. */
static void end_of_grace_undone(void **state)
{
    struct world *w = *state;

    LOCK(w, .client = 1);
    world_commit(w);
    world_restart(w);
    world_commit(w);
    hf_core_grace_end(w->core, w->now);
    assert_int_equal(world_status(w).locks, 0);
    assert_true(world_commit_one(w, HF_EIO));
    assert_int_equal(world_status(w).locks, 1);
    world_later(w, 1000);
    world_commit(w);
    assert_int_equal(world_status(w).locks, 0);
    assert_int_equal(world_count(w, HF_RECORD_LOCK), 0);
}

/* GRC-03a: grace does not end early on the strength of something that may be undone. */
static void early_end_of_grace_waits(void **state)
{
    struct world *w = *state;

    LOCK(w, .client = 1);
    world_commit(w);
    world_restart(w);
    world_commit(w);
    UNLOCK(w, .client = 1);
    assert_true(world_status(w).grace_active);
    assert_true(world_commit_one(w, HF_EIO));
    assert_true(world_status(w).grace_active);
    assert_int_equal(LOCK(w, .client = 1, .reclaim = true), GRANTED); /* still its own */
    world_commit(w);
    assert_false(world_status(w).grace_active);
    assert_int_equal(world_status(w).locks, 1);
}

/* A reclaim in a batch that fails is undone, and the lock is unclaimed again. */
static void reclaim_undone(void **state)
{
    struct world *w = *state;

    LOCK(w, .client = 1, .off = 0, .len = 10);
    LOCK(w, .client = 1, .off = 20, .len = 10);
    LOCK(w, .client = 2, .off = 40, .len = 10);
    world_commit(w);
    world_restart(w);
    world_commit(w);
    UNLOCK(w, .client = 1, .off = 0, .len = 5);
    assert_int_equal(
        ASK(w, hf_core_lock, .client = 1, .off = 20, .len = 10, .reclaim = true).ticket.seq, 2);
    assert_int_equal(world_status(w).unreclaimed, 2);
    assert_int_equal(world_status(w).reclaimed, 1);
    assert_true(world_commit_one(w, HF_EIO));
    assert_int_equal(world_status(w).unreclaimed, 3);
    assert_int_equal(world_status(w).reclaimed, 0);
}

/* After a failed batch, no answer waits for it. */
static void nobody_waits_for_a_failed_batch(void **state)
{
    struct world *w = *state;

    LOCK(w, .client = 2, .off = 50, .len = 1, .shared = true);
    world_commit(w);
    LOCK(w, .client = 1, .shared = true);
    assert_true(world_commit_one(w, HF_EIO));
    assert_int_equal(ASK(w, hf_core_test, .client = 3).ticket.seq, 0);
    assert_int_equal(ASK(w, hf_core_unlock, .client = 2, .off = 9, .len = 1).ticket.seq, 0);
    assert_null(hf_core_take_batch(w->core));
}

/* A client whose registration is being removed comes back: if both changes are undone, it is as the
 * disk has it. */
static void leaving_client_comes_back_as_on_disk(void **state)
{
    struct world *w = *state;
    struct hf_peer peer = world_peer(w, 1);
    struct hf_lock_args args = {.fh = hf_bytes_str("f"), .exclusive = true, .block = true};
    uint64_t digest;

    LOCK(w, .client = 1, .fh = "g");
    UNLOCK(w, .client = 1, .fh = "g");
    LOCK(w, .client = 2);
    world_commit(w);
    digest = hf_core_digest(w->core);
    world_later(w, 300000); /* the registration is removed, but not durably yet */
    assert_int_not_equal(hf_core_digest(w->core), digest);
    args.state = 9; /* the client's record will have this state */
    assert_int_equal(hf_core_lock(w->core, w->now, &peer, &args).stat, BLOCKED);
    UNLOCK(w, .client = 2); /* client 1 is granted the lock, and registered anew */
    assert_true(world_commit_one(w, HF_EIO));
    assert_int_equal(hf_core_digest(w->core), digest);
    world_commit(w);
}

/* --- memory --- */

/* Runs a story that touches everything; returns when an operation was refused for lack of memory.
 */
static void story(struct world *w)
{
    struct hf_peer peer = world_peer(w, 8);
    struct hf_mon_args mon = {hf_bytes_str("10.0.0.2"), hf_bytes_str("me"), 100021, 3, 16, {1}};
    struct hf_addr from = world_addr(2);
    struct hf_outcall_attempt call;
    struct hf_ticket wait;
    static char handle[300];

    memset(handle, 'h', sizeof(handle) - 1);
    hf_core_sm_mon(w->core, w->now, &peer, &mon);
    mon.mon_name = hf_bytes_str("server9");
    hf_core_sm_mon(w->core, w->now, &peer, &mon);
    mon.priv[3]++;
    hf_core_sm_mon(w->core, w->now, &peer, &mon);
    hf_core_client_learn(w->core, w->now, 0, &from);
    LOCK(w, .client = 1, .off = 0, .len = 100, .shared = true);
    LOCK(w, .client = 1, .off = 10, .len = 10);
    LOCK(w, .client = 1, .fh = handle, .oh = handle);
    LOCK(w, .client = 2, .off = 50, .len = 100, .block = true);
    LOCK(w, .client = 3, .off = 60, .len = 100, .block = true);
    SHARE(w, .client = 2, .mode = 1, .access = 1);
    UNLOCK(w, .client = 1, .off = 40, .len = 40);
    UNLOCK(w, .client = 1, .off = 80, .len = 0);
    world_commit_one(w, w->now.mono_ms % 2 ? HF_EIO : 0);
    while (hf_core_next_outcall(w->core, w->now, &call))
        hf_core_outcall_done(w->core, w->now, call.id,
                             call.attempt > 1 ? HF_OUTCALL_DENIED : HF_OUTCALL_FAILED,
                             HF_ETIMEDOUT);
    world_later(w, 5000);
    while (hf_core_next_outcall(w->core, w->now, &call))
        hf_core_outcall_done(w->core, w->now, call.id, HF_OUTCALL_DENIED, 0);
    hf_core_sm_notify(w->core, w->now, &from, hf_bytes_str("client2"), 9, false);
    world_check(w);
    UNSHARE(w, .client = 2);
    LOCK(w, .client = 4, .nm = true, .off = 5000, .len = 1);
    peer = world_peer(w, 4);
    hf_core_free_all(w->core, w->now, &peer, 0, false);
    world_later(w, 1000);
    hf_core_release_file(w->core, w->now, hf_bytes_str("f"), &wait);
    world_check(w);
    peer = world_peer(w, 8);
    hf_core_sm_unmon_all(w->core, w->now, &peer, &mon);
    world_check(w);
    hf_core_simu_crash(w->core, w->now);
    world_check(w);
    LOCK(w, .client = 1, .fh = handle, .oh = handle, .off = 5, .len = 3, .reclaim = true);
    world_later(w, 400000);
    world_later(w, 400000);
}

/* A grant was undone and is to be made again: the first waiter's owner gets the lock at once if it
 * asks without waiting. */
static void the_first_waiter_may_ask_without_waiting(void **state)
{
    struct world *w = *state;

    w->by_hand = true;
    LOCK(w, .client = 1, .off = 5, .len = 1, .nm = true);
    LOCK(w, .client = 2, .off = 5, .len = 1, .block = true);
    LOCK(w, .client = 3, .off = 4, .len = 2, .block = true);
    UNLOCK(w, .client = 1);
    assert_true(world_commit_one(w, HF_EIO));
    assert_int_equal(world_status(w).waiters, 2);
    assert_int_equal(LOCK(w, .client = 2, .off = 5, .len = 1), HF_STAT_GRANTED);
}

/* NSM-06d: no answer carries a new state number before it is durable, however often that fails. */
static void a_state_number_is_durable_before_it_is_told(void **state)
{
    struct world *w = *state;
    struct hf_sm_answer answer;

    assert_true(hf_core_state_is_durable(w->core));
    w->by_hand = true;
    hf_core_simu_crash(w->core, w->now);
    assert_false(hf_core_state_is_durable(w->core));
    assert_true(world_commit_one(w, HF_EIO));
    /* A refusal that leaves now must not carry the new number. */
    assert_false(hf_core_state_is_durable(w->core));
    answer = hf_core_sm_stat(w->core);
    assert_true(answer.ticket.seq > hf_core_durable(w->core));
    assert_true(world_commit_one(w, 0));
    assert_true(hf_core_state_is_durable(w->core));
    assert_true(answer.ticket.seq <= hf_core_durable(w->core));

    hf_core_stop(w->core, w->now); /* the number is the same, whether it was recorded or not */
    assert_true(hf_core_state_is_durable(w->core));
    assert_true(world_commit_one(w, HF_EIO));
    assert_true(hf_core_state_is_durable(w->core));
}

/* GRC-01: SM_SIMU_CRASH comes while the release of the last lock of the former run waits for its
 * batch. If that fails the lock is back, and there is a grace period for its owner to reclaim it.
 */
static void what_comes_back_after_simu_crash_can_be_reclaimed(void **state)
{
    struct world *w = *state;

    LOCK(w, .client = 1, .len = 10);
    world_commit(w);
    hf_core_simu_crash(w->core, w->now);
    world_commit(w);
    UNLOCK(w, .client = 1, .len = 10);
    hf_core_simu_crash(w->core, w->now);
    assert_true(world_commit_one(w, HF_EIO));
    world_later(w, 2000);
    world_commit(w);
    assert_true(world_status(w).grace_active);
    assert_int_equal(LOCK(w, .client = 1, .len = 10, .reclaim = true), GRANTED);
}

/* GRC-03: a lock of the epoch that SM_SIMU_CRASH ended comes back with a failed batch. It has to be
 * reclaimed then, so that it does not outlive grace if its client is gone. */
static void what_comes_back_after_simu_crash_is_unreclaimed(void **state)
{
    struct world *w = *state;

    w->by_hand = true;
    LOCK(w, .client = 1, .len = 10);
    world_commit(w);
    UNLOCK(w, .client = 1, .len = 10);
    hf_core_simu_crash(w->core, w->now);
    assert_int_equal(world_status(w).unreclaimed, 0);
    assert_true(world_commit_one(w, HF_EIO));
    assert_int_equal(world_status(w).locks, 1);
    assert_int_equal(world_status(w).unreclaimed, 1);
    world_later(w, 2000);
    world_commit(w);
    assert_true(world_status(w).grace_active);
    world_later(w, w->config.grace_ms);
    world_commit(w);
    assert_false(world_status(w).grace_active);
    assert_int_equal(world_status(w).locks, 0);
    assert_int_equal(world_count(w, HF_RECORD_LOCK), 0);
}

/* Fails each allocation in turn, for one moment: the state is consistent after every step. */
static void each_allocation_fails_in_turn(void **state)
{
    struct world *w = *state;
    long n = 0;
    bool failed = true;

    for (; failed; n++) {
        world_crash(w);
        world_forget(w);
        w->now.mono_ms = 1000 + (uint64_t)n % 2;
        world_start(w);
        world_commit(w);
        w->heap.after = n;
        story(w);
        failed = w->heap.after == 0;
        w->heap.after = -1;
        world_commit(w);
        story(w); /* with memory again, everything works */
        world_commit(w);
        world_later(w, 2000);
    }
    assert_true(n > 10);
}

/* Making, loading and starting a core without memory fails cleanly at every point. */
static void starting_without_memory(void **state)
{
    struct world *w = *state;
    long n = 0;
    bool started = false;

    LOCK(w, .client = 1);
    LOCK(w, .client = 2, .fh = "g");
    world_commit(w);
    world_crash(w);
    for (; !started; n++) {
        w->heap.after = n;
        w->core = hf_core_new(&w->config, &w->alloc);
        started = w->core && world_load(w) == 0 && hf_core_start(w->core, w->now) == 0;
        w->heap.after = -1;
        if (w->core && !started)
            world_crash(w);
        assert_int_equal(started || w->heap.live == 0, true);
    }
    assert_true(n > 10);
}

/* The server's record does not fit into memory: the batch is handed out as soon as it fits. */
static void no_memory_for_the_epoch_record(void **state)
{
    struct world *w = *state;
    static char text[1000];
    unsigned refused = 0;

    memset(text, 't', sizeof(text) - 1);
    /* At every length at which the buffer may be full. */
    for (size_t len = 1; len < sizeof(text) - 1; len += 5) {
        const struct hf_batch *batch;
        world_crash(w);
        world_start(w);
        world_commit(w);
        LOCK(w, .client = 1, .fh = text + len);
        hf_core_stop(w->core, w->now);
        w->heap.after = 0;
        batch = hf_core_take_batch(w->core);
        w->heap.after = -1;
        if (batch)
            continue;
        refused++;
        assert_non_null(hf_core_take_batch(w->core));
    }
    assert_true(refused > 0);
}

/* --- a storm --- */

static uint64_t random_next(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return *seed >> 33;
}

static void random_call(struct world *w, uint64_t r)
{
    struct hf_outcall_attempt call;

    if (!hf_core_next_outcall(w->core, w->now, &call))
        return;
    world_called(w, call.id, (enum hf_outcall_outcome)(r % 3));
}

static void random_step(struct world *w, uint64_t *seed)
{
    static const char *const files[] = {"a", "b", "c"};
    uint64_t r = random_next(seed);
    struct ask a = {
        .client = 1 + (int)(r % 4),
        .svid = 1 + (int)(r >> 2 & 1),
        .fh = files[(r >> 3) % 3],
        .off = r >> 5 & 15,
        .len = r >> 9 & 7,
        .shared = r >> 12 & 1,
        .block = r >> 13 & 1,
        .nm = (r >> 14 & 7) == 0,
        .reclaim = (r >> 17 & 7) == 0,
    };
    struct hf_peer peer = world_peer(w, a.client);
    struct hf_addr from = world_addr(a.client);
    const uint64_t what = random_next(seed) % 100;

    if (what < 40)
        world_ask(w, hf_core_lock, a);
    else if (what < 60)
        world_ask(w, hf_core_unlock, a);
    else if (what < 66)
        world_ask(w, hf_core_cancel, a);
    else if (what < 76)
        random_call(w, r);
    else if (what < 88)
        world_commit_one(w, what < 79 ? HF_EIO : 0);
    else if (what < 91)
        world_later(w, r % 7000);
    else if (what < 92)
        hf_core_sm_notify(w->core, w->now, &from, peer.name, (int32_t)(1 + r % 5), false);
    else if (what < 93)
        hf_core_free_all(w->core, w->now, &peer, 0, false);
    else if (what < 94)
        hf_core_take_batch(w->core);
    else if (what < 95 && r % 8 == 0)
        hf_core_simu_crash(w->core, w->now);
    else if (what < 96 && r % 8 == 0)
        hf_core_grace_end(w->core, w->now);
    else if (what < 97 && r % 32 == 0)
        w->heap.after = (long)(r >> 20 & 31);
    world_check(w);
    if (what == 99)
        w->heap.after = -1;
}

/* Checks every invariant after every random step. */
static void storm(void **state)
{
    struct world *w = *state;

    for (uint64_t n = 0; n < 40; n++) {
        uint64_t seed = n * 7919 + 1;
        uint64_t digest;
        world_crash(w);
        w->config.durable_locks = n % 4 != 3;
        w->config.grace_mode = n % 4 == 1 ? HF_GRACE_CONFLICT : HF_GRACE_STRICT;
        world_start(w);
        world_commit(w);
        for (int i = 0; i < 1500; i++) {
            const struct hf_batch *batch;
            random_step(w, &seed);
            /* a batch that random_step took by itself is in flight: report it now and then */
            batch = hf_core_take_batch(w->core);
            if (batch && i % 3) {
                records_apply(&w->records, batch);
                hf_core_batch_done(w->core, w->now, batch->seq, 0);
            } else if (batch) {
                hf_core_batch_done(w->core, w->now, batch->seq, HF_EIO);
            }
            world_check(w);
        }
        w->heap.after = -1;
        world_commit(w);
        digest = hf_core_digest(w->core);
        world_restart(w);
        assert_int_equal(hf_core_digest(w->core), digest);
    }
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, open_world_by_hand, close_world)
    const struct CMUnitTest tests[] = {
        T(nothing_leaves_before_the_epoch),
        T(nothing_is_left_of_a_failed_epoch),
        T(no_volatile_lock_is_left_of_a_failed_epoch),
        T(a_grant_goes_before_its_waiter),
        T(dependent_answers_wait),
        T(with_standbys_every_promise_waits_for_a_commit),
        T(with_standbys_what_is_not_recorded_is_undone_with_its_batch),
        T(with_standbys_locks_that_are_not_durable_wait),
        T(failed_commit_undoes_everything),
        T(the_first_waiter_may_ask_without_waiting),
        T(a_state_number_is_durable_before_it_is_told),
        T(what_comes_back_after_simu_crash_can_be_reclaimed),
        T(what_comes_back_after_simu_crash_is_unreclaimed),
        T(undone_grant_waits_again),
        T(waiter_behind_an_undone_lock),
        T(undone_grant_of_a_waiter_that_left),
        T(volatile_lock_of_an_undone_client),
        T(linger_ends_after_an_undone_lock),
        T(linger_begins_when_a_lock_is_undone),
        T(crash_is_repeated_until_durable),
        T(monitors_undone),
        T(end_of_grace_undone),
        T(early_end_of_grace_waits),
        T(reclaim_undone),
        T(nobody_waits_for_a_failed_batch),
        T(leaving_client_comes_back_as_on_disk),
        T(each_allocation_fails_in_turn),
        T(starting_without_memory),
        T(no_memory_for_the_epoch_record),
        T(storm),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
