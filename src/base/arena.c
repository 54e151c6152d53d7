#include "base/arena.h"

#include <pthread.h>
#include <sys/mman.h>

#include "base/assert.h"

#define RANGE_MAX ((size_t)UINT32_MAX * HF_REF_UNIT / HF_ARENA_BLOCK * HF_ARENA_BLOCK)
#define RANGE_MIN ((size_t)64 * 1024 * 1024)

enum {
    STEP = 2 * 1024 * 1024, /* The arena makes memory usable in steps of this size, a huge page. */
    SMALL = 2 * STEP,       /* an arena that uses less than this does not ask for huge pages */
    KEPT_MAX = 64,          /* how many free blocks keep their memory: 4 MiB in all */
};

/* A list of free blocks. A free block has no note; the place of its note links it into the list. */
struct free_list {
    void **first;
    size_t n;
};

static struct {
    char *end;    /* the end of the reserved range of addresses */
    char *usable; /* memory below this address is readable and writable */
    char *next;   /* no block from this address on was ever taken */
    void **notes; /* the notes of all blocks; a free block's note links to the next free block */
    struct free_list kept; /* free blocks that still have their memory */
    struct free_list bare; /* free blocks whose memory was returned to the system */
    size_t n_taken;
} arena;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

char *hf_arena_base;

static void *reserve(size_t size, int protection)
{
    void *range = mmap(NULL, size, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    return range == MAP_FAILED ? NULL : range;
}

static char *align_up(char *address, size_t align)
{
    return address + (-(uintptr_t)address & (align - 1));
}

/*
 * Reserves the arena's range of addresses: a smaller one if the process's address space is limited.
 */
static int open_arena(void)
{
    size_t size = RANGE_MAX;
    char *range = reserve(size, PROT_NONE);

    while (!range && size > RANGE_MIN)
        range = reserve(size /= 2, PROT_NONE);
    if (!range)
        return -1;
    arena.notes = reserve(size / HF_ARENA_BLOCK * sizeof(void *), PROT_READ | PROT_WRITE);
    if (!arena.notes) {
        munmap(range, size);
        return -1;
    }
    arena.end = range + size;
    /* Leave the first step unused, so that no object has the link 0. */
    hf_arena_base = align_up(range, STEP);
    arena.next = arena.usable = hf_arena_base + STEP;
    return 0;
}

static void **note_of(const void *address)
{
    return &arena.notes[(size_t)((const char *)address - hf_arena_base) / HF_ARENA_BLOCK];
}

static char *block_of(void *const *note)
{
    return hf_arena_base + (size_t)(note - arena.notes) * HF_ARENA_BLOCK;
}

static void push(struct free_list *list, void **note)
{
    *note = list->first;
    list->first = note;
    list->n++;
}

static void **pop(struct free_list *list)
{
    void **note = list->first;

    if (note) {
        list->first = *note;
        list->n--;
    }
    return note;
}

/* Makes the next step of memory usable, on huge pages, because objects are visited at random: on
 * small pages each visit would miss the TLB as well as the cache. */
static int extend(void)
{
    if (arena.usable + STEP > arena.end || mprotect(arena.usable, STEP, PROT_READ | PROT_WRITE) < 0)
        return -1;
    if (arena.usable >= hf_arena_base + STEP + SMALL)
        (void)madvise(arena.usable, STEP, MADV_HUGEPAGE);
    arena.usable += STEP;
    return 0;
}

static void **new_block(void)
{
    void **note;

    if ((!hf_arena_base && open_arena() < 0) || (arena.next == arena.usable && extend() < 0))
        return NULL;
    note = note_of(arena.next);
    arena.next += HF_ARENA_BLOCK;
    return note;
}

static void *take(void *note)
{
    void **place = pop(&arena.kept);

    if (!place)
        place = pop(&arena.bare);
    if (!place)
        place = new_block();
    if (!place)
        return NULL;
    *place = note;
    arena.n_taken++;
    return block_of(place);
}

void *hf_arena_take(void *note)
{
    void *block;

    pthread_mutex_lock(&mutex);
    block = take(note);
    pthread_mutex_unlock(&mutex);
    return block;
}

void hf_arena_give(void *block)
{
    pthread_mutex_lock(&mutex);
    HF_ASSERT(arena.n_taken > 0);
    arena.n_taken--;
    if (arena.kept.n < KEPT_MAX || madvise(block, HF_ARENA_BLOCK, MADV_DONTNEED) < 0)
        push(&arena.kept, note_of(block));
    else
        push(&arena.bare, note_of(block));
    pthread_mutex_unlock(&mutex);
}

void *hf_arena_note(const void *address)
{
    return *note_of(address);
}

size_t hf_arena_taken(void)
{
    size_t n;

    pthread_mutex_lock(&mutex);
    n = arena.n_taken;
    pthread_mutex_unlock(&mutex);
    return n * HF_ARENA_BLOCK;
}
