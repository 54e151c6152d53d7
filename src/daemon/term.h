/*
 * A term: this process serves, from the moment it may until the moment it may not any more.
 *
 * Without standbys the lease is permanent: there is one term, from the start of the process to its
 * end. With standbys cluster.h drives the lease. A term then begins when the lease was taken and
 * ends when it is lost or given up; the next one waits in its place, and the old one stays until
 * nothing on the loop refers to it. The steps are the same:
 *
 *     open     an engine with an empty core, which waits
 *     listen   sockets, the embedded rpcbind, and from where clients are called
 *     load     the store into a core, on another thread (loading.h)
 *     start    the core takes the place of the empty one, and its first batch has the new epoch;
 *              with a keeper, the kernel gets what is recorded (coherence.h)
 *     serve    the epoch is durable and the kernel has it: requests are answered, clients notified
 *     leave    nothing is begun any more
 *     close    memory and connections go
 */
#ifndef HF_DAEMON_TERM_H
#define HF_DAEMON_TERM_H

#include "core/lease/row.h"

struct hf_daemon;

enum hf_term_phase {
    HF_TERM_WAITING,
    /* The term listens. With standbys, requests are told to come again; alone, none is read. */
    HF_TERM_LOADING,
    /* The store is loaded; the new epoch is not durable yet, or the kernel's part is not done. */
    HF_TERM_STARTING,
    HF_TERM_SERVING,
    HF_TERM_LEAVING,
    HF_TERM_CLOSING, /* the next term may not begin yet */
};

/* Returns the phase of the term that the daemon has now. */
enum hf_term_phase hf_term_phase(const struct hf_daemon *d);

/* Opens the first term. Returns HF_ENOMEM without memory. */
int hf_term_open(struct hf_daemon *d);

/* Listens; on failure the reason is in the log. */
int hf_term_listen(struct hf_daemon *d);

/*
 * Loads, then starts and serves by itself. With standbys, lease is the row under which to read, and
 * hf_cluster_not_loaded() hears of a failure; alone, lease is NULL, and a failure ends the daemon.
 * HF_ENOMEM: loading did not begin.
 */
int hf_term_load(struct hf_daemon *d, const struct hf_lease_row *lease);

/* Tells that a batch of the term is durable, or has failed; the service has been told. */
void hf_term_settled(struct hf_daemon *d, int status);

/* With standbys: the gate was shut for a while and has opened, so the term goes on. */
void hf_term_resume(struct hf_daemon *d);

void hf_term_leave(struct hf_daemon *d);

/*
 * With standbys and a keeper (COH-06): hf_term_renewed() tells the keeper until when the lease is
 * valid. hf_term_let_go(), after hf_term_leave(), makes the keeper release all locks that it holds
 * in the kernel; from hf_term_free_at() on (CLOCK_BOOTTIME; 0: now) it holds none.
 */
void hf_term_renewed(struct hf_daemon *d, uint64_t valid_until_ms);
void hf_term_let_go(struct hf_daemon *d);
uint64_t hf_term_free_at(const struct hf_daemon *d);

/* Closes the term after leave; the next one waits. hf_cluster_carry_on() is called when this one is
 * closed. */
void hf_term_close(struct hf_daemon *d);

/* The process ends: the first closes the term without another, the second frees all when the loop
 * has ended. */
void hf_term_close_last(struct hf_daemon *d);
void hf_term_free_all(struct hf_daemon *d);

#endif
