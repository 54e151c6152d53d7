/*
 * The read-only view (ADM-01). Objects live in slabs and never change their slot, so a cursor is a
 * slot number: a page costs what it shows, and whatever is neither made nor deleted between two
 * pages is seen exactly once.
 */
#include "core/parts.h"

static void show_client(const struct hf_client *client, struct hf_view_client *row)
{
    *row = (struct hf_view_client){
        .registered = client->registered,
        .n_locks = client->n_locks,
        .n_shares = client->n_shares,
        .n_waiters = client->n_waiters,
        .n_unreclaimed = client->n_unclaimed,
        .first_seen_ms = client->first_seen_ms,
        .last_seen_ms = client->last_seen_ms,
        .notice = client->notice_status,
        .notice_attempts = client->notice.attempts,
        .notice_error = client->notice.error,
    };
    hf_client_record(client, &row->record);
}

/* An SM_MON registration that is gone, or on its way out, is not shown. */
static bool shows_client(const struct hf_client *client)
{
    return client->registered || client->protocol == HF_PROTOCOL_NLM;
}

size_t hf_core_view_clients(const struct hf_core *core, uint64_t *cursor,
                            struct hf_view_client *rows, size_t max)
{
    size_t n = 0;

    for (; *cursor < core->client_slab.used && n < max; ++*cursor) {
        const struct hf_client *client = hf_slab_at(&core->client_slab, *cursor);
        if (client && shows_client(client))
            show_client(client, &rows[n++]);
    }
    return n;
}

int hf_core_view_client(const struct hf_core *core, uint64_t id, struct hf_view_client *out)
{
    const struct hf_client *client = hf_client_find_id(core, id);

    if (!client || !shows_client(client))
        return HF_ENOENT;
    show_client(client, out);
    return 0;
}

static void show_lock(const struct hf_core *core, const struct hf_lock *lock,
                      struct hf_view_lock *row)
{
    *row = (struct hf_view_lock){
        .client_name = lock->owner->client->name,
        .client_addr = lock->owner->client->addr,
        .durable = lock->durable,
        .unreclaimed = lock->unclaimed,
        .n_waiters = lock->file->crowd->n_waiters,
    };
    hf_lock_record(core, lock, &row->record);
}

size_t hf_core_view_locks(const struct hf_core *core, uint64_t *cursor, struct hf_view_lock *rows,
                          size_t max)
{
    size_t n = 0;

    for (; *cursor < core->lock_slab.used && n < max; ++*cursor) {
        const struct hf_lock *lock = hf_slab_at(&core->lock_slab, *cursor);
        if (lock && hf_list_linked(&lock->in_owner)) /* else removed, and kept for undo */
            show_lock(core, lock, &rows[n++]);
    }
    return n;
}

static uint64_t blocker_of(const struct hf_waiter *w)
{
    struct hf_want want = {w->owner, w->first, w->last, w->exclusive, false};
    const struct hf_lock *lock = w->granting ? NULL : hf_held_conflict(w->file, &want);

    return lock ? lock->id : 0;
}

static void show_waiter(const struct hf_core *core, const struct hf_waiter *w,
                        struct hf_view_waiter *row)
{
    *row = (struct hf_view_waiter){
        .id = w->id,
        .client_id = w->owner->client->id,
        .client_name = w->owner->client->name,
        .client_addr = w->owner->client->addr,
        .share = hf_file_share_name(core, w->file),
        .fh = hf_file_fh(w->file),
        .oh = hf_owner_oh(w->owner),
        .svid = w->owner->svid,
        .first = w->first,
        .last = w->last,
        .exclusive = w->exclusive,
        .granting = w->granting,
        .attempts = w->errand.attempts,
        .since_ms = w->since_ms,
        .blocked_by = blocker_of(w),
    };
}

size_t hf_core_view_waiters(const struct hf_core *core, uint64_t *cursor,
                            struct hf_view_waiter *rows, size_t max)
{
    size_t n = 0;

    for (; *cursor < core->waiter_slab.used && n < max; ++*cursor) {
        const struct hf_waiter *w = hf_slab_at(&core->waiter_slab, *cursor);
        if (w && !w->gone)
            show_waiter(core, w, &rows[n++]);
    }
    return n;
}

size_t hf_core_view_shares(const struct hf_core *core, uint64_t *cursor, struct hf_view_share *rows,
                           size_t max)
{
    size_t n = 0;

    for (; *cursor < core->share_slab.used && n < max; ++*cursor) {
        const struct hf_share *share = hf_slab_at(&core->share_slab, *cursor);
        if (!share)
            continue;
        rows[n++] = (struct hf_view_share){
            .id = share->id,
            .client_id = share->client->id,
            .client_name = share->client->name,
            .client_addr = share->client->addr,
            .share = hf_file_share_name(core, share->file),
            .fh = hf_file_fh(share->file),
            .oh = hf_bytes(share->oh, share->oh_len),
            .mode = share->mode,
            .access = share->access,
        };
    }
    return n;
}

static uint64_t grace_remaining(const struct hf_core *core, struct hf_now now)
{
    if (!core->grace.active || core->grace.end_ms <= now.mono_ms)
        return 0;
    return core->grace.end_ms - now.mono_ms;
}

void hf_core_view_status(const struct hf_core *core, struct hf_now now, struct hf_view_status *out)
{
    *out = (struct hf_view_status){
        .epoch = core->epoch,
        .state = hf_core_state(core),
        .was_clean = core->was_clean,
        .grace_active = core->grace.active,
        .grace_remaining_ms = grace_remaining(core, now),
        .unreclaimed = core->n_unclaimed,
        .reclaimed = core->grace.reclaimed,
        .locks = core->n_locks,
        .shares = core->n_shares,
        .waiters = core->n_waiters,
        .files = core->files.count,
        .owners = core->owners.count,
        .nlm_clients = core->n_nlm_clients,
        .nsm_clients = core->n_nsm_clients,
        .calls_in_flight = core->grants_running + core->probes_running + core->notices_running,
    };
    hf_list_foreach (node, &core->clients) {
        const struct hf_client *client = hf_list_entry(node, struct hf_client, all);
        if (shows_client(client))
            out->notices[client->notice_status]++;
    }
}
