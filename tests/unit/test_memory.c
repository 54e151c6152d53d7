/* The memory that a lock takes, and that it goes back to the system: the arena, the map of objects
 * in it, the slabs, and the core on top of them. */
#include <malloc.h>
#include <pthread.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/hash.h"
#include "base/refmap.h"
#include "base/slab.h"
#include "core_world.h"

enum { MB = 1024 * 1024 };

static struct faulty_heap heap;
static struct hf_alloc alloc;

static int open_heap(void **state)
{
    (void)state;
    heap = (struct faulty_heap){.after = -1};
    alloc = faulty_alloc(&heap);
    return 0;
}

static size_t resident(void)
{
    FILE *file = fopen("/proc/self/statm", "re");
    unsigned long pages;

    assert_non_null(file);
    assert_int_equal(fscanf(file, "%*u %lu", &pages), 1);
    assert_int_equal(fclose(file), 0);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

/* ---- the arena ---- */

/* Given blocks of several takers, an address within one leads to its note, and a link to its
 * object. */
static void arena_knows_its_blocks(void **state)
{
    enum { N = 100 };
    static char notes[N];
    char *blocks[N];

    (void)state;
    for (size_t i = 0; i < N; i++) {
        blocks[i] = hf_arena_take(&notes[i]);
        assert_non_null(blocks[i]);
        assert_int_equal((uintptr_t)blocks[i] % HF_ARENA_BLOCK, 0);
        memset(blocks[i], (int)i, HF_ARENA_BLOCK);
    }
    for (size_t i = 0; i < N; i++) {
        char *end = blocks[i] + HF_ARENA_BLOCK;
        assert_ptr_equal(hf_arena_note(blocks[i]), &notes[i]);
        assert_ptr_equal(hf_arena_note(end - 1), &notes[i]);
        assert_int_not_equal(hf_ref_to(blocks[i]), 0);
        assert_ptr_equal(hf_at(hf_ref_to(end - HF_REF_UNIT)), end - HF_REF_UNIT);
        assert_int_equal(end[-1], i);
    }
    assert_int_equal(hf_ref_to(NULL), 0);
    assert_null(hf_at(0));
    for (size_t i = 0; i < N; i++)
        hf_arena_give(blocks[i]);
    assert_int_equal(hf_arena_taken(), 0);
}

static void *take_and_give(void *note)
{
    enum { TIMES = 100000, N = 8 };
    bool *mixed = note;
    void **blocks[N];

    for (int i = 0; i < TIMES; i++) {
        for (int n = 0; n < N; n++) {
            blocks[n] = hf_arena_take(note);
            *blocks[n] = note;
        }
        for (int n = 0; n < N; n++) {
            *mixed = *mixed || hf_arena_note(blocks[n]) != note || *blocks[n] != note;
            hf_arena_give(blocks[n]);
        }
    }
    return NULL;
}

/* HA-05: a standby loads its locks on another thread than the loop's: no block is given to both
 * threads. */
static void threads_share_the_arena(void **state)
{
    size_t before = hf_arena_taken();
    bool mixed[2] = {false, false};
    pthread_t other;

    (void)state;
    assert_int_equal(pthread_create(&other, NULL, take_and_give, &mixed[0]), 0);
    take_and_give(&mixed[1]);
    assert_int_equal(pthread_join(other, NULL), 0);
    assert_false(mixed[0] || mixed[1]);
    assert_int_equal(hf_arena_taken(), before);
}

/* ---- slabs ---- */

struct object {
    uint64_t in_use;
    char payload[1016];
};

static struct object *take(struct hf_slab *slab)
{
    struct object *object = hf_slab_take(slab);

    assert_non_null(object);
    memset(object, 1, sizeof(*object));
    return object;
}

/* Given a slab that was large, it gives back the blocks that became empty, and the system gets
 * their memory; the object that stays keeps its slot. */
static void slab_gives_blocks_back(void **state)
{
    enum { N = 200000 };
    struct object **objects = test_malloc(N * sizeof(objects[0]));
    size_t start, full, end, seen = 0;
    struct hf_slab slab;

    (void)state;
    memset(objects, 1, N * sizeof(objects[0]));
    start = resident();
    hf_slab_init(&slab, &alloc, sizeof(struct object));
    for (size_t i = 0; i < N; i++)
        objects[i] = take(&slab);
    full = resident();
    assert_true(full - start > N / 2 * sizeof(struct object));
    for (size_t i = 0; i < N; i++) {
        if (i != N / 2)
            hf_slab_give(&slab, objects[i]);
    }
    end = resident();
    assert_between(hf_arena_taken(), HF_ARENA_BLOCK, 2 * HF_ARENA_BLOCK);
    assert_true(end < start + (full - start) / 10);
    assert_ptr_equal(hf_slab_at(&slab, N / 2), objects[N / 2]);
    for (size_t i = 0; i < hf_slab_slots(&slab); i++)
        seen += hf_slab_at(&slab, i) != NULL;
    assert_int_equal(seen, 1);
    hf_slab_free(&slab);
    assert_int_equal(hf_arena_taken(), 0);
    assert_int_equal(heap.live, 0);
    test_free(objects);
}

/* Given slots whose block was given back, new objects take them before the slab gets more slots. */
static void slab_uses_vacant_slots_again(void **state)
{
    enum { BLOCKS = 10, PER = HF_ARENA_BLOCK / sizeof(struct object), N = BLOCKS * PER };
    struct object *objects[N];
    struct hf_slab slab;

    (void)state;
    hf_slab_init(&slab, &alloc, sizeof(struct object));
    for (size_t i = 0; i < N; i++)
        objects[i] = take(&slab);
    for (size_t i = PER; i < N - PER; i++)
        hf_slab_give(&slab, objects[i]);
    assert_int_equal(hf_slab_slots(&slab), N);
    for (size_t i = PER; i < N - PER; i++)
        objects[i] = take(&slab);
    assert_int_equal(hf_slab_slots(&slab), N);
    assert_int_equal(hf_arena_taken(), BLOCKS * HF_ARENA_BLOCK);
    for (size_t i = N; i-- > PER;)
        hf_slab_give(&slab, objects[i]);
    assert_between(hf_slab_slots(&slab), PER, 2 * PER);
    hf_slab_free(&slab);
    assert_int_equal(heap.live, 0);
}

/* Given a slab whose size swings around a full block, it asks for no memory after the first time.
 */
static void slab_keeps_one_empty_block(void **state)
{
    enum { PER = HF_ARENA_BLOCK / sizeof(struct object) };
    struct hf_slab slab;
    uint64_t asked;

    (void)state;
    hf_slab_init(&slab, &alloc, sizeof(struct object));
    for (size_t i = 0; i < PER; i++)
        (void)take(&slab);
    hf_slab_give(&slab, take(&slab));
    asked = heap.count;
    for (int i = 0; i < 10; i++)
        hf_slab_give(&slab, take(&slab));
    assert_int_equal(heap.count, asked);
    hf_slab_free(&slab);
}

/* ---- the map ---- */

struct thing {
    struct hf_refmap_node node;
    uint64_t key;
};

static const struct hf_hash_key secret = {1, 2};

static bool thing_matches(const struct hf_refmap_node *node, const void *key)
{
    return hf_container_of(node, struct thing, node)->key == *(const uint64_t *)key;
}

static struct thing *find(const struct hf_refmap *map, uint64_t key)
{
    struct hf_refmap_node *node =
        hf_refmap_find(map, hf_hash_u64(&secret, key, 0), thing_matches, &key);

    return node ? hf_container_of(node, struct thing, node) : NULL;
}

static struct thing *insert(struct hf_refmap *map, struct hf_slab *slab, uint64_t key)
{
    struct thing *thing = hf_slab_take(slab);

    assert_non_null(thing);
    thing->key = key;
    hf_refmap_insert(map, &thing->node, hf_hash_u64(&secret, key, 0));
    return thing;
}

static void count(struct hf_refmap_node *node, void *ctx)
{
    (void)node;
    ++*(size_t *)ctx;
}

static size_t buckets_of(const struct hf_refmap *map)
{
    return map->now.mask + 1 + (map->old.buckets ? map->old.mask + 1 : 0);
}

/* Given a map that grows through many doublings and shrinks again, every node is found at every
 * step, and the table becomes small again. */
static void map_grows_and_shrinks(void **state)
{
    enum { N = 100000 };
    static struct thing *things[N];
    struct hf_refmap map;
    struct hf_slab slab;

    (void)state;
    hf_slab_init(&slab, &alloc, sizeof(struct thing));
    assert_int_equal(hf_refmap_init(&map, &alloc), 0);
    for (uint64_t i = 0; i < N; i++) {
        things[i] = insert(&map, &slab, i);
        assert_ptr_equal(find(&map, i / 2), things[i / 2]);
    }
    assert_true(buckets_of(&map) >= N);
    for (uint64_t i = 0; i < N; i++) {
        size_t seen = 0;

        assert_ptr_equal(find(&map, (i + N) / 2), things[(i + N) / 2]);
        hf_refmap_remove(&map, &things[i]->node);
        assert_null(find(&map, i));
        if (i % 10000 == 0) {
            hf_refmap_each(&map, count, &seen);
            assert_int_equal(seen, N - 1 - i);
        }
    }
    assert_int_equal(map.count, 0);
    assert_between(buckets_of(&map), 1, 4096);
    hf_refmap_free(&map);
    hf_slab_free(&slab);
    assert_int_equal(heap.live, 0);
}

/* Given no memory for another table, neither growing nor shrinking is needed to find everything. */
static void map_works_without_memory(void **state)
{
    enum { N = 500 };
    static struct thing *things[N];
    struct hf_refmap map;
    struct hf_slab slab;

    (void)state;
    hf_slab_init(&slab, &hf_alloc_heap, sizeof(struct thing));
    heap.after = 1;
    assert_int_equal(hf_refmap_init(&map, &alloc), 0);
    for (uint64_t i = 0; i < N; i++)
        things[i] = insert(&map, &slab, i);
    for (uint64_t i = 0; i < N; i++)
        assert_ptr_equal(find(&map, i), things[i]);
    heap.after = -1;
    for (uint64_t i = N; i < 40 * N; i++)
        (void)insert(&map, &slab, i);
    heap.after = 0;
    for (uint64_t i = 0; i < 40 * N; i++)
        hf_refmap_remove(&map, &find(&map, i)->node);
    assert_int_equal(map.count, 0);
    hf_refmap_free(&map);
    assert_int_equal(heap.live, 0);
    assert_int_equal(hf_refmap_init(&map, &alloc), HF_ENOMEM);
    hf_slab_free(&slab);
}

/* ---- the core ---- */

enum { LOCKS = 100000 };

/* Bytes that the core has asked for, besides those of the arena. */
static size_t heap_bytes;

static void *counted_resize(void *ctx, void *ptr, size_t size)
{
    size_t before = ptr ? malloc_usable_size(ptr) : 0;

    (void)ctx;
    ptr = hf_realloc(&hf_alloc_heap, ptr, size);
    if (ptr)
        heap_bytes += malloc_usable_size(ptr) - before;
    return ptr;
}

static void counted_release(void *ctx, void *ptr)
{
    (void)ctx;
    heap_bytes -= malloc_usable_size(ptr);
    hf_free(&hf_alloc_heap, ptr);
}

static size_t core_bytes(void)
{
    return heap_bytes + hf_arena_taken();
}

static int open_counted(void **state)
{
    struct world *w = test_malloc(sizeof(*w));

    world_open(w);
    w->alloc = (struct hf_alloc){counted_resize, counted_release, NULL};
    w->config.durable_locks = false;
    w->config.limits.locks_per_owner = w->config.limits.locks_per_client = 3 * LOCKS;
    w->config.hash_key = (struct hf_hash_key){0x9e3779b97f4a7c15, 0xd1b54a32d192ed03};
    w->unchecked = true;
    heap_bytes = 0;
    world_start(w);
    assert_int_equal(LOCK(w, .fh = "first"), HF_STAT_GRANTED);
    *state = w;
    return 0;
}

static int close_counted(void **state)
{
    int rv = close_world(state);

    assert_int_equal(core_bytes(), 0);
    return rv;
}

/* The i-th lock, with a file handle of 32 bytes and an owner handle of 16. */
static struct ask nth(int i, bool own_file, bool own_owner)
{
    static char fh[33], oh[17];

    snprintf(fh, sizeof(fh), "%032d", own_file ? i : 0);
    snprintf(oh, sizeof(oh), "%016d", own_owner ? i : 0);
    return (struct ask){.fh = fh, .oh = oh, .off = own_file ? 0 : 2 * (uint64_t)i, .len = 1};
}

static void lock_all(struct world *w, bool own_file, bool own_owner)
{
    for (int i = 0; i < LOCKS; i++)
        assert_int_equal(world_stat(w, hf_core_lock, nth(i, own_file, own_owner)), HF_STAT_GRANTED);
}

static void unlock_all(struct world *w, bool own_file, bool own_owner)
{
    for (int i = 0; i < LOCKS; i++)
        assert_int_equal(world_stat(w, hf_core_unlock, nth(i, own_file, own_owner)),
                         HF_STAT_GRANTED);
}

static double bytes_a_lock(struct world *w, bool own_file, bool own_owner)
{
    size_t before = core_bytes();

    lock_all(w, own_file, own_owner);
    return (double)(core_bytes() - before) / (LOCKS);
}

/* A lock with a file and an owner of its own takes at most 250 bytes, and one of many of an owner
 * on a file at most 90. (A hash table takes at most 8 bytes for each of its objects; here 5.) */
static void locks_are_small(void **state)
{
    assert_between((uint64_t)bytes_a_lock(*state, true, true), 150, 250);
    assert_between((uint64_t)bytes_a_lock(*state, false, false), 60, 90);
}

/* Given very many locks that were held and are unlocked, the core is as small as before, and so is
 * the process. */
static void memory_is_returned_after_a_peak(void **state)
{
    struct world *w = *state;
    size_t start = core_bytes();
    size_t start_resident = resident();
    size_t peak, peak_resident;

    lock_all(w, true, true);
    peak = core_bytes();
    peak_resident = resident();
    assert_true(peak - start > (size_t)LOCKS * 150);
    unlock_all(w, true, true);
    assert_true(core_bytes() < start + MB);
    assert_true(resident() < start_resident + (peak_resident - start_resident) / 2);
}

/* The memory also goes back when locks are released with their client. */
static void memory_is_returned_after_a_release(void **state)
{
    struct world *w = *state;
    struct hf_peer peer = world_peer(w, 1);
    size_t start = core_bytes();

    lock_all(w, true, true);
    hf_core_free_all(w->core, w->now, &peer, 0, false);
    world_step(w);
    while (hf_core_deadline(w->core) == 0)
        world_later(w, 0);
    assert_int_equal(world_status(w).locks, 0);
    assert_true(core_bytes() < start + MB);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(arena_knows_its_blocks, open_heap),
        cmocka_unit_test_setup(threads_share_the_arena, open_heap),
        cmocka_unit_test_setup(slab_gives_blocks_back, open_heap),
        cmocka_unit_test_setup(slab_uses_vacant_slots_again, open_heap),
        cmocka_unit_test_setup(slab_keeps_one_empty_block, open_heap),
        cmocka_unit_test_setup(map_grows_and_shrinks, open_heap),
        cmocka_unit_test_setup(map_works_without_memory, open_heap),
        cmocka_unit_test_setup_teardown(locks_are_small, open_counted, close_counted),
        cmocka_unit_test_setup_teardown(memory_is_returned_after_a_peak, open_counted,
                                        close_counted),
        cmocka_unit_test_setup_teardown(memory_is_returned_after_a_release, open_counted,
                                        close_counted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
