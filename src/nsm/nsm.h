/*
 * NSM, the Network Status Monitor, program 100024 version 1 (NSM-01..07): from the wire to the core
 * and back, and the calls that tell others: SM_NOTIFY to hosts, `status` to whoever asked for it.
 *
 * An answer leaves only when the core's batch it depends on is durable; until then it is kept in
 * the queue of answers, which the daemon works off after each commit.
 *
 * The caller keeps struct hf_nsm, and all that its configuration names, alive as long as the server
 * that serves it.
 */
#ifndef HF_NSM_NSM_H
#define HF_NSM_NSM_H

#include "base/histogram.h"
#include "base/later.h"
#include "core/core.h"
#include "rpc/client.h"
#include "rpc/program.h"

struct hf_nsm_config {
    struct hf_core *core;
    struct hf_rpc_client *client;
    struct hf_later_queue *answers; /* what waits for a commit */
    const bool *store_up;           /* while it is not, registrations are refused at the door */
    struct hf_now (*now)(void *ctx);
    void *now_ctx;
    uv_loop_t *loop; /* for resolving names, off the path of any request */
    const struct hf_alloc *alloc;
};

enum { HF_NSM_PROCEDURES = 7 };

/* What became of a request. */
enum hf_nsm_result { HF_NSM_SUCCESS, HF_NSM_FAILURE, HF_NSM_RESULTS };

struct hf_nsm {
    struct hf_rpc_program program;
    struct hf_nsm_config config;
    struct hf_list spare;   /* kept answers, for reuse */
    struct hf_list errands; /* attempts under way */
    struct hf_list lookups; /* names being looked up */
    uint64_t answers[HF_NSM_PROCEDURES][HF_NSM_RESULTS];
    struct hf_histogram durations_ns[HF_NSM_PROCEDURES]; /* from arrival to answer, where timed */
    struct hf_histogram notices_ns;                      /* of one attempt at a notice */
    unsigned resolving;                                  /* names being looked up now */
};

void hf_nsm_init(struct hf_nsm *nsm, const struct hf_nsm_config *config);

/*
 * Ends what is under way, without a word to the core; the RPC client must have been closed before.
 * A resolver that hangs cannot be ended: it keeps the loop alive until it comes back.
 */
void hf_nsm_stop(struct hf_nsm *nsm);

/* No answer may be waiting any more, and the loop must have ended. */
void hf_nsm_free(struct hf_nsm *nsm);

const char *hf_nsm_procedure_name(unsigned procedure);

/*
 * One attempt at SM_NOTIFY (HF_CALL_NOTIFY) or at a `status` callback (HF_CALL_STATUS), as the core
 * asks for it; reported to the core when it has ended.
 */
void hf_nsm_call(struct hf_nsm *nsm, const struct hf_call *call);

/*
 * Looks up the addresses of a client that is known by name only, and tells the core. Bounded in
 * number and, for whoever waits for it, in time; never on the path of a request.
 */
void hf_nsm_resolve(struct hf_nsm *nsm, uint64_t client_id, struct hf_bytes name);

#endif
