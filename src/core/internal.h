/*
 * The structure of the core, which its modules share. It is private to src/core.
 *
 * Each module keeps its part of the state in a structure of its own, defined in the module's header
 * (core->table in table/table.h, and so on). This header only names those structures: a file sees
 * the inside of a module's part only if it includes that module's header, and scripts/check-rooms
 * says which headers it may include. The modules, each of which uses only those above it:
 *
 *     common      timers, events for the log, host names, byte ranges: each on its own
 *     durable     batches of records, transactions, the undo log
 *     outcall     outgoing calls: attempts, pauses, giving up
 *     clients     hosts by identity and address; registrations
 *     table       owners, files, byte-range locks, shares, limits
 *     claims      what the kernel holds for us, and what it is asked (core/claim.h)
 *     wait        waiters, deadlock detection, GRANTED callbacks, probes
 *     recovery    epochs, grace, reclaims, crashed clients, restart notices
 *     requests    one function for each request, tick and result that comes from outside
 *     view        what an operator and the metrics see
 *
 * core.c puts the parts together; invariants.c checks all of them.
 */
#ifndef HF_CORE_INTERNAL_H
#define HF_CORE_INTERNAL_H

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "core/config.h"
#include "core/ending.h"
#include "core/view.h"

struct hf_core {
    struct hf_timers *timers;
    struct hf_events *events;
    struct hf_durable *durable;
    struct hf_outcalls *outcalls;
    struct hf_clients *clients;
    struct hf_table *table;
    struct hf_claims *claims;
    struct hf_wait *wait;
    struct hf_recovery *recovery;
    const struct hf_alloc *alloc;
    uint64_t epoch; /* how many starts the server has had (NSM-06) */
    /* The next id to give out; its upper bits are the epoch (hf_record_first_id()). */
    uint64_t next_id;
    struct hf_counters counters;
    struct hf_core_config config;
    hf_ending_heard heard; /* a function that hears of every ending; may be NULL */
    hf_ending_told told;   /* a function that is told of the endings that `heard` asks for */
    void *told_ctx;
};

/* Ids of clients, locks, waiters, shares and calls all come from this sequence, so a smaller id
 * always means an earlier object. */
static inline uint64_t hf_core_new_id(struct hf_core *core)
{
    return core->next_id++;
}

#endif
