/*
 * What must be true, whatever happens. Most of it is checked after every event; some at
 * the very moment at which it could be broken: when an answer or a call leaves, when the server
 * comes up, when everything has become calm.
 *
 * One exemption runs through them: a grant may have lapsed (model.shaky) for a cause that
 * docs/reference/SPEC.md allows, while the client goes on believing in it. reconcile.c lists the
 * causes (may_lose); the others are marked where they arise:
 *   - an old copy of a request was executed (door.c): the server cannot tell it from a new one;
 *   - NM_LOCK and SHARE do not survive a crash of the server, and no client is told (SPEC section
 * 4);
 *   - a GRANTED call that was in flight when its outcall ended, or when the server died, reached a
 *     client that was waiting for the same range again (clients do not compare the cookie);
 *   - locks that are not recorded, and were not reclaimed before grace was over;
 *   - locks that a crash of the host took from the disk (DUR-02): the same, or another client's
 *     lock is in the way whose release was lost in the same crash.
 */
#ifndef HF_SIM_INVARIANTS_H
#define HF_SIM_INVARIANTS_H

#include "core/core.h"
#include "message.h"

struct sim_world;
struct sim_call_out;

/* After every event. */
void sim_check_event(struct sim_world *world);

/* Checks what only the moment of an answer can show. */
void sim_check_answer(struct sim_world *world, const struct sim_message *request,
                      enum hf_stat stat);

/* Checks a packet that leaves the server. */
void sim_check_sent(struct sim_world *world, const struct sim_message *answer);
void sim_check_call(struct sim_world *world, const struct hf_outcall_attempt *call,
                    const struct sim_call_out *out);

/* Check the server when it has died, and when it has come up again. */
void sim_check_crashed(struct sim_world *world);
void sim_check_started(struct sim_world *world);

/* Checks what must be true long after the faults have stopped. */
void sim_check_calm(struct sim_world *world);

#endif
