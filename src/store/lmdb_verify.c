#include "store/lmdb_verify.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/text.h"

enum {
    META_PAGES = 2,
    DEPTH_MAX = 32, /* the deepest tree that LMDB can walk: its CURSOR_STACK */
    PAGE_MIN = 512,
    PAGE_MAX = 0x8000,
    SLACK_PAGES = 1 << 20,
};

#define META_MAGIC   UINT32_C(0xBEEFC0DE)
#define META_VERSION UINT32_C(1)
#define NO_PAGE      UINT64_MAX

/* All flags that LMDB ever writes to disk in databases like ours. LMDB has more, for pages in
 * memory and for kinds of trees that we do not use. */
enum page_flags { P_BRANCH = 0x01, P_LEAF = 0x02, P_OVERFLOW = 0x04, P_META = 0x08 };
enum node_flags { F_BIGDATA = 0x01, F_SUBDATA = 0x02 };
enum tree_flags { T_INTEGERKEY = 0x08, T_NOSUBDIR = 0x4000 };

/* These structures mirror LMDB's MDB_page (its header), MDB_db, MDB_meta and MDB_node. */
struct page {
    uint64_t pgno;
    uint16_t pad;
    uint16_t flags;
    union {
        struct {
            uint16_t lower; /* where the free space of the page starts */
            uint16_t upper; /* where the free space of the page ends */
        };
        uint32_t pages; /* how many pages an overflow run has */
    };
};

struct tree {
    uint32_t pad;
    uint16_t flags;
    uint16_t depth;
    uint64_t branch_pages;
    uint64_t leaf_pages;
    uint64_t overflow_pages;
    uint64_t entries;
    uint64_t root;
};

struct meta {
    uint32_t magic;
    uint32_t version;
    uint64_t address;
    uint64_t map_size;
    struct tree trees[2]; /* the tree of free pages, and the main tree */
    uint64_t last_pgno;
    uint64_t txnid;
};

struct node {
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    uint16_t lo;
    uint16_t hi;
#else
    uint16_t hi;
    uint16_t lo;
#endif
    uint16_t flags;
    uint16_t key_size;
};

struct check {
    const uint8_t *map;
    size_t size;
    size_t page_size;
    uint64_t n_pages; /* all pages of the newest tree are below this number */
    uint8_t *used;    /* a bitmap of the pages seen so far */
    const struct hf_alloc *alloc;
    char *reason;
};

struct walk;

/* Verifies the value of one entry in a leaf page. */
typedef int (*check_value)(struct check *c, const struct walk *walk, uint64_t pgno,
                           const struct node *node, const uint8_t *value, size_t len);

/* The state of verifying one tree, from its first entry to its last. */
struct walk {
    check_value value_ok;
    bool named; /* the tree's keys are names, not numbers */
    uint64_t entries;
    uint64_t next_key;  /* the smallest key that may follow in the tree */
    bool no_more;       /* the greatest possible key was seen: no key may follow */
    const uint8_t *key; /* the key of the entry being verified */
};

static int damaged(struct check *c, const char *what, uint64_t pgno)
{
    hf_format(c->reason, HF_LMDB_REASON_MAX, "%s (page %" PRIu64 ")", what, pgno);
    return HF_EFORMAT;
}

static const uint8_t *page_at(const struct check *c, uint64_t pgno)
{
    return c->map + pgno * c->page_size;
}

/* True if LMDB's magic number is at this offset, in the byte order of this machine or, if swapped,
 * in the other. */
static bool has_magic(const struct check *c, size_t at, bool swapped)
{
    uint32_t magic;

    if (c->size < at + sizeof(magic))
        return false;
    memcpy(&magic, c->map + at, sizeof(magic));
    return magic == (swapped ? __builtin_bswap32(META_MAGIC) : META_MAGIC);
}

/* Recognises a file that was written by a machine of another byte order or word size, and is not
 * damaged. */
static int check_machine(struct check *c)
{
    /* The offset of LMDB's magic number, behind the page header, for each word size. */
    enum { AT_64_BITS = 16, AT_32_BITS = 12 };
    const char *what = NULL;

    if (has_magic(c, AT_64_BITS, true))
        what = "another byte order";
    else if (has_magic(c, AT_32_BITS, false))
        what = "another word size";
    else if (has_magic(c, AT_32_BITS, true))
        what = "another byte order and word size";
    if (!what)
        return 0;
    hf_format(c->reason, HF_LMDB_REASON_MAX, "%s", what);
    return HF_EUNAVAIL;
}

static int read_meta(struct check *c, uint64_t pgno, size_t page_size, struct meta *out)
{
    struct page page;
    size_t at = pgno * page_size;

    if (c->size < at + sizeof(page) + sizeof(*out))
        return damaged(c, "the file is shorter than its two meta pages", pgno);
    memcpy(&page, c->map + at, sizeof(page));
    memcpy(out, c->map + at + sizeof(page), sizeof(*out));
    if (page.flags != P_META || page.pgno != pgno || out->magic != META_MAGIC)
        return damaged(c, "not an LMDB database", pgno);
    if (out->version != META_VERSION) {
        hf_format(c->reason, HF_LMDB_REASON_MAX, "LMDB data version %" PRIu32, out->version);
        return HF_EVERSION;
    }
    /* LMDB keeps the flags of the whole file in the record of the free tree. */
    if ((out->trees[0].flags & ~T_NOSUBDIR) != T_INTEGERKEY || out->trees[1].flags != 0)
        return damaged(c, "a meta page with flags that we never set", pgno);
    return 0;
}

/* Chooses the meta page with the greater transaction id, as LMDB does. Transactions use the two
 * meta pages in turn, so their ids must differ by one (in a new file both are 0): otherwise the
 * chosen one could lead to an outdated tree. */
static int choose_meta(struct check *c, struct meta *out)
{
    struct meta first;
    struct meta second;
    int rv = read_meta(c, 0, 0, &first);

    if (rv < 0)
        return rv;
    c->page_size = first.trees[0].pad;
    if (c->page_size < PAGE_MIN || c->page_size > PAGE_MAX || (c->page_size & (c->page_size - 1)))
        return damaged(c, "impossible page size", 0);
    rv = read_meta(c, 1, c->page_size, &second);
    if (rv < 0)
        return rv;
    if (second.trees[0].pad != c->page_size)
        return damaged(c, "the meta pages disagree on the page size", 1);
    if (second.txnid + 1 != first.txnid && first.txnid + 1 != second.txnid &&
        (first.txnid | second.txnid) != 0)
        return damaged(c, "meta pages of transactions that did not follow each other", 1);
    *out = second.txnid > first.txnid ? second : first;
    return 0;
}

/* Marks a page as used; a page may be used only once. */
static int claim(struct check *c, uint64_t pgno)
{
    uint8_t bit = (uint8_t)(1U << (pgno & 7));

    if (pgno < META_PAGES || pgno >= c->n_pages)
        return damaged(c, "a page number beyond the end", pgno);
    if (c->used[pgno >> 3] & bit)
        return damaged(c, "a page that is used twice", pgno);
    c->used[pgno >> 3] |= bit;
    return 0;
}

/* Marks a page that LMDB will read, and that must therefore be in the file. Free pages need not be:
 * a page that was allocated and freed within one transaction is never written, and the file may end
 * before it. */
static int claim_present(struct check *c, uint64_t pgno)
{
    if (pgno >= c->size / c->page_size)
        return damaged(c, "the file is cut off", pgno);
    return claim(c, pgno);
}

/* Checks the run of overflow pages that holds a value too large for a leaf. */
static int check_overflow(struct check *c, uint64_t pgno, size_t len, const uint8_t **value)
{
    struct page page;
    int rv = claim_present(c, pgno);

    if (rv < 0)
        return rv;
    memcpy(&page, page_at(c, pgno), sizeof(page));
    if (page.pgno != pgno || page.flags != P_OVERFLOW || page.pages == 0 ||
        page.pages > c->n_pages - pgno || len > (uint64_t)page.pages * c->page_size - sizeof(page))
        return damaged(c, "a bad overflow page", pgno);
    for (uint32_t i = 1; i < page.pages && rv == 0; i++)
        rv = claim_present(c, pgno + i);
    *value = page_at(c, pgno) + sizeof(page);
    return rv;
}

/* Checks that numeric keys ascend, over all pages of a tree. */
static int check_key(struct check *c, struct walk *walk, uint64_t pgno, const struct node *node,
                     const uint8_t *key, bool entry)
{
    uint64_t number;

    if (walk->named)
        return 0;
    if (node->key_size != sizeof(number))
        return damaged(c, "a record without a proper key", pgno);
    memcpy(&number, key, sizeof(number));
    if (number < walk->next_key || walk->no_more)
        return damaged(c, "keys out of order", pgno);
    /* a branch may have the same key as the first entry of its leaf */
    walk->next_key = number + entry;
    walk->no_more = entry && number == UINT64_MAX;
    return 0;
}

/* Checks a node of a leaf page. *size becomes the size of the node's key and of the part of its
 * value that is inside the page. */
static int check_leaf_node(struct check *c, struct walk *walk, uint64_t pgno,
                           const struct node *node, const uint8_t *data, size_t room, size_t *size)
{
    size_t len = node->lo | (size_t)node->hi << 16;
    bool big = node->flags & F_BIGDATA;
    const uint8_t *value = data + node->key_size;
    uint64_t overflow;
    int rv;

    *size = node->key_size + (big ? sizeof(overflow) : len);
    if (room < *size)
        return damaged(c, "a node that leaves its page", pgno);
    rv = check_key(c, walk, pgno, node, data, true);
    if (rv == 0 && big) {
        memcpy(&overflow, value, sizeof(overflow));
        rv = check_overflow(c, overflow, len, &value);
    }
    if (rv < 0)
        return rv;
    walk->entries++;
    walk->key = data;
    return walk->value_ok(c, walk, pgno, node, value, len);
}

static int check_page(struct check *c, struct walk *walk, uint64_t pgno, unsigned depth);

/* Checks a node of a branch page, whose first key is meaningless in LMDB. */
static int check_branch_node(struct check *c, struct walk *walk, uint64_t pgno,
                             const struct node *node, const uint8_t *data, bool first,
                             unsigned depth)
{
    uint64_t child = node->lo | (uint64_t)node->hi << 16 | (uint64_t)node->flags << 32;
    int rv = first ? 0 : check_key(c, walk, pgno, node, data, false);

    return rv < 0 ? rv : check_page(c, walk, child, depth - 1);
}

/* Checks a node and adds to *bytes how many bytes of the page it takes. */
static int check_node(struct check *c, struct walk *walk, uint64_t pgno, const struct page *page,
                      size_t index, unsigned depth, size_t *bytes)
{
    const uint8_t *start = page_at(c, pgno);
    const uint8_t *data;
    size_t room;
    size_t size;
    uint16_t at;
    struct node node;
    int rv;

    memcpy(&at, start + sizeof(*page) + index * sizeof(at), sizeof(at));
    if (at < page->upper || at > c->page_size - sizeof(node) || at % 2 != 0)
        return damaged(c, "a node outside of its page", pgno);
    memcpy(&node, start + at, sizeof(node));
    data = start + at + sizeof(node);
    room = c->page_size - at - sizeof(node);
    size = node.key_size;
    if (size > room)
        return damaged(c, "a key that leaves its page", pgno);
    rv = depth == 1 ? check_leaf_node(c, walk, pgno, &node, data, room, &size)
                    : check_branch_node(c, walk, pgno, &node, data, index == 0, depth);
    *bytes += (sizeof(node) + size + 1) / 2 * 2;
    return rv;
}

static int check_page(struct check *c, struct walk *walk, uint64_t pgno, unsigned depth)
{
    struct page page;
    size_t bytes = 0;
    int rv = depth == 0 ? damaged(c, "a tree deeper than it says", pgno) : claim_present(c, pgno);

    if (rv < 0)
        return rv;
    memcpy(&page, page_at(c, pgno), sizeof(page));
    if (page.pgno != pgno)
        return damaged(c, "a page with another page's number", pgno);
    if (page.flags != (depth == 1 ? P_LEAF : P_BRANCH))
        return damaged(c, "a page of the wrong type", pgno);
    if (page.lower < sizeof(page) || page.lower > page.upper || page.upper > c->page_size ||
        page.lower % 2 != 0)
        return damaged(c, "a page with impossible bounds", pgno);
    for (size_t i = 0; i < (page.lower - sizeof(page)) / sizeof(uint16_t) && rv == 0; i++)
        rv = check_node(c, walk, pgno, &page, i, depth, &bytes);
    if (rv == 0 && bytes != c->page_size - page.upper)
        rv = damaged(c, "a page whose entries do not fill it", pgno);
    return rv;
}

static int check_tree(struct check *c, const struct tree *tree, struct walk *walk)
{
    int rv;

    if (tree->root == NO_PAGE)
        return tree->depth == 0 && tree->entries == 0 ? 0 : damaged(c, "a tree without a root", 0);
    if (tree->depth == 0 || tree->depth > DEPTH_MAX)
        return damaged(c, "a tree of impossible depth", tree->root);
    rv = check_page(c, walk, tree->root, tree->depth);
    if (rv == 0 && walk->entries != tree->entries)
        rv = damaged(c, "a tree with another number of entries than it says", tree->root);
    return rv;
}

static int any_value(struct check *c, const struct walk *walk, uint64_t pgno,
                     const struct node *node, const uint8_t *value, size_t len)
{
    (void)walk;
    (void)value;
    (void)len;
    return node->flags & ~F_BIGDATA ? damaged(c, "a node of a kind we never write", pgno) : 0;
}

/* Checks an entry of the main tree, which holds the roots of the named trees, in the order of their
 * names. */
static int named_tree(struct check *c, const struct walk *walk, uint64_t pgno,
                      const struct node *node, const uint8_t *value, size_t len)
{
    static const char *const NAMES[] = {"clients", "locks", "state"};
    struct walk inner = {.value_ok = any_value};
    struct tree tree;
    const char *name;

    if (node->flags != F_SUBDATA || len != sizeof(tree) || walk->entries > HF_COUNT_OF(NAMES))
        return damaged(c, "a main tree that is not ours", pgno);
    name = NAMES[walk->entries - 1];
    memcpy(&tree, value, sizeof(tree));
    if (node->key_size != strlen(name) || memcmp(walk->key, name, node->key_size) != 0 ||
        tree.flags != T_INTEGERKEY)
        return damaged(c, "a main tree that is not ours", pgno);
    return check_tree(c, &tree, &inner);
}

/*
 * Checks an entry of the free tree. Its value is a list of page numbers, preceded by their count.
 */
static int free_list(struct check *c, const struct walk *walk, uint64_t pgno,
                     const struct node *node, const uint8_t *value, size_t len)
{
    uint64_t count;
    int rv = 0;

    (void)walk;
    if (node->flags & ~F_BIGDATA || len < sizeof(count))
        return damaged(c, "a bad list of free pages", pgno);
    memcpy(&count, value, sizeof(count));
    if (count > len / sizeof(count) - 1)
        return damaged(c, "a list of free pages that is too long", pgno);
    for (uint64_t i = 1; i <= count && rv == 0; i++) {
        uint64_t unused;
        memcpy(&unused, value + i * sizeof(unused), sizeof(unused));
        rv = claim(c, unused);
    }
    return rv;
}

static int check_mapped(struct check *c)
{
    struct walk trees = {.value_ok = named_tree, .named = true};
    struct walk free_pages = {.value_ok = free_list};
    struct meta meta;
    int rv = check_machine(c);

    if (rv == 0)
        rv = choose_meta(c, &meta);
    if (rv < 0)
        return rv;
    if (meta.last_pgno > c->size / c->page_size + SLACK_PAGES)
        return damaged(c, "the file is cut off before its last page", meta.last_pgno);
    c->n_pages = meta.last_pgno + 1;
    c->used = hf_calloc(c->alloc, 1, c->n_pages / 8 + 1);
    if (!c->used)
        return HF_ENOMEM;
    rv = check_tree(c, &meta.trees[1], &trees);
    if (rv == 0)
        rv = check_tree(c, &meta.trees[0], &free_pages);
    hf_free(c->alloc, c->used);
    return rv;
}

int hf_lmdb_verify(int fd, const struct hf_alloc *alloc, char reason[HF_LMDB_REASON_MAX])
{
    struct check check = {.alloc = alloc, .reason = reason};
    struct stat st;
    void *map;
    int rv;

    reason[0] = '\0';
    if (fstat(fd, &st) < 0)
        return HF_EIO;
    if (st.st_size == 0)
        return damaged(&check, "the file is empty", 0);
    check.size = (size_t)st.st_size;
    map = mmap(NULL, check.size, PROT_READ, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED)
        return HF_EIO;
    check.map = map;
    rv = check_mapped(&check);
    munmap(map, check.size);
    return rv;
}
