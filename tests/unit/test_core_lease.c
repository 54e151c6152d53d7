/* The lease (HA-02, HA-03, HA-04): one process at a time, with the database as a row in this file.
 */
#include "unit.h"

#include "core/lease/lease.h"
#include "core/lease/silence.h"

static const struct hf_lease_config defaults = HF_LEASE_DEFAULTS;

/* A database that never fails. Tests change it between a transaction's begin and its end. */
struct database {
    struct hf_lease_row row;
};

static struct hf_lease_row apply(struct database *db, const struct hf_lease_order *order,
                                 enum hf_lease_result *result)
{
    struct hf_lease_row *row = &db->row;
    bool good = row->epoch == order->epoch && row->nonce == order->nonce &&
                row->heartbeat >= order->heartbeat;

    *result = HF_LEASE_DONE;
    if (order->action == HF_LEASE_RAISE_ALARM)
        row->alarm = true, row->heartbeat++;
    if (order->action == HF_LEASE_POLL || order->action == HF_LEASE_RAISE_ALARM)
        return *row;
    if (order->action == HF_LEASE_TAKE)
        good = row->epoch == order->epoch && row->heartbeat == order->heartbeat;
    if (order->action == HF_LEASE_CLEAR ? !row->alarm : !good || row->alarm) {
        *result = HF_LEASE_REFUSED;
        return *row;
    }
    row->heartbeat++;
    if (order->action == HF_LEASE_TAKE)
        *row = (struct hf_lease_row){
            .epoch = order->new_epoch, .nonce = order->nonce, .heartbeat = row->heartbeat};
    if (order->action == HF_LEASE_CLEAR)
        *row = (struct hf_lease_row){.epoch = order->new_epoch, .heartbeat = row->heartbeat};
    row->released = order->action == HF_LEASE_RELEASE || order->action == HF_LEASE_CLEAR;
    return *row;
}

/* Does what the lease wants at this moment, with an answer after took_ms; returns what it did. */
static enum hf_lease_action step(struct hf_lease *lease, struct database *db, uint64_t now,
                                 uint64_t took_ms)
{
    enum hf_lease_action action = hf_lease_next(lease, now);
    enum hf_lease_result result;
    struct hf_lease_order order;
    struct hf_lease_row row;

    if (action == HF_LEASE_NOTHING)
        return action;
    order = hf_lease_begin(lease, action, now);
    /* Only one transaction at a time. */
    assert_int_equal(hf_lease_next(lease, now), HF_LEASE_NOTHING);
    row = apply(db, &order, &result);
    hf_lease_end(lease, now + took_ms, result, &row);
    return action;
}

/* Steps at every deadline until the lease does `action`; returns the moment at which that began. */
static uint64_t until(struct hf_lease *lease, struct database *db, enum hf_lease_action action,
                      uint64_t now)
{
    for (int i = 0; i < 100; i++) {
        if (step(lease, db, now, 0) == action)
            return now;
        now = hf_lease_deadline(lease, now);
        assert_true(now != UINT64_MAX);
    }
    fail();
    return 0;
}

static void fails(struct hf_lease *lease, enum hf_lease_action action, uint64_t at,
                  uint64_t until_ms)
{
    assert_int_equal(hf_lease_next(lease, at), action);
    hf_lease_begin(lease, action, at);
    hf_lease_end(lease, until_ms, HF_LEASE_FAILED, NULL);
}

static struct database fresh(void)
{
    return (struct database){.row = {.released = true}};
}

static void own(struct hf_lease *lease, struct database *db, uint64_t now)
{
    hf_lease_init(lease, &defaults, 77);
    until(lease, db, HF_LEASE_TAKE, now);
    assert_int_equal(hf_lease_state(lease, now), HF_LEASE_ACTIVE);
}

/* HA-02: a service that no process ever had, or that was released, is taken at the first poll. */
static void takes_what_is_free(void **state)
{
    struct database db = fresh();
    struct hf_lease lease;

    (void)state;
    hf_lease_init(&lease, &defaults, 5);
    assert_int_equal(hf_lease_state(&lease, 0), HF_LEASE_STANDBY);
    assert_false(hf_lease_is_valid(&lease, 0));
    assert_int_equal(step(&lease, &db, 1000, 3), HF_LEASE_POLL);
    assert_int_equal(step(&lease, &db, 1003, 4), HF_LEASE_TAKE);
    assert_int_equal(db.row.epoch, 1);
    assert_int_equal(db.row.nonce, 5);
    assert_int_equal(hf_lease_epoch(&lease), 1);
    assert_true(hf_lease_is_valid(&lease, 1007));
}

/* HA-02c: the lease counts from before the renewal was sent, and its end is not part of it. */
static void counts_from_before_it_was_sent(void **state)
{
    struct database db = fresh();
    struct hf_lease lease;

    (void)state;
    own(&lease, &db, 1000);
    assert_int_equal(hf_lease_deadline(&lease, 1000), 1200);
    assert_int_equal(step(&lease, &db, 1199, 0), HF_LEASE_NOTHING);
    assert_int_equal(step(&lease, &db, 1200, 700), HF_LEASE_RENEW);
    assert_int_equal(hf_lease_valid_until(&lease), 2000);
    assert_true(hf_lease_is_valid(&lease, 1999));
    assert_false(hf_lease_is_valid(&lease, 2000));
    assert_int_equal(hf_lease_state(&lease, 2000), HF_LEASE_SUSPENDED);
}

/* HA-04c: a renewal that succeeds too late does not count; the next one makes the owner active
 * again, without a new epoch (HA-02). */
static void comes_back_after_a_stall(void **state)
{
    struct database db = fresh();
    struct hf_lease lease;

    (void)state;
    own(&lease, &db, 1000);
    step(&lease, &db, 1200, 5000);
    assert_int_equal(hf_lease_state(&lease, 6200), HF_LEASE_SUSPENDED);
    assert_true(hf_lease_is_owner(&lease));
    assert_int_equal(step(&lease, &db, 6200, 10), HF_LEASE_RENEW);
    assert_int_equal(hf_lease_state(&lease, 6210), HF_LEASE_ACTIVE);
    assert_int_equal(hf_lease_epoch(&lease), 1);
}

/* HA-02b: a commit of records renews as well, and begins whenever there is a batch. */
static void a_commit_renews(void **state)
{
    struct database db = fresh();
    struct hf_lease_order order;
    enum hf_lease_result result;
    struct hf_lease_row row;
    struct hf_lease lease;

    (void)state;
    own(&lease, &db, 1000);
    order = hf_lease_begin(&lease, HF_LEASE_COMMIT, 1100);
    assert_int_equal(order.epoch, 1);
    assert_int_equal(order.nonce, 77);
    row = apply(&db, &order, &result);
    hf_lease_end(&lease, 1150, result, &row);
    assert_int_equal(hf_lease_valid_until(&lease), 1900);
    assert_int_equal(hf_lease_deadline(&lease, 1150), 1300);
    /* A commit that expected another heartbeat was not applied, and the lease is not lost. */
    hf_lease_begin(&lease, HF_LEASE_COMMIT, 1160);
    hf_lease_end(&lease, 1165, HF_LEASE_REFUSED, &row);
    assert_int_equal(hf_lease_state(&lease, 1165), HF_LEASE_ACTIVE);
    assert_int_equal(hf_lease_valid_until(&lease), 1900);
    assert_int_equal(hf_lease_next(&lease, 1165), HF_LEASE_RENEW);
}

/* HA-02: a transaction that failed at once is repeated soon, but not without a pause. */
static void repeats_what_failed(void **state)
{
    struct database db = fresh();
    struct hf_lease lease;

    (void)state;
    own(&lease, &db, 1000);
    fails(&lease, HF_LEASE_RENEW, 1200, 1200);
    assert_int_equal(hf_lease_deadline(&lease, 1200), 1250);
    fails(&lease, HF_LEASE_RENEW, 1250, 1650);
    assert_int_equal(hf_lease_deadline(&lease, 1650), 1650);
    assert_int_equal(hf_lease_valid_until(&lease), 1800);
    fails(&lease, HF_LEASE_RENEW, 1650, 1750);
    assert_true(hf_lease_may_commit(&lease, 1750));
    assert_int_equal(hf_lease_state(&lease, 1800), HF_LEASE_SUSPENDED);
    /* The lease ran out and two transactions got no answer: others must see no heartbeat of ours.
     */
    assert_false(hf_lease_may_commit(&lease, 1800));
    for (uint64_t at = 1800; at < 5000; at += 400)
        fails(&lease, HF_LEASE_POLL, at, at + 400);
    assert_int_equal(step(&lease, &db, 5000, 1), HF_LEASE_POLL);
    assert_int_equal(hf_lease_state(&lease, 5001), HF_LEASE_SUSPENDED);
    assert_int_equal(step(&lease, &db, 5001, 1), HF_LEASE_RENEW);
    assert_int_equal(hf_lease_state(&lease, 5002), HF_LEASE_ACTIVE);
    /* And if another process has taken the lease meanwhile, the poll tells. */
    for (uint64_t at = 5201; at < 7000; at += 400)
        fails(&lease, hf_lease_next(&lease, at), at, at + 400);
    db.row = (struct hf_lease_row){.epoch = 2, .nonce = 9, .heartbeat = 30};
    assert_int_equal(step(&lease, &db, 7201, 1), HF_LEASE_POLL);
    assert_int_equal(hf_lease_state(&lease, 7202), HF_LEASE_LOST);
}

/* An owner that leaves is silent at once: after two transactions without an answer it polls,
 * however long its lease was still valid. */
static void leaving_it_polls(void **state)
{
    struct database db = fresh();
    struct hf_lease lease;

    (void)state;
    own(&lease, &db, 1000);
    hf_lease_step_down(&lease, HF_LEASE_UNTIL_TAKEN, 1100);
    fails(&lease, HF_LEASE_RENEW, 1200, 1210);
    assert_true(hf_lease_may_commit(&lease, 1210));
    fails(&lease, HF_LEASE_RENEW, 1250, 1260);
    assert_false(hf_lease_may_commit(&lease, 1260));
}

/* HA-02e: a standby takes when it saw no new heartbeat for 1,000 ms, over at least four polls. */
static void takes_from_a_silent_owner(void **state)
{
    struct database db = {.row = {.epoch = 7, .nonce = 1, .heartbeat = 100}};
    struct hf_lease lease;

    (void)state;
    hf_lease_init(&lease, &defaults, 5);
    assert_int_equal(step(&lease, &db, 1000, 20), HF_LEASE_POLL);
    assert_int_equal(until(&lease, &db, HF_LEASE_TAKE, 1020), 2020);
    assert_int_equal(db.row.epoch, 8);
    assert_int_equal(db.row.nonce, 5);
    assert_int_equal(db.row.heartbeat, 101);
    /* With three polls in that time, it waits for the fourth. */
    db.row = (struct hf_lease_row){.epoch = 20, .nonce = 1, .heartbeat = 200};
    hf_lease_init(&lease, &defaults, 6);
    for (uint64_t at = 1000; at <= 1700; at += 350)
        assert_int_equal(step(&lease, &db, at, 0), HF_LEASE_POLL);
    assert_int_equal(step(&lease, &db, 2050, 0), HF_LEASE_POLL);
    assert_int_equal(step(&lease, &db, 2051, 0), HF_LEASE_TAKE);
}

/* HA-02f: a new heartbeat, another owner, a failed poll, a late poll and a pause each begin the
 * count anew. */
static void begins_the_count_anew(void **state)
{
    enum { HEARTBEAT, OWNER, FAILED, LATE, PAUSE, CASES };

    (void)state;
    for (int how = 0; how < CASES; how++) {
        struct database db = {.row = {.epoch = 7, .nonce = 1, .heartbeat = 100}};
        uint64_t first_ms = 2000; /* the count starts from this answer */
        struct hf_lease lease;

        hf_lease_init(&lease, &defaults, 5);
        for (uint64_t at = 1000; at < 1800; at += 200)
            assert_int_equal(step(&lease, &db, at, 1), HF_LEASE_POLL);
        if (how == HEARTBEAT)
            db.row.heartbeat++, first_ms = 1800;
        else if (how == OWNER)
            db.row.epoch++, db.row.nonce = 2, db.row.heartbeat++, first_ms = 1800;
        if (how == FAILED)
            fails(&lease, HF_LEASE_POLL, 1800, 1801);
        else if (how == LATE)
            assert_int_equal(step(&lease, &db, 1800, 200), HF_LEASE_POLL);
        else if (how == PAUSE)
            first_ms = 2001;
        else
            assert_int_equal(step(&lease, &db, 1800, 0), HF_LEASE_POLL);
        assert_int_equal(until(&lease, &db, HF_LEASE_TAKE, first_ms), first_ms + 1000);
    }
}

/* HA-02: a poll that was answered late proves nothing, and does not even begin a series: the count
 * starts with the next answer. */
static void a_late_answer_begins_no_count(void **state)
{
    struct database db = {.row = {.epoch = 7, .nonce = 1, .heartbeat = 100}};
    struct hf_lease lease;

    (void)state;
    hf_lease_init(&lease, &defaults, 5);
    assert_int_equal(step(&lease, &db, 1000, 250), HF_LEASE_POLL);
    assert_int_equal(step(&lease, &db, 1250, 150), HF_LEASE_POLL);
    assert_int_equal(until(&lease, &db, HF_LEASE_TAKE, 1450), 1400 + 1000);
}

/* HA-02: a row that its owner released may be taken at once, however late it was read. */
static void a_late_answer_shows_a_release(void **state)
{
    struct database db = {.row = {.epoch = 7, .nonce = 1, .heartbeat = 100, .released = true}};
    struct hf_lease lease;

    (void)state;
    hf_lease_init(&lease, &defaults, 5);
    assert_int_equal(step(&lease, &db, 1000, 250), HF_LEASE_POLL);
    assert_int_equal(step(&lease, &db, 1250, 0), HF_LEASE_TAKE);
}

/* HA-04: an owner whose renewal is not answered wakes when its lease runs out, in order to be
 * silent. */
static void wakes_at_the_end_of_the_lease(void **state)
{
    struct database db = fresh();
    struct hf_lease lease;

    (void)state;
    own(&lease, &db, 1000);
    hf_lease_begin(&lease, HF_LEASE_RENEW, 1200);
    assert_int_equal(hf_lease_deadline(&lease, 1201), hf_lease_valid_until(&lease));
}

/* HA-02g: two standbys take the same row: one gets it, the other begins to count anew. */
static void one_of_two_takers(void **state)
{
    struct database db = {.row = {.epoch = 7, .nonce = 1, .heartbeat = 100}};
    struct hf_lease_order orders[2];
    struct hf_lease leases[2];
    uint64_t at = 0;

    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        hf_lease_init(&leases[i], &defaults, 10 + i);
        for (at = 1000; hf_lease_next(&leases[i], at) != HF_LEASE_TAKE; at += 100)
            step(&leases[i], &db, at, 0);
        orders[i] = hf_lease_begin(&leases[i], HF_LEASE_TAKE, at);
    }
    for (unsigned i = 0; i < 2; i++) {
        enum hf_lease_result result;
        struct hf_lease_row row = apply(&db, &orders[i], &result);

        hf_lease_end(&leases[i], at + 5, result, &row);
    }
    assert_true(hf_lease_is_valid(&leases[0], at + 5));
    assert_int_equal(hf_lease_state(&leases[1], at + 5), HF_LEASE_STANDBY);
    assert_int_equal(db.row.nonce, 10);
    assert_int_equal(step(&leases[1], &db, at + 5, 0), HF_LEASE_POLL);
    assert_true(until(&leases[1], &db, HF_LEASE_TAKE, at + 5) >= at + 1005);
}

/* HA-02: a take in doubt does not give the lease; if the row turns out to be ours, a renewal does.
 */
static void a_take_in_doubt(void **state)
{
    struct database db = fresh();
    struct hf_lease_order order;
    enum hf_lease_result result;
    struct hf_lease lease;

    (void)state;
    hf_lease_init(&lease, &defaults, 5);
    step(&lease, &db, 1000, 0);
    order = hf_lease_begin(&lease, HF_LEASE_TAKE, 1000);
    apply(&db, &order, &result);
    hf_lease_end(&lease, 1100, HF_LEASE_FAILED, NULL);
    assert_int_equal(hf_lease_state(&lease, 1100), HF_LEASE_STANDBY);
    assert_int_equal(step(&lease, &db, 1100, 0), HF_LEASE_POLL);
    assert_int_equal(hf_lease_state(&lease, 1100), HF_LEASE_SUSPENDED);
    assert_false(hf_lease_is_valid(&lease, 1100));
    assert_int_equal(step(&lease, &db, 1100, 0), HF_LEASE_RENEW);
    assert_true(hf_lease_is_valid(&lease, 1100));
    assert_int_equal(hf_lease_epoch(&lease), 1);
}

/* HA-03: a process whose service was taken has lost it, and begins a new term with an empty memory.
 */
static void loses_to_another(void **state)
{
    struct database db = fresh();
    struct hf_lease lease;

    (void)state;
    own(&lease, &db, 1000);
    db.row = (struct hf_lease_row){.epoch = 2, .nonce = 9, .heartbeat = 30};
    assert_int_equal(step(&lease, &db, 1200, 0), HF_LEASE_RENEW);
    assert_int_equal(hf_lease_state(&lease, 1200), HF_LEASE_LOST);
    assert_false(hf_lease_is_valid(&lease, 1200));
    assert_int_equal(hf_lease_next(&lease, 99999), HF_LEASE_NOTHING);
    assert_true(hf_lease_deadline(&lease, 1200) == UINT64_MAX);
    hf_lease_reset(&lease, 78, 1300);
    assert_int_equal(hf_lease_state(&lease, 1300), HF_LEASE_STANDBY);
    assert_int_equal(until(&lease, &db, HF_LEASE_TAKE, 1300), 2300);
    assert_int_equal(hf_lease_epoch(&lease), 3);
}

/* HA-05e: a planned move: silent first, then released; held back until another node has it. */
static void moves(void **state)
{
    struct database db = fresh();
    struct hf_lease lease;
    struct hf_lease other;

    (void)state;
    own(&lease, &db, 1000);
    hf_lease_init(&other, &defaults, 6);
    hf_lease_step_down(&lease, HF_LEASE_UNTIL_TAKEN, 1100);
    assert_int_equal(hf_lease_state(&lease, 1100), HF_LEASE_LEAVING);
    assert_false(hf_lease_is_valid(&lease, 1100));
    /* The addresses were not dropped yet. */
    assert_int_equal(step(&lease, &db, 1200, 0), HF_LEASE_RENEW);
    assert_false(hf_lease_is_valid(&lease, 1200));
    hf_lease_silent(&lease);
    assert_int_equal(step(&lease, &db, 1210, 1), HF_LEASE_RELEASE);
    assert_int_equal(hf_lease_state(&lease, 1211), HF_LEASE_LOST);
    hf_lease_reset(&lease, 78, 1211);
    assert_int_equal(hf_lease_state(&lease, 1211), HF_LEASE_HELD);
    assert_true(db.row.released);
    assert_int_equal(until(&other, &db, HF_LEASE_TAKE, 1220), 1220);
    assert_int_equal(hf_lease_epoch(&other), 2);
    assert_int_equal(until(&lease, &db, HF_LEASE_POLL, 1220), 1220);
    assert_int_equal(hf_lease_state(&lease, 1220), HF_LEASE_STANDBY);
    /* No node follows: after move_ms the service is taken back. */
    hf_lease_step_down(&other, HF_LEASE_UNTIL_TAKEN, 2000);
    hf_lease_silent(&other);
    step(&other, &db, 2000, 0);
    hf_lease_reset(&other, 79, 2000);
    assert_int_equal(until(&other, &db, HF_LEASE_TAKE, 2000), 7000);
    assert_int_equal(hf_lease_state(&other, 7000), HF_LEASE_ACTIVE);
}

/* HA-07: a release by a manager holds the node back until the manager says take; also while a take
 * is in progress. */
static void held_back_until_told(void **state)
{
    struct database db = fresh();
    enum hf_lease_result result;
    struct hf_lease_order order;
    struct hf_lease_row row;
    struct hf_lease lease;

    (void)state;
    hf_lease_init(&lease, &defaults, 5);
    hf_lease_step_down(&lease, HF_LEASE_UNTIL_TOLD, 500);
    assert_int_equal(hf_lease_state(&lease, 500), HF_LEASE_HELD);
    for (uint64_t at = 1000; at < 60000; at += 200)
        assert_int_equal(step(&lease, &db, at, 0), HF_LEASE_POLL);
    hf_lease_want(&lease);
    assert_int_equal(hf_lease_state(&lease, 59900), HF_LEASE_STANDBY);
    assert_int_equal(hf_lease_next(&lease, 59900), HF_LEASE_TAKE);
    order = hf_lease_begin(&lease, HF_LEASE_TAKE, 59900);
    hf_lease_step_down(&lease, HF_LEASE_UNTIL_TOLD, 59901);
    row = apply(&db, &order, &result);
    hf_lease_end(&lease, 59910, result, &row);
    assert_int_equal(hf_lease_state(&lease, 59910), HF_LEASE_LEAVING);
    hf_lease_silent(&lease);
    assert_int_equal(step(&lease, &db, 59911, 0), HF_LEASE_RELEASE);
    assert_true(db.row.released);
}

/* HA-05: a release in doubt is repeated; if another node has taken the lease meanwhile, the release
 * did happen. */
static void a_release_in_doubt(void **state)
{
    struct database db = fresh();
    struct hf_lease lease;

    (void)state;
    own(&lease, &db, 1000);
    hf_lease_step_down(&lease, HF_LEASE_UNTIL_TAKEN, 1000);
    hf_lease_silent(&lease);
    fails(&lease, HF_LEASE_RELEASE, 1000, 1300);
    db.row.released = true, db.row.heartbeat++; /* it was applied */
    assert_int_equal(step(&lease, &db, 1300, 0), HF_LEASE_RELEASE);
    assert_int_equal(hf_lease_state(&lease, 1300), HF_LEASE_LOST);
    own(&lease, &db, 2000);
    hf_lease_step_down(&lease, HF_LEASE_UNTIL_TAKEN, 2000);
    hf_lease_silent(&lease);
    fails(&lease, HF_LEASE_RELEASE, 2000, 2300);
    db.row = (struct hf_lease_row){.epoch = 9, .nonce = 3, .heartbeat = 90};
    step(&lease, &db, 2300, 0);
    assert_int_equal(hf_lease_state(&lease, 2300), HF_LEASE_LOST);
}

/* The time after which the service is taken back counts from the release, not from the order to
 * move. */
static void a_slow_move_is_taken_back_later(void **state)
{
    struct database db = fresh();
    struct hf_lease lease;

    (void)state;
    own(&lease, &db, 1000);
    hf_lease_step_down(&lease, HF_LEASE_UNTIL_TAKEN, 1100);
    for (uint64_t at = 1200; at < 4000; at += 200)
        assert_int_equal(step(&lease, &db, at, 0), HF_LEASE_RENEW);
    hf_lease_silent(&lease);
    assert_int_equal(step(&lease, &db, 4000, 0), HF_LEASE_RELEASE);
    hf_lease_reset(&lease, 78, 4000);
    assert_int_equal(until(&lease, &db, HF_LEASE_TAKE, 4000), 4000 + 5000);
}

/* An operator accepts one alarm at a time: the next one waits for the operator again. */
static void a_second_alarm_is_accepted_anew(void **state)
{
    struct database db = fresh();
    struct hf_lease lease;

    (void)state;
    own(&lease, &db, 1000);
    for (uint64_t at = 1200; at < 20000; at += 10000) {
        db.row.heartbeat = 0;
        (void)step(&lease, &db, at, 0);
        assert_int_equal(hf_lease_state(&lease, at), HF_LEASE_ALARM);
        assert_int_equal(until(&lease, &db, HF_LEASE_RAISE_ALARM, at), at);
        for (uint64_t later = at + 200; later < at + 2000; later += 200)
            assert_int_equal(step(&lease, &db, later, 0), HF_LEASE_POLL);
        assert_true(hf_lease_accept(&lease));
        assert_int_equal(step(&lease, &db, at + 2000, 0), HF_LEASE_CLEAR);
        hf_lease_reset(&lease, 80 + at, at + 2000);
        (void)until(&lease, &db, HF_LEASE_TAKE, at + 2000);
        for (uint64_t later = at + 2200; later < at + 3000; later += 200)
            (void)step(&lease, &db, later, 0);
    }
}

/* HA-08: a database that shows less than it acknowledged: alarm, and nothing until it is accepted.
 */
static void went_back_in_time(void **state)
{
    static const struct hf_lease_row shown[] = {
        {.epoch = 3, .nonce = 77, .heartbeat = 40}, /* commits are missing */
        {.epoch = 2, .nonce = 8, .heartbeat = 60},  /* the row lacks our take */
        {.epoch = 3, .nonce = 8, .heartbeat = 60},  /* the row has another take instead */
        {.epoch = 0, .nonce = 0, .heartbeat = 0, .released = true}, /* everything is */
    };

    (void)state;
    for (size_t i = 0; i < sizeof(shown) / sizeof(shown[0]); i++) {
        struct database db = {.row = {.epoch = 2, .nonce = 8, .heartbeat = 50, .released = true}};
        struct hf_lease lease;

        own(&lease, &db, 1000);
        assert_int_equal(hf_lease_epoch(&lease), 3);
        db.row = shown[i];
        step(&lease, &db, 1200, 0);
        assert_int_equal(hf_lease_state(&lease, 1200), HF_LEASE_ALARM);
        assert_false(hf_lease_is_valid(&lease, 1200));
        assert_false(hf_lease_is_owner(&lease));
        /* The alarm is written into the row, so that no other process goes on; then nothing more is
         * done. */
        assert_int_equal(step(&lease, &db, 1200, 0), HF_LEASE_RAISE_ALARM);
        assert_true(db.row.alarm);
        for (uint64_t at = 1400; at < 9000; at += 200)
            assert_int_equal(step(&lease, &db, at, 0), HF_LEASE_POLL);
        assert_int_equal(hf_lease_state(&lease, 9000), HF_LEASE_ALARM);
        assert_true(hf_lease_accept(&lease));
        assert_int_equal(step(&lease, &db, 9000, 0), HF_LEASE_CLEAR);
        assert_int_equal(hf_lease_state(&lease, 9000), HF_LEASE_LOST);
        assert_false(hf_lease_accept(&lease));
        hf_lease_reset(&lease, 79, 9000);
        until(&lease, &db, HF_LEASE_TAKE, 9000);
        /* Above every epoch that was ever used, whatever the row says. */
        assert_true(hf_lease_epoch(&lease) > 3);
    }
}

/*
 * HA-08: a database that lost heartbeats is noticed although another process took the service since
 * and its heartbeats have passed the lost ones; a takeover that lost nothing raises no alarm.
 */
static void went_back_and_was_taken(void **state)
{
    static const struct {
        struct hf_lease_past past;
        enum hf_lease_state becomes;
    } shown[] = {
        {{.epoch = 3, .nonce = 77, .until = 51},
         HF_LEASE_ALARM}, /* the row was taken before our last heartbeat */
        {{.epoch = 3, .nonce = 8, .until = 60},
         HF_LEASE_ALARM}, /* epoch 3 belonged to another owner */
        {{.epoch = 2, .nonce = 77, .until = 60}, HF_LEASE_ALARM}, /* epoch 3 never existed */
        {{.epoch = 3, .nonce = 77, .until = 52}, HF_LEASE_LOST},
        {{.epoch = 0, .nonce = 0, .until = 60}, HF_LEASE_LOST}, /* forgotten, or accepted */
    };

    (void)state;
    for (size_t i = 0; i < sizeof(shown) / sizeof(shown[0]); i++) {
        struct database db = {.row = {.epoch = 2, .nonce = 8, .heartbeat = 50, .released = true}};
        struct hf_lease lease;

        own(&lease, &db, 1000);
        assert_int_equal(hf_lease_epoch(&lease), 3);
        assert_int_equal(db.row.heartbeat, 51);
        db.row =
            (struct hf_lease_row){.epoch = 4, .nonce = 9, .heartbeat = 90, .past = shown[i].past};
        step(&lease, &db, 1200, 0);
        assert_int_equal(hf_lease_state(&lease, 1200), shown[i].becomes);
    }
}

/* HA-08: a standby asks for the past of the newest epoch that it polled. */
static void a_standby_asks_for_its_past(void **state)
{
    struct database db = {.row = {.epoch = 7, .nonce = 1, .heartbeat = 100}};
    struct hf_lease_order order;
    struct hf_lease lease;

    (void)state;
    hf_lease_init(&lease, &defaults, 5);
    order = hf_lease_begin(&lease, HF_LEASE_POLL, 1000);
    assert_int_equal(order.epoch, 0);
    hf_lease_end(&lease, 1000, HF_LEASE_DONE, &db.row);
    order = hf_lease_begin(&lease, HF_LEASE_POLL, 1200);
    assert_int_equal(order.epoch, 7);
    db.row = (struct hf_lease_row){
        .epoch = 8, .nonce = 2, .heartbeat = 120, .past = {.epoch = 7, .nonce = 1, .until = 100}};
    hf_lease_end(&lease, 1200, HF_LEASE_DONE, &db.row);
    assert_int_equal(hf_lease_state(&lease, 1200), HF_LEASE_ALARM);
}

/* HA-08: an alarm in the row stops every process; it ends when an operator clears it on one node.
 */
static void the_alarm_is_for_all(void **state)
{
    struct database db = fresh();
    struct hf_lease owner;
    struct hf_lease lease;

    (void)state;
    own(&owner, &db, 1000);
    hf_lease_init(&lease, &defaults, 5);
    step(&lease, &db, 1000, 0);
    db.row.alarm = true;
    step(&owner, &db, 1200, 0);
    step(&lease, &db, 1200, 0);
    assert_int_equal(hf_lease_state(&owner, 1200), HF_LEASE_ALARM);
    assert_int_equal(hf_lease_state(&lease, 1200), HF_LEASE_ALARM);
    /* The alarm is in the row already. */
    assert_int_equal(step(&lease, &db, 1400, 0), HF_LEASE_POLL);
    assert_true(hf_lease_accept(&lease) && hf_lease_accept(&owner));
    assert_int_equal(step(&lease, &db, 1500, 0), HF_LEASE_CLEAR);
    /* The order is refused, because the other process cleared the alarm. */
    assert_int_equal(step(&owner, &db, 1500, 0), HF_LEASE_CLEAR);
    assert_int_equal(until(&owner, &db, HF_LEASE_POLL, 1500), 1700);
    assert_int_equal(hf_lease_state(&lease, 1700), HF_LEASE_LOST);
    assert_int_equal(hf_lease_state(&owner, 1700), HF_LEASE_LOST);
    assert_true(db.row.released);
}

/* HA-08: a database that forgets the alarm as well is told of it again. */
static void the_alarm_is_forgotten(void **state)
{
    struct database db = fresh();
    struct hf_lease lease;

    (void)state;
    own(&lease, &db, 1000);
    db.row.heartbeat = 0;
    step(&lease, &db, 1200, 0);
    assert_int_equal(step(&lease, &db, 1200, 0), HF_LEASE_RAISE_ALARM);
    db.row = (struct hf_lease_row){.epoch = 1, .nonce = 77};
    assert_int_equal(until(&lease, &db, HF_LEASE_POLL, 1200), 1400);
    assert_int_equal(until(&lease, &db, HF_LEASE_RAISE_ALARM, 1400), 1600);
    assert_int_equal(hf_lease_state(&lease, 1600), HF_LEASE_ALARM);
}

/* HA-08: a standby knows what it polled; a row that was read without being durable counts for
 * nothing. */
static void a_standby_notices_too(void **state)
{
    struct database db = {.row = {.epoch = 7, .nonce = 1, .heartbeat = 100}};
    struct hf_lease_row undurable = {.epoch = 7, .nonce = 1, .heartbeat = 130};
    struct hf_lease lease;

    (void)state;
    hf_lease_init(&lease, &defaults, 5);
    until(&lease, &db, HF_LEASE_POLL, 1000);
    for (uint64_t at = 1200; hf_lease_next(&lease, at) != HF_LEASE_TAKE; at += 200)
        step(&lease, &db, at, 0);
    hf_lease_begin(&lease, HF_LEASE_TAKE, 2000);
    hf_lease_end(&lease, 2001, HF_LEASE_REFUSED, &undurable);
    step(&lease, &db, 2200, 0);
    assert_int_equal(hf_lease_state(&lease, 2200), HF_LEASE_STANDBY);
    db.row.heartbeat = 99;
    step(&lease, &db, 2400, 0);
    assert_int_equal(hf_lease_state(&lease, 2400), HF_LEASE_ALARM);
}

/* HA-02h: a standby must wait longer than an owner answers, with clocks that differ by 10 %. */
static void configurations(void **state)
{
    struct hf_lease_config config = defaults;

    (void)state;
    assert_true(hf_lease_config_is_safe(&config));
    config.take_ms = 880;
    assert_false(hf_lease_config_is_safe(&config));
    config = defaults;
    config.renew_ms = 400;
    assert_false(hf_lease_config_is_safe(&config));
    config = defaults;
    config.polls = 0;
    assert_false(hf_lease_config_is_safe(&config));
}

/* HA-04d: while the lease is not valid the core's clock stands still, from the moment at which the
 * lease ran out; when it is renewed the clock goes on, and has lost exactly the silence. The loop's
 * clock runs 500 ms behind the one that the lease counts by. */
static void the_clock_stands_still_in_silence(void **state)
{
    enum { BEHIND = 500 };
    struct database db = fresh();
    struct hf_silence silence = {0};
    struct hf_lease lease;
    uint64_t until_ms, stood;

    (void)state;
    own(&lease, &db, 1000);
    assert_int_equal(hf_silence_clock(&silence, &lease, 1000, 1000 - BEHIND), 1000 - BEHIND);
    until_ms = hf_lease_valid_until(&lease);
    stood = until_ms - BEHIND;
    assert_int_equal(hf_silence_clock(&silence, &lease, until_ms - 1, stood - 1), stood - 1);
    /* The loop looks 300 ms late: the silence counts from the end of the lease. */
    assert_int_equal(hf_silence_clock(&silence, &lease, until_ms + 300, stood + 300), stood);
    assert_int_equal(hf_silence_clock(&silence, &lease, until_ms + 9000, stood + 9000), stood);
    assert_int_equal(step(&lease, &db, until_ms + 9000, 0), HF_LEASE_RENEW);
    assert_int_equal(hf_silence_clock(&silence, &lease, until_ms + 9000, stood + 9000), stood);
    assert_int_equal(hf_silence_clock(&silence, &lease, until_ms + 9010, stood + 9010), stood + 10);
    /* A second silence adds to the first. */
    until_ms = hf_lease_valid_until(&lease);
    assert_int_equal(hf_silence_clock(&silence, &lease, until_ms + 100, until_ms + 100 - BEHIND),
                     until_ms - BEHIND - 9000);
    assert_int_equal(step(&lease, &db, until_ms + 100, 0), HF_LEASE_RENEW);
    assert_int_equal(hf_silence_clock(&silence, &lease, until_ms + 110, until_ms + 110 - BEHIND),
                     until_ms - BEHIND - 9000);
    assert_int_equal(hf_silence_clock(&silence, &lease, until_ms + 120, until_ms + 120 - BEHIND),
                     until_ms - BEHIND - 9000 + 10);
}

/* HA-04: the clock never goes back, although the lease had run out before the last reading that
 * found it valid (a renewal that was answered late moves its end). */
static void the_clock_does_not_go_back(void **state)
{
    struct database db = fresh();
    struct hf_silence silence = {0};
    struct hf_lease lease;
    uint64_t until_ms;

    (void)state;
    own(&lease, &db, 1000);
    until_ms = hf_lease_valid_until(&lease);
    assert_int_equal(hf_silence_clock(&silence, &lease, until_ms - 1, until_ms - 1), until_ms - 1);
    /* The lease's clock jumped by a minute (the host was suspended), the loop's did not. */
    assert_int_equal(hf_silence_clock(&silence, &lease, until_ms + 60000, until_ms), until_ms - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_what_is_free),
        cmocka_unit_test(counts_from_before_it_was_sent),
        cmocka_unit_test(comes_back_after_a_stall),
        cmocka_unit_test(a_commit_renews),
        cmocka_unit_test(repeats_what_failed),
        cmocka_unit_test(takes_from_a_silent_owner),
        cmocka_unit_test(begins_the_count_anew),
        cmocka_unit_test(a_late_answer_begins_no_count),
        cmocka_unit_test(a_late_answer_shows_a_release),
        cmocka_unit_test(wakes_at_the_end_of_the_lease),
        cmocka_unit_test(leaving_it_polls),
        cmocka_unit_test(one_of_two_takers),
        cmocka_unit_test(a_take_in_doubt),
        cmocka_unit_test(loses_to_another),
        cmocka_unit_test(moves),
        cmocka_unit_test(held_back_until_told),
        cmocka_unit_test(a_release_in_doubt),
        cmocka_unit_test(a_slow_move_is_taken_back_later),
        cmocka_unit_test(a_second_alarm_is_accepted_anew),
        cmocka_unit_test(went_back_in_time),
        cmocka_unit_test(went_back_and_was_taken),
        cmocka_unit_test(a_standby_asks_for_its_past),
        cmocka_unit_test(the_alarm_is_for_all),
        cmocka_unit_test(the_alarm_is_forgotten),
        cmocka_unit_test(a_standby_notices_too),
        cmocka_unit_test(configurations),
        cmocka_unit_test(the_clock_stands_still_in_silence),
        cmocka_unit_test(the_clock_does_not_go_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
