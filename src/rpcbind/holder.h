/*
 * Finds the process of this host that serves a port: its user and its program, for the operator,
 * and whether its registration with rpcbind must be respected (RPC-03). Any user can register a
 * program that is not registered, and so answer in our place while we are stopped.
 */
#ifndef HF_RPCBIND_HOLDER_H
#define HF_RPCBIND_HOLDER_H

#include <stdbool.h>
#include <stdint.h>

#include "rpcbind/rpcbind.h"

struct hf_rpcbind_holder {
    uint32_t uid;
    /* 0: not found, because the kernel serves the port, or a process that we may not examine */
    int pid;
    char user[64];
    char program[128]; /* the program file that the process runs; "": not found */
};

/* Finds the process that serves a service's port. Returns false if the kernel does not tell, or if
 * nothing serves the port. */
bool hf_rpcbind_holder_find(const struct hf_rpcbind_service *service, uint16_t port,
                            struct hf_rpcbind_holder *out);

/* True if the holder of a port may serve the program: root and the kernel, the user we run as, and
 * for NSM rpc.statd, which runs as a user of its own. */
bool hf_rpcbind_holder_is_respected(const struct hf_rpcbind_holder *holder, uint32_t prog);

#endif
