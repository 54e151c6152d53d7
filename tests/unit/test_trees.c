/* Slab and interval tree: the structures in which each lock is stored. */
#include "unit.h"

#include <string.h>

#include "base/itree.h"
#include "base/slab.h"

struct object {
    uint64_t in_use;
    uint64_t payload[3];
};

/* Given objects taken and given back, slots are reused, never moved, and can be walked. */
static void slab_hands_out_and_takes_back(void **state)
{
    enum { N = 1000 };
    struct faulty_heap heap = {.after = -1};
    struct hf_alloc alloc = faulty_alloc(&heap);
    struct object *objects[N];
    struct hf_slab slab;
    size_t seen = 0;

    (void)state;
    hf_slab_init(&slab, &alloc, sizeof(struct object));
    for (size_t i = 0; i < N; i++) {
        objects[i] = hf_slab_take(&slab);
        *objects[i] = (struct object){.in_use = i + 1};
    }
    assert_int_equal(slab.live, N);
    for (size_t i = 0; i < N; i += 2)
        hf_slab_give(&slab, objects[i]);
    for (size_t i = 0; i < hf_slab_slots(&slab); i++)
        seen += hf_slab_at(&slab, i) != NULL;
    assert_int_equal(seen, N / 2);
    for (size_t i = 0; i < N; i += 2)
        ((struct object *)hf_slab_take(&slab))->in_use = 1;
    assert_int_equal(hf_slab_slots(&slab), N);
    assert_int_equal(slab.live, N);
    hf_slab_free(&slab);
    assert_int_equal(heap.live, 0);
}

/* Given no memory, for the table or for the chunk, the slab says so and stays usable. */
static void slab_survives_lack_of_memory(void **state)
{
    (void)state;
    for (long after = 0; after < 2; after++) {
        struct faulty_heap heap = {.after = after};
        struct hf_alloc alloc = faulty_alloc(&heap);
        struct hf_slab slab;

        hf_slab_init(&slab, &alloc, sizeof(struct object));
        assert_null(hf_slab_take(&slab));
        heap.after = -1;
        assert_non_null(hf_slab_take(&slab));
        hf_slab_free(&slab);
        assert_int_equal(heap.live, 0);
    }
}

enum { NODES = 200 };

/* This must be in a block of the arena, as a tree expects of its nodes. */
struct naive {
    struct hf_itree_node nodes[NODES];
    bool in[NODES];
};
_Static_assert(sizeof(struct naive) <= HF_ARENA_BLOCK, "naive");

static struct naive *take_naive(void)
{
    static char note;
    struct naive *n = hf_arena_take(&note);

    assert_non_null(n);
    memset(n, 0, sizeof(*n));
    return n;
}

static uint64_t random_next(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

static size_t naive_overlaps(const struct naive *n, uint64_t first, uint64_t last)
{
    size_t count = 0;

    for (size_t i = 0; i < NODES; i++)
        count += n->in[i] && n->nodes[i].first <= last && n->nodes[i].last >= first;
    return count;
}

static void compare(const struct hf_itree *tree, const struct naive *n, uint64_t first,
                    uint64_t last)
{
    size_t found = 0;
    uint64_t before = 0;

    for (struct hf_itree_node *i = hf_itree_overlap(tree, first, last); i;
         i = hf_itree_overlap_next(i, first, last)) {
        assert_true(i->first <= last && i->last >= first);
        assert_true(i->first >= before);
        before = i->first;
        found++;
    }
    assert_int_equal(found, naive_overlaps(n, first, last));
}

static size_t walk(const struct hf_itree *tree)
{
    size_t count = 0;

    for (struct hf_itree_node *i = hf_itree_min(tree); i; i = hf_itree_next(i))
        count++;
    return count;
}

/* Given thousands of random insertions and removals, every query agrees with a plain array. */
static void itree_agrees_with_an_array(void **state)
{
    struct naive *n = take_naive();
    struct hf_itree tree = {0};
    uint64_t seed = 88172645463325252;
    size_t count = 0;

    (void)state;
    for (int step = 0; step < 20000; step++) {
        uint64_t r = random_next(&seed);
        size_t i = r % NODES;
        uint64_t first = r >> 20 & 0xff;
        uint64_t last = first + (r >> 40 & 0x1f);

        if (r >> 50 & 1) /* ranges that reach to the very end */
            last = UINT64_MAX;
        if (n->in[i]) {
            hf_itree_remove(&tree, &n->nodes[i]);
            count--;
        } else {
            n->nodes[i].first = first;
            n->nodes[i].last = last;
            hf_itree_insert(&tree, &n->nodes[i]);
            count++;
        }
        n->in[i] = !n->in[i];
        assert_int_equal(hf_itree_check(&tree), count);
        compare(&tree, n, first, last);
    }
    assert_int_equal(walk(&tree), count);
    hf_arena_give(n);
}

static bool overlaps_its_tag(const struct naive *n, const struct hf_itree_node *node)
{
    for (size_t i = 0; i < NODES; i++) {
        const struct hf_itree_node *other = &n->nodes[i];
        if (n->in[i] && other->tag == node->tag && other->first <= node->last &&
            other->last >= node->first)
            return true;
    }
    return false;
}

static void compare_others(const struct hf_itree *tree, const struct naive *n, uint64_t first,
                           uint64_t last, const void *tag)
{
    size_t expected = 0;
    size_t found = 0;

    for (struct hf_itree_node *i = hf_itree_overlap_other(tree, first, last, tag); i;
         i = hf_itree_overlap_other_next(i, first, last, tag)) {
        assert_true(i->first <= last && i->last >= first && i->tag != tag);
        found++;
    }
    for (size_t i = 0; i < NODES; i++)
        expected += n->in[i] && n->nodes[i].tag != tag && n->nodes[i].first <= last &&
                    n->nodes[i].last >= first;
    assert_int_equal(found, expected);
}

/*
 * Given ranges of five tags, where those of one tag do not overlap: a search that skips a tag finds
 * all others. Most ranges have the first tag, so that whole subtrees have it, too.
 */
static void itree_skips_a_tag(void **state)
{
    struct naive *n = take_naive();
    static char tags[5];
    struct hf_itree tree = {0};
    uint64_t seed = 4101842887655102017;

    (void)state;
    for (int step = 0; step < 20000; step++) {
        uint64_t r = random_next(&seed);
        size_t i = r % NODES;
        struct hf_itree_node *node = &n->nodes[i];

        if (n->in[i]) {
            hf_itree_remove(&tree, node);
            n->in[i] = false;
        } else {
            node->first = r >> 20 & 0x1ff;
            node->last = node->first + (r >> 40 & (step % 2 ? 0x3 : 0x3f));
            node->tag = &tags[(r >> 48) % 8 < 5 ? 0 : (r >> 52) % 5];
            if (overlaps_its_tag(n, node))
                continue;
            hf_itree_insert(&tree, node);
            n->in[i] = true;
        }
        hf_itree_check(&tree);
        for (size_t tag = 0; tag < HF_COUNT_OF(tags); tag++)
            compare_others(&tree, n, node->first, node->last + (r >> 58), &tags[tag]);
        compare_others(&tree, n, 0, UINT64_MAX, &tags[0]);
    }
    hf_arena_give(n);
}

/* Given ranges that begin at the same place, they come out in the order they went in. */
static void itree_keeps_the_order_of_equals(void **state)
{
    struct naive *naive = take_naive();
    struct hf_itree_node *nodes = naive->nodes;
    struct hf_itree tree = {0};
    size_t i = 0;

    (void)state;
    for (i = 0; i < NODES; i++) {
        nodes[i].first = nodes[i].last = 7;
        hf_itree_insert(&tree, &nodes[i]);
    }
    i = 0;
    for (struct hf_itree_node *n = hf_itree_min(&tree); n; n = hf_itree_next(n))
        assert_ptr_equal(n, &nodes[i++]);
    assert_int_equal(i, NODES);
    hf_arena_give(naive);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slab_hands_out_and_takes_back),
        cmocka_unit_test(slab_survives_lack_of_memory),
        cmocka_unit_test(itree_agrees_with_an_array),
        cmocka_unit_test(itree_keeps_the_order_of_equals),
        cmocka_unit_test(itree_skips_a_tag),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
