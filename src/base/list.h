/*
 * Intrusive, circular, doubly linked list. A node is part of the object that it links, so adding
 * and removing cannot fail; the list does not own its nodes. A removed node is linked to itself, by
 * which hf_list_linked() recognises it.
 */
#ifndef HF_BASE_LIST_H
#define HF_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct hf_list {
    struct hf_list *prev;
    struct hf_list *next;
};

#define hf_container_of(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

static inline void hf_list_init(struct hf_list *list)
{
    list->prev = list;
    list->next = list;
}

static inline bool hf_list_empty(const struct hf_list *list)
{
    return list->next == list;
}

static inline bool hf_list_linked(const struct hf_list *node)
{
    return node->next != node;
}

/* Inserts node after pos; if pos is the head of the list, node becomes the first node. */
static inline void hf_list_add_after(struct hf_list *pos, struct hf_list *node)
{
    node->prev = pos;
    node->next = pos->next;
    pos->next->prev = node;
    pos->next = node;
}

static inline void hf_list_add_head(struct hf_list *list, struct hf_list *node)
{
    hf_list_add_after(list, node);
}

static inline void hf_list_add_tail(struct hf_list *list, struct hf_list *node)
{
    hf_list_add_after(list->prev, node);
}

static inline void hf_list_remove(struct hf_list *node)
{
    node->prev->next = node->next;
    node->next->prev = node->prev;
    hf_list_init(node);
}

/* Moves all nodes of the list `from` to the end of the list `to`, which leaves `from` empty. */
static inline void hf_list_splice_tail(struct hf_list *to, struct hf_list *from)
{
    if (hf_list_empty(from))
        return;
    from->next->prev = to->prev;
    to->prev->next = from->next;
    from->prev->next = to;
    to->prev = from->prev;
    hf_list_init(from);
}

#define hf_list_entry(node, type, member) hf_container_of(node, type, member)

#define hf_list_first(list, type, member) \
    (hf_list_empty(list) ? NULL : hf_list_entry((list)->next, type, member))

/*
 * Iterates over a list. The loop body must not remove the current node; the _safe form allows that.
 */
#define hf_list_foreach(node, list) \
    for (struct hf_list * (node) = (list)->next; (node) != (list); (node) = (node)->next)

#define hf_list_foreach_safe(node, list)                                                        \
    for (struct hf_list * (node) = (list)->next, *node##_next = (node)->next; (node) != (list); \
         (node) = node##_next, node##_next = (node)->next)

#endif
