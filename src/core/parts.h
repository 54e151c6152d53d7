/*
 * How the files of the core call each other: one section per file, in the order in which they build
 * on one another. Private to src/core.
 *
 * Functions that can fail return 0 or HF_ENOMEM (HF_ELIMIT where said) and then leave what they did
 * so far to be rolled back by their caller (hf_txn_rollback): they log each change before making
 * it.
 */
#ifndef HF_CORE_PARTS_H
#define HF_CORE_PARTS_H

#include "base/error.h"
#include "core/state.h"

/* --- names.c: names as hosts use them --- */

/* ASCII case does not matter. */
bool hf_name_equal(struct hf_bytes a, struct hf_bytes b);

/* Equal, or one is the other cut at its first dot. */
bool hf_name_same_host(struct hf_bytes a, struct hf_bytes b);

/* For a hash: names that are equal become the same bytes. out has room for name.len, as returned.
 */
size_t hf_name_fold(struct hf_bytes name, uint8_t *out);

/* The name up to its first dot; empty if it has none. */
struct hf_bytes hf_name_short(struct hf_bytes name);

/* The address that the name is the text of; false if it is not. */
bool hf_name_is_addr(struct hf_bytes name, struct hf_addr *out);

/* --- range.c: bytes of a file --- */

struct hf_range {
    uint64_t first, last; /* both included */
};

/* False if it would reach beyond 2^64 - 1 (NLM4_FBIG). */
bool hf_range_from_wire(uint64_t offset, uint64_t length, struct hf_range *out);
uint64_t hf_range_wire_length(uint64_t first, uint64_t last);

static inline bool hf_range_overlap(uint64_t a_first, uint64_t a_last, uint64_t b_first,
                                    uint64_t b_last)
{
    return a_first <= b_last && b_first <= a_last;
}

/* --- request.c: what every request does first and last --- */

/* GRANTED if the request makes sense, else what to answer. */
enum hf_stat hf_request_check(const struct hf_peer *peer, const struct hf_lock_args *args,
                              struct hf_range *range);

/* The client, owner and file of a request; the references are for as long as it lasts. */
struct hf_subject {
    struct hf_client *client;
    struct hf_owner *owner;
    struct hf_file *file;
};

/* Made if need be: HF_ENOMEM or HF_ELIMIT, with nothing left behind. */
int hf_subject_get(struct hf_core *core, struct hf_now now, const struct hf_peer *peer,
                   const struct hf_lock_args *args, struct hf_client *found,
                   struct hf_subject *out);

/* HF_ENOENT if any of them is unknown. */
int hf_subject_find(struct hf_core *core, struct hf_now now, const struct hf_peer *peer,
                    const struct hf_lock_args *args, struct hf_subject *out);
void hf_subject_put(struct hf_core *core, struct hf_now now, const struct hf_subject *subject);

/*
 * The whole of a request about what there is (UNLOCK, CANCEL): when its client, owner or file is
 * unknown there is nothing to do, which is GRANTED.
 */
struct hf_want;
typedef struct hf_answer (*hf_request_part)(struct hf_core *core, struct hf_now now,
                                            const struct hf_subject *subject,
                                            const struct hf_want *want);
struct hf_answer hf_request_about(struct hf_core *core, struct hf_now now,
                                  const struct hf_peer *peer, const struct hf_lock_args *args,
                                  hf_request_part part);

/* The answer as it leaves: waiters served, grace reviewed, seq settled. */
struct hf_answer hf_request_answer(struct hf_core *core, struct hf_now now,
                                   struct hf_answer answer);

/* --- event.c: events for the log --- */

void hf_event_add(struct hf_core *core, enum hf_event_kind kind, const struct hf_client *client,
                  int64_t a, int64_t b, int error);
void hf_event_add_stranger(struct hf_core *core, const struct hf_addr *addr, struct hf_bytes name,
                           int64_t state);

/* --- timer.c --- */

void hf_timer_arm(struct hf_core *core, struct hf_timer *timer, uint64_t at_ms);
void hf_timer_disarm(struct hf_core *core, struct hf_timer *timer);

/* Wants a tick a moment from now, to try again what the store or the heap refused. */
void hf_redo_later(struct hf_core *core, struct hf_now now);

/* --- undo.c and txn.c: changes that become durable together or not at all --- */

/*
 * One change of the state, on one file at most. Everything is logged, so that it can be rolled back
 * as a whole or in part; at the end it either waits for the gathering batch, or, if it depends on
 * nothing that is not durable, is final at once.
 */
struct hf_txn {
    struct hf_core *core;
    struct hf_now now;
    struct hf_file *file; /* NULL: about a client only */
    bool depends;         /* on something not durable besides the file */
    struct hf_txn_mark {
        size_t undo_n;
        size_t batch_end;
        uint32_t n_ops;
    } begin;
};

void hf_txn_begin(struct hf_txn *txn, struct hf_core *core, struct hf_now now,
                  struct hf_file *file);
uint64_t hf_txn_commit(struct hf_txn *txn); /* the seq to wait for; 0: nothing */
struct hf_txn_mark hf_txn_mark(const struct hf_txn *txn);
void hf_txn_rollback(struct hf_txn *txn, struct hf_txn_mark mark);
void hf_txn_abort(struct hf_txn *txn); /* rolls everything back */

struct hf_batch *hf_core_gathering(struct hf_core *core);
bool hf_core_is_durable(const struct hf_core *core, uint64_t seq);

/* The seq an answer must carry, given the one its own change needs: never before the epoch. */
uint64_t hf_core_answer_seq(struct hf_core *core, uint64_t seq);

/* Room for one more entry, which hf_undo_push() then takes without fail. */
int hf_undo_reserve(struct hf_core *core);
void hf_undo_push(struct hf_core *core, struct hf_undo entry);
void hf_undo_back(struct hf_core *core, struct hf_undo_log *log, size_t to); /* newest first */
void hf_undo_settle(struct hf_core *core, struct hf_undo_log *log, size_t from);

/* --- clients.c: who there is (TRK-01) --- */

struct hf_client *hf_client_find_nlm(const struct hf_core *core, const struct hf_peer *peer);
struct hf_client *hf_client_find_nsm(struct hf_core *core, const struct hf_mon_args *args,
                                     const struct hf_addr *callback_host);
struct hf_client *hf_client_find_id(const struct hf_core *core, uint64_t id);

/* A new object with one reference, not registered; the caller has looked that it is not there. */
struct hf_client *hf_client_new(struct hf_core *core, const struct hf_record_client *record);
void hf_client_unref(struct hf_core *core, struct hf_client *client);
void hf_client_del(struct hf_core *core, struct hf_client *client);
void hf_client_record(const struct hf_client *client, struct hf_record_client *out);

/*
 * With a reference for as long as the request lasts: the one that was found, or, if none was, a new
 * one. NULL: limit or memory.
 */
struct hf_client *hf_client_get_nlm(struct hf_core *core, struct hf_now now,
                                    const struct hf_peer *peer, struct hf_client *found);

/* Registers it unless it is, and keeps its record up to date with how it talks to us. */
int hf_client_register(struct hf_txn *txn, struct hf_client *client);
int hf_client_unregister(struct hf_txn *txn, struct hf_client *client);
int hf_client_update(struct hf_txn *txn, struct hf_client *client,
                     const struct hf_client_mutable *to);

/* Links and counts, for registering and for undoing it. */
void hf_client_set_registered(struct hf_core *core, struct hf_client *client, bool registered);

int hf_client_add_alias(struct hf_core *core, struct hf_client *client, const struct hf_addr *addr);
void hf_client_drop_alias(struct hf_core *core, struct hf_alias *alias);

/* The next alias with this address after the given one (NULL: the first). */
struct hf_alias *hf_alias_find(struct hf_core *core, const struct hf_addr *addr);
struct hf_alias *hf_alias_find_next(struct hf_alias *alias);

/* It has nothing any more; its registration goes when the linger time is over. */
void hf_client_idle(struct hf_core *core, struct hf_now now, struct hf_client *client);
void hf_client_linger_over(struct hf_core *core, struct hf_now now, struct hf_client *client);

/* Locks are not durable: the client may no longer reclaim (it is dead, or grace is over). */
void hf_client_bar_reclaim(struct hf_core *core, struct hf_client *client);

/* --- holders.c: owners and files, found or made for the time of a request --- */

struct hf_owner *hf_owner_find(struct hf_core *core, struct hf_client *client, int32_t svid,
                               struct hf_bytes oh);
struct hf_owner *hf_owner_get(struct hf_core *core, struct hf_client *client, int32_t svid,
                              struct hf_bytes oh);
void hf_owner_unref(struct hf_core *core, struct hf_owner *owner);
int hf_owner_waiting(struct hf_core *core,
                     struct hf_owner *owner); /* makes owner->waiting its own */
struct hf_bytes hf_owner_oh(const struct hf_owner *owner);

struct hf_file *hf_file_find(const struct hf_core *core, struct hf_bytes fh);
struct hf_file *hf_file_get(struct hf_core *core, struct hf_bytes fh);
void hf_file_unref(struct hf_core *core, struct hf_file *file);
int hf_file_crowd(struct hf_core *core, struct hf_file *file); /* makes file->crowd its own */
void hf_crowd_init(struct hf_crowd *crowd, struct hf_file *file);
struct hf_bytes hf_file_fh(const struct hf_file *file);
struct hf_bytes hf_file_share_name(const struct hf_core *core, const struct hf_file *file);

void hf_flex_init(struct hf_flex *flex, const struct hf_alloc *alloc, size_t base);
void hf_flex_free(struct hf_flex *flex);

/* --- held.c: the locks of a file; POSIX rules (NLM-02) --- */

/* What a request wants of a file. */
struct hf_want {
    struct hf_owner *owner;
    uint64_t first, last;
    bool exclusive;
    bool durable;
};

/* The first lock of somebody else that is in the way, or the next one after it; NULL: none. */
struct hf_lock *hf_held_conflict(const struct hf_file *file, const struct hf_want *want);
struct hf_lock *hf_held_conflict_next(const struct hf_lock *lock, const struct hf_want *want);

/* The owner's own locks that touch [first, last], in order. */
struct hf_lock *hf_held_own(const struct hf_file *file, const struct hf_owner *owner,
                            uint64_t first, uint64_t last, const struct hf_lock *after);

/* The owner holds all of it, in this mode (shared is also served by exclusive unless exact). */
bool hf_held_covers(const struct hf_file *file, const struct hf_want *want, bool exact_mode);

/* The owner holds all of it now in the wanted mode: split, merge, upgrade, downgrade. */
int hf_held_set(struct hf_txn *txn, const struct hf_want *asked);

/* By how many locks hf_held_set() would make the owner's more, or fewer. */
enum { HF_HELD_GROWTH_MAX = 2 };
int hf_held_growth(const struct hf_file *file, const struct hf_want *want);

/* Unlocking this makes two locks of one. */
bool hf_held_splits(const struct hf_file *file, const struct hf_want *want);

/* The owner holds none of it any more. */
int hf_held_clear(struct hf_txn *txn, struct hf_owner *owner, uint64_t first, uint64_t last);

/* One lock, whole. */
int hf_held_drop(struct hf_txn *txn, struct hf_lock *lock);

/* Into and out of all lists and counts; no record, no undo. */
void hf_lock_link(struct hf_core *core, struct hf_lock *lock);
void hf_lock_unlink(struct hf_core *core, struct hf_lock *lock);
void hf_lock_forget(struct hf_core *core, struct hf_lock *lock); /* gives the object back */
void hf_lock_set_unclaimed(struct hf_core *core, struct hf_lock *lock, bool unclaimed);
struct hf_lock *hf_lock_new(struct hf_core *core, uint64_t id, struct hf_file *file,
                            const struct hf_want *want, int64_t acquired_at_ms);
void hf_lock_record(const struct hf_core *core, const struct hf_lock *lock,
                    struct hf_record_lock *out);

/* --- limits.c --- */

/* Each counts the hit. HF_ELIMIT or 0. */
int hf_limit_client(struct hf_core *core);
int hf_limit_monitor(struct hf_core *core);
int hf_limit_waiter(struct hf_core *core, const struct hf_file *file);

enum { HF_LOCKS_BEYOND = 1000 }; /* what UNLOCK and reclaims may go beyond the limits on locks */

/* One more, whatever it is. */
int hf_limit_one(struct hf_core *core, const struct hf_client *client, const struct hf_file *file);

/* As many more as this LOCK, reclaim or UNLOCK would make. */
int hf_limit_lock(struct hf_core *core, const struct hf_file *file, const struct hf_want *want);
int hf_limit_reclaim(struct hf_core *core, const struct hf_file *file, const struct hf_want *want);
int hf_limit_unlock(struct hf_core *core, const struct hf_file *file, const struct hf_want *want);

/* --- waiters.c: first come, first served (NLM-03) --- */

/* A waiter ahead of ticket that a request must not overtake, after the given one; NULL: none. */
struct hf_waiter *hf_waiter_ahead(const struct hf_file *file, const struct hf_want *want,
                                  uint64_t ticket, const struct hf_waiter *after);
struct hf_waiter *hf_waiter_find(const struct hf_file *file, const struct hf_want *want);

/* Its owner is just being told of another grant that overlaps it. */
bool hf_waiter_is_behind_own(const struct hf_waiter *waiter);
int hf_waiter_add(struct hf_core *core, struct hf_now now, const struct hf_peer *peer,
                  const struct hf_lock_args *args, struct hf_file *file,
                  const struct hf_want *want);
void hf_waiter_remove(struct hf_core *core, struct hf_waiter *waiter);

/* Takes back a grant: waits again at its old place. */
void hf_waiter_ungrant(struct hf_core *core, struct hf_waiter *waiter);
void hf_waiter_del(struct hf_core *core, struct hf_waiter *waiter);

/* Callbacks for what the owner gives up anyway are called off. */
void hf_waiter_confirm_range(struct hf_core *core, struct hf_owner *owner, struct hf_file *file,
                             uint64_t first, uint64_t last);

/* Somebody may wait for this range: looked at by hf_waiters_serve(). */
void hf_waiters_wake(struct hf_core *core, struct hf_file *file, uint64_t first, uint64_t last);

/* The owner has got a lock: it may now pass a waiter that waits for just that lock. */
void hf_waiters_wake_owner(struct hf_core *core, const struct hf_owner *owner,
                           struct hf_file *file);

/* Grants whatever can be granted on files that were woken. */
void hf_waiters_serve(struct hf_core *core, struct hf_now now);

/* Its callback ended for good: accepted, or not, and then what it was given goes to the next.
 * HF_ENOMEM: that could not be taken back yet. */
int hf_waiter_called(struct hf_core *core, struct hf_now now, struct hf_waiter *waiter,
                     bool accepted);
void hf_waiter_fill(const struct hf_waiter *waiter, struct hf_call *out);

/* --- deadlock.c (NLM-06) --- */

bool hf_deadlock_would_close(struct hf_core *core, const struct hf_file *file,
                             const struct hf_want *want);

/* It waits for itself, by locks and by places in queues; by locks alone. */
bool hf_deadlock_is_closed(struct hf_core *core, const struct hf_waiter *waiter);
bool hf_deadlock_is_of_locks(struct hf_core *core, const struct hf_waiter *waiter);

/* --- share.c --- */

void hf_share_drop(struct hf_core *core, struct hf_share *share);

/* --- reclaim.c, grace.c (GRC-01..03) --- */

struct hf_answer hf_reclaim(struct hf_core *core, struct hf_now now, struct hf_file *file,
                            const struct hf_want *want);
int32_t hf_core_state(const struct hf_core *core); /* our NSM state number (NSM-06) */
void hf_grace_begin(struct hf_core *core, struct hf_now now);
void hf_grace_review(struct hf_core *core, struct hf_now now); /* may it end? */
void hf_grace_redo(struct hf_core *core, struct hf_now now);

/* --- errand.c: attempts, pauses, giving up --- */

void hf_errand_init(struct hf_errand *errand, enum hf_errand_role role);
void hf_errand_begin(struct hf_core *core, struct hf_errand *errand, uint64_t seq);
void hf_errand_end(struct hf_core *core, struct hf_errand *errand);
void hf_errand_due(struct hf_core *core, struct hf_now now, struct hf_errand *errand); /* timer */
void hf_errand_pause(struct hf_core *core, struct hf_now now, struct hf_errand *errand,
                     uint64_t until_ms);

/* After the attempt under way, if one is, it has one more and no other. */
void hf_errand_cut_short(const struct hf_core *core, struct hf_errand *errand);

/* --- probe.c: who waits, and is no longer there --- */

/* The waiter's callback is not answered: asks all who wait behind it whether they are there. */
void hf_probe_behind(struct hf_core *core, struct hf_now now, const struct hf_waiter *waiter);
uint64_t hf_probe_timeout_ms(const struct hf_core *core);
void hf_probe_fill(const struct hf_errand *errand, struct hf_call *out);
void hf_probe_called(struct hf_core *core, struct hf_now now, struct hf_errand *errand,
                     bool answered);

/* A callback or probe to it was given up: none of its requests waits any more. */
void hf_client_silent(struct hf_core *core, struct hf_now now, struct hf_client *client);

/* --- notice.c: telling of restarts --- */

void hf_notice_begin_all(struct hf_core *core);
void hf_notice_fill(const struct hf_core *core, const struct hf_errand *errand,
                    struct hf_call *out);
void hf_notice_called(struct hf_core *core, struct hf_now now, struct hf_errand *errand,
                      bool answered);
void hf_told_begin(struct hf_core *core, struct hf_client *client, uint64_t seq);

/* --- crash.c (CRS-01) --- */

/* Locks that go on one's own initiative: one, whole, with its callback. 1, or HF_ENOMEM. */
int hf_lock_release(struct hf_core *core, struct hf_now now, struct hf_lock *lock, uint64_t *seq);

/* Everything the client has goes. How many locks, shares and waiters went; HF_ENOMEM: not all. */
int64_t hf_client_strip(struct hf_core *core, struct hf_now now, struct hf_client *client,
                        uint64_t *seq);

/* It has restarted and has this state now: all it had goes, and its record says so. */
void hf_client_crashed(struct hf_core *core, struct hf_now now, struct hf_client *client,
                       int32_t state, uint64_t *seq);

/* It cannot be told of our restart: what it has not reclaimed goes (NOT-03). */
void hf_client_unreachable(struct hf_core *core, struct hf_now now, struct hf_client *client);
void hf_doom_redo(struct hf_core *core, struct hf_now now);
void hf_doom_durable(struct hf_core *core); /* forgets those whose release is durable */
void hf_doom_undone(struct hf_core *core);  /* a commit failed: none of them is */

/* --- core.c --- */

/* What every entry point ends with: waiters served, grace reviewed. */
void hf_core_settle(struct hf_core *core, struct hf_now now);
uint64_t hf_core_new_id(struct hf_core *core);

#endif
