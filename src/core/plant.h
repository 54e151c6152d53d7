/*
 * Bugs on purpose, for the simulator to find (issue 3: "it must be able to fail"). In the libraries
 * that ship, HF_PLANTED() is the constant 0 and leaves no code. In core_planted, nlm_planted and
 * nsm_planted, which only tests link, hf_planted selects one bug, or none.
 */
#ifndef HF_CORE_PLANT_H
#define HF_CORE_PLANT_H

/* name, what it does */
#define HF_PLANTS(X)                                                                   \
    X(FORGET_WAKE, "an unlock wakes nobody")                                           \
    X(GRANT_BEFORE_DURABLE, "answers and callbacks do not wait for their batch")       \
    X(RANGE_OFF_BY_ONE, "a lock does not protect its last byte")                       \
    X(RECLAIM_AFTER_GRACE, "a reclaim is granted though grace is over")                \
    X(REUSE_STATE_NUMBER, "a restart does not change the state number")                \
    X(DROP_SECOND_WAITER, "the second waiter of a file is told BLOCKED and forgotten") \
    X(OVERTAKE_WAITER, "a newcomer overtakes a waiter it conflicts with")              \
    X(WAITED_UNREGISTERED, "a client granted after waiting is not registered")         \
    X(FORGET_UNDO, "a failed commit undoes nothing")                                   \
    X(NOTIFY_ANY_ADDRESS, "SM_NOTIFY is believed from any address")                    \
    X(GRACE_ENDS_EARLY, "grace ends at the first reclaim")                             \
    X(UNLOCK_WHOLE, "unlocking a part of a lock releases all of it")                   \
    X(DUPLICATE_WAITER, "a repeated LOCK waits a second time")                         \
    X(RECLAIM_UNCHECKED, "a reclaim in grace is granted to anybody")                   \
    X(CRASH_KEEPS_WAITERS, "the waiters of a crashed client stay")                     \
    X(SHARED_IS_EXCLUSIVE_BLIND, "a shared lock is granted over an exclusive one")     \
    X(UPGRADE_NOT_RECORDED, "an upgrade to exclusive is not made durable")             \
    X(DEADLOCK_UNSEEN, "a cycle of more than two owners is not seen")                  \
    X(NLM_HOLDER_TRUNCATED, "a holder beyond 32 bits is truncated for version 3")      \
    X(NLM_TO_END_IS_4G, "to the end, in version 3, is taken for 4 GiB")                \
    X(NLM_COOKIE_UNSWAPPED, "the cookie of GRANTED is in the order of this machine")   \
    X(NLM_ANSWER_AT_ONCE, "an answer does not wait in the queue of answers")           \
    X(NLM_REFUSAL_UNSAID, "a failed commit does not change the answer")                \
    X(REPEAT_DENIED, "DENIED to a repeated GRANTED takes the lock away")               \
    X(NSM_FAILURE_UNSAID, "SM_MON says STAT_SUCC though the commit failed")            \
    X(NSM_PRIV_LOST, "a status callback does not return the monitor's own bytes")

enum hf_plant {
    HF_PLANT_NONE,
#define X(name, text) HF_PLANT_##name,
    HF_PLANTS(X)
#undef X
        HF_PLANT_COUNT
};

#ifdef HF_PLANT
extern enum hf_plant hf_planted;
#define HF_PLANTED(name) (hf_planted == HF_PLANT_##name)
#else
#define HF_PLANTED(name) 0
#endif

#endif
