/*
 * How clients find us: rpcbind, program 100000. Either the system's is told what we serve, or this
 * process is it (SPEC section 6, rpcbind.mode), so that a host without one needs nothing else; an
 * NFS server on the same host can then register with us.
 */
#ifndef HF_RPC_RPCBIND_H
#define HF_RPC_RPCBIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/addr.h"
#include "base/alloc.h"
#include "base/hash.h"
#include "rpc/program.h"

/* Where programs on this host look for it first. */
#define HF_RPCBIND_SOCKET "/run/rpcbind.sock"

enum {
    HF_RPCBIND_PORT = 111,
    HF_RPCBIND_ENTRIES_MAX = 256, /* what the embedded one keeps, ours included */
    HF_RPCBIND_ERROR_MAX = 512,
};

/* One service: a program and version on one transport at one address. */
struct hf_rpcbind_service {
    uint32_t prog;
    uint32_t vers;
    enum hf_rpc_transport transport;
    struct hf_addr addr;
};

/* "tcp", "udp6": what rpcbind calls its transport. */
const char *hf_rpcbind_netid(const struct hf_rpcbind_service *service);

/* ---- the system's rpcbind (these block for a moment: at start and stop, or on another thread)
 * ----
 */

/* True if one answers on this host. */
bool hf_rpcbind_system_present(const struct hf_hash_key *key);

/*
 * Registers all services, which must be listening already. A registration left behind by a process
 * that is gone is replaced; one whose owner still answers is HF_EBUSY, and nothing stays
 * registered. error gets a text that says what is in the way and what to do.
 */
int hf_rpcbind_system_register(const struct hf_rpcbind_service *services, size_t n,
                               const struct hf_hash_key *key, char error[HF_RPCBIND_ERROR_MAX]);
void hf_rpcbind_system_unregister(const struct hf_rpcbind_service *services, size_t n);

/* ---- the embedded rpcbind ---- */

struct hf_rpcbind;

int hf_rpcbind_new(const struct hf_alloc *alloc, struct hf_rpcbind **out);
void hf_rpcbind_del(struct hf_rpcbind *rb);

/* Our own services; nobody else can take them away. HF_ELIMIT when full. */
int hf_rpcbind_add(struct hf_rpcbind *rb, const struct hf_rpcbind_service *service);

/* The program table to serve on port 111; valid until hf_rpcbind_del(). */
const struct hf_rpc_program *hf_rpcbind_program(struct hf_rpcbind *rb);

#endif
