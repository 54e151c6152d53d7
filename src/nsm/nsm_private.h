/* What the files of this room share. */
#ifndef HF_NSM_PRIVATE_H
#define HF_NSM_PRIVATE_H

#include "nsm/nsm.h"
#include "proto/nsm.h"

static inline struct hf_nsm *nsm_of(const struct hf_rpc_call *call)
{
    return call->program->ctx;
}

static inline struct hf_now now_of(const struct hf_nsm *nsm)
{
    return nsm->config.now(nsm->config.now_ctx);
}

static inline struct hf_bytes from_string(const sm_string *s)
{
    return hf_bytes(s->sm_string_val, s->sm_string_len);
}

static inline sm_string to_string(struct hf_bytes bytes)
{
    return (sm_string){(u_int)bytes.len, (char *)(uintptr_t)bytes.data};
}

/* notify.c: forgets every attempt under way; the RPC client that makes them is closed already. */
void errands_del(struct hf_nsm *nsm);

/* resolve.c: nobody is told of what is being looked up any more. */
void resolve_stop(struct hf_nsm *nsm);

/*
 * resolve.c: looks up name and calls done, once, with 0 and the addresses or with an error; at the
 * latest after timeout_ms.
 */
typedef void (*resolved)(void *ctx, int error, const struct hf_addr *addrs, unsigned n);
void resolve_name(struct hf_nsm *nsm, uint64_t client_id, struct hf_bytes name, uint32_t timeout_ms,
                  resolved done, void *ctx);

#endif
