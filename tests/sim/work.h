/*
 * What the programs on simulated clients do: lock, unlock parts of what they have, look, share,
 * monitor; and, on some machines, lie about who they are. When the world has become calm they let
 * go of everything and finish.
 */
#ifndef HF_SIM_WORK_H
#define HF_SIM_WORK_H

#include "message.h"

struct sim_world;

/*
 * The next request of an idle process; SIM_CALL_NONE: nothing now. Things that are not a process's
 * own business (SM_MON, lies) are sent from here in the host's spare slot.
 */
struct sim_message sim_work_next(struct sim_world *world, unsigned host, unsigned proc);

/* True if another thread of this process asks or waits for a lock that overlaps the range. */
bool sim_work_is_asked_by_thread(const struct sim_world *world, unsigned host, unsigned proc,
                                 struct sim_range range);

#endif
