/*
 * NLM, the Network Lock Manager, program 100021 versions 1, 3 and 4 (NLM-01). It takes requests
 * from the wire to the core and answers back. Every request is converted to version 4 when it
 * arrives and served by one implementation; the answer is encoded in the version of the request.
 *
 * An answer that promises something leaves only when the core's batch it depends on is durable
 * (SPEC section 4): until then it waits in the service's queue.
 *
 * Service and RPC client outlive struct hf_nlm, which outlives the server that serves it.
 */
#ifndef HF_NLM_NLM_H
#define HF_NLM_NLM_H

#include "base/histogram.h"
#include "base/pool.h"
#include "rpc/client.h"
#include "rpc/program.h"
#include "service/service.h"

/* The procedures that are counted: a message form (LOCK_MSG) counts as its procedure (LOCK). */
enum hf_nlm_kind {
    HF_NLM_NULL,
    HF_NLM_TEST,
    HF_NLM_LOCK,
    HF_NLM_CANCEL,
    HF_NLM_UNLOCK,
    HF_NLM_GRANTED,
    HF_NLM_RES, /* any of the _RES procedures */
    HF_NLM_SM_NOTIFY,
    HF_NLM_SHARE,
    HF_NLM_UNSHARE,
    HF_NLM_NM_LOCK,
    HF_NLM_FREE_ALL,
    HF_NLM_KINDS,
};

enum { HF_NLM_STATS = HF_STAT_FAILED + 1, HF_NLM_OUTCALL_LISTS = 256 };

/*
 * Requests of one read that were answered at once. They are timed together, when the next read or
 * the end of the turn shows that their answers have left, so that the clock is not read for each
 * request.
 */
struct hf_nlm_prompt {
    uint64_t received_ns; /* when these requests arrived; 0: there are none */
    uint32_t n[HF_NLM_KINDS];
};

struct hf_nlm {
    struct hf_rpc_program program;
    struct hf_service *service;
    struct hf_rpc_client *client; /* makes the GRANTED and _RES calls */
    struct hf_pool pending;       /* objects of type struct pending_answer (answer.c) */
    struct hf_pool parked;        /* objects of type struct parked_request (park.c) */
    struct hf_list outcalls[HF_NLM_OUTCALL_LISTS]; /* callbacks and probes in flight, by id */
    /* The GRANTED callbacks among the calls in `outcalls`, by owner (callback.c). */
    struct hf_list granted[HF_NLM_OUTCALL_LISTS];
    unsigned n_granted;
    uint64_t begun;                               /* how many callbacks and probes were begun */
    uint64_t answers[HF_NLM_KINDS][HF_NLM_STATS]; /* how many answers were sent, by outcome */
    uint64_t refused_callers; /* how many calls of procedure 16 came from another host */
    uint64_t refused_foreign; /* how many requests were for locks in exports of other services */
    /* The time from the arrival of a request to its answer, for requests that are timed. */
    struct hf_histogram durations_ns[HF_NLM_KINDS];
    struct hf_nlm_prompt prompt;
    struct hf_histogram callbacks_ns; /* how long one attempt at a GRANTED callback takes */
};

void hf_nlm_init(struct hf_nlm *nlm, struct hf_service *service, struct hf_rpc_client *client);

/* Frees struct hf_nlm. No answer may be waiting any more. */
void hf_nlm_free(struct hf_nlm *nlm);

/* Must be called when the answers of this turn of the loop have left. */
void hf_nlm_end_turn(struct hf_nlm *nlm);

const char *hf_nlm_kind_name(enum hf_nlm_kind kind);
const char *hf_nlm_stat_name(enum hf_stat stat);

/* Makes one attempt at a GRANTED callback, as the core asks for it, and reports to the core when it
 * has ended. */
void hf_nlm_call_granted(struct hf_nlm *nlm, const struct hf_outcall_attempt *call);

/* Makes one attempt at a probe (HF_OUTCALL_PROBE), which finds out whether the client's lock
 * manager answers. */
void hf_nlm_call_probe(struct hf_nlm *nlm, const struct hf_outcall_attempt *call);

#endif
