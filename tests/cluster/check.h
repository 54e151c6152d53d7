/*
 * What must be true (HA-02 to HA-06, HA-08).
 *
 *  - At any moment of true time at most one node has a valid lease, and no packet leaves a node
 *    after another node's lease became valid. A node whose clock stood still with it may not know
 *    yet that it lost the lease: it may speak, but it promises no lock without a commit.
 *  - An epoch belongs to one term of one node, and grows. So do NSM state numbers.
 *  - Only the owner's commits are applied, and in their order.
 *  - A lock that a client was told to hold is in the database until the client unlocks it; no two
 *    clients hold conflicting locks; a reclaim of such a lock is granted.
 *  - The service does not move without cause: each takeover has a fault of the owner, or an order
 *    of an operator. A database that stalls or fails over is no cause.
 *  - When the faults end, one node is active within seconds, all requests are answered, and no
 *    event is left.
 *  - A database that lost acknowledged commits is noticed by every process that could know, and
 *    then no process grants on it.
 */
#ifndef HF_CLUSTER_CHECK_H
#define HF_CLUSTER_CHECK_H

#include <stdint.h>

#include "core/lease/row.h"
#include "core/view.h"
#include "support/records.h"

struct cl_world;
struct hf_store_lease_call;
struct cl_txn;
struct cl_packet;

void cl_check_event(struct cl_world *world);
void cl_check_leaves(struct cl_world *world, unsigned node, const struct cl_packet *packet);
void cl_check_commit(struct cl_world *world, const struct cl_txn *txn);
/* A node is about to release the lease: its addresses are down, and a clean stop is recorded only
 * of an epoch that it began. */
void cl_check_release(struct cl_world *world, unsigned node,
                      const struct hf_store_lease_call *call);
/* Is called when a planned move has begun. */
void cl_check_move(struct cl_world *world, unsigned node);
void cl_check_take(struct cl_world *world, const struct cl_txn *txn);
/* A term begins: it continues where the last one ended, if nothing was lost (REC-01). */
void cl_check_continues(struct cl_world *world, unsigned node, const struct hf_view_status *status);
void cl_check_records(struct cl_world *world);
void cl_check_grant(struct cl_world *world, unsigned client, unsigned file);
void cl_check_refused(struct cl_world *world, unsigned client, unsigned file, unsigned stat);

/* A fault strikes this node that may cost it the service, and lasts this long. */
void cl_check_owner_fault(struct cl_world *world, unsigned node, uint64_t lasts_ms);

/* The database has lost commits that it had acknowledged. */
void cl_check_lost(struct cl_world *world);
void cl_check_noticed(struct cl_world *world);

void cl_check_serves(struct cl_world *world);
void cl_check_end(struct cl_world *world);

const char *cl_action_name(enum hf_lease_action action);
const char *cl_call_name(unsigned call);
void cl_copy_records(struct records *to, const struct records *from);

#endif
