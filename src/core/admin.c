/* The operator's hand (ADM-01): what must go, goes, and who waited for it is served. */
#include "core/parts.h"

static int64_t finish(struct hf_core *core, struct hf_now now, int64_t n, uint64_t *seq)
{
    hf_core_settle(core, now);
    *seq = hf_core_answer_seq(core, *seq);
    return n;
}

int64_t hf_core_release_client(struct hf_core *core, struct hf_now now, uint64_t client_id,
                               uint64_t *seq)
{
    struct hf_client *client = hf_client_find_id(core, client_id);

    *seq = 0;
    if (!client)
        return HF_ENOENT;
    return finish(core, now, hf_client_strip(core, now, client, seq), seq);
}

/* Releases one lock, and lets its client linger if that was its last. */
static int64_t release(struct hf_core *core, struct hf_now now, struct hf_lock *lock, uint64_t *seq)
{
    struct hf_client *client = lock->owner->client;
    int64_t n;

    client->refs++;
    n = hf_lock_release(core, now, lock, seq);
    hf_client_idle(core, now, client);
    hf_client_unref(core, client);
    return n;
}

/* There is no index of locks by id: only an operator asks, and a look at each is quick enough. */
int64_t hf_core_release_lock(struct hf_core *core, struct hf_now now, uint64_t lock_id,
                             uint64_t *seq)
{
    *seq = 0;
    for (size_t i = 0; i < core->lock_slab.used; i++) {
        struct hf_lock *lock = hf_slab_at(&core->lock_slab, i);
        if (lock && lock->id == lock_id && hf_list_linked(&lock->in_owner))
            return finish(core, now, release(core, now, lock, seq), seq);
    }
    return HF_ENOENT;
}

static int64_t release_all(struct hf_core *core, struct hf_now now, struct hf_file *file,
                           uint64_t *seq)
{
    struct hf_itree_node *node = hf_itree_min(&file->locks);
    struct hf_itree_node *next;
    int64_t n = 0;
    bool left = false;

    for (; node; node = next) {
        next = hf_itree_next(node);
        if (release(core, now, hf_container_of(node, struct hf_lock, node), seq) < 0)
            left = true;
        else
            n++;
    }
    return left ? HF_ENOMEM : n;
}

int64_t hf_core_release_file(struct hf_core *core, struct hf_now now, struct hf_bytes fh,
                             uint64_t *seq)
{
    struct hf_file *file = hf_file_find(core, fh);
    int64_t dropped = 0;
    int64_t n;

    *seq = 0;
    if (!file)
        return HF_ENOENT;
    file->refs++;
    hf_list_foreach_safe (node, &file->crowd->waiters) {
        hf_waiter_remove(core, hf_list_entry(node, struct hf_waiter, in_file));
        dropped++;
    }
    hf_list_foreach_safe (node, &file->crowd->shares) {
        hf_share_drop(core, hf_list_entry(node, struct hf_share, in_file));
        dropped++;
    }
    n = release_all(core, now, file, seq);
    hf_file_unref(core, file);
    return finish(core, now, n < 0 ? n : n + dropped, seq);
}
