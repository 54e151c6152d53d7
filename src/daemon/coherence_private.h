/* What coherence.c and coherence_exports.c share. */
#ifndef HF_DAEMON_COHERENCE_PRIVATE_H
#define HF_DAEMON_COHERENCE_PRIVATE_H

#include "daemon/coherence.h"

/* Ids of operations on the service as a whole have this bit; the core's ids do not. */
#define HF_COHERENCE_CONTROL (UINT64_C(1) << 62)
enum hf_coherence_control {
    HF_COHERENCE_RENEW = 1,
    HF_COHERENCE_RELEASE_ALL,
    HF_COHERENCE_PATH,     /* an order of the operator */
    HF_COHERENCE_RELEASED, /* what a new keeper is told first: an export that was let go */
};

void hf_coherence_on_exported(void *ctx, const struct hf_keeper_export *export);
void hf_coherence_on_path(struct hf_coherence *coherence, const struct hf_keeper_result *result);

/* Ends a question of the operator, if there is one. */
void hf_coherence_exports_end(struct hf_coherence *coherence, int error, const char *reason);

/* Tells a new keeper of the next export that was let go; false: there is none left. */
bool hf_coherence_tell_released(struct hf_coherence *coherence);
void hf_coherence_forget_released(struct hf_coherence *coherence);

#endif
