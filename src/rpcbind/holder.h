/*
 * The process of this host that serves a port: which user and which program it is, for the
 * operator, and whether its registration with rpcbind is to be respected (RPC-03). Any user can
 * register a program that is not registered, and so answer in our place while we are stopped.
 */
#ifndef HF_RPCBIND_HOLDER_H
#define HF_RPCBIND_HOLDER_H

#include <stdbool.h>
#include <stdint.h>

#include "rpcbind/rpcbind.h"

struct hf_rpcbind_holder {
    uint32_t uid;
    int pid; /* 0: not found, because it is the kernel, or a process that we may not look into */
    char user[64];
    char program[128]; /* the file that the process runs; "": not found */
};

/* Returns false if the kernel does not tell, or if nothing serves the port. */
bool hf_rpcbind_holder_find(const struct hf_rpcbind_service *service, uint16_t port,
                            struct hf_rpcbind_holder *out);

/*
 * True if the holder may serve the program: root and the kernel, the user we run as, and for NSM
 * rpc.statd, which serves as a user of its own.
 */
bool hf_rpcbind_holder_is_respected(const struct hf_rpcbind_holder *holder, uint32_t prog);

#endif
