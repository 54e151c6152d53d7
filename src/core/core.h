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
 *     until the stop:
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
 *   - A change that is not recorded (NM_LOCK, SHARE, and every lock when !durable_locks) is undone
 *     as well if it depends on one that is undone (a lock that fits only because of an UNLOCK, a
 *     lock of a client whose registration is undone); its answer has waited for that batch.
 *     Otherwise the change stays.
 *   - A waiter that the batch granted waits again, at its old place. Waiters that have come since,
 *     or have left by CANCEL or crash, are not affected.
 *   - While the server's record was not durable, every answer waited for it, and becomes a refusal
 *     now. So whatever was given since is undone, recorded or not, and waiters that came since go.
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
 * Loads one stored record. A record that is refused changes nothing, and the call returns
 * HF_EFORMAT or HF_EVERSION from decoding; HF_ENOENT for a lock whose client is not loaded;
 * HF_EEXIST for an id or identity that is known already, or a lock that conflicts with a loaded
 * one; or HF_ENOMEM.
 */
int hf_core_load(struct hf_core *core, enum hf_record_kind kind, struct hf_bytes bytes);

/*
 * Tells, after HF_ENOENT or HF_EEXIST, which record was refused, and which other record is the
 * reason: the missing client, or the client or lock that is already there. Ids grow, and a lock is
 * granted only when no other lock is in its way, so of two conflicting locks the one with the
 * smaller id is left over from a release.
 */
struct hf_load_conflict hf_core_load_conflict(const struct hf_core *core);

/*
 * Loads many records. A lock is loaded a few records after it was added, and the memory that it
 * will touch is fetched meanwhile, which halves the time for big tables. So an error of
 * hf_loader_add() or hf_loader_end() may concern a lock that was added earlier. Every lock is
 * loaded once hf_loader_end() returns 0. The loader must not outlive the core.
 */
struct hf_loader;

struct hf_loader *hf_loader_new(struct hf_core *core); /* NULL: no memory */
int hf_loader_add(struct hf_loader *loader, enum hf_record_kind kind, struct hf_bytes bytes);
int hf_loader_end(struct hf_loader *loader);
void hf_loader_del(struct hf_loader *loader); /* accepts NULL */

/*
 * Begins a new epoch. Its record comes first in batch 1, and no answer or call leaves before that
 * batch is durable. SPEC section 14 says what a start means for clients: grace begins if there are
 * locks to reclaim (GRC-03), and registered hosts are notified (NSM-07). On HF_ENOMEM nothing was
 * started.
 */
int hf_core_start(struct hf_core *core, struct hf_now now);

/* Records a clean stop in the gathering batch; returns the seq to wait for. Afterwards the core
 * takes no more requests. Locks and registrations stay as they are. */
uint64_t hf_core_stop(struct hf_core *core, struct hf_now now);

/* Returns the operator's vouch for this caller name at this address (TRK-02); NULL: there is none.
 */
const struct hf_vouch *hf_vouch_of(const struct hf_core *core, struct hf_bytes name,
                                   const struct hf_addr *addr);

/* True if the vouch, which may be NULL, is for a client that uses several addresses at a time, and
 * that has been heard of at this one. */
bool hf_vouch_is_at_once(struct hf_core *core, const struct hf_vouch *vouch,
                         const struct hf_addr *addr);

/* True if the file belongs to an export of another service (HA-09), whose clients would not see a
 * lock here; *export_name is the export. */
bool hf_core_is_foreign(const struct hf_core *core, struct hf_bytes fh,
                        struct hf_bytes *export_name);

/* Returns the key of the core's hash tables; values hashed with it must not leave the process. */
const struct hf_hash_key *hf_core_hash_key(const struct hf_core *core);

/* Sets new limits from now on; locks and clients that exceed them already stay. */
void hf_core_set_limits(struct hf_core *core, const struct hf_limits *limits);

/*
 * Returns the gathering batch, for the caller to commit, or NULL if there is nothing to commit or
 * another batch is in flight. The batch belongs to the core and stays unchanged until
 * hf_core_batch_done(). It may hold no operation (n_ops 0) when an answer only waits for its
 * number; the store may then report it as done at once. A batch with may_be_lost may be reported as
 * done once it would survive a crash of this process; it must reach stable storage soon after.
 */
const struct hf_batch *hf_core_take_batch(struct hf_core *core);

/*
 * Tells the core that the batch taken last is durable (error 0), or is certain not to be. After a
 * failure every answer that waits for this seq *or a later one* is void. A commit whose outcome is
 * unknown must be sent again until it is known; writes are idempotent (record.h).
 */
void hf_core_batch_done(struct hf_core *core, struct hf_now now, uint64_t seq, int error);

/* Returns the number of the newest durable batch: answers with a seq up to this may leave. */
uint64_t hf_core_durable(const struct hf_core *core);

/* Returns when the core next wants hf_core_tick(), in mono_ms; a time in the past means at once,
 * UINT64_MAX means not before something else happens. */
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
