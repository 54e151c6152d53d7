/*
 * Intrusive interval tree: ranges of 64-bit numbers, both ends included, in the order of their
 * first; ranges may overlap, and equal ones stay in the order they came. An AVL tree in which
 * every node also knows the greatest last to its left, so that all ranges overlapping a given one
 * are found in O(log n + found). That it is kept for the left side only, and not for the whole
 * subtree, lets a search decide its way by the node it stands on: in a big tree, where every node
 * looked at is a cache miss, that is half of them.
 *
 * With first == last it is an ordered set, which is how timers use it.
 *
 * The tree owns nothing, and no operation can fail. A node's first and last must not change while
 * it is in a tree.
 */
#ifndef HF_BASE_ITREE_H
#define HF_BASE_ITREE_H

#include <stdbool.h>
#include <stdint.h>

struct hf_itree_node {
    struct hf_itree_node *left, *right, *parent;
    uint64_t first, last;
    uint64_t left_max; /* greatest last in the left subtree; without meaning if there is none */
    int8_t balance;    /* height of the right subtree less that of the left */
};

struct hf_itree {
    struct hf_itree_node *root; /* NULL: empty */
};

void hf_itree_insert(struct hf_itree *tree, struct hf_itree_node *node);
void hf_itree_remove(struct hf_itree *tree, struct hf_itree_node *node);

/* In the order of first; NULL at the end. */
struct hf_itree_node *hf_itree_min(const struct hf_itree *tree);
struct hf_itree_node *hf_itree_next(const struct hf_itree_node *node);

/* The ranges that share a number with [first, last], in order; NULL when there are no more. */
struct hf_itree_node *hf_itree_overlap(const struct hf_itree *tree, uint64_t first, uint64_t last);
struct hf_itree_node *hf_itree_overlap_next(const struct hf_itree_node *node, uint64_t first,
                                            uint64_t last);

/* Panics unless order, balance, links and maxima are right; returns the number of nodes. */
uint64_t hf_itree_check(const struct hf_itree *tree);

#endif
