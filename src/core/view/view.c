/*
 * The read-only view (ADM-01). Objects are in slabs and never change their slot, so a cursor is a
 * slot number, and an object that exists during the whole listing is seen exactly once. A call
 * visits slots of which many may be empty; `end` bounds their number.
 */
#include "core/claims/claims.h"
#include "core/clients/clients.h"
#include "core/internal.h"
#include "core/outcall/outcall.h"
#include "core/recovery/recovery.h"
#include "core/table/table.h"
#include "core/wait/wait.h"

static void show_client(const struct hf_client *client, struct hf_view_client *row)
{
    *row = (struct hf_view_client){
        .registered = client->registered,
        .verifying = hf_verify_is_in_progress(client),
        .releasing = hf_pending_release_is_in_progress(client),
        .n_locks = client->n_locks,
        .n_shares = client->n_shares,
        .n_waiters = client->n_waiters,
        .n_unreclaimed = client->n_unclaimed,
        .first_seen_ms = client->first_seen_ms,
        .last_seen_ms = client->last_seen_ms,
        .n_requests = client->n_requests,
        .notice = client->notice_status,
        .notice_attempts = client->notice.attempts,
        .notice_error = client->notice.error,
    };
    hf_client_record(client, &row->record);
}

/* True unless this is an SM_MON client whose registration has ended, which is not shown. */
static bool shows_client(const struct hf_client *client)
{
    return client->registered || client->protocol == HF_PROTOCOL_NLM;
}

/* Returns the slot before which a walk over this slab must stop. */
static uint64_t stop_at(const struct hf_slab *slab, uint64_t end)
{
    uint64_t slots = hf_slab_slots(slab);

    return end < slots ? end : slots;
}

size_t hf_core_view_clients(const struct hf_core *core, uint64_t *cursor, uint64_t end,
                            struct hf_view_client *rows, size_t max)
{
    uint64_t stop = stop_at(&core->clients->slab, end);
    size_t n = 0;

    for (; *cursor < stop && n < max; ++*cursor) {
        const struct hf_client *client = hf_slab_at(&core->clients->slab, *cursor);
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
        .client_name = hf_lock_owner(lock)->client->name,
        .client_addr = hf_lock_owner(lock)->client->addr,
        .durable = lock->durable,
        .unreclaimed = lock->unclaimed,
        .releasing = hf_lock_is_releasing(lock),
        .n_waiters = hf_lock_file(lock)->queue->n_waiters,
    };
    hf_lock_record(core, lock, &row->record);
}

size_t hf_core_view_locks(const struct hf_core *core, uint64_t *cursor, uint64_t end,
                          struct hf_view_lock *rows, size_t max)
{
    uint64_t stop = stop_at(&core->table->lock_slab, end);
    size_t n = 0;

    for (; *cursor < stop && n < max; ++*cursor) {
        const struct hf_lock *lock = hf_slab_at(&core->table->lock_slab, *cursor);
        if (lock && lock->held)
            show_lock(core, lock, &rows[n++]);
    }
    return n;
}

static uint64_t blocker_of(const struct hf_core *core, const struct hf_waiter *w)
{
    struct hf_want want = {w->owner, w->first, w->last, w->exclusive, false};
    const struct hf_lock *lock = w->granting ? NULL : hf_table_conflict(core, w->file, &want);

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
        .export = hf_file_export_name(core, w->file),
        .fh = hf_file_fh(w->file),
        .oh = hf_owner_oh(w->owner),
        .svid = w->owner->svid,
        .first = w->first,
        .last = w->last,
        .exclusive = w->exclusive,
        .granting = w->granting,
        .attempts = w->outcall.attempts,
        .since_ms = w->since_ms,
        .passes = w->passes,
        .outside = w->outside != NULL,
        .blocked_by = blocker_of(core, w),
    };
    if (w->outside && w->outside->has_holder) {
        row->has_holder = true;
        row->holder = w->outside->holder;
    }
}

size_t hf_core_view_waiters(const struct hf_core *core, uint64_t *cursor, uint64_t end,
                            struct hf_view_waiter *rows, size_t max)
{
    uint64_t stop = stop_at(&core->wait->slab, end);
    size_t n = 0;

    for (; *cursor < stop && n < max; ++*cursor) {
        const struct hf_waiter *w = hf_slab_at(&core->wait->slab, *cursor);
        if (w && !w->gone)
            show_waiter(core, w, &rows[n++]);
    }
    return n;
}

/* Returns the next id: outcalls that begin later have this id or greater ones. */
uint64_t hf_core_view_grant_mark(const struct hf_core *core)
{
    return core->next_id;
}

/* Shows the grants since the mark. They are the last in the queue, because each grant puts its
 * outcall at the queue's end. */
size_t hf_core_view_granted(const struct hf_core *core, uint64_t *mark, struct hf_view_waiter *rows,
                            size_t max)
{
    const struct hf_list *queue = &core->outcalls->queues[HF_OUTCALL_GRANTS].ready;
    const struct hf_list *node = queue->prev;
    size_t n = 0;

    while (node != queue && hf_list_entry(node, struct hf_outcall, link)->id >= *mark)
        node = node->prev;
    for (node = node->next; node != queue && n < max; node = node->next) {
        const struct hf_outcall *outcall = hf_list_entry(node, struct hf_outcall, link);

        show_waiter(core, hf_container_of(outcall, struct hf_waiter, outcall), &rows[n++]);
        *mark = outcall->id + 1;
    }
    return n;
}

size_t hf_core_view_shares(const struct hf_core *core, uint64_t *cursor, uint64_t end,
                           struct hf_view_share *rows, size_t max)
{
    uint64_t stop = stop_at(&core->table->share_slab, end);
    size_t n = 0;

    for (; *cursor < stop && n < max; ++*cursor) {
        const struct hf_share *share = hf_slab_at(&core->table->share_slab, *cursor);
        if (!share || share->behind.gone)
            continue;
        rows[n++] = (struct hf_view_share){
            .id = share->id,
            .client_id = share->client->id,
            .client_name = share->client->name,
            .client_addr = share->client->addr,
            .export = hf_file_export_name(core, share->file),
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
    if (!core->recovery->grace.active || core->recovery->grace.end_ms <= now.mono_ms)
        return 0;
    return core->recovery->grace.end_ms - now.mono_ms;
}

/* Returns an age; 0 if it would be negative, because the clock was set back or the time means
 * "none". */
static uint64_t age_of(int64_t since_ms, int64_t now_ms)
{
    return since_ms < now_ms ? (uint64_t)(now_ms - since_ms) : 0;
}

bool hf_core_view_waits(const struct hf_core *core, unsigned i, struct hf_bytes *export_name,
                        uint64_t *waiting)
{
    unsigned n_rules = core->config.n_export_rules;

    if (i > n_rules)
        return false;
    *export_name = i < n_rules ? core->config.export_rules[i].name : hf_bytes_str("default");
    *waiting = core->wait->n_by_export[i];
    return true;
}

void hf_core_view_status(const struct hf_core *core, struct hf_now now, struct hf_view_status *out)
{
    *out = (struct hf_view_status){
        .epoch = core->epoch,
        .state = hf_epoch_state(core),
        .was_clean = core->recovery->before.clean,
        .recovers = core->recovery->start.recovers,
        .grace_active = core->recovery->grace.active,
        .grace_remaining_ms = grace_remaining(core, now),
        .grace_held_ms = core->recovery->hold_end_ms > now.mono_ms
                             ? core->recovery->hold_end_ms - now.mono_ms
                             : 0,
        .unreclaimed = core->clients->n_unclaimed,
        .reclaimed = core->recovery->grace.reclaimed,
        .locks = core->table->n_locks,
        .shares = core->table->n_shares,
        .waiters = core->table->n_waiters,
        .oldest_wait_ms = age_of(hf_waiters_oldest_ms(core), now.wall_ms),
        .files = core->table->files.count,
        .owners = core->table->owners.count,
        .nlm_clients = core->clients->n_nlm,
        .nsm_clients = core->clients->n_nsm,
        .calls_in_flight = hf_outcalls_running(core),
        .coherent = core->config.coherent,
        .claims_ready = hf_claims_are_ready(core),
        .claimed_files = core->claims->files.count,
        .claimed_ranges = core->claims->n_ranges,
        .unmirrored_files = core->claims->n_unmirrored,
        .coarse_files = core->claims->n_coarse,
        .outside_waits = core->claims->by_wait.count,
    };
    hf_list_foreach (node, &core->clients->all) {
        const struct hf_client *client = hf_list_entry(node, struct hf_client, all);
        out->registered += client->registered;
        if (shows_client(client))
            out->notices[client->notice_status]++;
    }
}
