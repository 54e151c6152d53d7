/*
 * Mutants of the simulated driver and database: bugs in what src/daemon and src/store have to do,
 * which the cluster simulator must catch. Those of the lease itself are in core/mutant.h. Only
 * hf-cluster-mutants has them.
 */
#ifndef HF_CLUSTER_MUTANT_H
#define HF_CLUSTER_MUTANT_H

/* name, what it does */
#define CL_MUTANTS(X)                                                                     \
    X(EPOCH_UNCHECKED, "an owner's transaction checks neither epoch nor nonce")           \
    X(TWO_TAKERS, "a take does not compare epoch and beat")                               \
    X(BEAT_UNCHECKED, "a commit does not check the beat")                                 \
    X(POLL_ONLY_READS, "a poll commits nothing, so it does not see that commits stall")   \
    X(TAKE_UNDURABLE, "a node serves before its take is on the synchronous standby")      \
    X(CACHE_UNGATED, "answers from the duplicate request cache do not ask the gate")      \
    X(CALLBACK_UNGATED, "callbacks and notices do not ask the gate")                      \
    X(ADDRESS_STAYS, "the addresses of a stopped process are not dropped with its lease") \
    X(WRONG_CLOCK, "the age of a beat is taken from the database's clock")                \
    X(RELEASED_LOUD, "a node releases the lease before it is silent")                     \
    X(LOST_KEEPS_MEMORY, "a node that lost the service takes it again with its old core") \
    X(RECLAIM_REFUSED, "a reclaim is refused while the node loads")                       \
    X(GRACE_IN_SILENCE, "grace runs on while the node may not answer")

enum cl_mutant {
    CL_MUTANT_NONE,
#define X(name, text) CL_MUTANT_##name,
    CL_MUTANTS(X)
#undef X
        CL_MUTANT_COUNT
};

#ifdef HF_WITH_MUTANTS
extern enum cl_mutant cl_mutant_active;
#define CL_MUTANT(name) (cl_mutant_active == CL_MUTANT_##name)
#else
#define CL_MUTANT(name) 0
#endif

#endif
