/*
 * Mutants: deliberate bugs that the simulator must catch, so that we know it can fail. In the
 * libraries that ship, HF_MUTANT() is the constant 0 and the compiler removes the branch. In
 * core_mutants, nlm_mutants and nsm_mutants, which only tests link, hf_mutant_active selects one
 * mutant, or none.
 */
#ifndef HF_CORE_MUTANT_H
#define HF_CORE_MUTANT_H

/* name, what it does */
#define HF_MUTANTS(X)                                                                       \
    X(FORGET_WAKE, "an unlock wakes no waiter")                                             \
    X(GRANT_BEFORE_DURABLE, "answers and callbacks do not wait for their batch")            \
    X(RANGE_OFF_BY_ONE, "a lock does not protect its last byte")                            \
    X(RECLAIM_AFTER_GRACE, "a reclaim is granted though grace is over")                     \
    X(REUSE_STATE_NUMBER, "a restart does not change the state number")                     \
    X(DROP_SECOND_WAITER, "the second waiter of a file is told BLOCKED and forgotten")      \
    X(OVERTAKE_WAITER, "a newcomer overtakes a waiter it conflicts with")                   \
    X(WAITED_UNREGISTERED, "a client granted after waiting is not registered")              \
    X(FORGET_UNDO, "a failed commit undoes nothing")                                        \
    X(NOTIFY_ANY_ADDRESS, "SM_NOTIFY is believed from any address")                         \
    X(GRACE_ENDS_EARLY, "grace ends at the first reclaim")                                  \
    X(UNLOCK_WHOLE, "unlocking a part of a lock releases all of it")                        \
    X(DUPLICATE_WAITER, "a repeated LOCK waits a second time")                              \
    X(RECLAIM_UNCHECKED, "a reclaim in grace is granted to any client")                     \
    X(CRASH_KEEPS_WAITERS, "the waiters of a crashed client stay")                          \
    X(SHARED_IS_EXCLUSIVE_BLIND, "a shared lock is granted over an exclusive one")          \
    X(UPGRADE_NOT_RECORDED, "an upgrade to exclusive is not made durable")                  \
    X(DEADLOCK_UNSEEN, "a cycle of more than two owners is not seen")                       \
    X(DEADLOCK_BY_QUEUE, "a circle through places in a queue is answered DEADLCK")          \
    X(QUEUE_DENIES, "a LOCK that does not wait is denied because another one waits")        \
    X(SLICE_FORGETS_REST, "waiters beyond a slice of work are not served")                  \
    X(SKIPS_WHOLE_CLIENT, "a conflict with another owner of the client is not seen")        \
    X(QUOTA_NOT_RETURNED, "a released lock still counts for its host")                      \
    X(REFUSED_WAITS, "a waiter stays though its BLOCKED could not be sent")                 \
    X(CIRCLE_STAYS, "a circle through places in a queue is not broken")                     \
    X(LATE_LOCK_STAYS, "a delayed LOCK of a former life survives the notice")               \
    X(RELEASING_COUNTS, "a reclaim or repeat is granted for a lock that is being released") \
    X(RELEASE_FORGETS_REST, "a release in slices ends with the first")                      \
    X(NLM_HOLDER_TRUNCATED, "a holder beyond 32 bits is truncated for version 3")           \
    X(NLM_TO_END_IS_4G, "to the end, in version 3, is taken for 4 GiB")                     \
    X(NLM_COOKIE_UNSWAPPED, "the cookie of GRANTED is in the order of this machine")        \
    X(NLM_ANSWER_AT_ONCE, "an answer does not wait in the queue of answers")                \
    X(NLM_REFUSAL_UNSAID, "a failed commit does not change the answer")                     \
    X(REPEAT_DENIED, "DENIED to a repeated GRANTED takes the lock away")                    \
    X(NSM_FAILURE_UNSAID, "SM_MON says STAT_SUCC though the commit failed")                 \
    X(VERIFY_IGNORED, "a forged notice is believed whatever the monitor answers")           \
    X(VERIFY_NEVER_BELIEVES, "a notice is ignored if the monitor does not answer")          \
    X(NSM_PRIV_LOST, "a status callback does not return the monitor's own bytes")           \
    X(BOOT_ID_NOT_COMPARED, "after a crash of the host no lock is thought lost")            \
    X(ANY_CRASH_LOSES, "after a crash of the process locks are thought lost")               \
    X(LOST_TAIL_CONFLICTS, "a reclaim of a lost lock is granted over a known one")          \
    X(UNRECORDED_FORGOTTEN, "after a run that recorded no locks, clients cannot reclaim")   \
    X(UNTRIED_COUNTS, "an attempt of which no packet left counts against the client")       \
    X(LOST_TAIL_FORGOTTEN, "a restart in grace forgets that locks were lost")               \
    X(CLIENT_NOT_FLUSHED, "a new client counts before it is flushed")                       \
    X(ANSWER_BEFORE_WRITE, "what may be lost by the host is not written at all")            \
    X(FLUSH_NEVER, "what was written is not flushed")                                       \
    X(CANCEL_IGNORED, "a request that was cancelled waits on")                              \
    X(CRASH_FREES_ANOTHER, "the notice of one client also releases the locks of another")   \
    X(UPGRADE_UNCHECKED, "a shared lock becomes exclusive though another owner shares it")  \
    X(SPLIT_LOSES_REST, "unlocking the middle of a lock releases what is behind it")        \
    X(LOAD_FORGETS_SHARED, "a restart forgets shared locks")                                \
    X(TEST_IGNORES_SHARED, "TEST does not see shared locks")                                \
    X(GRANT_WEAKENS, "a shared grant weakens what its owner holds exclusively")             \
    X(WAITER_PER_MODE, "an owner waits for one range twice, in both modes")                 \
    X(UNLOCK_LIMITED, "a limit that was lowered holds up an UNLOCK")                        \
    X(VERIFIED_TAKES_NEW, "what a client gets while its notice is verified goes, too")      \
    X(NLM_UNLOCK_REFUSED, "an UNLOCK or CANCEL that cannot be served now is refused")

/* Those of the lease, which the cluster simulator catches. */
#define HF_LEASE_MUTANTS(X)                                                              \
    X(LEASE_FROM_REPLY, "a lease counts from the answer to its renewal")                 \
    X(LEASE_NONCE_UNCHECKED, "an epoch is taken for ours whatever the nonce")            \
    X(LEASE_DOUBT_IS_DONE, "a take in doubt counts as done")                             \
    X(LEASE_BEAT_IGNORED, "a standby does not look at the beat")                         \
    X(LEASE_BAD_POLL_COUNTS, "a standby counts on after a poll that failed or was late") \
    X(LEASE_GAP_COUNTS, "a standby counts on after a pause or a jump of its clock")      \
    X(LEASE_EXPIRED_IS_LOST, "a lease that ran out is given up")                         \
    X(LEASE_BACK_UNNOTICED, "a database that went back in time raises no alarm")         \
    X(LEASE_ALARM_UNTOLD, "the process that notices does not tell the others")

enum hf_mutant {
    HF_MUTANT_NONE,
#define X(name, text) HF_MUTANT_##name,
    HF_MUTANTS(X) HF_MUTANT_COUNT,
    HF_LEASE_MUTANTS(X)
#undef X
        HF_MUTANT_END
};

#ifdef HF_WITH_MUTANTS
extern enum hf_mutant hf_mutant_active;
#define HF_MUTANT(name) (hf_mutant_active == HF_MUTANT_##name)
#else
#define HF_MUTANT(name) 0
#endif

#endif
