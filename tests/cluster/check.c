#include "check.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "trouble.h"
#include "world.h"

const char *cl_action_name(enum hf_lease_action action)
{
    static const char *const names[] = {"NOTHING", "POLL",    "TAKE",        "RENEW",
                                        "COMMIT",  "RELEASE", "RAISE_ALARM", "CLEAR"};

    return names[action];
}

const char *cl_call_name(unsigned call)
{
    static const char *const names[] = {"LOCK", "UNLOCK", "TEST", "GRANTED", "NOTIFY"};

    return names[call];
}

void cl_copy_records(struct records *to, const struct records *from)
{
    struct hf_batch all;

    hf_batch_init(&all, &hf_alloc_heap);
    for (unsigned i = 0; i < from->count; i++)
        HF_ASSERT(hf_batch_put_encoded(&all, from->at[i]->kind, record_bytes(from->at[i])) == 0);
    records_free(to);
    records_apply(to, &all);
    hf_batch_free(&all);
}

/* ------------------------------------------------------------------ one node at a time */

/* True for a lease's time after the database lost commits that it had acknowledged: until then
 * their owner may still promise what they said. */
static bool is_excused(const struct cl_world *world)
{
    enum { LEASE_MS = 900 };

    return world->has_lost && world->now_ms < world->lost_at_ms + LEASE_MS;
}

static void check_epoch(struct cl_world *world, unsigned node)
{
    const struct hf_lease *lease = &world->nodes[node].cluster.lease;

    if (lease->epoch == world->top_epoch && lease->nonce == world->top_nonce)
        return;
    if (lease->epoch <= world->top_epoch)
        cl_violation(world, "an epoch belongs to one term and grows",
                     "n%u has epoch %llu after epoch %llu of another term", node,
                     (unsigned long long)lease->epoch, (unsigned long long)world->top_epoch);
    world->top_epoch = lease->epoch;
    world->top_nonce = lease->nonce;
}

static bool serves(const struct cl_world *world, unsigned node)
{
    const struct cl_node *n = &world->nodes[node];

    return cl_node_is_valid(world, node) && n->daemon.phase == HF_TERM_SERVING && n->address.up;
}

/* Checks that a node which raises the alarm does not count its service as lost to another node. */
static void check_losses(struct cl_world *world, unsigned node)
{
    struct cl_node *n = &world->nodes[node];
    uint64_t losses = n->cluster.view.losses;

    if (losses > n->losses_seen && n->cluster.lease.state == HF_LEASE_ALARM)
        cl_violation(world, "an alarm is no loss to another node", "n%u", node);
    n->losses_seen = losses;
}

void cl_check_event(struct cl_world *world)
{
    int valid = -1;

    for (unsigned i = 0; i < world->config.nodes; i++)
        check_losses(world, i);
    if (is_excused(world))
        return;
    for (unsigned i = 0; i < world->config.nodes; i++) {
        if (!cl_node_is_valid(world, i) || world->nodes[i].is_deceived)
            continue;
        check_epoch(world, i);
        if (world->struck_ms > 0 && world->served_ms == 0 && serves(world, i) &&
            world->top_epoch > world->struck_epoch)
            world->served_ms = world->now_ms;
        if (valid >= 0)
            cl_violation(world, "at most one node may answer", "n%d and n%u may", valid, i);
        valid = (int)i;
    }
}

/* Checks the state number of the term that sends a packet. A node that does not serve yet tells no
 * number. */
static void check_state(struct cl_world *world, unsigned node, const struct cl_packet *packet)
{
    int32_t state = world->nodes[node].state;

    if (world->nodes[node].daemon.phase != HF_TERM_SERVING || world->has_lost)
        return;
    if (state < world->top_state ||
        (state == world->top_state && packet->epoch != world->top_state_epoch &&
         !world->config.continues))
        cl_violation(world, "a state number is used once and grows",
                     "n%u sends in state %d, epoch %llu, after state %d in epoch %llu", node, state,
                     (unsigned long long)packet->epoch, world->top_state,
                     (unsigned long long)world->top_state_epoch);
    world->top_state = state;
    world->top_state_epoch = packet->epoch;
}

/*
 * True if a lock is promised, and no commit shows that the node had the lease when it promised. The
 * answer to a commit that was acknowledged before the node stood still may leave afterwards: no
 * clock can prevent that, as none can prevent that a packet travels for long. Other checks judge
 * what the clients hold then.
 */
static bool is_rash(const struct cl_packet *packet)
{
    return packet->answer && packet->call == CL_LOCK && packet->stat == HF_STAT_GRANTED &&
           !packet->waited;
}

void cl_check_leaves(struct cl_world *world, unsigned node, const struct cl_packet *packet)
{
    const struct cl_node *n = &world->nodes[node];

    if (is_excused(world))
        return;
    if (packet->epoch >= world->top_epoch) {
        check_state(world, node, packet);
        return;
    }
    if (packet->was_deceived && !is_rash(packet))
        return;
    /* The process was stopped between gate and network, and the process that drops the addresses
     * stands still as well, or its hook fails: no rule promises anything for this case. */
    if (n->host_stopped_until_ms > packet->passed_ms ||
        (n->address.is_late && !cl_node_is_valid(world, node)))
        return;
    cl_violation(world, "no packet leaves after another node became active",
                 "n%u sends with epoch %llu, and epoch %llu is active", node,
                 (unsigned long long)packet->epoch, (unsigned long long)world->top_epoch);
}

/* ------------------------------------------------------------------ what is in the database */

void cl_check_commit(struct cl_world *world, const struct cl_txn *txn)
{
    const struct cl_state *primary = &world->db.primary;

    if (txn->order.epoch != primary->row.epoch || txn->order.nonce != primary->row.nonce)
        cl_violation(world, "only the owner commits",
                     "a batch of n%u, epoch %llu, though epoch %llu is in the row", txn->node,
                     (unsigned long long)txn->order.epoch, (unsigned long long)primary->row.epoch);
    if (primary->row.alarm)
        cl_violation(world, "nothing is granted on a database that forgot", "n%u commits",
                     txn->node);
    if (txn->order.epoch == primary->last_epoch && txn->seq < primary->last_seq)
        cl_violation(world, "commits are applied in their order",
                     "batch %llu of n%u after batch %llu", (unsigned long long)txn->seq, txn->node,
                     (unsigned long long)primary->last_seq);
}

void cl_check_take(struct cl_world *world, const struct cl_txn *txn)
{
    const struct cl_node *n = &world->nodes[txn->node];

    world->stats.takes++;
    if (world->db.primary.row.alarm)
        cl_violation(world, "nothing is granted on a database that forgot", "n%u takes it",
                     txn->node);
    /* The node cannot use the lease that it took, so it is the cause of the next takeover. */
    if (!n->up || n->cluster.lease.nonce != txn->order.nonce || n->fault_until_ms > world->now_ms)
        world->owner_faults++;
}

void cl_check_release(struct cl_world *world, unsigned node, const struct hf_store_lease_call *call)
{
    if (call->order.action == HF_LEASE_RELEASE && call->clean_stop &&
        !world->nodes[node].has_served)
        cl_violation(world, "a clean stop is recorded of an epoch that was begun",
                     "n%u records one, and has not served", node);
    if (call->order.action == HF_LEASE_RELEASE && world->nodes[node].address.up)
        cl_violation(world, "the lease is released when the addresses are down",
                     "n%u has its address", node);
}

/* Judges a planned move by the row that the owner saw last, which may be some seconds old. */
void cl_check_move(struct cl_world *world, unsigned node)
{
    enum { LOST_MS = 3000 };
    const struct hf_cluster_view *view = &world->nodes[node].cluster.view;
    bool other = false;

    for (unsigned i = 0; i < view->n_nodes; i++)
        other = other || (i != node && view->nodes[i].seen_ms < LOST_MS);
    if (!other)
        cl_violation(world, "a service moves to a node that is there", "n%u is alone", node);
}

static void read_locks(const struct records *records, uint8_t modes[CL_CLIENTS][CL_FILES])
{
    for (unsigned i = 0; i < records->count; i++) {
        struct hf_record_lock lock;

        if (!hf_record_is_held(record_bytes(records->at[i])))
            continue;
        HF_ASSERT(hf_record_decode_lock(record_bytes(records->at[i]), &lock) == 0);
        modes[lock.svid][lock.fh.data[0]] = lock.exclusive ? CL_EXCLUSIVE : CL_SHARED;
    }
}

void cl_check_continues(struct cl_world *world, unsigned node, const struct hf_view_status *status)
{
    if (!world->config.continues)
        return;
    if (world->db.primary.loss_accepted && status->recovers == HF_RECOVERS_NOT)
        cl_violation(world, "a takeover after a loss does not continue", "n%u keeps state %d", node,
                     status->state);
    if (world->has_lost)
        return;
    if (status->recovers != HF_RECOVERS_NOT && status->recovers != HF_RECOVERS_FIRST)
        cl_violation(world, "a takeover that loses nothing continues", "n%u: %s", node,
                     hf_recovers_text(status->recovers));
    if (status->grace_active)
        cl_violation(world, "a takeover that loses nothing continues", "n%u has a grace period",
                     node);
}

void cl_check_records(struct cl_world *world)
{
    uint8_t modes[CL_CLIENTS][CL_FILES] = {0};

    if (world->has_lost || !world->config.durable_locks)
        return;
    read_locks(&world->db.primary.records, modes);
    for (unsigned c = 0; c < CL_CLIENTS; c++) {
        for (unsigned f = 0; f < CL_FILES; f++) {
            if (world->clients[c].held[f] > modes[c][f])
                cl_violation(world, "no acknowledged lock is missing",
                             "c%u holds file %u, and the database does not know it", c, f);
        }
    }
}

void cl_check_grant(struct cl_world *world, unsigned client, unsigned file)
{
    const struct cl_client *clients = world->clients;

    cl_check_records(world);
    for (unsigned c = 0; c < CL_CLIENTS && !world->has_lost; c++) {
        if (c != client && clients[c].held[file] &&
            (clients[c].held[file] == CL_EXCLUSIVE || clients[client].held[file] == CL_EXCLUSIVE))
            cl_violation(world, "no two clients hold conflicting locks", "c%u and c%u, file %u",
                         client, c, file);
    }
}

void cl_check_refused(struct cl_world *world, unsigned client, unsigned file, unsigned stat)
{
    if (!world->has_lost)
        cl_violation(world, "a lock that is held can be reclaimed", "c%u, file %u: status %u",
                     client, file, stat);
    world->clients[client].held[file] = CL_NOT_HELD;
}

/* ------------------------------------------------------------------ cause and effect */

void cl_check_owner_fault(struct cl_world *world, unsigned node, uint64_t lasts_ms)
{
    struct cl_node *n = &world->nodes[node];

    if (n->up && (hf_lease_is_owner(&n->cluster.lease) ||
                  world->db.primary.row.nonce ==
                      n->cluster.lease.nonce)) /* the owner does not know of the take yet */
        world->owner_faults++;
    if (n->fault_until_ms < world->now_ms + lasts_ms + 1)
        n->fault_until_ms = world->now_ms + lasts_ms + 1;
}

static void check_moves(struct cl_world *world)
{
    uint64_t orders = world->stats.faults[CL_FAULT_MOVE] + world->stats.faults[CL_FAULT_RELEASE];

    /* An order may cost two takeovers, because the node takes back what no other node wanted. So
     * does a node that leaves the service by itself, because it cannot serve. */
    if (world->stats.takes > 1 + world->owner_faults + 2 * (orders + world->left) &&
        !world->has_lost)
        cl_violation(world, "the service does not move without cause",
                     "%llu takes, %llu faults of owners, %llu orders",
                     (unsigned long long)world->stats.takes,
                     (unsigned long long)world->owner_faults, (unsigned long long)orders);
}

void cl_check_serves(struct cl_world *world)
{
    unsigned n = 0;

    for (unsigned i = 0; i < world->config.nodes; i++) {
        n += serves(world, i);
        /* By now each operator who released a service has wanted it back. */
        if (world->nodes[i].up && world->nodes[i].cluster.lease.hold == HF_LEASE_UNTIL_TOLD)
            cl_violation(world, "only an operator keeps a node from the service", "n%u is held", i);
    }
    if (n != 1)
        cl_violation(world, "after the faults one node serves", "%u do", n);
}

void cl_check_end(struct cl_world *world)
{
    uint8_t modes[CL_CLIENTS][CL_FILES] = {0};

    check_moves(world);
    cl_check_serves(world);
    if (world->has_lost)
        return;
    read_locks(&world->db.primary.records, modes);
    for (unsigned c = 0; c < CL_CLIENTS; c++) {
        if (!world->clients[c].is_done)
            cl_violation(world, "every request is answered", "c%u still waits", c);
        for (unsigned f = 0; f < CL_FILES; f++) {
            if (modes[c][f])
                cl_violation(world, "nothing is left behind", "a lock of c%u on file %u", c, f);
        }
    }
}

/* ------------------------------------------------------------------ a database that forgot */

static bool knows_more(const struct hf_lease *lease, const struct hf_lease_row *row)
{
    return lease->known.heartbeat > row->heartbeat || lease->known.epoch > row->epoch;
}

void cl_check_lost(struct cl_world *world)
{
    const struct hf_lease_row *row = &world->db.primary.row;
    bool has_owner = false;
    bool any = false;

    world->stats.lost++;
    world->has_lost = true;
    world->lost_at_ms = world->now_ms;
    world->top_epoch = 0;
    for (unsigned i = 0; i < world->config.nodes; i++)
        has_owner =
            has_owner || (world->nodes[i].up && hf_lease_is_owner(&world->nodes[i].cluster.lease));
    for (unsigned i = 0; i < world->config.nodes; i++) {
        struct cl_node *n = &world->nodes[i];

        n->knew = n->up && knows_more(&n->cluster.lease, row) &&
                  (hf_lease_is_owner(&n->cluster.lease) || !has_owner);
        any = any || n->knew;
    }
    world->stats.unknowable += !any;
    CL_TRACE(world, row->epoch, row->heartbeat, any,
             "db: acknowledged commits are lost; heartbeat is %llu",
             (unsigned long long)row->heartbeat);
    cl_trouble_ends(world);
}

/* Each process that knew of the lost commits must notice the loss; the alarm in the row stops the
 * others. */
void cl_check_noticed(struct cl_world *world)
{
    bool any = false;

    for (unsigned i = 0; i < world->config.nodes; i++)
        any = any || world->nodes[i].knew;
    for (unsigned i = 0; i < world->config.nodes; i++) {
        bool alarm = world->nodes[i].cluster.lease.state == HF_LEASE_ALARM;

        world->stats.alarms += alarm;
        if (any && !alarm)
            cl_violation(world, "a database that went back in time is noticed",
                         "n%u raised no alarm", i);
    }
}
