#include "db.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "check.h"
#include "world.h"

/* ------------------------------------------------------------------ state and copies */

void cl_copy_batch(struct hf_batch *to, const struct hf_batch *from)
{
    struct hf_op op;
    size_t cursor = 0;
    int rv = 0;

    hf_batch_init(to, &hf_alloc_heap);
    to->seq = from->seq;
    while (rv == 0 && hf_batch_next(from, &cursor, &op))
        rv = op.type == HF_OP_PUT ? hf_batch_put_encoded(to, op.kind, op.value)
                                  : hf_batch_delete(to, op.kind, op.id);
    HF_ASSERT(rv == 0);
}

/* Does what holdfast_clear_lease() of migration 0010 does: the server's record says that records
 * were lost. */
static void accept_loss(struct cl_state *state)
{
    const struct stored_record *stored = records_find(&state->records, HF_RECORD_SERVER, 0);
    struct hf_record_server server;
    struct hf_batch batch;

    state->loss_accepted = true;
    if (!stored || hf_record_decode_server(record_bytes(stored), &server) < 0 ||
        server.continuity == HF_CONTINUITY_NONE)
        return;
    server.continuity = HF_CONTINUITY_LOST;
    hf_batch_init(&batch, &hf_alloc_heap);
    HF_ASSERT(hf_batch_put_server(&batch, &server) == 0);
    records_apply(&state->records, &batch);
    hf_batch_free(&batch);
}

static bool has_server(const struct hf_batch *batch)
{
    struct hf_op op;
    bool found = false;

    for (size_t cursor = 0; hf_batch_next(batch, &cursor, &op);)
        found = found || op.kind == HF_RECORD_SERVER;
    return found;
}

static void begin_term(struct cl_state *state, const struct hf_lease_row *row)
{
    if (row->nonce == 0) { /* CLEAR */
        state->n_terms = 0;
        accept_loss(state);
    }
    if (state->n_terms == CL_TERMS)
        memmove(state->terms, state->terms + 1, --state->n_terms * sizeof(state->terms[0]));
    state->terms[state->n_terms++] = (struct cl_term){row->epoch, row->nonce, row->heartbeat};
}

static struct hf_lease_past past_of(const struct cl_state *state, uint64_t epoch)
{
    struct hf_lease_past past = {0};

    for (unsigned i = 0; i < state->n_terms && past.until == 0; i++) {
        const struct cl_term *term = &state->terms[i];

        if (term->epoch > epoch) {
            past.until = term->heartbeat;
        } else {
            past.epoch = term->epoch;
            past.nonce = term->nonce;
        }
    }
    return past;
}

static void apply(struct cl_state *state, const struct cl_change *change)
{
    if (!change->changes)
        return;
    if (change->row.epoch != state->row.epoch)
        begin_term(state, &change->row);
    state->row = change->row;
    if (change->seq == 0)
        return;
    records_apply(&state->records, &change->batch);
    if (has_server(&change->batch))
        state->loss_accepted = false;
    state->last_epoch = change->row.epoch;
    state->last_seq = change->seq;
}

static void copy_state(struct cl_state *to, const struct cl_state *from)
{
    struct records records = to->records;

    cl_copy_records(&records, &from->records);
    *to = *from;
    to->records = records;
}

void cl_db_init(struct cl_world *world)
{
    struct cl_db *db = &world->db;

    *db = (struct cl_db){.locked_by = -1};
    db->primary.row.released = db->replica.row.released = true;
}

static struct cl_change *change_of(struct cl_db *db, uint64_t lsn)
{
    return &db->log[lsn % CL_LOG];
}

static void free_change(struct cl_change *change)
{
    hf_batch_free(&change->batch);
    *change = (struct cl_change){0};
}

static void free_txn(struct cl_txn *txn)
{
    hf_batch_free(&txn->batch);
    *txn = (struct cl_txn){0};
}

static void forget_log(struct cl_db *db)
{
    for (uint64_t lsn = db->replica_lsn + 1; lsn <= db->flushed_lsn; lsn++)
        free_change(change_of(db, lsn));
    db->flushed_lsn = db->replica_lsn;
}

void cl_db_free(struct cl_world *world)
{
    struct cl_db *db = &world->db;

    for (unsigned i = 0; i < db->n_txns; i++)
        free_txn(&db->txns[i]);
    forget_log(db);
    records_free(&db->primary.records);
    records_free(&db->replica.records);
}

/* ------------------------------------------------------------------ the way there and back */

static bool is_cut(const struct cl_world *world, unsigned node, enum cl_fault fault)
{
    return world->nodes[node].cut_until_ms[fault] > world->now_ms;
}

bool cl_db_is_readable(const struct cl_world *world, unsigned node)
{
    return !world->db.down && !world->db.stalled && !is_cut(world, node, CL_FAULT_CUT_TO_DB) &&
           !is_cut(world, node, CL_FAULT_CUT_FROM_DB);
}

static uint32_t delay(struct cl_world *world)
{
    return sim_rng_range(&world->rng, 0, world->config.db_ms);
}

void cl_db_send(struct cl_world *world, unsigned node, const struct hf_lease_order *order,
                uint64_t heartbeat, const struct hf_batch *batch)
{
    struct cl_db *db = &world->db;
    uint64_t in_ms = delay(world);
    unsigned i = 0;

    if (is_cut(world, node, CL_FAULT_CUT_TO_DB)) {
        /* The packet is lost for good, or the kernel repeats it, even if the node has given the
         * transaction up. */
        if (sim_rng_one_in(&world->rng, 2))
            return;
        in_ms += world->nodes[node].cut_until_ms[CL_FAULT_CUT_TO_DB] - world->now_ms;
    } else if (cl_chance(world, world->config.db_loss)) {
        cl_check_owner_fault(world, node, 0);
        if (sim_rng_one_in(&world->rng, 2))
            return;
        in_ms += sim_rng_range(&world->rng, 200, 5000);
    }
    while (i < CL_TRANSACTIONS && db->txns[i].phase != CL_FREE)
        i++;
    HF_ASSERT(i < CL_TRANSACTIONS);
    if (i >= db->n_txns)
        db->n_txns = i + 1;
    db->txns[i] = (struct cl_txn){.phase = CL_TRAVELS,
                                  .node = (uint8_t)node,
                                  .number = ++db->numbers,
                                  .op = world->nodes[node].op,
                                  .order = *order,
                                  .heartbeat = heartbeat,
                                  .seq = batch ? batch->seq : 0};
    hf_batch_init(&db->txns[i].batch, &hf_alloc_heap);
    if (batch)
        cl_copy_batch(&db->txns[i].batch, batch);
    cl_push(world, in_ms, CL_EVENT_DB_ARRIVE, 0, i, db->txns[i].number);
}

static void reply(struct cl_world *world, const struct cl_txn *txn, enum hf_lease_result result,
                  const struct hf_lease_row *row)
{
    struct cl_packet packet = {.number = txn->op, .result = result};

    if (is_cut(world, txn->node, CL_FAULT_CUT_FROM_DB))
        return;
    if (cl_chance(world, world->config.db_loss)) {
        cl_check_owner_fault(world, txn->node, 0);
        return;
    }
    if (row)
        packet.row = *row;
    cl_push(world, delay(world), CL_EVENT_REPLY, txn->node, cl_packet_new(world, packet), 0);
}

/* ------------------------------------------------------------------ a transaction from its begin
 * to its end */

static void execute(struct cl_world *world, unsigned index);

static void unlock(struct cl_world *world)
{
    struct cl_db *db = &world->db;
    int next = -1;

    db->locked_by = -1;
    for (int i = 0; i < (int)db->n_txns; i++) {
        if (db->txns[i].phase == CL_QUEUES &&
            (next < 0 || db->txns[i].arrived < db->txns[next].arrived))
            next = i;
    }
    if (next >= 0)
        execute(world, (unsigned)next);
}

/* Makes a transaction visible: it is on the disk, and from now on every session sees it. */
static void make_visible(struct cl_world *world, const struct cl_txn *txn)
{
    struct cl_db *db = &world->db;
    struct cl_change change = {.changes = true, .row = txn->row, .seq = txn->seq};

    if (txn->order.action == HF_LEASE_POLL)
        return;
    if (txn->order.action == HF_LEASE_COMMIT)
        cl_check_commit(world, txn);
    if (txn->order.action == HF_LEASE_TAKE)
        cl_check_take(world, txn);
    change.batch = txn->batch; /* the transaction lends its batch to the log entry */
    apply(&db->primary, &change);
    if (txn->order.action == HF_LEASE_COMMIT)
        cl_check_records(world);
}

static void complete(struct cl_world *world, unsigned index)
{
    struct cl_db *db = &world->db;
    struct cl_txn txn = db->txns[index];

    make_visible(world, &txn);
    if (!world->config.synchronous && txn.lsn > db->replica_lsn)
        change_of(db, txn.lsn)->acknowledged = true;
    reply(world, &txn, HF_LEASE_DONE, &txn.row);
    free_txn(&db->txns[index]);
    if (db->locked_by == (int)index)
        unlock(world);
}

/* Ends the session that has the row lock, on behalf of another session. */
static void end_session(struct cl_world *world, unsigned index)
{
    struct cl_db *db = &world->db;

    CL_TRACE(world, index, 1, 2, "db: the session of n%u that has the row lock is ended",
             db->txns[index].node);
    if (db->txns[index].phase == CL_SYNCS)
        make_visible(world, &db->txns[index]);
    reply(world, &db->txns[index], HF_LEASE_FAILED, NULL);
    free_txn(&db->txns[index]);
    db->locked_by = -1;
}

/* True if the row meets the order's conditions (core/lease/row.h). */
static bool is_allowed(const struct hf_lease_row *row, const struct cl_txn *txn)
{
    const struct hf_lease_order *order = &txn->order;
    bool is_epoch = row->epoch == order->epoch;
    bool is_nonce = row->nonce == order->nonce;
    bool is_owner = is_epoch && is_nonce && row->heartbeat >= order->heartbeat && !row->alarm;

    switch (order->action) {
    case HF_LEASE_TAKE:
        return row->epoch == order->epoch && row->heartbeat == order->heartbeat && !row->alarm;
    case HF_LEASE_RENEW:
        return is_owner && !row->released;
    case HF_LEASE_COMMIT:
        return is_owner && !row->released && row->heartbeat == txn->heartbeat;
    case HF_LEASE_RELEASE:
        return is_owner;
    case HF_LEASE_RAISE_ALARM:
        return true;
    default:
        return order->action == HF_LEASE_CLEAR && row->alarm;
    }
}

/* Compares the row with the order, and computes the new row; false: the order is refused. */
static bool prepare(const struct cl_db *db, struct cl_txn *txn)
{
    const struct hf_lease_order *order = &txn->order;
    bool clears = order->action == HF_LEASE_CLEAR;

    txn->row = db->primary.row;
    txn->row.past = past_of(&db->primary, order->epoch);
    if (!is_allowed(&txn->row, txn))
        return false;
    txn->row.heartbeat++;
    txn->row.released = order->action == HF_LEASE_RELEASE || clears;
    txn->row.alarm = order->action == HF_LEASE_RAISE_ALARM;
    if (order->action == HF_LEASE_TAKE || clears) {
        txn->row.epoch = order->new_epoch;
        txn->row.nonce = clears ? 0 : order->nonce;
    }
    return true;
}

static bool ends_holder(struct cl_world *world, const struct cl_txn *txn)
{
    const struct cl_txn *holder = &world->db.txns[world->db.locked_by];

    if (txn->order.action == HF_LEASE_TAKE)
        return holder->order.action != HF_LEASE_TAKE;
    return holder->node == txn->node && sim_rng_one_in(&world->rng, 2);
}

static void execute(struct cl_world *world, unsigned index)
{
    struct cl_db *db = &world->db;
    struct cl_txn *txn = &db->txns[index];

    if (txn->order.action == HF_LEASE_POLL) {
        txn->row = db->primary.row;
        txn->row.past = past_of(&db->primary, txn->order.epoch);
    } else {
        if (db->locked_by >= 0 && ends_holder(world, txn))
            end_session(world, (unsigned)db->locked_by);
        if (db->locked_by >= 0) {
            txn->phase = CL_QUEUES;
            txn->arrived = ++db->arrivals;
            return;
        }
        if (!prepare(db, txn)) {
            reply(world, txn, HF_LEASE_REFUSED, &txn->row);
            free_txn(txn);
            unlock(world);
            return;
        }
        db->locked_by = (int)index;
    }
    txn->phase = CL_FLUSHES;
    cl_push(world, sim_rng_range(&world->rng, 0, world->config.commit_ms), CL_EVENT_DB_FLUSHED, 0,
            index, txn->number);
}

void cl_db_on_arrive(struct cl_world *world, unsigned index, uint64_t number)
{
    struct cl_db *db = &world->db;
    struct cl_txn *txn = &db->txns[index];

    if (txn->number != number)
        return;
    if (db->down) {
        if (sim_rng_one_in(&world->rng, 2))
            reply(world, txn, HF_LEASE_FAILED, NULL);
        free_txn(txn);
    } else if (db->stalled) {
        txn->phase = CL_STALLED;
    } else {
        execute(world, index);
    }
}

void cl_db_on_flushed(struct cl_world *world, unsigned index, uint64_t number)
{
    struct cl_db *db = &world->db;
    struct cl_txn *txn = &db->txns[index];
    struct cl_change *change;

    if (txn->number != number || txn->phase != CL_FLUSHES || db->stalled)
        return;
    txn->phase = CL_SYNCS;
    txn->lsn = ++db->flushed_lsn;
    HF_ASSERT(db->flushed_lsn - db->replica_lsn < CL_LOG);
    change = change_of(db, txn->lsn);
    *change = (struct cl_change){
        .changes = txn->order.action != HF_LEASE_POLL, .row = txn->row, .seq = txn->seq};
    cl_copy_batch(&change->batch, &txn->batch);
    if (world->config.synchronous) {
        cl_push(world, sim_rng_range(&world->rng, 0, world->config.commit_ms), CL_EVENT_DB_SHIPPED,
                0, 0, txn->lsn);
        return;
    }
    cl_push(world, sim_rng_range(&world->rng, 0, world->config.lag_ms), CL_EVENT_DB_SHIPPED, 0, 0,
            txn->lsn);
    complete(world, index);
}

void cl_db_on_shipped(struct cl_world *world, uint64_t lsn)
{
    struct cl_db *db = &world->db;

    if (db->down || db->stalled || db->sync_stalled || lsn > db->flushed_lsn)
        return;
    while (db->replica_lsn < lsn) {
        struct cl_change *change = change_of(db, ++db->replica_lsn);

        apply(&db->replica, change);
        free_change(change);
    }
    for (unsigned i = 0; i < db->n_txns; i++) {
        if (db->txns[i].phase == CL_SYNCS && db->txns[i].lsn <= db->replica_lsn)
            complete(world, i);
    }
}

/* ------------------------------------------------------------------ trouble */

static void go_on(struct cl_world *world)
{
    struct cl_db *db = &world->db;

    for (unsigned i = 0; i < db->n_txns; i++) {
        struct cl_txn *txn = &db->txns[i];

        if (txn->phase == CL_STALLED)
            cl_push(world, delay(world), CL_EVENT_DB_ARRIVE, 0, i, txn->number);
        else if (txn->phase == CL_FLUSHES)
            cl_push(world, delay(world), CL_EVENT_DB_FLUSHED, 0, i, txn->number);
    }
    cl_push(world, delay(world), CL_EVENT_DB_SHIPPED, 0, 0, db->flushed_lsn);
}

void cl_db_stall(struct cl_world *world, bool stalled)
{
    world->db.stalled = stalled;
    if (!stalled)
        go_on(world);
}

void cl_db_stall_sync(struct cl_world *world, bool stalled)
{
    world->db.sync_stalled = stalled;
    if (!stalled)
        go_on(world);
}

static void break_sessions(struct cl_world *world, bool keep_flushed)
{
    struct cl_db *db = &world->db;

    for (unsigned i = 0; i < db->n_txns; i++) {
        struct cl_txn *txn = &db->txns[i];

        if (txn->phase == CL_FREE)
            continue;
        if (txn->phase == CL_SYNCS && keep_flushed)
            make_visible(world, txn);
        if (sim_rng_one_in(&world->rng, 2))
            reply(world, txn, HF_LEASE_FAILED, NULL);
        free_txn(txn);
    }
    db->locked_by = -1;
    db->down = true;
}

void cl_db_restart(struct cl_world *world, uint32_t down_ms)
{
    if (world->db.down)
        return;
    break_sessions(world, true);
    cl_push(world, down_ms, CL_EVENT_DB_UP, 0, 0, 0);
}

void cl_db_failover(struct cl_world *world, uint32_t down_ms)
{
    struct cl_db *db = &world->db;
    bool lost = false;

    if (db->down)
        return;
    break_sessions(world, false);
    for (uint64_t lsn = db->replica_lsn + 1; lsn <= db->flushed_lsn; lsn++)
        lost = lost || (change_of(db, lsn)->acknowledged && change_of(db, lsn)->changes);
    forget_log(db);
    copy_state(&db->primary, &db->replica);
    if (lost)
        cl_check_lost(world);
    else
        cl_check_records(world);
    cl_push(world, down_ms, CL_EVENT_DB_UP, 0, 0, 0);
}

void cl_db_on_up(struct cl_world *world)
{
    world->db.down = false;
    go_on(world);
}
