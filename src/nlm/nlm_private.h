/* Declarations that the files of src/nlm share. */
#ifndef HF_NLM_PRIVATE_H
#define HF_NLM_PRIVATE_H

#include "base/programs.h"
#include "nlm/nlm.h"
#include "proto/nlm.h"

enum {
    /* The procedures TEST, LOCK, CANCEL, UNLOCK and GRANTED have the numbers 1 to 5, their message
     * forms the numbers 6 to 10. */
    PROCS_PER_FORM = 5,
    RES_OFFSET = 10,  /* messages 6 to 10 are answered by procedures 11 to 15 */
    NFS3_FHSIZE = 64, /* RFC 1813: no NFSv3 file handle is longer */
};

/* The core's statuses have the numbers of the wire. The check fails as well if a macro of rpcgen's
 * for a procedure hides the name of a status. */
_Static_assert((int)NLM4_GRANTED == HF_STAT_GRANTED && (int)NLM4_DENIED == HF_STAT_DENIED &&
                   (int)NLM4_DENIED_GRACE_PERIOD == HF_STAT_DENIED_GRACE_PERIOD &&
                   (int)NLM4_FAILED == HF_STAT_FAILED && (int)LCK_GRANTED == HF_STAT_GRANTED &&
                   (int)LCK_DENIED_GRACE_PERIOD == HF_STAT_DENIED_GRACE_PERIOD,
               "nlm.x and core/request.h");

_Static_assert(NLM_PROG == HF_PROGRAM_NLM, "nlm.x and base/programs.h");

/* The answer to a request, before it is encoded, and where it goes. */
struct answer {
    enum hf_nlm_kind kind;
    uint32_t vers;
    enum hf_stat stat;
    struct hf_bytes cookie; /* the cookie of the request, which is echoed byte for byte */
    struct hf_holder holder;
    struct hf_addr peer;
    struct hf_addr local;
    enum hf_transport transport;
    uint64_t received_ns; /* when the request arrived; 0: the request is not timed */
    bool store_failed;    /* stat says DENIED_NOLOCKS because the batch did not become durable */
};

static inline struct hf_nlm *nlm_of(const struct hf_rpc_call *call)
{
    return call->program->ctx;
}

/* True for a message form (6 to 10), which is answered by a _RES call, not by the RPC reply. */
static inline bool is_message(const struct hf_rpc_call *call)
{
    return call->header.proc > PROCS_PER_FORM && call->header.proc <= 2 * PROCS_PER_FORM;
}

/*
 * True while a service that has just been taken over is still loading (HA-05). A new lock is told
 * to come again (DENIED_GRACE_PERIOD). Every other request is left unanswered, so that the client
 * repeats it: a Linux client gives up a lock whose reclaim is refused, and takes a refused UNLOCK
 * for done.
 */
static inline bool is_postponed(struct hf_rpc_call *call)
{
    if (!nlm_of(call)->service->loading)
        return false;
    hf_rpc_reply_never(call);
    return true;
}

static inline struct hf_bytes from_obj(const nlm_obj *obj)
{
    return hf_bytes(obj->nlm_obj_val, obj->nlm_obj_len);
}

static inline nlm_obj to_obj(struct hf_bytes bytes)
{
    return (nlm_obj){(u_int)bytes.len, (char *)(uintptr_t)bytes.data};
}

static inline nlm_string to_string(struct hf_bytes bytes)
{
    return (nlm_string){(u_int)bytes.len, (char *)(uintptr_t)bytes.data};
}

/* args.c: returns the arguments in the form of version 4; store is used only if they must be
 * converted. */
const nlm4_lockargs *hf_nlm_lockargs_v4(const struct hf_rpc_call *call, void *args,
                                        nlm4_lockargs *store);
const nlm4_cancargs *hf_nlm_cancargs_v4(const struct hf_rpc_call *call, void *args,
                                        nlm4_cancargs *store);
const nlm4_testargs *hf_nlm_testargs_v4(const struct hf_rpc_call *call, void *args,
                                        nlm4_testargs *store);
const nlm4_unlockargs *hf_nlm_unlockargs_v4(const struct hf_rpc_call *call, void *args,
                                            nlm4_unlockargs *store);
const nlm4_shareargs *hf_nlm_shareargs_v4(const struct hf_rpc_call *call, void *args,
                                          nlm4_shareargs *store);
const nlm4_res *hf_nlm_res_v4(const struct hf_rpc_call *call, void *args, nlm4_res *store);

/*
 * answer.c: answers the call as soon as the batch is durable, or the decision made, that
 * core_answer->ticket names; at once if the ticket names neither.
 */
void hf_nlm_answer_when_durable(struct hf_rpc_call *call, enum hf_nlm_kind kind,
                                const nlm_obj *cookie, const struct hf_answer *core_answer);

/* The GRANTED callbacks to one owner of a file that were in flight when its UNLOCK came: those that
 * overlap the range of the UNLOCK and began before it. */
struct callbacks {
    uint64_t owner; /* the number that callback_owner() makes of the owner */
    uint64_t first, last;
    /* The value of nlm->begun when the UNLOCK came; 0: no callback was in flight. */
    uint64_t before;
};

/* Answers when the records are durable and the last of the awaited callbacks is over. */
void hf_nlm_answer_after_callbacks(struct hf_rpc_call *call, enum hf_nlm_kind kind,
                                   const nlm_obj *cookie, const struct hf_answer *core_answer,
                                   const struct callbacks *awaited);
void hf_nlm_answers_init(struct hf_nlm *nlm);
void hf_nlm_answer_now(struct hf_rpc_call *call, enum hf_nlm_kind kind, const nlm_obj *cookie,
                       enum hf_stat stat);

/* locks.c: makes a parked request once more, now that the kernel has answered (park.c). */
void hf_nlm_ask_again(struct hf_rpc_call *call, enum hf_nlm_kind kind, const nlm_obj *cookie,
                      const struct hf_peer *peer, const struct hf_lock_args *args);

/*
 * park.c: keeps a request, and makes it again when the core has made the decision of this number.
 */
void hf_nlm_park(struct hf_rpc_call *call, enum hf_nlm_kind kind, const nlm_obj *cookie,
                 const struct hf_peer *peer, const struct hf_lock_args *args, uint64_t decision);
void hf_nlm_parked_init(struct hf_nlm *nlm);
void hf_nlm_parked_free(struct hf_nlm *nlm);

/* callback.c */
void hf_nlm_callbacks_init(struct hf_nlm *nlm);

/* Returns the callbacks that an UNLOCK with these arguments has overtaken. */
struct callbacks hf_nlm_callbacks_overtaken(const struct hf_nlm *nlm, const struct hf_peer *peer,
                                            const struct hf_lock_args *args);

/*
 * Returns the id of an awaited callback that is still in flight and unanswered; 0: there is none.
 */
uint64_t hf_nlm_callback_in_flight(const struct hf_nlm *nlm, const struct callbacks *awaited);

/* True if the attempt in flight has sent a second copy of the callback: a denial may answer that
 * copy. */
bool hf_nlm_callback_is_repeated(const struct hf_nlm *nlm, uint64_t id);

/* Takes a GRANTED_RES from this address. It counts only as the answer to a GRANTED_MSG that we sent
 * to that address, or to another one of a client that uses both at a time. took: the client says
 * that it has taken the lock. */
void hf_nlm_callback_answered(struct hf_nlm *nlm, uint64_t id, const struct hf_addr *from,
                              bool took);

/* Forgets the callbacks in flight; the RPC client that made them is closed already. */
void hf_nlm_callbacks_del(struct hf_nlm *nlm);

/* The handlers of the procedures: locks.c, shares.c, hosts.c. */
void hf_nlm_on_null(struct hf_rpc_call *call, void *args);
void hf_nlm_on_test(struct hf_rpc_call *call, void *raw);
void hf_nlm_on_lock(struct hf_rpc_call *call, void *raw);
void hf_nlm_on_cancel(struct hf_rpc_call *call, void *raw);
void hf_nlm_on_unlock(struct hf_rpc_call *call, void *raw);
void hf_nlm_on_nm_lock(struct hf_rpc_call *call, void *raw);
void hf_nlm_on_granted(struct hf_rpc_call *call, void *raw);
void hf_nlm_on_granted_res(struct hf_rpc_call *call, void *raw);
void hf_nlm_on_ignored_res(struct hf_rpc_call *call, void *args);
void hf_nlm_on_share(struct hf_rpc_call *call, void *args);
void hf_nlm_on_unshare(struct hf_rpc_call *call, void *args);
void hf_nlm_on_free_all(struct hf_rpc_call *call, void *raw);
void hf_nlm_on_sm_notify(struct hf_rpc_call *call, void *raw);

/* locks.c: finds the client that sends the call; false if its name is empty or has a NUL in it. */
bool hf_nlm_peer_of(const struct hf_rpc_call *call, const nlm_string *name, struct hf_peer *out);
bool hf_nlm_handle_is_possible(const nlm_obj *fh);

/* HA-09: true if the file is in an export of another service, whose clients would not see a lock
 * that is granted here. Counts and logs the request, which the caller must refuse. */
bool hf_nlm_is_foreign(struct hf_rpc_call *call, const nlm_obj *fh);

/* tables.c */
extern const struct hf_rpc_version hf_nlm_versions[3];

/* args.c: preset storage for the arguments of each type, named by the tables. */
extern nlm_lockargs hf_nlm_lock_store;
extern nlm_cancargs hf_nlm_cancel_store;
extern nlm_testargs hf_nlm_test_store;
extern nlm_unlockargs hf_nlm_unlock_store;
extern nlm_shareargs hf_nlm_share_store;
extern nlm_res hf_nlm_res_store;
extern nlm_testres hf_nlm_testres_store;
extern nlm4_lockargs hf_nlm4_lock_store;
extern nlm4_cancargs hf_nlm4_cancel_store;
extern nlm4_testargs hf_nlm4_test_store;
extern nlm4_unlockargs hf_nlm4_unlock_store;
extern nlm4_shareargs hf_nlm4_share_store;
extern nlm4_res hf_nlm4_res_store;
extern nlm4_testres hf_nlm4_testres_store;
extern nlm_notify hf_nlm_notify_store;
extern nlm_sm_status hf_nlm_sm_status_store;

#endif
