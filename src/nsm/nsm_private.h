/* Declarations that the files of src/nsm share. */
#ifndef HF_NSM_PRIVATE_H
#define HF_NSM_PRIVATE_H

#include "base/programs.h"
#include "nsm/nsm.h"
#include "proto/nsm.h"

_Static_assert(SM_PROG == HF_PROGRAM_NSM, "nsm.x and base/programs.h");

static inline struct hf_nsm *nsm_of(const struct hf_rpc_call *call)
{
    return call->program->ctx;
}

static inline struct hf_bytes from_string(const sm_string *s)
{
    return hf_bytes(s->sm_string_val, s->sm_string_len);
}

static inline sm_string to_string(struct hf_bytes bytes)
{
    return (sm_string){(u_int)bytes.len, (char *)(uintptr_t)bytes.data};
}

/*
 * notify.c: forgets the outgoing calls in flight; the RPC client that made them is closed already.
 */
void hf_nsm_outcalls_del(struct hf_nsm *nsm);

/* resolve.c: after this call, lookups end without a report to the core or to an attempt. */
void hf_nsm_resolve_stop(struct hf_nsm *nsm);

/* resolve.c: looks up name, and calls done once, with 0 and the addresses or with an error, at the
 * latest after timeout_ms. */
typedef void (*resolved)(void *ctx, int error, const struct hf_addr *addrs, unsigned n);
void hf_nsm_resolve_name(struct hf_nsm *nsm, uint64_t client_id, struct hf_bytes name,
                         uint32_t timeout_ms, resolved done, void *ctx);

#endif
