#include "daemon/backup_work.h"

#include "base/error.h"
#include "base/log.h"
#include "store/backup.h"

struct hf_backup_work {
    uv_work_t work;
    const struct hf_store_config *config;
    int64_t wall_ms;
    _Atomic bool cancelled;
    int status;
    struct hf_buf out;
    char error[HF_STORE_ERROR_MAX];
    hf_backup_work_done *done; /* called with the result; NULL: the backup was abandoned */
    void *ctx;
};

static void work(uv_work_t *request)
{
    struct hf_backup_work *w = request->data;

    w->status = hf_backup_write_aside(w->config, w->wall_ms, &w->cancelled, &w->out, w->error);
}

static void on_worked(uv_work_t *request, int status)
{
    struct hf_backup_work *w = request->data;

    if (status < 0)
        w->status = HF_ECANCELED;
    if (w->done) {
        if (w->error[0])
            hf_log(HF_LOG_WARN, "cannot read the store for a backup", HF_STR("reason", w->error));
        w->done(w->ctx, w->status, &w->out);
    }
    hf_buf_free(&w->out);
    hf_free(&hf_alloc_heap, w);
}

struct hf_backup_work *hf_backup_work_start(uv_loop_t *loop, const struct hf_store_config *config,
                                            int64_t wall_ms, hf_backup_work_done *done, void *ctx)
{
    struct hf_backup_work *w = hf_calloc(&hf_alloc_heap, 1, sizeof(*w));

    if (!w)
        return NULL;
    w->config = config;
    w->wall_ms = wall_ms;
    w->done = done;
    w->ctx = ctx;
    hf_buf_init(&w->out, &hf_alloc_heap);
    w->work.data = w;
    uv_queue_work(loop, &w->work, work, on_worked);
    return w;
}

void hf_backup_work_abandon(struct hf_backup_work *w)
{
    w->done = NULL;
    w->cancelled = true;
    /* cancelling succeeds only if the backup has not begun */
    (void)uv_cancel((uv_req_t *)&w->work);
}
