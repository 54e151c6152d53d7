/*
 * The brain of Holdfast: clients, byte-range locks, waiters, shares, grace, recovery, and the
 * schedule of notices, for one server. Pure: no socket, file, clock, thread, log or environment.
 * Requests, moments and commit results go in; answers, batches of records, outgoing calls and
 * events come out. This header is the umbrella; the life of a core is:
 *
 *     hf_core_new()
 *     hf_core_load() for each stored record, clients before locks
 *     hf_core_start()                     the first batch now holds the new epoch (NSM-06)
 *     for ever:
 *         requests (request.h)            each answer waits for its batch
 *         hf_core_take_batch()            when none is in flight; commit it
 *         hf_core_batch_done()            then send the answers that waited for it
 *         hf_core_next_call()             until false; hf_core_call_done() later (call.h)
 *         hf_core_tick()                  at hf_core_deadline()
 *         hf_core_next_event()            until false (view.h)
 *     hf_core_stop(), one last batch, hf_core_del()
 *
 * Durability. Changes gather in one batch while the one before commits. When a commit fails, its
 * changes and those gathered since are undone in reverse order, so memory is what is durable:
 *   - durable: registrations, and LOCKs when durable_locks. Exactly as in the store again.
 *   - not durable (NM_LOCK, SHARE, and every lock when !durable_locks): undone as well if it came
 *     to be because of something that is undone (a lock that fits only because of an UNLOCK that
 *     is undone, a lock of a client whose registration is undone); its answer waited likewise.
 *     Otherwise it stays.
 *   - waiters: one that was granted waits again, at its old place. One that came, or left by CANCEL
 *     or crash, stays so.
 *   - clients found to have crashed, the end of grace, and undone grants are tried again by
 *     themselves a second later (hf_core_deadline() says when).
 *
 * When memory runs out, an operation leaves everything as it was and answers DENIED_NOLOCKS or
 * STAT_FAIL.
 */
#ifndef HF_CORE_CORE_H
#define HF_CORE_CORE_H

#include "base/alloc.h"
#include "core/call.h"
#include "core/config.h"
#include "core/record.h"
#include "core/request.h"
#include "core/view.h"

/* NULL when memory runs out. The allocator outlives the core. */
struct hf_core *hf_core_new(const struct hf_core_config *config, const struct hf_alloc *alloc);
void hf_core_del(struct hf_core *core);

/*
 * One stored record. HF_EFORMAT and HF_EVERSION from decoding; HF_ENOENT for a lock whose client
 * was not loaded before; HF_EEXIST for an id or identity that is there already, or a lock that
 * conflicts with one loaded before; HF_ENOMEM. A record that was refused is left alone.
 */
int hf_core_load(struct hf_core *core, enum hf_record_kind kind, struct hf_bytes bytes);

/*
 * Begins a new epoch: its record is the first thing in batch 1, and no answer or call leaves before
 * that is durable. Grace begins if there was something to lose (GRC-03); everybody registered is to
 * be notified (NSM-07). HF_ENOMEM: nothing was started.
 */
int hf_core_start(struct hf_core *core, struct hf_now now);

/* Records a clean stop in the gathering batch; returns the seq to wait for. Nothing may be asked
 * after it. Locks and registrations stay as they are. */
uint64_t hf_core_stop(struct hf_core *core, struct hf_now now);

/*
 * The gathering batch, to be committed, or NULL if there is nothing to commit or one is in flight.
 * It belongs to the core and stays unchanged until hf_core_batch_done(). It may hold no operation
 * at all (n_ops 0): then something waits for its turn, and any store may call it done at once.
 */
const struct hf_batch *hf_core_take_batch(struct hf_core *core);

/*
 * The batch taken last is durable (error 0), or is certain not to be. On failure every answer that
 * waits for this seq *or a later one* is void. A commit whose outcome is unknown must be sent again
 * until it is known; writes are idempotent (record.h).
 */
void hf_core_batch_done(struct hf_core *core, struct hf_now now, uint64_t seq, int error);

/* The newest durable batch: answers with seq up to this may leave. */
uint64_t hf_core_durable(const struct hf_core *core);

/* When hf_core_tick() is wanted next, in mono_ms; UINT64_MAX: never, as things stand. A moment
 * that has passed means at once. */
uint64_t hf_core_deadline(const struct hf_core *core);
void hf_core_tick(struct hf_core *core, struct hf_now now);

/*
 * Panics unless every invariant holds: counts, links in both directions, no two conflicting
 * holders, no waiter that could be granted, ... It walks the whole state; for tests and the
 * simulator.
 */
void hf_core_check(const struct hf_core *core);

#endif
