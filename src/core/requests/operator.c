/* Requests of an operator (ADM-01): releases, the end of grace, a hold, repeated notices, new
 * limits. */
#include "core/clients/clients.h"
#include "core/core.h"
#include "core/durable/durable.h"
#include "core/internal.h"
#include "core/recovery/recovery.h"
#include "core/requests/requests.h"
#include "core/table/table.h"
#include "core/wait/wait.h"

static int64_t finish(struct hf_core *core, struct hf_now now, int64_t n, struct hf_ticket *wait)
{
    hf_turn_end(core, now);
    wait->seq = hf_durable_answer_seq(core, wait->seq);
    return n;
}

int64_t hf_core_release_client(struct hf_core *core, struct hf_now now, uint64_t client_id,
                               struct hf_ticket *wait)
{
    struct hf_client *client = hf_client_find_id(core, client_id);

    *wait = (struct hf_ticket){0};
    if (!client)
        return HF_ENOENT;
    return finish(core, now, hf_client_release_all(core, now, client, wait), wait);
}

int64_t hf_core_client_dead(struct hf_core *core, struct hf_now now, uint64_t client_id,
                            struct hf_ticket *wait)
{
    struct hf_client *client = hf_client_find_id(core, client_id);

    *wait = (struct hf_ticket){0};
    if (!client || client->protocol != HF_PROTOCOL_NLM)
        return HF_ENOENT;
    return finish(core, now, hf_client_declared_dead(core, now, client, wait), wait);
}

/* Releases one lock; if its client has nothing left, the linger time begins. */
static int64_t release(struct hf_core *core, struct hf_now now, struct hf_lock *lock, uint64_t *seq)
{
    struct hf_client *client = hf_lock_owner(lock)->client;
    int64_t n;

    client->refs++;
    n = hf_lock_release(core, now, lock, HF_END_OPERATOR, seq);
    hf_client_idle(core, now, client);
    hf_client_unref(core, client);
    return n;
}

/* Finds the lock by looking at all of them, which is fast enough because only an operator needs
 * it. */
int64_t hf_core_release_lock(struct hf_core *core, struct hf_now now, uint64_t lock_id,
                             struct hf_ticket *wait)
{
    *wait = (struct hf_ticket){0};
    for (size_t i = 0; i < hf_slab_slots(&core->table->lock_slab); i++) {
        struct hf_lock *lock = hf_slab_at(&core->table->lock_slab, i);
        if (lock && lock->id == lock_id && lock->held)
            return finish(core, now, release(core, now, lock, &wait->seq), wait);
    }
    return HF_ENOENT;
}

static int64_t release_tree(struct hf_core *core, struct hf_now now, const struct hf_itree *tree,
                            uint64_t *seq, bool *left)
{
    struct hf_itree_node *next;
    int64_t n = 0;

    for (struct hf_itree_node *node = hf_itree_min(tree); node; node = next) {
        next = hf_itree_next(node);
        if (release(core, now, hf_container_of(node, struct hf_lock, node), seq) < 0)
            *left = true;
        else
            n++;
    }
    return n;
}

/* Ends a wait; if its client has nothing left, the linger time begins. drop_share() does this for a
 * share. */
static void end_wait(struct hf_core *core, struct hf_now now, struct hf_waiter *waiter)
{
    struct hf_client *client = waiter->owner->client;

    client->refs++;
    hf_waiter_end(core, waiter, HF_END_OPERATOR);
    hf_client_idle(core, now, client);
    hf_client_unref(core, client);
}

static void drop_share(struct hf_core *core, struct hf_now now, struct hf_share *share)
{
    struct hf_client *client = share->client;

    client->refs++;
    hf_share_drop(core, share);
    hf_client_idle(core, now, client);
    hf_client_unref(core, client);
}

int64_t hf_core_release_file(struct hf_core *core, struct hf_now now, struct hf_bytes fh,
                             struct hf_ticket *wait)
{
    struct hf_file *file = hf_file_find(core, fh);
    bool left = false;
    int64_t n = 0;

    *wait = (struct hf_ticket){0};
    if (!file)
        return HF_ENOENT;
    file->refs++;
    hf_list_foreach_safe (node, &file->queue->waiters) {
        end_wait(core, now, hf_list_entry(node, struct hf_waiter, in_file));
        n++;
    }
    hf_list_foreach_safe (node, &file->queue->shares) {
        drop_share(core, now, hf_list_entry(node, struct hf_share, in_file));
        n++;
    }
    n += release_tree(core, now, &file->exclusive, &wait->seq, &left);
    n += release_tree(core, now, &file->shared, &wait->seq, &left);
    hf_file_unref(core, file);
    return finish(core, now, left ? HF_ENOMEM : n, wait);
}

struct hf_ticket hf_core_grace_end(struct hf_core *core, struct hf_now now)
{
    struct hf_ticket wait = hf_grace_end(core, now);

    hf_turn_end(core, now);
    wait.seq = hf_durable_answer_seq(core, wait.seq);
    return wait;
}

void hf_core_grace_hold(struct hf_core *core, struct hf_now now, uint64_t ms)
{
    core->recovery->hold_end_ms = ms > 0 ? now.mono_ms + ms : 0;
    hf_turn_end(core, now);
}

int hf_core_notify_again(struct hf_core *core, struct hf_now now, uint64_t client_id)
{
    struct hf_client *client;

    (void)now;
    if (client_id == 0) {
        hf_notice_begin_all(core, true);
        return 0;
    }
    client = hf_client_find_id(core, client_id);
    if (!client || !client->registered)
        return HF_ENOENT;
    hf_notice_begin(core, client);
    return 0;
}

void hf_core_set_limits(struct hf_core *core, const struct hf_limits *limits)
{
    core->config.limits = *limits;
    hf_limits_raise(core, limits);
}
