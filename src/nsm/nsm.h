/*
 * NSM, the Network Status Monitor, program 100024 version 1 (NSM-01..07). It takes requests from
 * the wire to the core and answers back, and makes the outgoing calls of NSM: SM_NOTIFY to hosts,
 * `status` to the programs that registered by SM_MON.
 *
 * An answer leaves only when the core's batch it depends on is durable; until then it waits in the
 * service's queue.
 *
 * Service and RPC client outlive struct hf_nsm, which outlives the server that serves it.
 */
#ifndef HF_NSM_NSM_H
#define HF_NSM_NSM_H

#include "base/histogram.h"
#include "base/pool.h"
#include "rpc/client.h"
#include "rpc/program.h"
#include "service/service.h"

enum { HF_NSM_PROCEDURES = 7 };

/* How a request was answered. */
enum hf_nsm_result { HF_NSM_SUCCESS, HF_NSM_FAILURE, HF_NSM_RESULTS };

struct hf_nsm {
    struct hf_rpc_program program;
    struct hf_service *service;
    struct hf_rpc_client *client;
    struct hf_pool pending;  /* objects of type struct pending_answer (nsm.c) */
    struct hf_list outcalls; /* attempts in flight */
    struct hf_list lookups;  /* names of hosts that are being looked up */
    uint64_t answers[HF_NSM_PROCEDURES][HF_NSM_RESULTS];
    /* The time from the arrival of a request to its answer, for requests that are timed. */
    struct hf_histogram durations_ns[HF_NSM_PROCEDURES];
    struct hf_histogram notices_ns; /* how long one attempt at a notice takes */
    unsigned resolving;             /* how many names are being looked up now */
    /* The port where this daemon listens, to which no `status` callback goes; 0: the daemon does
     * not listen. */
    uint16_t own_port;
};

void hf_nsm_init(struct hf_nsm *nsm, struct hf_service *service, struct hf_rpc_client *client);

/*
 * Ends the attempts and name lookups in flight without a report to the core; the RPC client must
 * have been closed before. A name lookup that hangs cannot be ended: it keeps the loop alive until
 * the resolver returns.
 */
void hf_nsm_stop(struct hf_nsm *nsm);

/* Frees struct hf_nsm. No answer may be waiting any more, and the loop must have ended. */
void hf_nsm_free(struct hf_nsm *nsm);

const char *hf_nsm_procedure_name(unsigned procedure);

/*
 * Makes one attempt at SM_NOTIFY (HF_OUTCALL_NOTIFY), at a `status` callback (HF_OUTCALL_STATUS) or
 * at SM_STAT (HF_OUTCALL_STAT), as the core asks for it, and reports to the core when it has ended.
 */
void hf_nsm_call(struct hf_nsm *nsm, const struct hf_outcall_attempt *call);

/*
 * Looks up the addresses of a client that is known by name only, and reports them to the core. The
 * number of lookups is bounded, and none is on the path of a request.
 */
void hf_nsm_resolve(struct hf_nsm *nsm, uint64_t client_id, struct hf_bytes name);

#endif
