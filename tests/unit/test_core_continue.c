/*
 * A start that continues (recovery.notify=needed; SPEC section 14, REC-01 to REC-05): one test for
 * each row of its table, and one for each thing that clients rely on. In each story a run with one
 * configuration ends, and a start follows.
 */
#include "core_world.h"

enum {
    GRANTED = HF_STAT_GRANTED,
    DENIED = HF_STAT_DENIED,
    BLOCKED = HF_STAT_BLOCKED,
    IN_GRACE = HF_STAT_DENIED_GRACE_PERIOD
};

/* Starts the first run, after the test has changed the configuration. */
static void begin(struct world *w)
{
    world_crash(w);
    world_forget(w);
    w->config.continues = true;
    w->config.boot_id[0] = 1;
    world_start(w);
}

static void stop(struct world *w)
{
    hf_core_stop(w->core, w->now);
    world_commit(w);
}

/* How many calls of each kind are made now; each is answered with success. */
struct calls {
    unsigned notices, grants;
};

static struct calls answer_calls(struct world *w)
{
    struct hf_outcall_attempt call;
    struct calls n = {0};

    while (hf_core_next_outcall(w->core, w->now, &call)) {
        n.notices += call.kind == HF_OUTCALL_NOTIFY;
        n.grants += call.kind == HF_OUTCALL_GRANTED;
        world_called(w, call.id, HF_OUTCALL_ACCEPTED);
    }
    return n;
}

static void fail_notices(struct world *w)
{
    struct hf_outcall_attempt call;

    while (hf_core_next_outcall(w->core, w->now, &call))
        world_called(w, call.id, HF_OUTCALL_FAILED);
}

static int32_t number(struct world *w)
{
    return world_status(w).state;
}

static void continues(struct world *w, int32_t before)
{
    assert_int_equal(hf_core_recovers(w->core), HF_RECOVERS_NOT);
    assert_int_equal(number(w), before);
    assert_int_equal(answer_calls(w).notices, 0);
    assert_false(world_status(w).grace_active);
    assert_int_equal(world_status(w).unreclaimed, 0);
}

static void recovers(struct world *w, int32_t before, enum hf_recovers why)
{
    assert_int_equal(hf_core_recovers(w->core), why);
    assert_true(number(w) > before);
    assert_true(world_status(w).grace_active);
    assert_int_equal(world_status(w).waiters, 0);
    assert_int_equal(world_status(w).shares, 0);
    assert_true(answer_calls(w).notices > 0);
}

/* ---- the table ---- */

/* REC-01a: nothing was lost, whether the daemon was killed or stopped, in this boot or another. */
static void all_is_recorded(void **state)
{
    struct world *w = *state;
    uint64_t epoch;
    int32_t before;

    begin(w);
    before = number(w);
    assert_int_equal(LOCK(w, 1), GRANTED);
    for (uint8_t i = 0; i < 4; i++) {
        epoch = world_status(w).epoch;
        if (i % 2)
            stop(w);
        w->config.boot_id[0] = i;
        world_restart(w);
        continues(w, before);
        assert_int_equal(world_status(w).epoch, epoch + 1);
        assert_int_equal(LOCK(w, 2), DENIED);
        assert_int_equal(LOCK(w, 2, .fh = "g", .off = i, .len = 1),
                         GRANTED); /* a new lock is granted at once */
    }
    assert_int_equal(UNLOCK(w, 1), GRANTED);
    assert_int_equal(LOCK(w, 2), GRANTED);
}

/* REC-01b: with recovery.notify=always, the default, a start recovers and deletes what `needed` has
 * recorded besides locks. */
static void told_to_recover(void **state)
{
    struct world *w = *state;
    int32_t before;

    begin(w);
    before = number(w);
    assert_int_equal(LOCK(w, 1), GRANTED);
    assert_int_equal(LOCK(w, 2, .block = true), BLOCKED);
    assert_int_equal(SHARE(w, 1, .mode = 1, .access = 1), GRANTED);
    assert_int_equal(world_count(w, HF_RECORD_LOCK), 3);
    w->config.continues = false;
    world_restart(w);
    recovers(w, before, HF_RECOVERS_ALWAYS);
    assert_int_equal(world_count(w, HF_RECORD_LOCK), 1);

    /* the run before recorded locks only: */
    before = number(w);
    w->config.continues = true;
    world_restart(w);
    recovers(w, before, HF_RECOVERS_UNRECORDED);
}

/* REC-01c: a start recovers if this run or the one before does not record locks. */
static void locks_are_not_recorded(void **state)
{
    struct world *w = *state;
    int32_t before;

    w->config.durable_locks = false;
    begin(w);
    before = number(w);
    assert_int_equal(LOCK(w, 1), GRANTED);
    w->config.durable_locks = true;
    world_restart(w);
    recovers(w, before, HF_RECOVERS_UNRECORDED);
    assert_int_equal(LOCK(w, 1, .reclaim = true), GRANTED);
    world_later(w, w->config.grace_ms);

    before = number(w);
    w->config.durable_locks = false;
    world_restart(w);
    recovers(w, before, HF_RECOVERS_UNRECORDED);
}

/* REC-01d: with locks.durable=process a crash of the host loses the newest records, so the next
 * start recovers; a stop loses none. */
static void host_crashes(void **state)
{
    struct world *w = *state;
    int32_t before;

    w->config.unflushed = true;
    begin(w);
    before = number(w);
    assert_int_equal(LOCK(w, 1), GRANTED);
    world_restart(w); /* a restart in the same boot */
    continues(w, before);
    stop(w);
    w->config.boot_id[0] = 2;
    world_restart(w);
    continues(w, before);
    w->config.boot_id[0] = 3;
    world_restart(w);
    recovers(w, before, HF_RECOVERS_CRASHED);
}

/* REC-01e: a start that recovers is not continued before its grace has ended; clients that have not
 * answered its notice then are still told. */
static void recovery_is_unfinished(void **state)
{
    struct hf_outcall_attempt call;
    struct world *w = *state;
    int32_t before;

    w->config.unflushed = true;
    begin(w);
    assert_int_equal(LOCK(w, 1), GRANTED);
    assert_int_equal(LOCK(w, 2, .fh = "g"), GRANTED);
    world_crash(w);
    w->config.boot_id[0] = 2;
    world_start(w);
    before = number(w);
    world_restart(w); /* a restart in grace, while some locks may be unknown */
    assert_int_equal(hf_core_recovers(w->core), HF_RECOVERS_UNKNOWN);
    assert_true(number(w) > before);
    before = number(w);
    for (int i = 0; i < 2; i++) { /* client 1 answers, client 2 does not */
        assert_true(hf_core_next_outcall(w->core, w->now, &call));
        if (memcmp(call.host.data, "client1", 7) == 0)
            world_called(w, call.id, HF_OUTCALL_ACCEPTED);
    }
    assert_int_equal(LOCK(w, 1, .reclaim = true), GRANTED);
    assert_int_equal(LOCK(w, 2, .fh = "g", .reclaim = true), GRANTED);
    world_later(w, w->config.grace_ms);
    assert_false(world_status(w).grace_active);
    world_restart(w);
    assert_int_equal(hf_core_recovers(w->core), HF_RECOVERS_NOT);
    assert_int_equal(number(w), before);
    assert_true(hf_core_next_outcall(w->core, w->now, &call));
    assert_int_equal(call.kind, HF_OUTCALL_NOTIFY);
    assert_memory_equal(call.host.data, "client2", 7);
    world_called(w, call.id, HF_OUTCALL_ACCEPTED);
    assert_false(hf_core_next_outcall(w->core, w->now, &call));
    world_restart(w);
    continues(w, before);
}

/* A start recovers also when locks that were not reclaimed were still being released, in slices. */
static void release_is_unfinished(void **state)
{
    enum { MANY = 50 };
    struct world *w = *state;
    int32_t before;

    w->config.budgets.release = 20;
    begin(w);
    for (int i = 1; i <= MANY; i++)
        assert_int_equal(LOCK(w, 1, .svid = i, .off = (uint64_t)i, .len = 1), GRANTED);
    w->config.continues = false;
    world_restart(w);
    w->config.continues = true;
    world_restart(w);
    before = number(w);
    w->by_hand = true;
    world_later(w, w->config.grace_ms);
    assert_false(world_status(w).grace_active);
    assert_true(world_commit_one(w, 0));
    assert_true(world_status(w).unreclaimed > 0);
    w->by_hand = false;
    world_restart(w);
    recovers(w, before, HF_RECOVERS_UNFINISHED);
}

/* A start also recovers when new locks were held back (GRC-04): the next start has a grace period
 * instead. */
static void new_locks_are_held_back(void **state)
{
    struct world *w = *state;
    int32_t before;

    begin(w);
    assert_int_equal(LOCK(w, 1), GRANTED);
    before = number(w);
    hf_core_grace_hold(w->core, w->now, 1000);
    world_step(w);
    world_restart(w);
    recovers(w, before, HF_RECOVERS_UNFINISHED);
    assert_int_equal(LOCK(w, 1, .reclaim = true), GRANTED);
    before = number(w);
    hf_core_grace_hold(w->core, w->now, 1000);
    world_step(w);
    world_later(w, 1000);
    world_restart(w);
    continues(w, before);
}

/* REC-01f: a start in another role recovers, and so does one after SM_SIMU_CRASH, after which
 * clients reclaim. */
static void other_role(void **state)
{
    struct world *w = *state;
    int32_t before;

    begin(w);
    before = number(w);
    assert_int_equal(LOCK(w, 1), GRANTED);
    w->config.role = HF_ROLE_MONITOR;
    world_restart(w);
    recovers(w, before, HF_RECOVERS_ROLE);
    before = number(w);
    w->config.role = HF_ROLE_LOCKS;
    world_restart(w);
    recovers(w, before, HF_RECOVERS_ROLE);
}

static void simulated_crash(void **state)
{
    struct world *w = *state;
    int32_t before;

    begin(w);
    before = number(w);
    assert_int_equal(LOCK(w, 1), GRANTED);
    assert_int_equal(LOCK(w, 2, .block = true), BLOCKED);
    assert_int_equal(SHARE(w, 1, .mode = 1, .access = 1), GRANTED);
    (void)hf_core_simu_crash(w->core, w->now);
    world_step(w);
    assert_true(number(w) > before);
    assert_int_equal(answer_calls(w).notices, 2);
    assert_int_equal(world_count(w, HF_RECORD_LOCK), 1);
    assert_int_equal(LOCK(w, 1, .reclaim = true), GRANTED);
    before = number(w);
    world_restart(w);
    continues(w, before);
}

/* Changes the server's record, as a store or a tool does. */
static void change_server(struct world *w, enum hf_continuity continuity, bool unknown)
{
    struct hf_record_server server;
    struct hf_batch batch;

    assert_int_equal(hf_record_decode_server(record_bytes(w->records.at[0]), &server), 0);
    server.continuity = continuity;
    server.locks_unknown = unknown;
    hf_batch_init(&batch, &w->alloc);
    assert_int_equal(hf_batch_put_server(&batch, &server), 0);
    records_apply(&w->records, &batch);
    hf_batch_free(&batch);
}

/* REC-01g: a start recovers after a backup was restored, and after the store has lost records and
 * an operator has accepted that. */
static void records_were_lost(void **state)
{
    struct world *w = *state;
    int32_t before;

    begin(w);
    before = number(w);
    assert_int_equal(LOCK(w, 1), GRANTED);
    world_crash(w);
    change_server(w, HF_CONTINUITY_LOST, false);
    world_start(w);
    recovers(w, before, HF_RECOVERS_LOST);
    assert_int_equal(LOCK(w, 1, .reclaim = true), GRANTED);
    before = number(w);
    world_crash(w);
    change_server(w, HF_CONTINUITY_COMPLETE, true);
    world_start(w);
    recovers(w, before, HF_RECOVERS_UNKNOWN);
}

static struct hf_bytes same_file(struct hf_bytes fh, uint8_t room[HF_IDENTITY_MAX])
{
    memcpy(room, fh.data, fh.len);
    room[0] = 'f';
    return hf_bytes(room, fh.len);
}

/* REC-01h: two handles have become one file, and one of two locks is lost while loading: the start
 * recovers. */
static void lock_is_lost_while_loading(void **state)
{
    struct world *w = *state;
    int32_t before;

    begin(w);
    before = number(w);
    assert_int_equal(LOCK(w, 1, .fh = "f1"), GRANTED);
    assert_int_equal(LOCK(w, 2, .fh = "g1"), GRANTED);
    assert_int_equal(LOCK(w, 3, .fh = "f1", .block = true), BLOCKED);
    assert_int_equal(SHARE(w, 3, .fh = "f1", .mode = 1, .access = 1), GRANTED);
    w->config.identity = same_file;
    world_restart(w);
    recovers(w, before, HF_RECOVERS_MERGED);
    assert_int_equal(world_count(w, HF_RECORD_LOCK), 1);
    assert_int_equal(LOCK(w, 1, .fh = "f1", .reclaim = true), GRANTED);
}

/* A first start has nothing to continue. */
static void first_start(void **state)
{
    struct world *w = *state;

    begin(w);
    assert_int_equal(hf_core_recovers(w->core), HF_RECOVERS_FIRST);
    assert_int_equal(LOCK(w, 1), GRANTED);
}

/* ---- what clients rely on ---- */

/* REC-02a: an NM_LOCK is recorded as a LOCK is. */
static void nm_lock_is_held(void **state)
{
    struct world *w = *state;

    begin(w);
    assert_int_equal(LOCK(w, 1, .nm = true), GRANTED);
    world_restart(w);
    continues(w, number(w));
    assert_int_equal(LOCK(w, 2), DENIED);
    assert_int_equal(UNLOCK(w, 1), GRANTED);
    assert_int_equal(world_count(w, HF_RECORD_LOCK), 0);
}

/* Shares count like locks against the limits. Here the limits are lower than what was held before a
 * start that continues, and an UNLOCK that cuts a lock in two is served all the same (NLM-09). */
static void shares_do_not_hold_up_an_unlock(void **state)
{
    struct world *w = *state;

    begin(w);
    w->config.limits.beyond = 2;
    for (int i = 0; i < 4; i++)
        assert_int_equal(SHARE(w, 1, .fh = (const char *[]){"a", "b", "c", "d"}[i], .access = 1),
                         GRANTED);
    assert_int_equal(LOCK(w, 1, .len = 10), GRANTED);
    w->config.limits.locks = w->config.limits.locks_per_client = 1;
    w->config.limits.locks_per_file = w->config.limits.locks_per_host = 1;
    world_restart(w);
    continues(w, number(w));
    assert_int_equal(UNLOCK(w, 1, .off = 4, .len = 1), GRANTED);
    assert_int_equal(TEST(w, 2, .off = 4, .len = 1), GRANTED);
}

/* REC-02b: a share is recorded with its mode, after each change, and not after UNSHARE. */
static void share_is_held(void **state)
{
    struct world *w = *state;

    begin(w);
    assert_int_equal(SHARE(w, 1, .mode = 2, .access = 1), GRANTED);
    world_restart(w);
    continues(w, number(w));
    assert_int_equal(SHARE(w, 2, .mode = 0, .access = 2), DENIED);
    assert_int_equal(SHARE(w, 2, .mode = 0, .access = 1), GRANTED);
    assert_int_equal(SHARE(w, 1, .mode = 0, .access = 1), GRANTED);
    world_restart(w);
    assert_int_equal(SHARE(w, 2, .mode = 0, .access = 2), GRANTED);
    assert_int_equal(UNSHARE(w, 1), GRANTED);
    assert_int_equal(UNSHARE(w, 2), GRANTED);
    assert_int_equal(world_count(w, HF_RECORD_LOCK), 0);
    world_restart(w);
    assert_int_equal(world_status(w).shares, 0);
    assert_int_equal(SHARE(w, 3, .mode = 3, .access = 3), GRANTED);
}

static struct hf_answer share_now(struct world *w, bool un, int client, uint32_t mode)
{
    struct hf_peer peer = world_peer(w, client);
    struct hf_share_args args = {
        .fh = hf_bytes_str("f"), .oh = hf_bytes_str("owner"), .mode = mode, .access = 1};

    return un ? hf_core_unshare(w->core, w->now, &peer, &args)
              : hf_core_share(w->core, w->now, &peer, &args);
}

/* REC-02c: SHARE and UNSHARE are answered when their record is durable, and so is a repeat. A
 * commit that fails undoes neither: the request is left unanswered, and its repeat is answered. */
static void share_waits_for_its_record(void **state)
{
    struct world *w = *state;
    struct hf_answer answer;

    begin(w);
    w->by_hand = true;
    answer = share_now(w, false, 1, 2);
    assert_int_equal(answer.stat, GRANTED);
    assert_true(answer.ticket.seq > hf_core_durable(w->core));
    assert_int_equal(share_now(w, false, 1, 2).ticket.seq, answer.ticket.seq);
    assert_true(world_commit_one(w, HF_EIO));
    assert_int_equal(world_count(w, HF_RECORD_LOCK) + world_count(w, HF_RECORD_CLIENT), 0);
    assert_int_equal(world_status(w).shares, 1);
    world_later(w, 5000); /* the share is written again, with its client */
    world_commit(w);
    assert_int_equal(world_count(w, HF_RECORD_LOCK), 1);
    assert_int_equal(world_count(w, HF_RECORD_CLIENT), 1);
    assert_int_equal(share_now(w, false, 1, 2).ticket.seq, 0);
    answer = share_now(w, true, 1, 0);
    assert_true(answer.ticket.seq > hf_core_durable(w->core));
    assert_true(world_commit_one(w, HF_EIO));
    assert_int_equal(world_status(w).shares, 0);
    assert_int_equal(world_count(w, HF_RECORD_LOCK), 1);
    world_later(w, 5000);
    world_commit(w);
    assert_int_equal(world_count(w, HF_RECORD_LOCK), 0);
    assert_int_equal(share_now(w, true, 1, 0).ticket.seq, 0);
}

/* A share that was made and removed before its batch was taken is not written. */
static void share_that_is_gone_again(void **state)
{
    struct world *w = *state;
    const struct hf_batch *batch;

    begin(w);
    w->by_hand = true;
    (void)share_now(w, false, 1, 2);
    (void)share_now(w, true, 1, 0);
    batch = hf_core_take_batch(w->core);
    assert_non_null(batch);
    assert_int_equal(batch->n_ops, 0);
    hf_core_batch_done(w->core, w->now, batch->seq, 0);
    world_check(w);

    /* The share is changed while its batch is in flight: the next batch has the change. */
    (void)share_now(w, false, 1, 2);
    batch = hf_core_take_batch(w->core);
    (void)share_now(w, true, 1, 0);
    records_apply(&w->records, batch);
    hf_core_batch_done(w->core, w->now, batch->seq, 0);
    assert_int_equal(world_count(w, HF_RECORD_LOCK), 1);
    world_commit(w);
    assert_int_equal(world_count(w, HF_RECORD_LOCK), 0);
}

/* REC-03a: BLOCKED is sent when the waiter is recorded, and so is the answer to a repeat. A commit
 * that fails ends the wait: the answer is a refusal then. */
static void blocked_waits_for_its_record(void **state)
{
    struct world *w = *state;
    uint64_t seq;

    begin(w);
    assert_int_equal(LOCK(w, 1), GRANTED);
    w->by_hand = true;
    seq = ASK(w, hf_core_lock, 2, .block = true).ticket.seq;
    assert_true(seq > hf_core_durable(w->core));
    assert_int_equal(ASK(w, hf_core_lock, 2, .block = true).ticket.seq, seq);
    assert_true(world_commit_one(w, HF_EIO));
    assert_int_equal(world_status(w).waiters, 0);
    assert_true(ASK(w, hf_core_lock, 2, .block = true).ticket.seq > seq);
    world_commit(w);
    assert_int_equal(ASK(w, hf_core_lock, 2, .block = true).ticket.seq, 0);
    assert_int_equal(world_count(w, HF_RECORD_LOCK), 2);

    /* The answer to a shared request that becomes exclusive waits, too, because its place in the
     * queue is a new one. */
    (void)ASK(w, hf_core_lock, 3, .block = true, .shared = true);
    world_commit(w);
    seq = ASK(w, hf_core_lock, 3, .block = true).ticket.seq;
    assert_true(seq > hf_core_durable(w->core));
    assert_int_equal(ASK(w, hf_core_lock, 3, .block = true).ticket.seq, seq);
    w->by_hand = false;
    world_commit(w);
    world_restart(w);
    assert_int_equal(world_status(w).waiters, 2);
}

/* REC-03a: CANCEL is answered when the waiter's record is deleted, and so are its repeats, and
 * those of the UNLOCK of a lock: otherwise a start would bring back a wait or a lock that its
 * client has forgotten. */
static void cancel_waits_for_its_record(void **state)
{
    struct world *w = *state;
    uint64_t seq;

    begin(w);
    assert_int_equal(LOCK(w, 1), GRANTED);
    assert_int_equal(LOCK(w, 2, .block = true), BLOCKED);
    w->by_hand = true;
    seq = ASK(w, hf_core_cancel, 2).ticket.seq;
    assert_true(seq > hf_core_durable(w->core));
    assert_int_equal(ASK(w, hf_core_cancel, 2).ticket.seq, seq);
    assert_true(world_commit_one(w, HF_EIO));
    assert_true(ASK(w, hf_core_cancel, 2).ticket.seq > seq);
    assert_int_equal(world_status(w).waiters, 0);
    world_later(w, 5000);
    world_commit(w);
    assert_int_equal(world_count(w, HF_RECORD_LOCK), 1);
    assert_int_equal(ASK(w, hf_core_cancel, 2).ticket.seq, 0);

    seq = ASK(w, hf_core_unlock, 1).ticket.seq;
    assert_true(seq > hf_core_durable(w->core));
    assert_int_equal(ASK(w, hf_core_unlock, 1).ticket.seq, seq);
    world_commit(w);
    assert_int_equal(ASK(w, hf_core_unlock, 1).ticket.seq, 0);
    w->by_hand = false;
    world_restart(w);
    assert_int_equal(world_status(w).waiters + world_status(w).locks, 0);
}

/* REC-03a: waiters keep their order. */
static void waiters_keep_their_order(void **state)
{
    struct hf_outcall_attempt call;
    struct world *w = *state;

    begin(w);
    assert_int_equal(LOCK(w, 1), GRANTED);
    for (int i = 2; i < 6; i++)
        assert_int_equal(LOCK(w, i, .block = true), BLOCKED);
    world_restart(w);
    continues(w, number(w));
    assert_int_equal(world_status(w).waiters, 4);
    assert_int_equal(LOCK(w, 6, .block = true), BLOCKED); /* behind them */
    for (int i = 2; i < 7; i++) {
        assert_int_equal(UNLOCK(w, i - 1), GRANTED);
        call = world_call_of(w, HF_OUTCALL_GRANTED);
        assert_int_equal(call.to[0].bytes[3], i);
        world_called(w, call.id, HF_OUTCALL_ACCEPTED);
        world_restart(w);
        continues(w, number(w));
    }
    assert_int_equal(UNLOCK(w, 6), GRANTED);
    assert_int_equal(world_count(w, HF_RECORD_LOCK), 0);
}

/* REC-03b: a repeat of a request from before the restart gets an answer that agrees with the first.
 */
static void repeats_are_answered_alike(void **state)
{
    struct world *w = *state;

    begin(w);
    assert_int_equal(LOCK(w, 1), GRANTED);
    assert_int_equal(LOCK(w, 2, .block = true), BLOCKED);
    assert_int_equal(LOCK(w, 3, .block = true), BLOCKED);
    assert_int_equal(CANCEL(w, 3), GRANTED);
    assert_int_equal(LOCK(w, 4, .fh = "g"), GRANTED);
    assert_int_equal(UNLOCK(w, 4, .fh = "g"), GRANTED);
    assert_int_equal(SHARE(w, 5, .mode = 1, .access = 2), GRANTED);
    world_restart(w);
    assert_int_equal(LOCK(w, 1), GRANTED);
    assert_int_equal(LOCK(w, 2, .block = true), BLOCKED);
    assert_int_equal(CANCEL(w, 3), GRANTED);
    assert_int_equal(UNLOCK(w, 4, .fh = "g"), GRANTED);
    assert_int_equal(SHARE(w, 5, .mode = 1, .access = 2), GRANTED);
    assert_int_equal(world_status(w).waiters, 1);
    assert_int_equal(world_status(w).shares, 1);
    assert_int_equal(LOCK(w, 1, .reclaim = true), GRANTED);
    assert_int_equal(CANCEL(w, 2), GRANTED);
    world_restart(w);
    assert_int_equal(world_status(w).waiters, 0);
}

/* REC-03c: a GRANTED callback that was in flight is made again. A DENIED is then not believed: the
 * client may have taken the lock at the first call. */
static void grant_in_flight_is_made_again(void **state)
{
    struct hf_outcall_attempt call;
    struct world *w = *state;

    begin(w);
    for (unsigned round = 0; round < 2; round++) {
        assert_int_equal(LOCK(w, 1), GRANTED);
        assert_int_equal(LOCK(w, 2, .block = true, .msg = round), BLOCKED);
        assert_int_equal(LOCK(w, 3, .block = true), BLOCKED);
        assert_int_equal(UNLOCK(w, 1), GRANTED);
        call = world_call_of(w, HF_OUTCALL_GRANTED);
        assert_int_equal(call.to[0].bytes[3], 2);
        world_restart(w);
        continues(w, number(w)); /* answers the call */
        assert_int_equal(hf_core_counters(w->core)->callbacks_accepted, 1);
        world_restart(w);
        assert_int_equal(answer_calls(w).grants, 0);
        assert_int_equal(LOCK(w, 2), GRANTED); /* this is a repeat: the client holds the lock */
        assert_int_equal(UNLOCK(w, 2), GRANTED);
        call = world_call_of(w, HF_OUTCALL_GRANTED);
        assert_int_equal(call.to[0].bytes[3], 3);
        world_restart(w);
        call = world_call_of(w, HF_OUTCALL_GRANTED);
        assert_int_equal(call.to[0].bytes[3], 3);
        world_called(w, call.id, HF_OUTCALL_DENIED);
        assert_int_equal(LOCK(w, 4), DENIED);
        assert_int_equal(UNLOCK(w, 3), GRANTED);
        assert_int_equal(world_count(w, HF_RECORD_LOCK), 0);
    }
}

/* REC-03d: if the client does not answer the repeated callback, its owner has again what it had
 * before the grant. */
static void grant_that_is_given_up(void **state)
{
    struct hf_outcall_attempt call;
    struct world *w = *state;

    begin(w);
    assert_int_equal(LOCK(w, 1, .shared = true, .off = 10, .len = 10), GRANTED);
    assert_int_equal(LOCK(w, 1, .off = 30, .len = 10), GRANTED);
    assert_int_equal(LOCK(w, 2, .shared = true), DENIED); /* denied because of the bytes 30 to 39 */
    assert_int_equal(LOCK(w, 2, .shared = true, .len = 30), GRANTED);
    assert_int_equal(LOCK(w, 1, .block = true, .off = 0, .len = 50), BLOCKED);
    assert_int_equal(LOCK(w, 3, .block = true, .off = 0, .len = 5), BLOCKED);
    assert_int_equal(UNLOCK(w, 2), GRANTED);
    call = world_call_of(w, HF_OUTCALL_GRANTED);
    assert_int_equal(call.to[0].bytes[3], 1);
    world_restart(w);
    for (uint32_t i = 0; i < w->config.call_attempts; i++) {
        call = world_call_of(w, HF_OUTCALL_GRANTED);
        assert_int_equal(call.to[0].bytes[3], 1);
        assert_int_equal(call.length, 50);
        world_called(w, call.id, HF_OUTCALL_FAILED);
        world_later(w, w->config.call_timeout_ms);
    }
    call = world_call_of(w, HF_OUTCALL_GRANTED);
    assert_int_equal(call.to[0].bytes[3], 3);
    world_called(w, call.id, HF_OUTCALL_ACCEPTED);
    assert_int_equal(LOCK(w, 2, .shared = true, .off = 10, .len = 10), GRANTED);
    assert_int_equal(LOCK(w, 2, .off = 10, .len = 10), DENIED);
    assert_int_equal(LOCK(w, 2, .shared = true, .off = 35, .len = 1), DENIED);
    assert_int_equal(LOCK(w, 2, .off = 45, .len = 1), GRANTED);
}

/* REC-03e: a grant whose commit fails waits again, in its place, over a restart as well. */
static void grant_that_failed(void **state)
{
    struct world *w = *state;

    begin(w);
    assert_int_equal(LOCK(w, 1), GRANTED);
    assert_int_equal(LOCK(w, 2, .block = true), BLOCKED);
    assert_int_equal(LOCK(w, 3, .block = true), BLOCKED);
    w->by_hand = true;
    (void)UNLOCK(w, 1);
    assert_true(world_commit_one(w, HF_EIO));
    w->by_hand = false;
    world_restart(w);
    assert_int_equal(world_status(w).waiters, 2);
    assert_int_equal(LOCK(w, 4), DENIED);
    assert_int_equal(UNLOCK(w, 1), GRANTED);
    assert_int_equal(world_call_of(w, HF_OUTCALL_GRANTED).to[0].bytes[3], 2);
}

/* A shared waiter that asks again in exclusive mode goes to the end, and stays there. */
static void strengthened_waiter(void **state)
{
    struct world *w = *state;

    begin(w);
    assert_int_equal(LOCK(w, 1), GRANTED);
    assert_int_equal(LOCK(w, 2, .block = true, .shared = true), BLOCKED);
    assert_int_equal(LOCK(w, 3, .block = true), BLOCKED);
    assert_int_equal(LOCK(w, 2, .block = true), BLOCKED);
    assert_int_equal(world_count(w, HF_RECORD_LOCK), 3);
    world_restart(w);
    assert_int_equal(UNLOCK(w, 1), GRANTED);
    assert_int_equal(world_call_of(w, HF_OUTCALL_GRANTED).to[0].bytes[3], 3);
}

/* REC-04a: lives of a client are kept apart: its notice after our restart takes what the old one
 * had, and nothing that the new one has got. */
static void lives_are_kept_apart(void **state)
{
    struct hf_peer peer;
    struct world *w = *state;

    begin(w);
    assert_int_equal(LOCK(w, 9, .fh = "busy"), GRANTED);
    assert_int_equal(LOCK(w, 1, .fh = "old", .state = 3), GRANTED);
    assert_int_equal(LOCK(w, 1, .fh = "busy", .block = true, .state = 3), BLOCKED);
    assert_int_equal(SHARE(w, 1, .fh = "old", .mode = 1, .access = 1), GRANTED);
    assert_int_equal(LOCK(w, 1, .fh = "new", .state = 5), GRANTED); /* it has restarted */
    assert_int_equal(LOCK(w, 1, .fh = "busy", .svid = 2, .block = true, .state = 5), BLOCKED);
    assert_int_equal(SHARE(w, 1, .fh = "new", .mode = 1, .access = 1), GRANTED);
    world_restart(w);
    continues(w, number(w));
    peer = world_peer(w, 1);
    (void)hf_core_sm_notify(w->core, w->now, &peer.addr, peer.name, 5, true);
    world_step(w);
    assert_int_equal(world_status(w).waiters, 1);
    assert_int_equal(world_status(w).shares, 1);
    assert_int_equal(world_status(w).locks, 2);
    assert_int_equal(LOCK(w, 2, .fh = "old"), GRANTED);
    assert_int_equal(LOCK(w, 2, .fh = "new"), DENIED);
    world_restart(w);
    assert_int_equal(world_status(w).waiters, 1);
    assert_int_equal(world_status(w).shares, 1);
}

/* REC-04b: a client that has nothing is forgotten when its linger time is over. */
static void idle_client_is_forgotten(void **state)
{
    struct world *w = *state;

    begin(w);
    assert_int_equal(LOCK(w, 1), GRANTED);
    assert_int_equal(UNLOCK(w, 1), GRANTED);
    assert_int_equal(SHARE(w, 2, .mode = 0, .access = 1), GRANTED);
    world_restart(w);
    assert_int_equal(world_count(w, HF_RECORD_CLIENT), 2);
    world_later(w, w->config.linger_ms);
    assert_int_equal(world_count(w, HF_RECORD_CLIENT), 1);
    assert_int_equal(UNSHARE(w, 2), GRANTED);
    world_later(w, w->config.linger_ms);
    assert_int_equal(world_count(w, HF_RECORD_CLIENT), 0);
}

/* REC-04c: an operator can tell all clients of our locks although the start has told none; they
 * then reclaim what they already hold, so no grace period is needed. */
static void operator_sends_notices(void **state)
{
    struct world *w = *state;

    begin(w);
    assert_int_equal(LOCK(w, 1), GRANTED);
    world_restart(w);
    continues(w, number(w));
    assert_int_equal(hf_core_notify_again(w->core, w->now, 0), 0);
    assert_int_equal(answer_calls(w).notices, 1);
    assert_int_equal(LOCK(w, 1, .reclaim = true), GRANTED);
    assert_int_equal(LOCK(w, 2, .fh = "g"), GRANTED);

    /* A client that does not answer is not given up: it has nothing to reclaim. */
    w->config.on_failure = HF_ON_FAILURE_RELEASE;
    world_restart(w);
    assert_int_equal(hf_core_notify_again(w->core, w->now, 0), 0);
    for (uint32_t i = 0; i < w->config.call_attempts; i++) {
        fail_notices(w);
        world_later(w, w->config.call_timeout_ms);
    }
    assert_int_equal(hf_core_counters(w->core)->crashes_detected, 0);
    assert_int_equal(LOCK(w, 1, .reclaim = true), GRANTED);
    assert_int_equal(LOCK(w, 2), DENIED);
}

/* A deadlock is found over a restart, because the edges between waiters are recorded. */
static void deadlock_over_a_restart(void **state)
{
    struct world *w = *state;

    begin(w);
    assert_int_equal(LOCK(w, 1, .fh = "a"), GRANTED);
    assert_int_equal(LOCK(w, 2, .fh = "b"), GRANTED);
    assert_int_equal(LOCK(w, 1, .fh = "b", .block = true), BLOCKED);
    world_restart(w);
    assert_int_equal(LOCK(w, 2, .fh = "a", .block = true), HF_STAT_DEADLCK);
}

/* Each allocation fails in turn while a batch is taken and loaded: nothing is lost or leaks. */
static void without_memory(void **state)
{
    struct world *w = *state;
    uint64_t before;
    bool taken;

    begin(w);
    assert_int_equal(LOCK(w, 1), GRANTED);
    for (long after = 0; after < 40; after++) {
        w->by_hand = true;
        (void)LOCK(w, 2, .block = true);
        (void)share_now(w, false, 3, 1);
        before = hf_core_counters(w->core)->out_of_memory;
        w->heap.after = after;
        taken = hf_core_take_batch(w->core) != NULL;
        w->heap.after = -1;
        assert_int_equal(hf_core_counters(w->core)->out_of_memory > before, !taken);
        world_crash(w);
        world_start(w);
        w->by_hand = false;
        world_commit(w);
        assert_int_equal(LOCK(w, 2), DENIED);
    }
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, open_world, close_world)

/* Sends a true notice, which an answer of the client's monitor confirms. */
static void true_notice(struct world *w, int32_t state)
{
    struct hf_addr from = world_addr(1);

    hf_core_sm_notify(w->core, w->now, &from, hf_bytes_str("client1.example"), state, true);
    world_step(w);
}

/* REC-01j: the rest of a former life's lock would get an id of the newest life, would be loaded as
 * a lock of that one, and would survive the client's notice. So such a start does not continue: it
 * recovers, and what is not reclaimed is released. */
static void a_part_of_a_former_lifes_lock(void **state)
{
    struct world *w = *state;

    begin(w);
    assert_int_equal(LOCK(w, .fh = "f", .len = 100, .state = 3), GRANTED);
    assert_int_equal(LOCK(w, .fh = "g", .svid = 2, .state = 5), GRANTED);
    world_restart(w);
    assert_int_equal(hf_core_recovers(w->core), HF_RECOVERS_NOT);
    assert_int_equal(UNLOCK(w, .fh = "f", .off = 50, .len = 1), GRANTED);
    world_restart(w);
    assert_int_equal(hf_core_recovers(w->core), HF_RECOVERS_UNFINISHED);
}

/* REC-01j, REC-04a: once the notice has come, nothing of the former life is left, and a start
 * continues. */
static void a_part_that_its_notice_took(void **state)
{
    struct world *w = *state;

    begin(w);
    assert_int_equal(LOCK(w, .fh = "f", .len = 100, .state = 3), GRANTED);
    assert_int_equal(LOCK(w, .fh = "g", .svid = 2, .state = 5), GRANTED);
    assert_int_equal(UNLOCK(w, .fh = "f", .off = 50, .len = 1), GRANTED);
    true_notice(w, 5);
    assert_int_equal(TEST(w, .client = 2, .fh = "f", .off = 60, .len = 1), GRANTED);
    world_restart(w);
    assert_int_equal(hf_core_recovers(w->core), HF_RECOVERS_NOT);
    assert_int_equal(TEST(w, .client = 2, .fh = "g"), DENIED);
}

/* REC-01j: the record of a grant that the client may refuse has one life for all that its owner had
 * before. */
static void a_grant_over_a_former_lifes_lock(void **state)
{
    struct world *w = *state;

    begin(w);
    assert_int_equal(LOCK(w, .fh = "f", .shared = true, .state = 3), GRANTED);
    assert_int_equal(LOCK(w, .client = 2, .fh = "f", .shared = true), GRANTED);
    assert_int_equal(LOCK(w, .fh = "f", .state = 5, .block = true), BLOCKED);
    assert_int_equal(UNLOCK(w, .client = 2, .fh = "f"), GRANTED);
    assert_int_not_equal(world_call_of(w, HF_OUTCALL_GRANTED).id, 0);
    world_restart(w);
    assert_int_equal(hf_core_recovers(w->core), HF_RECOVERS_UNFINISHED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_part_of_a_former_lifes_lock),
        CASE(a_part_that_its_notice_took),
        CASE(a_grant_over_a_former_lifes_lock),
        CASE(all_is_recorded),
        CASE(told_to_recover),
        CASE(locks_are_not_recorded),
        CASE(host_crashes),
        CASE(recovery_is_unfinished),
        CASE(release_is_unfinished),
        CASE(new_locks_are_held_back),
        CASE(other_role),
        CASE(simulated_crash),
        CASE(records_were_lost),
        CASE(lock_is_lost_while_loading),
        CASE(first_start),
        CASE(nm_lock_is_held),
        CASE(shares_do_not_hold_up_an_unlock),
        CASE(share_is_held),
        CASE(share_waits_for_its_record),
        CASE(share_that_is_gone_again),
        CASE(blocked_waits_for_its_record),
        CASE(cancel_waits_for_its_record),
        CASE(waiters_keep_their_order),
        CASE(repeats_are_answered_alike),
        CASE(grant_in_flight_is_made_again),
        CASE(grant_that_is_given_up),
        CASE(grant_that_failed),
        CASE(strengthened_waiter),
        CASE(lives_are_kept_apart),
        CASE(idle_client_is_forgotten),
        CASE(operator_sends_notices),
        CASE(deadlock_over_a_restart),
        CASE(without_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
