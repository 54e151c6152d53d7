#include "daemon/outcalls.h"

enum { CALLS_PER_TURN = 16 };

bool hf_outcalls_begin(struct hf_service *service, struct hf_nlm *nlm, struct hf_nsm *nsm)
{
    struct hf_outcall_attempt call;
    unsigned n = 0;

    while (n < CALLS_PER_TURN &&
           hf_core_next_outcall(service->core, hf_service_now(service), &call)) {
        n++;
        if (call.kind == HF_OUTCALL_GRANTED)
            hf_nlm_call_granted(nlm, &call);
        else if (call.kind == HF_OUTCALL_PROBE)
            hf_nlm_call_probe(nlm, &call);
        else
            hf_nsm_call(nsm, &call);
    }
    return n == CALLS_PER_TURN;
}
