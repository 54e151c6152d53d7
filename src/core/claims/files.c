/*
 * The files that have claims. A file gets claims before a lock on it is granted or loaded, and
 * keeps them as long as it has a lock, a claim, a wait or a question to the kernel.
 */
#include "core/claims/private.h"
#include "core/common/range.h"
#include "core/durable/durable.h"
#include "core/internal.h"
#include "core/table/table.h"

static uint64_t hash_of(const struct hf_file *file)
{
    return ((uintptr_t)file >> 4) * UINT64_C(0x9e3779b97f4a7c15);
}

static bool matches(const struct hf_map_node *node, const void *key)
{
    return hf_container_of(node, struct hf_claim_file, node)->file == key;
}

struct hf_claim_file *hf_claim_file_find(const struct hf_core *core, const struct hf_file *file)
{
    struct hf_map_node *node = hf_map_find(&core->claims->files, hash_of(file), matches, file);

    return node ? hf_container_of(node, struct hf_claim_file, node) : NULL;
}

struct hf_claim_file *hf_claim_file_get(struct hf_core *core, struct hf_file *file)
{
    struct hf_claim_file *cf = hf_claim_file_find(core, file);

    if (cf)
        return cf;
    cf = hf_slab_take(&core->claims->file_slab);
    if (!cf)
        return NULL;
    *cf = (struct hf_claim_file){.id = hf_core_new_id(core), .file = file};
    hf_list_init(&cf->waits);
    hf_list_init(&cf->due);
    hf_list_init(&cf->in_flight);
    hf_list_init(&cf->decided);
    hf_list_init(&cf->unreleased);
    hf_list_init(&cf->later_link);
    hf_list_init(&cf->full);
    hf_map_insert(&core->claims->files, &cf->node, hash_of(file));
    file->refs++;
    return cf;
}

static void forget_asks(struct hf_core *core, struct hf_claim_file *cf)
{
    hf_asks_rest(core, &cf->next);
    hf_asks_rest(core, &cf->asks);
    hf_asks_rest(core, &cf->answers);
}

static void del(struct hf_core *core, struct hf_claim_file *cf)
{
    hf_list_remove(&cf->due);
    hf_list_remove(&cf->in_flight);
    hf_list_remove(&cf->decided);
    hf_list_remove(&cf->unreleased);
    hf_list_remove(&cf->later_link);
    hf_list_remove(&cf->full);
    hf_map_remove(&core->claims->files, &cf->node);
    forget_asks(core, cf);
    hf_sum_free(&cf->held, core->alloc);
    hf_sum_free(&cf->unmirrored, core->alloc);
    hf_file_unref(core, cf->file);
    hf_slab_give(&core->claims->file_slab, cf);
}

bool hf_claim_file_has_locks(const struct hf_claim_file *cf)
{
    return cf->file->n_locks > 0 || cf->leaving[0].root || cf->leaving[1].root;
}

void hf_claim_file_settle(struct hf_core *core, struct hf_claim_file *cf)
{
    bool has_locks = hf_claim_file_has_locks(cf);

    if (!has_locks)
        (void)hf_claim_file_unmirrored(core, cf, 0, UINT64_MAX, HF_CLAIM_NONE);
    if (cf->round != 0 || cf->next.n > 0 || cf->asks.n > 0 || cf->answers.n > 0)
        return;
    if (has_locks || cf->held.n > 0 || cf->dirty.any || !hf_list_empty(&cf->waits) ||
        hf_list_linked(&cf->decided)) {
        forget_asks(core, cf); /* most files with locks ask the kernel nothing for a long time */
        return;
    }
    hf_claim_file_correcting(core, cf, false);
    del(core, cf);
}

void hf_claim_file_due(struct hf_core *core, struct hf_claim_file *cf)
{
    if (!hf_list_linked(&cf->due))
        hf_list_add_tail(&core->claims->due, &cf->due);
}

void hf_claim_file_dirty(struct hf_core *core, struct hf_claim_file *cf, uint64_t first,
                         uint64_t last)
{
    hf_stretch_add(&cf->dirty, first, last);
    hf_claim_file_due(core, cf);
}

void hf_claim_file_correcting(struct hf_core *core, struct hf_claim_file *cf, bool correcting)
{
    core->claims->n_correcting += (uint64_t)correcting - cf->correcting;
    if (cf->correcting && !correcting)
        hf_file_wake(core, cf->file, 0, UINT64_MAX); /* waiters for the file can be granted now */
    cf->correcting = correcting;
}

void hf_claim_file_coarse(struct hf_core *core, struct hf_claim_file *cf, uint64_t first,
                          uint64_t last)
{
    core->claims->n_coarse += !cf->coarse.any;
    hf_stretch_add(&cf->coarse, first, last);
}

void hf_claim_file_refine(struct hf_core *core, struct hf_claim_file *cf)
{
    if (!cf->coarse.any)
        return;
    hf_claim_file_dirty(core, cf, cf->coarse.first, cf->coarse.last);
    cf->coarse.any = false;
    core->claims->n_coarse--;
}

int hf_claim_file_raise(struct hf_core *core, struct hf_claim_file *cf, uint64_t first,
                        uint64_t last, enum hf_claim_mode mode)
{
    uint32_t before = cf->held.n;
    int rv = hf_sum_raise(&cf->held, core->alloc, first, last, mode);

    core->claims->n_ranges += (uint64_t)cf->held.n - before;
    return rv;
}

void hf_claim_file_full(struct hf_core *core, struct hf_claim_file *cf)
{
    if (!hf_list_linked(&cf->full))
        hf_list_add_tail(&core->claims->full, &cf->full);
}

/* Asks for a file that the keeper had no room for, now that it closes another one. */
static void use_room(struct hf_core *core)
{
    struct hf_claim_file *cf;

    while ((cf = hf_list_first(&core->claims->full, struct hf_claim_file, full)) != NULL) {
        hf_list_remove(&cf->full);
        if (cf->unmirrored.n == 0)
            continue; /* its locks have gone meanwhile */
        (void)hf_claim_file_unmirrored(core, cf, 0, UINT64_MAX, HF_CLAIM_NONE);
        hf_claim_file_dirty(core, cf, 0, UINT64_MAX);
        return;
    }
}

int hf_claim_file_set(struct hf_core *core, struct hf_claim_file *cf, uint64_t first, uint64_t last,
                      enum hf_claim_mode mode)
{
    uint32_t before = cf->held.n;
    int rv = hf_sum_set(&cf->held, core->alloc, first, last, mode);

    core->claims->n_ranges += (uint64_t)cf->held.n - before;
    if (before > 0 && cf->held.n == 0)
        use_room(core);
    return rv;
}

/* Notes a range that the kernel cannot hold. A file may have config.claim_ranges of these; beyond
 * that the whole file counts as one such range. */
int hf_claim_file_unmirrored(struct hf_core *core, struct hf_claim_file *cf, uint64_t first,
                             uint64_t last, enum hf_claim_mode mode)
{
    bool any = cf->unmirrored.n > 0;

    if (!any && mode == HF_CLAIM_NONE)
        return 0;
    if (mode == HF_CLAIM_NONE && first == 0 && last == UINT64_MAX)
        cf->unmirrored.n = 0;
    else if (hf_sum_set(&cf->unmirrored, core->alloc, first, last, mode) < 0)
        return HF_ENOMEM;
    if (cf->unmirrored.n > core->config.claim_ranges)
        (void)hf_sum_set(&cf->unmirrored, core->alloc, 0, UINT64_MAX, mode);
    core->claims->n_unmirrored += (uint64_t)(cf->unmirrored.n > 0) - any;
    /* Waiters for the range may not need the kernel now. */
    if (mode != HF_CLAIM_NONE)
        hf_file_wake(core, cf->file, first, last);
    return 0;
}

/* Links the file in the order of batches, so that the first file of the list tells which batches
 * may be answered. */
void hf_claim_file_unreleased(struct hf_core *core, struct hf_claim_file *cf, uint64_t seq)
{
    struct hf_list *place = core->claims->unreleased.prev;

    while (place != &core->claims->unreleased &&
           hf_list_entry(place, struct hf_claim_file, unreleased)->release_seq > seq)
        place = place->prev;
    cf->release_seq = seq;
    hf_list_add_after(place, &cf->unreleased);
}

void hf_claim_file_released(struct hf_claim_file *cf)
{
    hf_list_remove(&cf->unreleased);
}

uint64_t hf_core_released(const struct hf_core *core)
{
    const struct hf_claim_file *cf =
        hf_list_first(&core->claims->unreleased, struct hf_claim_file, unreleased);

    return cf ? cf->release_seq - 1 : core->durable->seq;
}

/* True if the kernel holds every byte of the range in this mode, or has refused to hold it. */
static bool is_settled(const struct hf_claim_file *cf, uint64_t first, uint64_t last,
                       enum hf_claim_mode mode)
{
    uint64_t end, refused_end;

    for (;; first = end + 1) {
        enum hf_claim_mode held = hf_sum_at(&cf->held, first, &end);
        enum hf_claim_mode refused = hf_sum_at(&cf->unmirrored, first, &refused_end);

        if (held < mode && (refused == HF_CLAIM_NONE || refused > mode))
            return false;
        if (refused_end < end)
            end = refused_end;
        if (end >= last)
            return true;
    }
}

bool hf_claim_covers(const struct hf_core *core, const struct hf_file *file, uint64_t first,
                     uint64_t last, bool exclusive)
{
    const struct hf_claim_file *cf = hf_claim_file_find(core, file);
    enum hf_claim_mode mode = exclusive ? HF_CLAIM_EXCLUSIVE : HF_CLAIM_SHARED;

    if (!cf)
        return false;
    return core->config.grant_unmirrored && cf->unmirrored.n > 0
               ? is_settled(cf, first, last, mode)
               : hf_sum_covers(&cf->held, first, last, mode);
}

bool hf_claim_keeps(const struct hf_core *core, const struct hf_file *file,
                    const struct hf_want *want)
{
    const struct hf_claim_file *cf = hf_claim_file_find(core, file);

    return cf && cf->unmirrored.n > 0 && want->owner &&
           is_settled(cf, want->first, want->last,
                      want->exclusive ? HF_CLAIM_EXCLUSIVE : HF_CLAIM_SHARED) &&
           hf_table_covers(core, file, want, false);
}

bool hf_claim_is_ready(const struct hf_core *core, const struct hf_file *file)
{
    const struct hf_claim_file *cf = core->claims->up ? hf_claim_file_find(core, file) : NULL;

    return core->claims->up && !(cf && cf->correcting);
}

bool hf_claim_is_awaited(const struct hf_core *core, const struct hf_file *file)
{
    const struct hf_claim_file *cf = hf_claim_file_find(core, file);

    return !hf_claim_is_ready(core, file) ||
           (cf && (cf->next.n > 0 || hf_list_linked(&cf->in_flight)));
}

bool hf_claims_are_ready(const struct hf_core *core)
{
    return core->claims->up && core->claims->n_correcting == 0;
}

/* ---- changes that the lock table reports ---- */

/* The table calls on_left() when it removes a lock. An undo may bring the lock back, so the kernel
 * must hold its bytes until the removal is final. */
static void on_left(struct hf_core *core, struct hf_lock *lock)
{
    struct hf_claim_file *cf = hf_claim_file_find(core, hf_lock_file(lock));

    HF_ASSERT(cf);
    hf_itree_insert(&cf->leaving[lock->exclusive], &lock->node);
}

static void on_back(struct hf_core *core, struct hf_lock *lock)
{
    struct hf_claim_file *cf = hf_claim_file_find(core, hf_lock_file(lock));

    hf_itree_remove(&cf->leaving[lock->exclusive], &lock->node);
    if (core->claims->up && !hf_claim_covers(core, hf_lock_file(lock), lock->node.first,
                                             lock->node.last, lock->exclusive))
        hf_claim_file_dirty(core, cf, lock->node.first, lock->node.last);
}

static void on_gone(struct hf_core *core, struct hf_lock *lock)
{
    struct hf_claim_file *cf = hf_claim_file_find(core, hf_lock_file(lock));

    hf_itree_remove(&cf->leaving[lock->exclusive], &lock->node);
    if (!core->claims->up) {
        hf_claim_file_settle(core, cf); /* the next keeper is asked about all files anyway */
        return;
    }
    hf_claim_file_dirty(core, cf, lock->node.first, lock->node.last);
    cf->has_released = true;
    cf->dirty_seq = core->durable->seq;
    if (!hf_list_linked(&cf->unreleased))
        hf_claim_file_unreleased(core, cf, cf->dirty_seq);
}

static void on_discarded(struct hf_core *core, struct hf_lock *lock)
{
    struct hf_claim_file *cf = hf_claim_file_find(core, hf_lock_file(lock));

    if (cf && !core->claims->up)
        hf_claim_file_settle(core, cf);
    else if (cf)
        hf_claim_file_dirty(core, cf, lock->node.first, lock->node.last);
}

static const struct hf_table_watch watch = {on_left, on_back, on_gone, on_discarded};

/* ---- what the kernel ought to hold ---- */

/* Returns the lock of either tree that begins first among those that overlap [first, last]; NULL:
 * none overlaps. */
static const struct hf_itree_node *first_of(const struct hf_itree *a, const struct hf_itree *b,
                                            uint64_t first, uint64_t last)
{
    const struct hf_itree_node *one = hf_itree_overlap(a, first, last);
    const struct hf_itree_node *two = hf_itree_overlap(b, first, last);

    if (!one || !two)
        return one ? one : two;
    return two->first < one->first ? two : one;
}

enum hf_claim_mode hf_claim_wanted(const struct hf_claim_file *cf, uint64_t byte, uint64_t last,
                                   uint64_t *end)
{
    static const enum hf_claim_mode modes[] = {HF_CLAIM_SHARED, HF_CLAIM_EXCLUSIVE};
    const struct hf_itree *const held[] = {&cf->file->shared, &cf->file->exclusive};

    for (int exclusive = 1; exclusive >= 0; exclusive--) {
        const struct hf_itree_node *node =
            first_of(held[exclusive], &cf->leaving[exclusive], byte, last);

        if (node && node->first <= byte) {
            *end = node->last < last ? node->last : last;
            return modes[exclusive];
        }
        if (node)
            last = node->first - 1;
    }
    *end = last;
    return HF_CLAIM_NONE;
}

/* ---- clients that lose everything ---- */

static size_t place_of(const struct hf_core *core, const struct hf_addr *addr)
{
    return hf_hash(&core->config.hash_key, addr->bytes, sizeof(addr->bytes)) % HF_DEPARTURES;
}

void hf_claims_departed(struct hf_core *core, const struct hf_addr *addr)
{
    if (core->config.coherent)
        core->claims->departed[place_of(core, addr)] = core->claims->next_ask++;
}

uint64_t hf_claims_departed_at(const struct hf_core *core, const struct hf_addr *addr)
{
    return core->claims->departed[place_of(core, addr)];
}

/* ---- all files ---- */

int hf_claims_init(struct hf_core *core)
{
    struct hf_claims *claims = core->claims;
    struct hf_list *const lists[] = {&claims->due,        &claims->in_flight,   &claims->decided,
                                     &claims->unreleased, &claims->waits,       &claims->cancels,
                                     &claims->later,      &claims->waits_later, &claims->full};

    for (size_t i = 0; i < HF_COUNT_OF(lists); i++)
        hf_list_init(lists[i]);
    claims->next_ask = 1;
    hf_slab_init(&claims->file_slab, core->alloc, sizeof(struct hf_claim_file));
    hf_slab_init(&claims->wait_slab, core->alloc, sizeof(struct hf_claim_wait));
    if (!core->config.coherent)
        return 0;
    core->table->watch = &watch;
    core->durable->released = hf_core_released;
    if (hf_map_init(&claims->files, core->alloc) < 0 ||
        hf_map_init(&claims->by_wait, core->alloc) < 0)
        return HF_ENOMEM;
    return 0;
}

static bool del_one(struct hf_map_node *node, void *ctx)
{
    struct hf_claim_file *cf = hf_container_of(node, struct hf_claim_file, node);

    hf_claim_waits_lost(ctx, cf);
    del(ctx, cf);
    return true;
}

void hf_claims_free(struct hf_core *core)
{
    if (core->claims->files.now.buckets)
        hf_map_each(&core->claims->files, del_one, core);
    while (core->claims->n_spare > 0)
        hf_free(core->alloc, core->claims->spare[--core->claims->n_spare]);
    hf_map_free(&core->claims->files);
    hf_map_free(&core->claims->by_wait);
    hf_slab_free(&core->claims->file_slab);
    hf_slab_free(&core->claims->wait_slab);
}

int hf_claims_start(struct hf_core *core)
{
    const struct hf_slab *locks = &core->table->lock_slab;

    if (!core->config.coherent)
        return 0;
    for (size_t i = 0; i < hf_slab_slots(locks); i++) {
        const struct hf_lock *lock = hf_slab_at(locks, i);
        if (lock && !hf_claim_file_get(core, hf_lock_file(lock)))
            return HF_ENOMEM;
    }
    return 0;
}
