/*
 * What the core may answer, worked out from the naive model: a set of stats, nearly always of one.
 * More than one is allowed only where the specification leaves the answer open; a comment there
 * gives the reason.
 */
#ifndef HF_SIM_PREDICT_H
#define HF_SIM_PREDICT_H

#include "config.h"
#include "model.h"

struct sim_world;

#define SIM_STAT_BIT(stat) (1u << (stat))

/* Predicts the answer to TEST, LOCK, NM_LOCK, UNLOCK, CANCEL, SHARE, UNSHARE and FREE_ALL. */
unsigned sim_predict(const struct sim_world *world, const struct sim_message *request);

/* True if the owner holds all of the range, in this mode or a stronger one. */
bool sim_predict_covers(const struct sim_oracle *held, unsigned owner, struct sim_range range,
                        bool exclusive);

/* What the limits count (SPEC section 4): a share and a waiter count as a lock of their client and
 * in the total, a share also as a lock of its file. */
struct sim_counts {
    unsigned in_all, of_host, of_file;
    unsigned waiting; /* for the file */
};
struct sim_counts sim_predict_count(const struct sim_seen *seen, unsigned host, unsigned file);

/* True for a LOCK that may leave no more locks than there are: it may wait beyond the limits on
 * locks. */
bool sim_predict_may_be_beyond(const struct sim_world *world, const struct sim_message *request);

/* True if the counts of the view come near a limit when they grow by this many: shares and waiters
 * count as locks (SPEC section 4). */
enum { SIM_GROWTH = 2 }; /* one LOCK can add this many locks */
bool sim_predict_is_near_limit(const struct sim_world *world, unsigned host, unsigned file,
                               unsigned growth);

/* True if the table of clients may be full and the server may not know this host: it has neither
 * locks nor shares, and waits for nothing. */
bool sim_predict_is_client_refused(const struct sim_world *world, unsigned host);

/* True if a limit on locks or waiters is so low that a world of this size may reach it. */
bool sim_predict_is_tight(const struct sim_config *config);

/* True if the place of this waiter in the queue is part of a cycle: a waiter ahead of it waits, in
 * any number of steps, for it. as_it_is: waiters that may pass do so; otherwise none passes. */
bool sim_predict_is_in_cycle(const struct sim_model *model, unsigned place, bool as_it_is);

#endif
