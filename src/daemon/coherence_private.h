/* Definitions that coherence.c and coherence_exports.c share. */
#ifndef HF_DAEMON_COHERENCE_PRIVATE_H
#define HF_DAEMON_COHERENCE_PRIVATE_H

#include "daemon/coherence.h"

/* Ids of operations on the whole service have this bit set; the core's ids for claims do not. */
#define HF_COHERENCE_CONTROL (UINT64_C(1) << 62)
enum hf_coherence_control {
    HF_COHERENCE_RENEW = 1,
    HF_COHERENCE_RELEASE_ALL,
    HF_COHERENCE_PATH,     /* an operator's order about an export */
    HF_COHERENCE_RELEASED, /* tells a newly connected keeper of an export that was let go */
};

void hf_coherence_on_exported(void *ctx, const struct hf_keeper_export *export);
void hf_coherence_on_path(struct hf_coherence *coherence, const struct hf_keeper_result *result);

/* Ends the operator's question about exports, if there is one. */
void hf_coherence_exports_end(struct hf_coherence *coherence, int error, const char *reason);

/*
 * Tells a newly connected keeper of the next export that was let go; returns false if none is left.
 */
bool hf_coherence_tell_released(struct hf_coherence *coherence);
void hf_coherence_forget_released(struct hf_coherence *coherence);

#endif
