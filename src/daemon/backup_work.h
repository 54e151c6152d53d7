/*
 * Makes a backup on a thread of libuv's, with a connection of its own to the database
 * (store/backup.h): the store's thread goes on committing and renewing the lease, however long the
 * copy takes.
 */
#ifndef HF_DAEMON_BACKUP_WORK_H
#define HF_DAEMON_BACKUP_WORK_H

#include <uv.h>

#include "base/buf.h"
#include "store/store.h"

struct hf_backup_work;

/* Is called on the loop thread. It may take the bytes of out, and leave another buffer there. */
typedef void hf_backup_work_done(void *ctx, int status, struct hf_buf *out);

/* Starts a backup; config must outlive it. NULL: out of memory. */
struct hf_backup_work *hf_backup_work_start(uv_loop_t *loop, const struct hf_store_config *config,
                                            int64_t wall_ms, hf_backup_work_done *done, void *ctx);

/*
 * Tells that the backup is not wanted any more: done will not be called, and the thread ends soon.
 */
void hf_backup_work_abandon(struct hf_backup_work *work);

#endif
