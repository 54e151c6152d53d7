/* Declarations that only the files of core/claims share. */
#ifndef HF_CORE_CLAIMS_PRIVATE_H
#define HF_CORE_CLAIMS_PRIVATE_H

#include "core/claims/claims.h"

/* Returns the claims of the file, and makes them if there are none; NULL: no memory. */
struct hf_claim_file *hf_claim_file_get(struct hf_core *core, struct hf_file *file);

/* Deletes the claims of a file that no longer needs them. */
void hf_claim_file_settle(struct hf_core *core, struct hf_claim_file *cf);
void hf_claim_file_due(struct hf_core *core, struct hf_claim_file *cf);
void hf_claim_file_dirty(struct hf_core *core, struct hf_claim_file *cf, uint64_t first,
                         uint64_t last);
int hf_claim_file_raise(struct hf_core *core, struct hf_claim_file *cf, uint64_t first,
                        uint64_t last, enum hf_claim_mode mode);
int hf_claim_file_set(struct hf_core *core, struct hf_claim_file *cf, uint64_t first, uint64_t last,
                      enum hf_claim_mode mode);

/* Applies the releases of the round in flight once more to what we believe the kernel holds: the
 * keeper makes them after the change that it has just reported. */
void hf_claim_file_lower_again(struct hf_core *core, struct hf_claim_file *cf);

/* Notes that the kernel cannot hold the range in this mode; HF_CLAIM_NONE: the kernel may be asked
 * for the range again. Returns 0 or HF_ENOMEM. */
int hf_claim_file_unmirrored(struct hf_core *core, struct hf_claim_file *cf, uint64_t first,
                             uint64_t last, enum hf_claim_mode mode);

/* Has the kernel asked for the file again when there is room for it. */
void hf_claim_file_full(struct hf_core *core, struct hf_claim_file *cf);
void hf_claim_file_correcting(struct hf_core *core, struct hf_claim_file *cf, bool correcting);

/* Notes that the kernel goes on holding bytes of the range for no client, because releasing them
 * would leave one range too many; a later flush compares them again. */
void hf_claim_file_coarse(struct hf_core *core, struct hf_claim_file *cf, uint64_t first,
                          uint64_t last);
void hf_claim_file_refine(struct hf_core *core, struct hf_claim_file *cf);
bool hf_claim_file_has_locks(const struct hf_claim_file *cf);

/* True if the owner holds the range already, and all bytes that the kernel does not hold for it are
 * bytes that the kernel cannot hold: the lock stays as it was recorded (COH-14). */
bool hf_claim_keeps(const struct hf_core *core, const struct hf_file *file,
                    const struct hf_want *want);

static inline void hf_stretch_add(struct hf_stretch *stretch, uint64_t first, uint64_t last)
{
    if (!stretch->any || first < stretch->first)
        stretch->first = first;
    if (!stretch->any || last > stretch->last)
        stretch->last = last;
    stretch->any = true;
}

/* hf_claim_file_unreleased() makes answers of the batch wait until the kernel has released the
 * file's bytes; hf_claim_file_released() ends that. */
void hf_claim_file_unreleased(struct hf_core *core, struct hf_claim_file *cf, uint64_t seq);
void hf_claim_file_released(struct hf_claim_file *cf);

/* Adds a copy of the ask. Returns 0 or HF_ENOMEM. */
int hf_asks_add(struct hf_core *core, struct hf_asks *asks, const struct hf_claim_ask *ask);

/* Frees the memory of asks that are over. */
void hf_asks_rest(struct hf_core *core, struct hf_asks *asks);

void hf_claim_waits_flush(struct hf_core *core, hf_claim_sink sink, void *ctx);
int hf_claim_wait_result(struct hf_core *core, struct hf_now now,
                         const struct hf_claim_result *result);
void hf_claim_waits_lost(struct hf_core *core, struct hf_claim_file *cf);

/* Ids of waits have this bit, ids of asks never do. */
#define HF_CLAIM_WAIT_BIT (UINT64_C(1) << 63)

#endif
