/*
 * Services on one host share one registration with rpcbind (SPEC HA-10): the last of them that
 * stops removes it. Each daemon holds a shared lock on one file while it is registered. One that
 * stops asks for the exclusive lock, and gets it only if no other is left. The kernel releases the
 * locks of a process that is killed, so only daemons that run are counted.
 */
#ifndef HF_RPCBIND_SHARE_H
#define HF_RPCBIND_SHARE_H

#include <stdbool.h>

struct hf_rpcbind_share {
    int fd; /* 0: the file could not be opened; no other daemon is expected then */
};

/* Joins before the daemon registers. While the last daemon removes the registration it waits, for
 * seconds at most. Failure is no error. */
void hf_rpcbind_share_join(struct hf_rpcbind_share *share, const char *path);

/* True if no other daemon is registered; then none registers until hf_rpcbind_share_end(). */
bool hf_rpcbind_share_leave(struct hf_rpcbind_share *share);

void hf_rpcbind_share_end(struct hf_rpcbind_share *share);

#endif
