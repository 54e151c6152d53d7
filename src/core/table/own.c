/*
 * The locks of one owner, ordered by file and first byte. On one file they never overlap, so an
 * owner's locks in a range are found in O(log n), in order, whatever else the owner or the file
 * holds.
 *
 * The order is kept in a treap: a binary tree in which every lock also has a random priority, and
 * no lock has a smaller priority than its children. Its depth is logarithmic as long as the order
 * in which locks come does not depend on their priorities. So that a client cannot arrange that,
 * priorities are keyed hashes of the locks' ids. A treap needs two pointers for each lock, fewer
 * than any balanced tree with links to parents.
 *
 * Most locks are released soon, so putting each into the tree would cost more than it is worth. So
 * the newest locks of an owner are in a ring, the newest first; when the ring is full, its oldest
 * lock moves to the tree. The ring may be empty while the tree is not.
 *
 * Files are ordered by their hash and not by their address, so that runs of the simulator can be
 * repeated.
 */
#include "core/clients/clients.h"
#include "core/internal.h"
#include "core/table/private.h"

enum { FEW = 4, RECENT_MAX = 8 };

/* Compares two files; returns less than, equal to or greater than 0, as memcmp() does. */
static int compare_files(const struct hf_file *a, const struct hf_file *b)
{
    if (a == b)
        return 0;
    if (a->node.hash != b->node.hash)
        return a->node.hash < b->node.hash ? -1 : 1;
    return (uintptr_t)a < (uintptr_t)b ? -1 : 1;
}

static bool is_before(const struct hf_lock *a, const struct hf_lock *b)
{
    int order = compare_files(hf_lock_file(a), hf_lock_file(b));

    return order < 0 || (order == 0 && a->node.first < b->node.first);
}

uint32_t hf_lock_priority(const struct hf_core *core, const struct hf_lock *lock)
{
    return (uint32_t)hf_hash_u64(&core->config.hash_key, lock->id, 1);
}

/* Splits a tree into the locks before `lock` and those after it. */
static void split(hf_ref tree, const struct hf_lock *lock, hf_ref *before, hf_ref *after)
{
    while (tree) {
        struct hf_lock *root = hf_at(tree);

        if (is_before(root, lock)) {
            *before = tree;
            before = &root->own_right;
            tree = root->own_right;
        } else {
            *after = tree;
            after = &root->own_left;
            tree = root->own_left;
        }
    }
    *before = *after = 0;
}

/* Joins two trees at `link`; all locks of the first come before those of the second. */
static void join(const struct hf_core *core, hf_ref *link, hf_ref a, hf_ref b)
{
    while (a && b) {
        struct hf_lock *before = hf_at(a);
        struct hf_lock *after = hf_at(b);

        if (hf_lock_priority(core, before) >= hf_lock_priority(core, after)) {
            *link = a;
            link = &before->own_right;
            a = before->own_right;
        } else {
            *link = b;
            link = &after->own_left;
            b = after->own_left;
        }
    }
    *link = a ? a : b;
}

/* Returns the next link on the way from `link` to the lock's place in its owner's tree. */
static hf_ref *step(const hf_ref *link, const struct hf_lock *lock)
{
    struct hf_lock *at = hf_at_some(*link);

    return is_before(at, lock) ? &at->own_right : &at->own_left;
}

static void tree_insert(struct hf_core *core, struct hf_lock *lock)
{
    uint32_t priority = hf_lock_priority(core, lock);
    hf_ref *link = &hf_lock_owner(lock)->locks;

    while (*link && hf_lock_priority(core, hf_at(*link)) >= priority)
        link = step(link, lock);
    split(*link, lock, &lock->own_left, &lock->own_right);
    *link = hf_ref_to(lock);
}

static void tree_remove(const struct hf_core *core, struct hf_lock *lock)
{
    hf_ref *link = &hf_lock_owner(lock)->locks;

    while (hf_at_some(*link) != lock)
        link = step(link, lock);
    join(core, link, lock->own_left, lock->own_right);
}

static struct hf_lock *newer_of(const struct hf_lock *lock)
{
    return hf_at_some(lock->own_left);
}

static struct hf_lock *older_of(const struct hf_lock *lock)
{
    return hf_at_some(lock->own_right);
}

/* Inserts the lock into the ring between the newest and the oldest, and makes it the newest. */
static void ring_insert(struct hf_lock *lock)
{
    struct hf_owner *owner = hf_lock_owner(lock);
    struct hf_lock *newest = owner->recent ? hf_at(owner->recent) : lock;
    struct hf_lock *oldest = owner->recent ? newer_of(newest) : lock;

    lock->own_right = hf_ref_to(newest);
    lock->own_left = hf_ref_to(oldest);
    oldest->own_right = newest->own_left = hf_ref_to(lock);
    owner->recent = hf_ref_to(lock);
    owner->n_recent++;
    lock->recent = true;
}

static void ring_remove(struct hf_lock *lock)
{
    struct hf_owner *owner = hf_lock_owner(lock);

    newer_of(lock)->own_right = lock->own_right;
    older_of(lock)->own_left = lock->own_left;
    owner->n_recent--;
    if (hf_at_some(owner->recent) == lock)
        owner->recent = owner->n_recent > 0 ? lock->own_right : 0;
    lock->recent = false;
}

void hf_own_insert(struct hf_core *core, struct hf_lock *lock)
{
    struct hf_owner *owner = hf_lock_owner(lock);

    if (owner->n_recent == RECENT_MAX) {
        struct hf_lock *oldest = newer_of(hf_at_some(owner->recent));
        ring_remove(oldest);
        tree_insert(core, oldest);
    }
    ring_insert(lock);
}

void hf_own_remove(const struct hf_core *core, struct hf_lock *lock)
{
    if (lock->recent)
        ring_remove(lock);
    else
        tree_remove(core, lock);
}

/* Returns the first of the owner's locks on the file, among those in the tree, that ends at or
 * after this byte; NULL: there is none. */
static struct hf_lock *find_in_owner_tree(const struct hf_file *file, const struct hf_owner *owner,
                                          uint64_t first)
{
    struct hf_lock *lock = hf_at(owner->locks);
    struct hf_lock *best = NULL;

    while (lock) {
        int order = compare_files(hf_lock_file(lock), file);

        if (order > 0 || (order == 0 && lock->node.last >= first)) {
            if (order == 0)
                best = lock;
            lock = hf_at(lock->own_left);
        } else {
            lock = hf_at(lock->own_right);
        }
    }
    return best;
}

/* Returns the first of the owner's locks on the file, among those in the ring, that ends at or
 * after this byte; NULL: there is none. */
static struct hf_lock *find_in_ring(const struct hf_file *file, const struct hf_owner *owner,
                                    uint64_t first)
{
    struct hf_lock *lock = hf_at(owner->recent);
    struct hf_lock *best = NULL;

    for (unsigned n = 0; n < owner->n_recent; n++, lock = older_of(lock)) {
        if (hf_lock_file(lock) == file && lock->node.last >= first &&
            (!best || lock->node.first < best->node.first))
            best = lock;
    }
    return best;
}

/* Returns the first of the owner's locks on the file, in ring and tree, that ends at or after this
 * byte; NULL: there is none. */
static struct hf_lock *find_from(const struct hf_core *core, const struct hf_file *file,
                                 const struct hf_owner *owner, uint64_t first)
{
    struct hf_lock *recent = find_in_ring(file, owner, first);
    struct hf_lock *other = find_in_owner_tree(file, owner, first);

    core->table->work += owner->n_recent;
    if (!recent || (other && other->node.first < recent->node.first))
        return other;
    return recent;
}

/* Finds the owner's first lock in the range in one of the file's trees, or NULL. Returns false if
 * it gave up, because locks of other owners come first and are more than a few. */
static bool find_in_tree(const struct hf_itree *tree, const struct hf_owner *owner, uint64_t first,
                         uint64_t last, struct hf_lock **out)
{
    struct hf_itree_node *node = hf_itree_overlap(tree, first, last);

    for (int n = 0; node && node->tag != owner; n++) {
        if (n == FEW)
            return false;
        node = hf_itree_overlap_next(node, first, last);
    }
    *out = node ? hf_container_of(node, struct hf_lock, node) : NULL;
    return true;
}

/*
 * Looks for the owner's locks in the file's trees. In a range where others have few locks this is
 * quicker than the owner's own tree, because the request has just searched the file's trees for
 * conflicts: they are in the processor's cache.
 */
static bool find_among_few(const struct hf_file *file, const struct hf_owner *owner, uint64_t first,
                           uint64_t last, struct hf_lock **out)
{
    struct hf_lock *shared;

    if (!find_in_tree(&file->exclusive, owner, first, last, out) ||
        !find_in_tree(&file->shared, owner, first, last, &shared))
        return false;
    if (!*out || (shared && shared->node.first < (*out)->node.first))
        *out = shared;
    return true;
}

struct hf_lock *hf_table_own(const struct hf_core *core, const struct hf_file *file,
                             const struct hf_owner *owner, uint64_t first, uint64_t last,
                             const struct hf_lock *after)
{
    struct hf_lock *lock;

    core->table->work++;
    if (!hf_owner_has_locks(owner) || (after && after->node.last >= last))
        return NULL;
    if (after && after->node.last >= first)
        first = after->node.last + 1;
    if (find_among_few(file, owner, first, last, &lock))
        return lock;
    lock = find_from(core, file, owner, first);
    return lock && lock->node.first <= last ? lock : NULL;
}

static struct hf_lock *first_in_tree(const struct hf_owner *owner)
{
    struct hf_lock *lock = hf_at(owner->locks);

    while (lock && lock->own_left)
        lock = hf_at(lock->own_left);
    return lock;
}

static struct hf_lock *next_in_tree(const struct hf_lock *after)
{
    struct hf_lock *lock = hf_at(hf_lock_owner(after)->locks);
    struct hf_lock *best = NULL;

    while (lock) {
        if (is_before(after, lock)) {
            best = lock;
            lock = hf_at(lock->own_left);
        } else {
            lock = hf_at(lock->own_right);
        }
    }
    return best;
}

/* Returns the owner's first lock in a walk: locks in the ring come before those in the tree. */
static struct hf_lock *first_of(const struct hf_owner *owner)
{
    return owner->recent ? hf_at(owner->recent) : first_in_tree(owner);
}

static struct hf_lock *next_of(const struct hf_lock *after)
{
    if (!after->recent)
        return next_in_tree(after);
    return after->own_right != hf_lock_owner(after)->recent ? older_of(after)
                                                            : first_in_tree(hf_lock_owner(after));
}

struct hf_lock *hf_owner_next_lock(const struct hf_core *core, const struct hf_owner *owner,
                                   const struct hf_lock *after)
{
    core->table->work++;
    return after ? next_of(after) : first_of(owner);
}

/* Returns the next owner in a walk over a client's owners: first those that a release has not
 * looked at yet, then the others. */
static const struct hf_reflist *next_owner(const struct hf_client *client,
                                           const struct hf_reflist *link)
{
    link = hf_reflist_next(link);
    return link == &client->losing.owners ? hf_reflist_next(&client->owners) : link;
}

struct hf_lock *hf_client_next_lock(const struct hf_core *core, const struct hf_client *client,
                                    const struct hf_lock *after)
{
    struct hf_lock *lock = after ? next_of(after) : NULL;
    const struct hf_reflist *link =
        next_owner(client, after ? &hf_lock_owner(after)->in_client : &client->losing.owners);

    core->table->work++;
    for (; !lock && link != &client->owners; link = next_owner(client, link)) {
        core->table->work++;
        lock = first_of(hf_reflist_entry(link, struct hf_owner, in_client));
    }
    return lock;
}

bool hf_lock_is_releasing(const struct hf_lock *lock)
{
    const struct hf_losing *losing = &hf_lock_owner(lock)->client->losing;

    return lock->life < losing->before_life || (losing->unclaimed && lock->unclaimed);
}

bool hf_share_is_releasing(const struct hf_share *share)
{
    return share->life < share->client->losing.before_life;
}
