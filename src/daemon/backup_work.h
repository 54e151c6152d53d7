/*
 * Makes a backup on a thread of libuv's pool, with a connection of its own to the database
 * (store/backup.h). The commit thread goes on committing and renewing the lease, however long the
 * backup takes.
 */
#ifndef HF_DAEMON_BACKUP_WORK_H
#define HF_DAEMON_BACKUP_WORK_H

#include <uv.h>

#include "base/buf.h"
#include "store/store.h"

struct hf_backup_work;

/* Called on the loop thread with the finished backup. It may take the bytes out of `out` and leave
 * another buffer there. */
typedef void hf_backup_work_done(void *ctx, int status, struct hf_buf *out);

/* Starts a backup. config must outlive it. Returns NULL if memory runs out. */
struct hf_backup_work *hf_backup_work_start(uv_loop_t *loop, const struct hf_store_config *config,
                                            int64_t wall_ms, hf_backup_work_done *done, void *ctx);

/* Abandons a backup: its done function will not be called, and its thread ends soon. */
void hf_backup_work_abandon(struct hf_backup_work *work);

#endif
