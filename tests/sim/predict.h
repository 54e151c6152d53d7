/*
 * What the core may answer, worked out from the naive model: a set of stats, nearly always of one.
 * More than one is allowed only where the specification leaves it open, and there the reason stands
 * beside it.
 */
#ifndef HF_SIM_PREDICT_H
#define HF_SIM_PREDICT_H

#include "config.h"
#include "model.h"

struct sim_world;

#define SIM_STAT_BIT(stat) (1u << (stat))

/* For TEST, LOCK, NM_LOCK, UNLOCK, CANCEL, SHARE, UNSHARE and FREE_ALL. */
unsigned sim_predict(const struct sim_world *world, const struct sim_message *request);

/* The owner holds all of the range, in this mode or a stronger one. */
bool sim_predict_covers(const struct sim_oracle *held, unsigned owner, struct sim_range range,
                        bool exclusive);

/* What the limits count (SPEC section 4): a share and a waiter count as a lock of the client and in
 * all, a share also as one of its file. */
struct sim_counts {
    unsigned in_all, of_host, of_file;
    unsigned waiting; /* for the file */
};
struct sim_counts sim_predict_count(const struct sim_seen *seen, unsigned host, unsigned file);

/* A LOCK that may leave no more locks than there are: it waits whatever the limits on locks say. */
bool sim_predict_may_be_beyond(const struct sim_world *world, const struct sim_message *request);

/* What stands in the view, counted as SPEC section 4 says, comes near a limit if it grows by so
 * many: shares and waiters count as locks. */
enum { SIM_GROWTH = 2 }; /* so many locks more can come of one LOCK */
bool sim_predict_is_near_limit(const struct sim_world *world, unsigned host, unsigned file,
                               unsigned growth);

/* There may be no client more, and the server may not know this one: it has neither locks nor
 * shares, and waits for nothing. */
bool sim_predict_is_client_refused(const struct sim_world *world, unsigned host);

/* A limit on locks or waiters is so low that a world of this size may hit it. */
bool sim_predict_is_tight(const struct sim_config *config);

/*
 * The place of this waiter in the queue is part of a cycle: a waiter ahead of it waits, in however
 * many steps, for it. As it is, or as it would be if no waiter passed.
 */
bool sim_predict_is_in_cycle(const struct sim_model *model, unsigned place, bool as_it_is);

#endif
