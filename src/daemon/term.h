/*
 * A term: the time in which this process serves, from the moment it may until it may not any more.
 *
 * Without standbys the lease is permanent: there is one term, from the start of the process to its
 * end. With standbys cluster.h drives the lease. A term then begins when the process has taken the
 * lease and ends when the lease is lost or given up. The next term is opened then, and waits; the
 * old one stays until no handle on the loop refers to it. A term has these steps:
 *
 *    open     an engine with an empty core, which waits
 *    listen   sockets, the embedded rpcbind, and the addresses from which clients are called
 *    load     the store into a core, on another thread (loading.h)
 *    start    the core replaces the empty one, and its first batch has the new epoch;
 *             with a keeper, the kernel gets the recorded locks (coherence.h)
 *    serve    the epoch is durable and the kernel has the locks: requests are answered,
 *             clients notified
 *    leave    no new work is begun
 *    close    memory and connections go
 */
#ifndef HF_DAEMON_TERM_H
#define HF_DAEMON_TERM_H

#include "core/lease/row.h"

struct hf_daemon;

enum hf_term_phase {
    HF_TERM_WAITING,
    /* The term listens and loads the store. With standbys, requests are told to try again later;
     * without standbys, no request is read. */
    HF_TERM_LOADING,
    /* The store is loaded, but the new epoch is not durable yet, or the kernel has not got all
     * locks. */
    HF_TERM_STARTING,
    HF_TERM_SERVING,
    HF_TERM_LEAVING,
    HF_TERM_CLOSING, /* the previous term is closing, so the next one cannot begin yet */
};

/* Returns the phase of the daemon's current term. */
enum hf_term_phase hf_term_phase(const struct hf_daemon *d);

/* Opens the first term, which does not listen yet. Returns HF_ENOMEM if memory runs out. */
int hf_term_open(struct hf_daemon *d);

/* Listens on the term's addresses; on failure the reason is in the log. */
int hf_term_listen(struct hf_daemon *d);

/*
 * Loads the store; the term then starts and serves by itself. With standbys, lease is the lease's
 * row under which to read, and hf_cluster_not_loaded() is told of a failure. Without standbys,
 * lease is NULL, and a failure ends the daemon. Returns HF_ENOMEM if the load could not begin.
 */
int hf_term_load(struct hf_daemon *d, const struct hf_lease_row *lease);

/* Reports that a batch of the term is durable or has failed; its service has been told before. */
void hf_term_settled(struct hf_daemon *d, int status);

/* With standbys: the gate was shut for a while and has opened again, so the term goes on. */
void hf_term_resume(struct hf_daemon *d);

void hf_term_leave(struct hf_daemon *d);

/*
 * With standbys and a keeper (COH-06): hf_term_renewed() tells the keeper until when the lease is
 * valid. hf_term_let_go(), after hf_term_leave(), makes the keeper release all locks that it holds
 * in the kernel; from the time that hf_term_free_at() returns (CLOCK_BOOTTIME; 0: now) it holds
 * none.
 */
void hf_term_renewed(struct hf_daemon *d, uint64_t valid_until_ms);
void hf_term_let_go(struct hf_daemon *d);
uint64_t hf_term_free_at(const struct hf_daemon *d);

/* Closes the term after hf_term_leave() and opens the next one, which waits. hf_cluster_carry_on()
 * is called when the old term is closed. */
void hf_term_close(struct hf_daemon *d);

/* For the end of the process: hf_term_close_last() closes the term without opening another, and
 * hf_term_free_all() frees all terms when the loop has ended. */
void hf_term_close_last(struct hf_daemon *d);
void hf_term_free_all(struct hf_daemon *d);

#endif
