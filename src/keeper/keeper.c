#include "keeper/keeper.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/log.h"
#include "keeper/kernel_locks.h"

/* ---- results ---- */

static struct hf_keeper_result *add_result(struct hf_keeper *keeper, uint64_t id,
                                           enum hf_keeper_status status)
{
    static struct hf_keeper_result unheard;
    struct hf_keeper_result *result = &unheard;

    if (!keeper->silent) {
        HF_ASSERT(keeper->n_results < keeper->results_max);
        result = &keeper->results[keeper->n_results++];
    }
    *result = (struct hf_keeper_result){.id = id, .status = status, .pid = -1};
    return result;
}

static void add_answer(struct hf_keeper *keeper, const struct hf_keeper_op *op,
                       enum hf_keeper_status status, const struct hf_keeper_file *file,
                       const struct hf_holder *holder)
{
    struct hf_keeper_result *result = add_result(keeper, op->id, status);

    if (file)
        result->file = file->identity;
    if (status == HF_KEEPER_CONFLICT) {
        result->pid = holder->pid;
        result->offset = holder->offset;
        result->length = holder->length;
        result->mode = (uint8_t)holder->mode;
    }
}

static void on_wait_over(void *ctx, const struct hf_wait *wait, enum hf_keeper_status status)
{
    struct hf_keeper_result *result = add_result(ctx, wait->id, status);

    if (wait->file)
        result->file = wait->file->identity;
}

/* ---- operations on a file ---- */

static void resolve(struct hf_keeper *keeper, int64_t now_ms, const struct hf_keeper_op *op)
{
    struct hf_keeper_identity identity = {0};
    enum hf_keeper_status status = hf_keeper_files_identify(
        &keeper->files, now_ms, hf_bytes(op->handle, op->handle_len), &identity);

    add_result(keeper, op->id, status)->file = identity;
}

static enum hf_keeper_status change(struct hf_keeper *keeper, const struct hf_keeper_op *op,
                                    struct hf_keeper_file *file, const struct hf_span *part,
                                    struct hf_holder *holder)
{
    enum hf_keeper_status status = HF_KEEPER_OK;
    struct hf_span refused;

    if (op->kind == HF_KEEPER_TEST)
        return hf_kernel_test(file->fd, part, holder) ? HF_KEEPER_CONFLICT : HF_KEEPER_OK;
    if (part->mode == HF_KEEPER_EXCLUSIVE && !file->writable) {
        hf_waits_interrupt(&keeper->waits, file, NULL);
        status = hf_keeper_files_make_writable(&keeper->files, file);
    }
    hf_waits_interrupt(&keeper->waits, file, part);
    if (status != HF_KEEPER_OK)
        return status;
    return op->kind == HF_KEEPER_SET
               ? hf_keeper_set(&keeper->files, file, part, holder)
               : hf_keeper_claim(&keeper->files, file, part, holder, &refused);
}

/*
 * Carries out CLAIM, SET and TEST. Bytes that the kernel cannot lock cannot conflict with anything.
 */
static void change_file(struct hf_keeper *keeper, int64_t now_ms, const struct hf_keeper_op *op)
{
    struct hf_bytes handle = hf_bytes(op->handle, op->handle_len);
    struct hf_span part = {.mode = (enum hf_keeper_mode)op->mode};
    struct hf_holder holder = {.pid = -1};
    struct hf_keeper_file *file = hf_keeper_files_find(&keeper->files, handle);
    enum hf_keeper_status status = HF_KEEPER_OK;

    if (!hf_range_clamp(op->offset, op->length, &part) ||
        (!file && op->kind == HF_KEEPER_SET && part.mode == HF_KEEPER_NONE)) {
        add_answer(keeper, op, HF_KEEPER_OK, file, &holder);
        return;
    }
    if (op->kind != HF_KEEPER_TEST || !file)
        status =
            hf_keeper_files_get(&keeper->files, now_ms, handle,
                                op->kind == HF_KEEPER_TEST ? HF_KEEPER_SHARED : part.mode, &file);
    if (status == HF_KEEPER_OK)
        status = change(keeper, op, file, &part, &holder);
    add_answer(keeper, op, status, file, &holder);
    if (file)
        hf_keeper_files_done(&keeper->files, file);
}

static void wait_for(struct hf_keeper *keeper, int64_t now_ms, const struct hf_keeper_op *op)
{
    enum hf_keeper_status status = hf_waits_add(&keeper->waits, now_ms, op);

    if (status != HF_KEEPER_OK)
        add_result(keeper, op->id, status);
}

/* ---- everything ---- */

static void let_all_go(struct hf_keeper *keeper, enum hf_keeper_status status)
{
    hf_waits_cancel_all(&keeper->waits, NULL, status);
    while (!hf_list_empty(&keeper->files.all))
        hf_keeper_files_close(&keeper->files,
                              hf_list_first(&keeper->files.all, struct hf_keeper_file, link));
}

static bool is_lease_over(const struct hf_keeper *keeper, uint64_t boot_ms)
{
    return keeper->has_lease && boot_ms >= keeper->valid_until_ms;
}

bool hf_keeper_check_lease(struct hf_keeper *keeper, uint64_t boot_ms)
{
    if (!is_lease_over(keeper, boot_ms) || (keeper->files.count == 0 && keeper->waits.count == 0))
        return false;
    hf_log(HF_LOG_WARN, "let all locks go", HF_STR("reason", "the lease of the service ran out"),
           HF_UINT("files", keeper->files.count), HF_UINT("ranges", keeper->files.n_spans));
    let_all_go(keeper, HF_KEEPER_LEASE_OVER);
    keeper->lease_ended = true;
    return true;
}

/* Renews the lease. If the lease ended before this message arrived, what was held under it stays
 * released. */
static void renew(struct hf_keeper *keeper, uint64_t boot_ms, const struct hf_keeper_op *op)
{
    if (op->offset > boot_ms + HF_KEEPER_LEASE_MAX_MS) {
        add_result(keeper, op->id, HF_KEEPER_FAILED);
        return;
    }
    (void)hf_keeper_check_lease(keeper, boot_ms);
    if (!keeper->has_lease || op->offset > keeper->valid_until_ms)
        keeper->valid_until_ms = op->offset;
    keeper->has_lease = true;
    (void)hf_keeper_check_lease(keeper, boot_ms);
    add_result(keeper, op->id, is_lease_over(keeper, boot_ms) ? HF_KEEPER_LEASE_OVER : HF_KEEPER_OK)
        ->length = keeper->lease_ended;
    keeper->lease_ended = false;
}

static bool needs_lease(const struct hf_keeper_op *op)
{
    return op->kind == HF_KEEPER_CLAIM || op->kind == HF_KEEPER_WAIT ||
           (op->kind == HF_KEEPER_SET && op->mode != HF_KEEPER_NONE);
}

static void execute(struct hf_keeper *keeper, int64_t now_ms, uint64_t boot_ms,
                    const struct hf_keeper_op *op)
{
    if (needs_lease(op) && is_lease_over(keeper, boot_ms)) {
        add_result(keeper, op->id, HF_KEEPER_LEASE_OVER);
        return;
    }
    switch ((enum hf_keeper_kind)op->kind) {
    case HF_KEEPER_RESOLVE:
        resolve(keeper, now_ms, op);
        break;
    case HF_KEEPER_CLAIM:
    case HF_KEEPER_SET:
    case HF_KEEPER_TEST:
        change_file(keeper, now_ms, op);
        break;
    case HF_KEEPER_WAIT:
        wait_for(keeper, now_ms, op);
        break;
    case HF_KEEPER_CANCEL:
        hf_waits_cancel(&keeper->waits, op->id, HF_KEEPER_CANCELLED);
        break;
    case HF_KEEPER_RELEASE_ALL:
        let_all_go(keeper, HF_KEEPER_CANCELLED);
        add_result(keeper, op->id, HF_KEEPER_OK);
        break;
    case HF_KEEPER_RENEW:
        renew(keeper, boot_ms, op);
        break;
    case HF_KEEPER_KINDS:
        HF_ASSERT(false); /* hf_keeper_check() lets no other kind pass */
    }
}

void hf_keeper_execute(struct hf_keeper *keeper, int64_t now_ms, uint64_t boot_ms,
                       const struct hf_keeper_op *ops, size_t n)
{
    keeper->files.now_ms = now_ms;
    for (size_t i = 0; i < n; i++)
        execute(keeper, now_ms, boot_ms, &ops[i]);
    hf_exports_close(&keeper->files.resolver.exports);
}

void hf_keeper_execute_path(struct hf_keeper *keeper, const struct hf_keeper_path *path)
{
    struct hf_keeper_files *files = &keeper->files;
    uint64_t closed = 0;
    int rv = 0;

    if (path->kind == HF_KEEPER_TAKE_BACK)
        hf_keeper_files_take_back(files, path->path);
    else
        rv = hf_keeper_files_let_go(files, path->path);
    hf_list_foreach_safe (node, &files->all) {
        struct hf_keeper_file *file = hf_list_entry(node, struct hf_keeper_file, link);

        if (rv < 0 || path->kind == HF_KEEPER_TAKE_BACK || !hf_keeper_files_is_let_go(files, file))
            continue;
        file->pins++;
        hf_waits_cancel_all(&keeper->waits, file, HF_KEEPER_WAS_LET_GO);
        hf_keeper_files_close(files, file);
        closed++;
    }
    add_result(keeper, path->id, rv < 0 ? HF_KEEPER_FAILED : HF_KEEPER_OK)->length = closed;
}

/* ---- start and end ---- */

void hf_keeper_disconnected(struct hf_keeper *keeper)
{
    keeper->silent = true;
    hf_waits_cancel_all(&keeper->waits, NULL, HF_KEEPER_CANCELLED);
    keeper->n_results = 0;
}

int hf_keeper_init(struct hf_keeper *keeper)
{
    memset(keeper, 0, sizeof(*keeper));
    keeper->silent = true;
    return hf_keeper_files_init(&keeper->files);
}

int hf_keeper_start(struct hf_keeper *keeper, const struct hf_keeper_limits *limits)
{
    if (getrandom(&keeper->incarnation, sizeof(keeper->incarnation), 0) < 0)
        return HF_EUNAVAIL;
    keeper->results_max = HF_KEEPER_OPS_MAX + 1 + limits->waits;
    keeper->results = calloc(keeper->results_max, sizeof(*keeper->results));
    if (!keeper->results)
        return HF_ENOMEM;
    return hf_waits_init(&keeper->waits, &keeper->files, limits->waits, limits->threads,
                         on_wait_over, keeper);
}

/* Frees the keeper. Copies that systemd has stay there for the process that follows; if none
 * follows, systemd drops them. */
void hf_keeper_free(struct hf_keeper *keeper)
{
    keeper->silent = true;
    hf_waits_free(&keeper->waits);
    hf_list_foreach (node, &keeper->files.all)
        hf_list_entry(node, struct hf_keeper_file, link)->stored = false;
    hf_keeper_files_free(&keeper->files);
    free(keeper->results);
}
