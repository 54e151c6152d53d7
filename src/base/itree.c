#include "base/itree.h"

#include <stddef.h>

#include "base/assert.h"

static uint64_t greatest(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* The greatest last among the node and its left subtree. */
static uint64_t max_with_left(const struct hf_itree_node *node)
{
    return node->left ? greatest(node->left_max, node->last) : node->last;
}

/* The greatest last of a whole subtree, found along its right edge. */
static uint64_t max_of(const struct hf_itree_node *node)
{
    uint64_t max = 0;

    for (; node; node = node->right)
        max = greatest(max, max_with_left(node));
    return max;
}

/* The tag of all nodes of a subtree, from what its children know; NULL: they differ. */
static const void *sole_of(const struct hf_itree_node *node)
{
    if ((node->left && node->left->sole != node->tag) ||
        (node->right && node->right->sole != node->tag))
        return NULL;
    return node->tag;
}

/* Replaces node by with (which may be NULL) in its parent. */
static void replace_child(struct hf_itree *tree, struct hf_itree_node *parent,
                          const struct hf_itree_node *node, struct hf_itree_node *with)
{
    if (!parent)
        tree->root = with;
    else if (parent->left == node)
        parent->left = with;
    else
        parent->right = with;
    if (with)
        with->parent = parent;
}

static int8_t greater(int8_t a, int8_t b)
{
    return (int8_t)(a > b ? a : b);
}

static int8_t lesser(int8_t a, int8_t b)
{
    return (int8_t)(a < b ? a : b);
}

/* y has taken the place of x, which is now its child. */
static void rotate_sole(struct hf_itree_node *x, struct hf_itree_node *y)
{
    y->sole = x->sole;
    if (!x->sole)
        x->sole = sole_of(x);
}

/*
 * A rotation moves the child up and the node down on one side. The new balances are computed from
 * the heights, which covers single and double rotations alike.
 */
static struct hf_itree_node *rotate_left(struct hf_itree *tree, struct hf_itree_node *x)
{
    struct hf_itree_node *y = x->right;

    replace_child(tree, x->parent, x, y);
    x->right = y->left;
    if (x->right)
        x->right->parent = x;
    y->left_max = greatest(max_with_left(x), x->right ? y->left_max : 0);
    y->left = x;
    x->parent = y;
    x->balance = (int8_t)(x->balance - 1 - greater(y->balance, 0));
    y->balance = (int8_t)(y->balance - 1 + lesser(x->balance, 0));
    rotate_sole(x, y);
    return y;
}

static struct hf_itree_node *rotate_right(struct hf_itree *tree, struct hf_itree_node *x)
{
    struct hf_itree_node *y = x->left;

    replace_child(tree, x->parent, x, y);
    x->left = y->right;
    if (x->left)
        x->left->parent = x;
    x->left_max = max_of(x->left);
    y->right = x;
    x->parent = y;
    x->balance = (int8_t)(x->balance + 1 - lesser(y->balance, 0));
    y->balance = (int8_t)(y->balance + 1 + greater(x->balance, 0));
    rotate_sole(x, y);
    return y;
}

/* Rebalances a subtree that is two levels deeper on one side; returns its new root. */
static struct hf_itree_node *rebalance(struct hf_itree *tree, struct hf_itree_node *node)
{
    if (node->balance > 0) {
        if (node->right->balance < 0)
            rotate_right(tree, node->right);
        return rotate_left(tree, node);
    }
    if (node->left->balance > 0)
        rotate_left(tree, node->left);
    return rotate_right(tree, node);
}

void hf_itree_insert(struct hf_itree *tree, struct hf_itree_node *node)
{
    struct hf_itree_node **link = &tree->root;
    struct hf_itree_node *parent = NULL;

    HF_ASSERT(node->first <= node->last);
    while (*link) {
        parent = *link;
        if (parent->sole != node->tag)
            parent->sole = NULL;
        if (node->first < parent->first) {
            parent->left_max = parent->left ? greatest(parent->left_max, node->last) : node->last;
            link = &parent->left;
        } else {
            link = &parent->right;
        }
    }
    node->left = node->right = NULL;
    node->parent = parent;
    node->balance = 0;
    node->sole = node->tag;
    *link = node;

    for (; parent; node = parent, parent = parent->parent) {
        parent->balance = (int8_t)(parent->balance + (node == parent->right ? 1 : -1));
        if (parent->balance == 0)
            return; /* the height is unchanged, so no ancestor needs rebalancing */
        if (parent->balance < -1 || parent->balance > 1) {
            rebalance(tree, parent);
            return;
        }
    }
}

/*
 * Updates left_max from node up to until, after a range that ended at lost was removed from the
 * left or right subtree of node.
 */
static void fix_max(struct hf_itree_node *node, bool left, const struct hf_itree_node *until,
                    uint64_t lost)
{
    for (; node != until; node = node->parent) {
        HF_ASSERT(node); /* until is an ancestor of node */
        if ((left ? node->left_max : node->last) > lost)
            return; /* another range has the greatest last here, and so in all ancestors */
        if (left)
            node->left_max = max_of(node->left);
        left = node->parent && node->parent->left == node;
    }
}

/* Updates sole from node up to until, after a range was removed from the subtree of node. */
static void fix_sole(struct hf_itree_node *node, const struct hf_itree_node *until)
{
    for (; node != until; node = node->parent) {
        const void *sole = sole_of(node);
        if (sole == node->sole)
            return; /* and so nothing changes for its ancestors */
        node->sole = sole;
    }
}

/* Rebalances upwards after the subtree on one side of node has become one level lower. */
static void retrace_removal(struct hf_itree *tree, struct hf_itree_node *node, bool left)
{
    while (node) {
        node->balance = (int8_t)(node->balance + (left ? 1 : -1));
        if (node->balance == 1 || node->balance == -1)
            return; /* the height is unchanged */
        if (node->balance != 0) {
            node = rebalance(tree, node);
            if (node->balance != 0)
                return;
        }
        left = node->parent && node->parent->left == node;
        node = node->parent;
    }
}

/* Removes a node with two children: its successor, which has no left child, takes its place. */
static void remove_inner(struct hf_itree *tree, struct hf_itree_node *node)
{
    struct hf_itree_node *heir = node->right;
    struct hf_itree_node *low; /* the lowest node whose subtree became lower */
    bool left;

    while (heir->left)
        heir = heir->left;
    left = heir != node->right;
    low = left ? heir->parent : heir;
    if (left) {
        replace_child(tree, heir->parent, heir, heir->right);
        heir->right = node->right;
        heir->right->parent = heir;
    }
    heir->left = node->left;
    heir->left->parent = heir;
    heir->left_max = node->left_max;
    heir->balance = node->balance;
    heir->sole = node->sole;
    replace_child(tree, node->parent, node, heir);

    if (left) {
        fix_max(low, true, heir, heir->last);
        fix_sole(low, heir);
    }
    fix_sole(heir, NULL);
    fix_max(heir->parent, heir->parent && heir->parent->left == heir, NULL, node->last);
    retrace_removal(tree, low, left);
}

void hf_itree_remove(struct hf_itree *tree, struct hf_itree_node *node)
{
    struct hf_itree_node *parent = node->parent;
    bool left = parent && parent->left == node;

    if (node->left && node->right) {
        remove_inner(tree, node);
        return;
    }
    replace_child(tree, parent, node, node->left ? node->left : node->right);
    fix_max(parent, left, NULL, node->last);
    fix_sole(parent, NULL);
    retrace_removal(tree, parent, left);
}

static struct hf_itree_node *leftmost(struct hf_itree_node *node)
{
    while (node && node->left)
        node = node->left;
    return node;
}

struct hf_itree_node *hf_itree_min(const struct hf_itree *tree)
{
    return leftmost(tree->root);
}

struct hf_itree_node *hf_itree_next(const struct hf_itree_node *node)
{
    if (node->right)
        return leftmost(node->right);
    while (node->parent && node->parent->right == node)
        node = node->parent;
    return node->parent;
}

/*
 * Finds the first range in the subtree that overlaps [first, last]. Going left when left_max >=
 * first is correct: the range there that ends at or after first either begins at or before last,
 * and so overlaps; or it begins after last, and then so does everything to its right.
 */
static struct hf_itree_node *overlap_in(struct hf_itree_node *node, uint64_t first, uint64_t last)
{
    while (node) {
        if (node->left && node->left_max >= first)
            node = node->left;
        else if (node->first > last)
            return NULL;
        else if (node->last >= first)
            return node;
        else
            node = node->right;
    }
    return NULL;
}

struct hf_itree_node *hf_itree_overlap(const struct hf_itree *tree, uint64_t first, uint64_t last)
{
    return overlap_in(tree->root, first, last);
}

struct hf_itree_node *hf_itree_overlap_next(const struct hf_itree_node *node, uint64_t first,
                                            uint64_t last)
{
    for (;;) {
        struct hf_itree_node *found = overlap_in(node->right, first, last);
        const struct hf_itree_node *child;

        if (found)
            return found;
        do { /* climb to the first ancestor that comes after node */
            child = node;
            node = node->parent;
        } while (node && node->right == child);
        if (!node || node->first > last)
            return NULL;
        if (node->last >= first)
            return (struct hf_itree_node *)(uintptr_t)node;
    }
}

/* The first node with another tag, in a subtree that has one. */
static struct hf_itree_node *other_in(struct hf_itree_node *node, const void *tag)
{
    for (;;) {
        if (node->left && node->left->sole != tag)
            node = node->left;
        else if (node->tag != tag)
            return node;
        else
            node = node->right;
    }
}

/* The next node, in order, with another tag. */
static struct hf_itree_node *next_other(struct hf_itree_node *node, const void *tag)
{
    for (;;) {
        const struct hf_itree_node *child;

        if (node->right && node->right->sole != tag)
            return other_in(node->right, tag);
        do {
            child = node;
            node = node->parent;
        } while (node && node->right == child);
        if (!node || node->tag != tag)
            return node;
    }
}

/*
 * Of the ranges with the tag that begin before first, only one can reach it, because they do not
 * overlap. All ranges that begin between first and last overlap [first, last], so from there on
 * only the tags matter.
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
    int left, right;

    if (!node)
        return 0;
    HF_ASSERT(!node->left || (node->left->parent == node && node->left->first <= node->first));
    HF_ASSERT(!node->right || (node->right->parent == node && node->right->first >= node->first));
    HF_ASSERT(!node->left || node->left_max == max_of(node->left));
    HF_ASSERT(node->sole == sole_of(node));
    left = check_subtree(node->left, count);
    right = check_subtree(node->right, count);
    HF_ASSERT(right - left == node->balance);
    HF_ASSERT(node->balance >= -1 && node->balance <= 1);
    ++*count;
    return 1 + (left > right ? left : right);
}

uint64_t hf_itree_check(const struct hf_itree *tree)
{
    uint64_t count = 0;

    HF_ASSERT(!tree->root || !tree->root->parent);
    check_subtree(tree->root, &count);
    return count;
}
