/* Services on one host share one registration with rpcbind (SPEC HA-10), and the last daemon that
 * stops removes it. Each daemon holds a shared lock on one file while it is registered. A daemon
 * that stops asks for the exclusive lock, and gets it only if no other daemon is left. The kernel
 * releases the locks of a process that is killed, so only running daemons are counted. */
#ifndef HF_RPCBIND_SHARE_H
#define HF_RPCBIND_SHARE_H

#include <stdbool.h>

struct hf_rpcbind_share {
    int fd; /* 0: the file could not be opened; then this daemon counts as the only one */
};

/* Joins the daemons that share the registration; called before the daemon registers. While the last
 * daemon removes the registration this waits, for seconds at most. A failure is harmless and not
 * reported. */
void hf_rpcbind_share_join(struct hf_rpcbind_share *share, const char *path);

/* True if no other daemon is registered; then no daemon registers until hf_rpcbind_share_end() is
 * called. */
bool hf_rpcbind_share_leave(struct hf_rpcbind_share *share);

void hf_rpcbind_share_end(struct hf_rpcbind_share *share);

#endif
