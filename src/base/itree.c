#include "base/itree.h"

#include <stddef.h>

#include "base/assert.h"

static struct hf_itree_node *left_of(const struct hf_itree_node *node)
{
    return hf_at(node->left);
}

static struct hf_itree_node *right_of(const struct hf_itree_node *node)
{
    return hf_at(node->right);
}

static struct hf_itree_node *parent_of(const struct hf_itree_node *node)
{
    return hf_at(node->parent);
}

static bool is_left_child(const struct hf_itree_node *node)
{
    const struct hf_itree_node *parent = parent_of(node);

    return parent && left_of(parent) == node;
}

static uint64_t greatest(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Returns the greatest end of a range in the node and its left subtree. */
static uint64_t max_with_left(const struct hf_itree_node *node)
{
    return node->left ? greatest(node->left_max, node->last) : node->last;
}

/* Returns the greatest end of a range in a whole subtree, which is found along its right edge. */
static uint64_t max_of(const struct hf_itree_node *node)
{
    uint64_t max = 0;

    for (; node; node = right_of(node))
        max = greatest(max, max_with_left(node));
    return max;
}

/* True if all nodes of the subtree, which may be empty, have this tag. */
static bool has_only(const struct hf_itree_node *node, const void *tag)
{
    return !node || (node->uniform && node->tag == tag);
}

/* True if all nodes of the subtree have one tag, according to the `uniform` of its children. */
static bool is_uniform(const struct hf_itree_node *node)
{
    return has_only(left_of(node), node->tag) && has_only(right_of(node), node->tag);
}

/* Replaces node by `with`, which may be NULL, in node's parent. */
static void replace_child(struct hf_itree *tree, struct hf_itree_node *parent,
                          const struct hf_itree_node *node, struct hf_itree_node *with)
{
    if (!parent)
        tree->root = hf_ref_to(with);
    else if (left_of(parent) == node)
        parent->left = hf_ref_to(with);
    else
        parent->right = hf_ref_to(with);
    if (with)
        with->parent = hf_ref_to(parent);
}

static int8_t greater(int8_t a, int8_t b)
{
    return (int8_t)(a > b ? a : b);
}

static int8_t lesser(int8_t a, int8_t b)
{
    return (int8_t)(a < b ? a : b);
}

/* Corrects `uniform` after a rotation has put y in the place of its new child x. */
static void rotate_uniform(struct hf_itree_node *x, struct hf_itree_node *y)
{
    y->uniform = x->uniform;
    if (!x->uniform)
        x->uniform = is_uniform(x);
}

/* Rotates a subtree: the child moves up and the node moves down on one side. The formulas for the
 * new balances hold for any heights, so they cover single and double rotations alike. */
static struct hf_itree_node *rotate_left(struct hf_itree *tree, struct hf_itree_node *x)
{
    struct hf_itree_node *y = right_of(x);
    struct hf_itree_node *middle = left_of(y);

    replace_child(tree, parent_of(x), x, y);
    x->right = y->left;
    if (middle)
        middle->parent = hf_ref_to(x);
    y->left_max = greatest(max_with_left(x), middle ? y->left_max : 0);
    y->left = hf_ref_to(x);
    x->parent = hf_ref_to(y);
    x->balance = (int8_t)(x->balance - 1 - greater(y->balance, 0));
    y->balance = (int8_t)(y->balance - 1 + lesser(x->balance, 0));
    rotate_uniform(x, y);
    return y;
}

static struct hf_itree_node *rotate_right(struct hf_itree *tree, struct hf_itree_node *x)
{
    struct hf_itree_node *y = left_of(x);
    struct hf_itree_node *middle = right_of(y);

    replace_child(tree, parent_of(x), x, y);
    x->left = y->right;
    if (middle)
        middle->parent = hf_ref_to(x);
    x->left_max = max_of(middle);
    y->right = hf_ref_to(x);
    x->parent = hf_ref_to(y);
    x->balance = (int8_t)(x->balance + 1 - lesser(y->balance, 0));
    y->balance = (int8_t)(y->balance + 1 + greater(x->balance, 0));
    rotate_uniform(x, y);
    return y;
}

/*
 * Rebalances a subtree in which one side is two levels deeper than the other; returns its new root.
 */
static struct hf_itree_node *rebalance(struct hf_itree *tree, struct hf_itree_node *node)
{
    if (node->balance > 0) {
        if (right_of(node)->balance < 0)
            rotate_right(tree, right_of(node));
        return rotate_left(tree, node);
    }
    if (left_of(node)->balance > 0)
        rotate_left(tree, left_of(node));
    return rotate_right(tree, node);
}

void hf_itree_insert(struct hf_itree *tree, struct hf_itree_node *node)
{
    hf_ref *link = &tree->root;
    struct hf_itree_node *parent = NULL;

    HF_ASSERT(node->first <= node->last);
    while (*link) {
        parent = hf_at(*link);
        if (parent->tag != node->tag)
            parent->uniform = false;
        if (node->first < parent->first) {
            parent->left_max = parent->left ? greatest(parent->left_max, node->last) : node->last;
            link = &parent->left;
        } else {
            link = &parent->right;
        }
    }
    node->left = node->right = 0;
    node->parent = hf_ref_to(parent);
    node->balance = 0;
    node->uniform = true;
    *link = hf_ref_to(node);

    for (; parent; node = parent, parent = parent_of(parent)) {
        parent->balance = (int8_t)(parent->balance + (node == right_of(parent) ? 1 : -1));
        if (parent->balance == 0)
            return; /* the subtree's height is unchanged, so no ancestor needs rebalancing */
        if (parent->balance < -1 || parent->balance > 1) {
            rebalance(tree, parent);
            return;
        }
    }
}

/* Updates left_max from node up to the ancestor `until`, after a range that ended at `lost` was
 * removed from the left or right subtree of node. */
static void fix_max(struct hf_itree_node *node, bool left, const struct hf_itree_node *until,
                    uint64_t lost)
{
    for (; node != until; node = parent_of(node)) {
        HF_ASSERT(node); /* cannot fail: `until` is an ancestor of node */
        if ((left ? node->left_max : node->last) > lost)
            /* Another range has the greatest end here, and so in all ancestors: no left_max changes
             * above. */
            return;
        if (left)
            node->left_max = max_of(left_of(node));
        left = is_left_child(node);
    }
}

/* Updates `uniform` from node up to the ancestor `until`, after a range was removed from the
 * subtree of node. */
static void fix_uniform(struct hf_itree_node *node, const struct hf_itree_node *until)
{
    for (; node != until; node = parent_of(node)) {
        bool uniform = is_uniform(node);
        if (uniform == node->uniform)
            return; /* `uniform` is unchanged here, so it is unchanged in all ancestors */
        node->uniform = uniform;
    }
}

/* Rebalances the ancestors after the subtree on one side of node has become one level lower. */
static void retrace_removal(struct hf_itree *tree, struct hf_itree_node *node, bool left)
{
    while (node) {
        node->balance = (int8_t)(node->balance + (left ? 1 : -1));
        if (node->balance == 1 || node->balance == -1)
            return; /* the subtree's height is unchanged, so no ancestor needs rebalancing */
        if (node->balance != 0) {
            node = rebalance(tree, node);
            if (node->balance != 0)
                return;
        }
        left = is_left_child(node);
        node = parent_of(node);
    }
}

/* Removes a node with two children: its successor in order, which has no left child, takes its
 * place. */
static void remove_inner(struct hf_itree *tree, struct hf_itree_node *node)
{
    struct hf_itree_node *heir = right_of(node);
    struct hf_itree_node *low; /* the lowest node in which a subtree became lower */
    bool left;

    while (heir->left)
        heir = left_of(heir);
    left = heir != right_of(node);
    low = left ? parent_of(heir) : heir;
    if (left) {
        replace_child(tree, low, heir, right_of(heir));
        heir->right = node->right;
        right_of(heir)->parent = hf_ref_to(heir);
    }
    heir->left = node->left;
    left_of(heir)->parent = hf_ref_to(heir);
    heir->left_max = node->left_max;
    heir->balance = node->balance;
    heir->uniform = node->uniform;
    replace_child(tree, parent_of(node), node, heir);

    if (left) {
        fix_max(low, true, heir, heir->last);
        fix_uniform(low, heir);
    }
    fix_uniform(heir, NULL);
    fix_max(parent_of(heir), is_left_child(heir), NULL, node->last);
    retrace_removal(tree, low, left);
}

void hf_itree_remove(struct hf_itree *tree, struct hf_itree_node *node)
{
    struct hf_itree_node *parent = parent_of(node);
    bool left = is_left_child(node);

    if (node->left && node->right) {
        remove_inner(tree, node);
        return;
    }
    replace_child(tree, parent, node, hf_at(node->left ? node->left : node->right));
    fix_max(parent, left, NULL, node->last);
    fix_uniform(parent, NULL);
    retrace_removal(tree, parent, left);
}

/* Returns the first ancestor that comes after the node in the tree's order, or NULL. */
static struct hf_itree_node *next_ancestor(const struct hf_itree_node *node)
{
    struct hf_itree_node *parent = parent_of(node);

    while (parent && right_of(parent) == node) {
        node = parent;
        parent = parent_of(node);
    }
    return parent;
}

static struct hf_itree_node *leftmost(struct hf_itree_node *node)
{
    while (node && node->left)
        node = left_of(node);
    return node;
}

struct hf_itree_node *hf_itree_min(const struct hf_itree *tree)
{
    return leftmost(hf_at(tree->root));
}

struct hf_itree_node *hf_itree_next(const struct hf_itree_node *node)
{
    if (node->right)
        return leftmost(right_of(node));
    return next_ancestor(node);
}

/*
 * Finds the first range in the subtree that overlaps [first, last]. If left_max >= first, going
 * left is correct. Some range on the left ends at or after first. If it begins at or before last,
 * it overlaps; if it begins after last, so does everything to its right, and the right side has no
 * result.
 */
static struct hf_itree_node *overlap_in(struct hf_itree_node *node, uint64_t first, uint64_t last)
{
    while (node) {
        if (node->left && node->left_max >= first)
            node = left_of(node);
        else if (node->first > last)
            return NULL;
        else if (node->last >= first)
            return node;
        else
            node = right_of(node);
    }
    return NULL;
}

struct hf_itree_node *hf_itree_overlap(const struct hf_itree *tree, uint64_t first, uint64_t last)
{
    return overlap_in(hf_at(tree->root), first, last);
}

struct hf_itree_node *hf_itree_overlap_next(const struct hf_itree_node *node, uint64_t first,
                                            uint64_t last)
{
    for (;;) {
        struct hf_itree_node *found = overlap_in(right_of(node), first, last);

        if (found)
            return found;
        node = next_ancestor(node);
        if (!node || node->first > last)
            return NULL;
        if (node->last >= first)
            return (struct hf_itree_node *)(uintptr_t)node;
    }
}

/* Returns the first node of the subtree whose tag differs; there must be one. */
static struct hf_itree_node *other_in(struct hf_itree_node *node, const void *tag)
{
    for (;;) {
        if (!has_only(left_of(node), tag))
            node = left_of(node);
        else if (node->tag != tag)
            return node;
        else
            node = right_of(node);
    }
}

/* Returns the next node, in the tree's order, whose tag differs. */
static struct hf_itree_node *next_other(struct hf_itree_node *node, const void *tag)
{
    for (;;) {
        if (!has_only(right_of(node), tag))
            return other_in(right_of(node), tag);
        node = next_ancestor(node);
        if (!node || node->tag != tag)
            return node;
    }
}

/*
 * Skips ranges with the tag. Of those that begin before first, only one can reach first, because
 * ranges of one tag do not overlap each other. All ranges that begin between first and last overlap
 * [first, last], so from first on only the tags matter.
 */
static struct hf_itree_node *skip_tag(struct hf_itree_node *node, uint64_t first, uint64_t last,
                                      const void *tag)
{
    while (node && node->tag == tag)
        node =
            node->first < first ? hf_itree_overlap_next(node, first, last) : next_other(node, tag);
    return node && node->first <= last ? node : NULL;
}

struct hf_itree_node *hf_itree_overlap_other(const struct hf_itree *tree, uint64_t first,
                                             uint64_t last, const void *tag)
{
    return skip_tag(hf_itree_overlap(tree, first, last), first, last, tag);
}

struct hf_itree_node *hf_itree_overlap_other_next(const struct hf_itree_node *node, uint64_t first,
                                                  uint64_t last, const void *tag)
{
    return skip_tag(hf_itree_overlap_next(node, first, last), first, last, tag);
}

static int check_subtree(const struct hf_itree_node *node, uint64_t *count)
{
    const struct hf_itree_node *before, *after;
    int left, right;

    if (!node)
        return 0;
    before = left_of(node);
    after = right_of(node);
    HF_ASSERT(!before || (parent_of(before) == node && before->first <= node->first));
    HF_ASSERT(!after || (parent_of(after) == node && after->first >= node->first));
    HF_ASSERT(!before || node->left_max == max_of(before));
    HF_ASSERT(node->uniform == is_uniform(node));
    left = check_subtree(before, count);
    right = check_subtree(after, count);
    HF_ASSERT(right - left == node->balance);
    HF_ASSERT(node->balance >= -1 && node->balance <= 1);
    ++*count;
    return 1 + (left > right ? left : right);
}

uint64_t hf_itree_check(const struct hf_itree *tree)
{
    uint64_t count = 0;

    const struct hf_itree_node *root = hf_at(tree->root);

    HF_ASSERT(!root || !root->parent);
    check_subtree(root, &count);
    return count;
}
