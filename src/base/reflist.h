/*
 * The list of base/list.h for objects that exist in millions: its links are 32-bit links of the
 * arena (base/arena.h), where both the nodes and the head must live. A node takes 8 bytes instead
 * of 16.
 */
#ifndef HF_BASE_REFLIST_H
#define HF_BASE_REFLIST_H

#include "base/arena.h"
#include "base/list.h"

struct hf_reflist {
    _Alignas(HF_REF_UNIT) hf_ref prev;
    hf_ref next;
};

static inline void hf_reflist_init(struct hf_reflist *list)
{
    list->prev = list->next = hf_ref_to(list);
}

static inline struct hf_reflist *hf_reflist_next(const struct hf_reflist *node)
{
    return hf_at_some(node->next);
}

static inline struct hf_reflist *hf_reflist_prev(const struct hf_reflist *node)
{
    return hf_at_some(node->prev);
}

static inline void hf_reflist_add_tail(struct hf_reflist *list, struct hf_reflist *node)
{
    node->prev = list->prev;
    node->next = hf_ref_to(list);
    list->prev = hf_reflist_prev(node)->next = hf_ref_to(node);
}

static inline void hf_reflist_remove(struct hf_reflist *node)
{
    hf_reflist_prev(node)->next = node->next;
    hf_reflist_next(node)->prev = node->prev;
    hf_reflist_init(node);
}

/* Moves all nodes of the list `from` to the end of the list `to`, which leaves `from` empty. */
static inline void hf_reflist_splice_tail(struct hf_reflist *to, struct hf_reflist *from)
{
    if (hf_reflist_next(from) == from)
        return;
    hf_reflist_next(from)->prev = to->prev;
    hf_reflist_prev(to)->next = from->next;
    hf_reflist_prev(from)->next = hf_ref_to(to);
    to->prev = from->prev;
    hf_reflist_init(from);
}

#define hf_reflist_entry(node, type, member) hf_container_of(node, type, member)

#define hf_reflist_first(list, type, member) \
    (hf_reflist_next(list) == (list) ? NULL : hf_reflist_entry(hf_reflist_next(list), type, member))

#endif
