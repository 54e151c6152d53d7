/*
 * The core of Holdfast: clients, byte-range locks, waiters, shares, grace, recovery, and the
 * schedule of notices, for one server. It is pure: it uses no socket, file, clock, thread, log or
 * environment. Requests, the time and commit results go in; answers, batches of records, outgoing
 * calls and events come out. This header includes the other public headers. A core is used like
 * this:
 *
 *     hf_core_new()
 *     hf_core_load() for each stored record, clients before locks
 *     hf_core_start()                     the first batch now holds the new epoch (NSM-06)
 *     for ever:
 *         requests (request.h)            each answer waits for its batch
 *         hf_core_take_batch()            when none is in flight; commit it
 *         hf_core_batch_done()            then send the answers that waited for it
 *         hf_core_next_outcall()          until false; hf_core_outcall_done() later (outcall.h)
 *         hf_core_tick()                  at hf_core_deadline()
 *         hf_core_next_event()            until false (view.h)
 *         the functions of claim.h        with config.coherent
 *     hf_core_stop(), one last batch, hf_core_del()
 *
 * Durability. Changes gather in one batch while the batch before it commits. When a commit fails,
 * its changes and those gathered since are undone in reverse order, so that memory holds again what
 * is durable:
 *   - Registrations, and locks when durable_locks, are again exactly as in the store.
 *   - A change that is not durable (NM_LOCK, SHARE, and every lock when !durable_locks) is undone
 *     as well if it depends on one that is undone (a lock that fits only because of an UNLOCK, a
 *     lock of a client whose registration is undone); its answer has waited for that one.
 *     Otherwise it stays.
 *   - A waiter that was granted waits again, at its old place. Waiters that came, or that left by
 *     CANCEL or crash, are not affected.
 *   - Where the server's record was not durable, every answer has waited for it and is refused now.
 *     So whatever was given since is undone, recorded or not, and waiters that came since go.
 *   - The release of crashed clients' locks, the end of grace and undone grants are retried a
 *     second later (hf_core_deadline() says when).
 *
 * When memory runs out, a request leaves everything as it was and is answered DENIED_NOLOCKS or
 * STAT_FAIL.
 */
#ifndef HF_CORE_CORE_H
#define HF_CORE_CORE_H

#include "base/alloc.h"
#include "core/claim.h"
#include "core/config.h"
#include "core/ending.h"
#include "core/outcall.h"
#include "core/record.h"
#include "core/request.h"
#include "core/view.h"

/* Returns NULL when memory runs out. The allocator must outlive the core. */
struct hf_core *hf_core_new(const struct hf_core_config *config, const struct hf_alloc *alloc);
void hf_core_del(struct hf_core *core);

/*
 * Loads one stored record. Returns HF_EFORMAT and HF_EVERSION from decoding; HF_ENOENT for a lock
 * whose client was not loaded before; HF_EEXIST for an id or identity that is known already, or a
 * lock that conflicts with one loaded before; HF_ENOMEM. A record that was refused changes nothing.
 */
int hf_core_load(struct hf_core *core, enum hf_record_kind kind, struct hf_bytes bytes);

/*
 * Tells, after HF_ENOENT or HF_EEXIST, which record was refused, and which one it does not fit: the
 * client that is missing, or the client or lock that is there. Ids grow, and a lock is granted only
 * when no other lock is in its way, so the lock with the smaller id is the rest of one that was
 * released.
 */
struct hf_load_conflict hf_core_load_conflict(const struct hf_core *core);

/*
 * Loads many records. Locks are loaded some records after they were added, and the memory that each
 * will touch is fetched meanwhile: in big tables that takes half the time. So a failure of add or
 * end may be that of a lock that was added before. Every lock is loaded when end returns 0. The
 * loader must not outlive the core.
 */
struct hf_loader;

struct hf_loader *hf_loader_new(struct hf_core *core); /* returns NULL without memory */
int hf_loader_add(struct hf_loader *loader, enum hf_record_kind kind, struct hf_bytes bytes);
int hf_loader_end(struct hf_loader *loader);
void hf_loader_del(struct hf_loader *loader); /* NULL is allowed */

/*
 * Begins a new epoch: its record is the first thing in batch 1, and no answer or call leaves before
 * that is durable. What the start means for clients is in SPEC section 14: grace begins if there
 * are locks to reclaim (GRC-03), and registered hosts are notified (NSM-07). HF_ENOMEM: nothing was
 * started.
 */
int hf_core_start(struct hf_core *core, struct hf_now now);

/* Records a clean stop in the gathering batch; returns the seq to wait for. Nothing may be asked of
 * the core after it. Locks and registrations stay as they are. */
uint64_t hf_core_stop(struct hf_core *core, struct hf_now now);

/* True if the file belongs to an export of another service (HA-09), and which; the clients of that
 * service would not see a lock there. */
bool hf_core_is_foreign(const struct hf_core *core, struct hf_bytes fh,
                        struct hf_bytes *export_name);

/* Sets new limits, from now on; locks and clients that exceed them already stay. */
/* Returns the key of the core's hash tables; values hashed with it must not leave the process. */
const struct hf_hash_key *hf_core_hash_key(const struct hf_core *core);

void hf_core_set_limits(struct hf_core *core, const struct hf_limits *limits);

/*
 * Returns the gathering batch, to be committed, or NULL if there is nothing to commit or one is in
 * flight. It belongs to the core and stays unchanged until hf_core_batch_done(). It may hold no
 * operation at all (n_ops 0): then an answer waits for its sequence number only, and the store may
 * report it as done at once. A batch with may_be_lost may be reported as done once it would survive
 * a crash of this process; it must reach stable storage soon after.
 */
const struct hf_batch *hf_core_take_batch(struct hf_core *core);

/*
 * Tells that the batch taken last is durable (error 0), or is certain not to be. On failure every
 * answer that waits for this seq *or a later one* is void. A commit whose outcome is unknown must
 * be sent again until it is known; writes are idempotent (record.h).
 */
void hf_core_batch_done(struct hf_core *core, struct hf_now now, uint64_t seq, int error);

/* Returns the newest durable batch: answers with seq up to this may leave. */
uint64_t hf_core_durable(const struct hf_core *core);

/* Returns when hf_core_tick() is wanted next, in mono_ms; UINT64_MAX: never, as things stand. A
 * moment that has passed means at once. */
uint64_t hf_core_deadline(const struct hf_core *core);
void hf_core_tick(struct hf_core *core, struct hf_now now);

/*
 * Returns how many objects (locks, waiters, owners, shares, clients) all requests and ticks
 * together have visited so far; a look-up in an index counts as one. The difference across a
 * request is what it cost, so that a connection can be charged for it (SEC-05). It is a number, not
 * a time, so that tests can rely on it.
 */
uint64_t hf_core_work(const struct hf_core *core);

/*
 * Panics unless every invariant holds: counts, links in both directions, no two conflicting locks,
 * no waiter that could be granted, ... It walks the whole state, and is for tests and the
 * simulator.
 */
void hf_core_verify_invariants(const struct hf_core *core);

#endif
