/*
 * What stands around the real src/daemon/cluster.c on a node, as src/daemon and libuv do: the timer
 * of the loop, the clock, random numbers, the log, and the terms. Functions of the host that take
 * no argument answer for the node that was entered last.
 */
#ifndef HF_CLUSTER_DAEMON_H
#define HF_CLUSTER_DAEMON_H

#include "daemon/cluster.h"
#include "daemon/daemon.h"
#include "daemon/term.h"

struct cl_world;

struct hf_daemon {
    struct cl_world *world;
    unsigned node;
    enum hf_term_phase phase;
};

/* Says, before each call of hf_cluster_...(), for which node it is made. */
void cl_enter(struct cl_world *world, unsigned node);

/* Begins the process. */
void cl_daemon_start(struct cl_world *world, unsigned node);
void cl_daemon_on_closed(struct cl_world *world, unsigned node, uint64_t term);

#endif
