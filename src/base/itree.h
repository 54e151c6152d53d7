/* Intrusive interval tree: ranges of 64-bit numbers, both ends included, ordered by their first
 * number. Ranges may overlap; equal ranges stay in insertion order. It is an AVL tree in which
 * every node also knows left_max, the greatest end of a range in its left subtree, so that all
 * ranges that overlap a given range are found in O(log n + found). Because this maximum is kept for
 * the left subtree, and not for the whole subtree, a search chooses its direction from the current
 * node alone. In a big tree each visited node is a cache miss, and this halves the number of
 * visited nodes.
 *
 * A node may carry a tag that says which of several parties it belongs to. Every node knows whether
 * all nodes of its subtree have one tag, so a search for ranges with any other tag skips such
 * subtrees. If ranges of one tag do not overlap each other, the first range with another tag is
 * found in O(log n), however many ranges with the skipped tag are in between.
 *
 * With first == last and no tags the tree is an ordered set; the timers use it that way.
 *
 * The tree does not own its nodes, and no operation can fail. A node lives in the arena
 * (base/arena.h), and its first, last and tag must not change while it is in a tree. */
#ifndef HF_BASE_ITREE_H
#define HF_BASE_ITREE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"

struct hf_itree_node {
    uint64_t first, last;
    /* the greatest end of a range in the left subtree; undefined if that subtree is empty */
    uint64_t left_max;
    hf_ref left, right, parent;
    int8_t balance; /* the height of the right subtree minus that of the left */
    bool uniform;   /* all nodes of this subtree have one tag */
    void *tag;
};

struct hf_itree {
    hf_ref root; /* 0: empty */
};

void hf_itree_insert(struct hf_itree *tree, struct hf_itree_node *node);
void hf_itree_remove(struct hf_itree *tree, struct hf_itree_node *node);

/* Iterate over all ranges in the order of their first number; NULL at the end. */
struct hf_itree_node *hf_itree_min(const struct hf_itree *tree);
struct hf_itree_node *hf_itree_next(const struct hf_itree_node *node);

/* Iterate, in order, over the ranges that overlap [first, last]; NULL at the end. */
struct hf_itree_node *hf_itree_overlap(const struct hf_itree *tree, uint64_t first, uint64_t last);
struct hf_itree_node *hf_itree_overlap_next(const struct hf_itree_node *node, uint64_t first,
                                            uint64_t last);

/* Iterate over the ranges that overlap [first, last] and have another tag than this one, which must
 * not be NULL. */
struct hf_itree_node *hf_itree_overlap_other(const struct hf_itree *tree, uint64_t first,
                                             uint64_t last, const void *tag);
struct hf_itree_node *hf_itree_overlap_other_next(const struct hf_itree_node *node, uint64_t first,
                                                  uint64_t last, const void *tag);

/* Panics unless the tree's order, balance, links, maxima and tags are correct; returns the number
 * of its nodes. */
uint64_t hf_itree_check(const struct hf_itree *tree);

#endif
