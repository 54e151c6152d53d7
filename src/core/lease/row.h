/*
 * The lease of a service as the database has it: one row, changed only by compare-and-set. A store
 * reads and writes the row; core/lease/lease.h decides what to do with it (SPEC section 8, HA-02,
 * HA-03).
 *
 * Seven transactions know the row. Each is synchronous: it has succeeded when the synchronous
 * standby has acknowledged it, and is in doubt otherwise. `order` is what hf_lease_begin() handed
 * out.
 *
 *   POLL     writes the node's own row in the table of nodes, and reads the lease without locking
 *            it. It writes so that its success proves two things: the database can commit, so an
 *            owner could have renewed; and the row it read is on the synchronous standby, because
 *            that row is older than the commit of the poll. A standby on a database whose commits
 *            stall, or on a former primary, therefore cannot take the service.
 *   TAKE     if epoch and heartbeat are those of the order: epoch = order.new_epoch,
 *            nonce = order.nonce, heartbeat = heartbeat + 1, released = false
 *   RENEW    if epoch and nonce are those of the order, heartbeat >= order.heartbeat, and the row
 *            is not released: heartbeat = heartbeat + 1
 *   COMMIT   a batch of records: as RENEW, if heartbeat is exactly the one this session saw last.
 *            A session that is new, or that has a transaction in doubt, renews first to learn the
 *            heartbeat. So a batch that is still on its way from a lost connection cannot be
 *            applied after a later one of the same owner.
 *   RELEASE  as RENEW, also if the row is released already: released = true
 *   RAISE_ALARM
 *            alarm = true, heartbeat = heartbeat + 1, whatever the row is. From then on TAKE,
 *            RENEW, COMMIT and RELEASE are refused: a process has noticed that the database went
 *            back in time, and another one that knows nothing of it must not grant locks on it.
 *   CLEAR    if alarm: alarm = false, released = true, epoch = order.new_epoch, nonce = 0,
 *            heartbeat = heartbeat + 1
 *
 * All but POLL lock the row before they look, and read it back for the caller whether they changed
 * it or not.
 *
 * Each change of the epoch (TAKE, CLEAR) is remembered beside the row as a term: epoch, nonce, and
 * the heartbeat that the row had then. CLEAR forgets the terms before it: an operator has accepted
 * that they may be wrong. The row is returned with what is remembered of order.epoch, because the
 * row alone does not tell a process that was away whether its epoch ended after the last heartbeat
 * that it knows, or before it, in a database that has lost that heartbeat (HA-08).
 */
#ifndef HF_CORE_LEASE_ROW_H
#define HF_CORE_LEASE_ROW_H

#include <stdbool.h>
#include <stdint.h>

/* What the database remembers of the epoch that an order names. */
struct hf_lease_past {
    uint64_t epoch; /* the newest term up to that epoch; 0: no such term is remembered */
    uint64_t nonce; /* the random number of that term */
    uint64_t until; /* the heartbeat at which the next term began; 0: no later term */
};

struct hf_lease_row {
    uint64_t epoch;     /* grows with each take; 0: no process ever took the service */
    uint64_t nonce;     /* the random number of the term that took the service */
    uint64_t heartbeat; /* counts the transactions that changed the row */
    bool released;      /* the owner has given up the service and is silent: anyone may take it */
    bool alarm;         /* the database went back in time; no operator has accepted that */
    /* What is known of order.epoch; zero if the transaction did not look. */
    struct hf_lease_past past;
};

enum hf_lease_action {
    HF_LEASE_NOTHING,
    HF_LEASE_POLL,
    HF_LEASE_TAKE,
    HF_LEASE_RENEW,
    HF_LEASE_COMMIT,
    HF_LEASE_RELEASE,
    HF_LEASE_RAISE_ALARM,
    HF_LEASE_CLEAR,
};

struct hf_lease_order {
    enum hf_lease_action action;
    /* The epoch that the row must have; POLL: the newest epoch that this process knows. */
    uint64_t epoch;
    /* TAKE: the heartbeat that the row must have; RENEW, RELEASE: the smallest that it may have. */
    uint64_t heartbeat;
    /* TAKE: the nonce to put into the row; RENEW, COMMIT, RELEASE: the nonce that the row must
     * have. */
    uint64_t nonce;
    uint64_t new_epoch; /* TAKE, CLEAR: the epoch to put into the row */
};

enum hf_lease_result {
    /* The store acknowledged the order; the row is given as the order left it, or as a POLL read
     * it. */
    HF_LEASE_DONE,
    /*
     * The row differs from what the order requires, so nothing was applied; the row is given as
     * found.
     */
    HF_LEASE_REFUSED,
    HF_LEASE_FAILED, /* the order was not applied, or is in doubt; no row is given */
};

#endif
