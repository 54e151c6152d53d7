/* Declarations that only the files of core/durable share. */
#ifndef HF_CORE_DURABLE_PRIVATE_H
#define HF_CORE_DURABLE_PRIVATE_H

#include "core/durable/durable.h"

/* hf_undo_revert() undoes all entries from number `from` on, newest first; hf_undo_keep() makes
 * them final, oldest first. */
void hf_undo_revert(struct hf_core *core, struct hf_undo_log *log, size_t from);
void hf_undo_keep(struct hf_core *core, struct hf_undo_log *log, size_t from);

/* hf_behind_write() writes the waiting objects into the batch being taken, or none of them on
 * HF_ENOMEM; the other two tell that this batch is durable, or has failed. */
int hf_behind_write(struct hf_core *core);
void hf_behind_done(struct hf_core *core);
void hf_behind_failed(struct hf_core *core);

#endif
