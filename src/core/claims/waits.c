/* Waits: each waiter that the kernel refused waits in the kernel's own queue, behind the holder
 * outside NLM. */
#include "core/claims/private.h"
#include "core/common/timer.h"
#include "core/internal.h"
#include "core/table/table.h"

static bool matches(const struct hf_map_node *node, const void *key)
{
    return hf_container_of(node, struct hf_claim_wait, node)->id == *(const uint64_t *)key;
}

static uint64_t hash_of(uint64_t id)
{
    return id * UINT64_C(0x9e3779b97f4a7c15);
}

int hf_claim_wait_begin(struct hf_core *core, struct hf_file *file, const struct hf_want *want,
                        const struct hf_claim_holder *holder, struct hf_claim_wait **of)
{
    struct hf_claim_file *cf = hf_claim_file_get(core, file);
    struct hf_claim_wait *wait = cf ? hf_slab_take(&core->claims->wait_slab) : NULL;

    if (!wait)
        return HF_ENOMEM;
    *wait = (struct hf_claim_wait){
        .id = hf_core_new_id(core) | HF_CLAIM_WAIT_BIT,
        .cf = cf,
        .of = of,
        .first = want->first,
        .last = want->last,
        .mode = want->exclusive ? HF_CLAIM_EXCLUSIVE : HF_CLAIM_SHARED,
    };
    wait->has_holder = holder != NULL;
    if (holder)
        wait->holder = *holder;
    hf_list_init(&wait->link);
    hf_list_add_tail(&cf->waits, &wait->in_file);
    hf_list_add_tail(&core->claims->waits, &wait->link);
    *of = wait;
    return 0;
}

static void del(struct hf_core *core, struct hf_claim_wait *wait)
{
    if (wait->of)
        *wait->of = NULL;
    if (wait->handed_out)
        hf_map_remove(&core->claims->by_wait, &wait->node);
    hf_list_remove(&wait->in_file);
    hf_list_remove(&wait->link);
    hf_slab_give(&core->claims->wait_slab, wait);
}

/*
 * Ends a wait. A wait that the keeper has still gets a result, whether or not it is cancelled in
 * time.
 */
void hf_claim_wait_end(struct hf_core *core, struct hf_claim_wait **of)
{
    struct hf_claim_wait *wait = *of;

    if (!wait)
        return;
    *of = NULL;
    wait->of = NULL;
    if (wait->handed_out) {
        hf_list_remove(&wait->link);
        hf_list_add_tail(&core->claims->cancels, &wait->link);
        return;
    }
    hf_claim_file_due(core, wait->cf); /* without this wait, the file may need no claims any more */
    del(core, wait);
}

static void hand_out(const struct hf_claim_wait *wait, enum hf_claim_kind kind, hf_claim_sink sink,
                     void *ctx)
{
    struct hf_claim claim = {wait->id,    kind,       wait->mode,
                             wait->first, wait->last, hf_file_fh(wait->cf->file)};

    sink(ctx, &claim);
}

void hf_claim_waits_flush(struct hf_core *core, hf_claim_sink sink, void *ctx)
{
    struct hf_claim_wait *wait;

    while ((wait = hf_list_first(&core->claims->waits, struct hf_claim_wait, link)) != NULL) {
        hf_list_remove(&wait->link);
        hf_map_insert(&core->claims->by_wait, &wait->node, hash_of(wait->id));
        wait->handed_out = true;
        hand_out(wait, HF_CLAIM_WAIT, sink, ctx);
    }
    while ((wait = hf_list_first(&core->claims->cancels, struct hf_claim_wait, link)) != NULL) {
        hf_list_remove(&wait->link);
        hand_out(wait, HF_CLAIM_CANCEL, sink, ctx);
    }
}

int hf_claim_wait_result(struct hf_core *core, struct hf_now now,
                         const struct hf_claim_result *result)
{
    struct hf_map_node *node =
        hf_map_find(&core->claims->by_wait, hash_of(result->id), matches, &result->id);
    struct hf_claim_wait *wait = node ? hf_container_of(node, struct hf_claim_wait, node) : NULL;
    struct hf_claim_file *cf = wait ? wait->cf : NULL;
    int rv = 0;

    if (!wait)
        return HF_EINVAL;
    /* The next retry asks for the wait again. */
    if (result->outcome == HF_CLAIM_LATER && wait->of) {
        hf_map_remove(&core->claims->by_wait, &wait->node);
        wait->handed_out = false;
        hf_list_remove(&wait->link);
        hf_list_add_tail(&core->claims->waits_later, &wait->link);
        hf_retry_later(core, now);
        return 0;
    }
    if (result->outcome == HF_CLAIM_DONE) {
        rv = hf_claim_file_raise(core, cf, wait->first, wait->last, wait->mode);
        if (rv == 0)
            rv = hf_sum_reserve(&cf->held, core->alloc, cf->asks.n);
        if (rv == 0)
            hf_claim_file_lower_again(core, cf);
        /* If the waiter has gone, the flush releases its bytes again. */
        hf_claim_file_dirty(core, cf, wait->first, wait->last);
    }
    hf_file_wake(core, cf->file, wait->first, wait->last);
    hf_claim_file_due(core, cf);
    del(core, wait);
    return rv;
}

void hf_claim_waits_lost(struct hf_core *core, struct hf_claim_file *cf)
{
    hf_list_foreach_safe (node, &cf->waits)
        del(core, hf_list_entry(node, struct hf_claim_wait, in_file));
}
