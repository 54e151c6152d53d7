/* What the files of core/durable share with each other only. */
#ifndef HF_CORE_DURABLE_PRIVATE_H
#define HF_CORE_DURABLE_PRIVATE_H

#include "core/durable/durable.h"

/* Undoes all entries from number `from` on, newest first; or makes them final, oldest first. */
void hf_undo_revert(struct hf_core *core, struct hf_undo_log *log, size_t from);
void hf_undo_keep(struct hf_core *core, struct hf_undo_log *log, size_t from);

/* The first writes what is behind into the batch that is being taken (HF_ENOMEM: nothing of it);
 * the others tell that this batch is durable, or has failed. */
int hf_behind_write(struct hf_core *core);
void hf_behind_done(struct hf_core *core);
void hf_behind_failed(struct hf_core *core);

#endif
