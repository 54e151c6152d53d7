/* The keeper between core and kernel: what the core claims (core/claim.h) is locked in the kernel,
 * on a file that no other program uses, by the functions with which holdfast-keeper does it. */
#ifndef HF_DIFFERENTIAL_CLAIMS_H
#define HF_DIFFERENTIAL_CLAIMS_H

#include "core/core.h"

struct claims;

struct claims *claims_new(void);
void claims_free(struct claims *claims);

/* Does what the core asks of the kernel, and tells it the results; false: the core asks for nothing
 * more. */
bool claims_turn(struct claims *claims, struct hf_core *core, struct hf_now now);

/* Stops the program unless the kernel holds, for each byte, the strongest mode of all locks. */
void claims_check(const struct claims *claims, struct hf_core *core);

#endif
