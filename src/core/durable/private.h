/* What the files of core/durable share with each other only. */
#ifndef HF_CORE_DURABLE_PRIVATE_H
#define HF_CORE_DURABLE_PRIVATE_H

#include "core/durable/durable.h"

/* Undoes all entries from number `from` on, newest first; or makes them final, oldest first. */
void hf_undo_revert(struct hf_core *core, struct hf_undo_log *log, size_t from);
void hf_undo_keep(struct hf_core *core, struct hf_undo_log *log, size_t from);

#endif
