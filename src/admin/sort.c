#include "admin/sort.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hex.h"

enum { CAPACITY_FIRST = 64 };

/* ---- keys: big-endian numbers and lower-case texts, so that memcmp() orders them ---- */

static void key_number(uint8_t *key, uint64_t value)
{
    for (int i = 0; i < 8; i++)
        key[i] = (uint8_t)(value >> (56 - 8 * i));
}

static void key_text(uint8_t key[SORT_KEY_SIZE], struct hf_bytes text)
{
    size_t len = text.len < SORT_KEY_SIZE ? text.len : SORT_KEY_SIZE;

    for (size_t i = 0; i < len; i++) {
        uint8_t c = text.data[i];

        key[i] = (uint8_t)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
    }
}

/* Orders by age, the youngest first; a time in the future, after a step of the clock, counts as age
 * 0. */
static void key_age(uint8_t *key, const struct row_context *context, int64_t since_ms)
{
    key_number(key, since_ms < context->wall_ms ? (uint64_t)(context->wall_ms - since_ms) : 0);
}

static void lock_client(const struct row_context *context, const union row *row, uint8_t *key)
{
    (void)context;
    key_text(key, row->lock.client_name);
}

static void lock_file(const struct row_context *context, const union row *row, uint8_t *key)
{
    struct hf_bytes fh = row->lock.record.fh;
    const char *path = NULL;
    size_t len = fh.len < SORT_KEY_SIZE / 2 ? fh.len : SORT_KEY_SIZE / 2;

    if (hf_names_show(context->names, fh, &path) == HF_NAME_KNOWN)
        key_text(key, hf_bytes_str(path));
    else
        hf_hex_encode(fh.data, len, (char *)key);
}

static void lock_owner(const struct row_context *context, const union row *row, uint8_t *key)
{
    (void)context;
    key_number(key, (uint64_t)((int64_t)row->lock.record.svid - INT32_MIN));
}

static void lock_mode(const struct row_context *context, const union row *row, uint8_t *key)
{
    (void)context;
    key[0] = row->lock.record.exclusive ? 0 : 1;
}

static void lock_held(const struct row_context *context, const union row *row, uint8_t *key)
{
    key_age(key, context, row->lock.record.acquired_at_ms);
}

/* Orders locks by how many waiters they have, and locks with equally many by how long they have
 * been held. */
static void lock_waiters(const struct row_context *context, const union row *row, uint8_t *key)
{
    key_number(key, row->lock.n_waiters);
    key_age(key + 8, context, row->lock.record.acquired_at_ms);
}

static void client_client(const struct row_context *context, const union row *row, uint8_t *key)
{
    (void)context;
    key_text(key, row->client.record.name);
}

static void client_locks(const struct row_context *context, const union row *row, uint8_t *key)
{
    (void)context;
    key_number(key, row->client.n_locks);
}

static void client_waiters(const struct row_context *context, const union row *row, uint8_t *key)
{
    (void)context;
    key_number(key, row->client.n_waiters);
}

static void client_idle(const struct row_context *context, const union row *row, uint8_t *key)
{
    key_age(key, context, row->client.last_seen_ms);
}

/* Orders clients so that, descending, those that need attention come first. */
static void client_notification(const struct row_context *context, const union row *row,
                                uint8_t *key)
{
    static const uint8_t RANK[] = {
        [HF_NOTICE_NONE] = 0,    [HF_NOTICE_DELIVERED] = 1, [HF_NOTICE_PENDING] = 2,
        [HF_NOTICE_FAILING] = 3, [HF_NOTICE_GIVEN_UP] = 4,
    };

    (void)context;
    key[0] = RANK[row->client.notice];
}

const struct sort_column HF_SORT_LOCKS[] = {
    {"client", lock_client}, {"file", lock_file},       {"owner", lock_owner}, {"mode", lock_mode},
    {"held", lock_held},     {"waiters", lock_waiters}, {NULL, NULL},
};

const struct sort_column HF_SORT_CLIENTS[] = {
    {"client", client_client},
    {"locks", client_locks},
    {"waiters", client_waiters},
    {"idle", client_idle},
    {"notification", client_notification},
    {NULL, NULL},
};

bool hf_sorter_choose(struct sorter *sorter, const struct sort_column *table, const char *text)
{
    sorter->descending = text[0] == '-';
    if (sorter->descending)
        text++;
    for (sorter->column = table; sorter->column->name; sorter->column++) {
        if (strcmp(sorter->column->name, text) == 0)
            return true;
    }
    sorter->column = NULL;
    return false;
}

/* ---- the heap: at its root is the entry that goes first when a better one comes ---- */

static int compare(const struct sort_entry *x, const struct sort_entry *y)
{
    int order = memcmp(x->key, y->key, SORT_KEY_SIZE);

    return order ? order : (x->slot > y->slot) - (x->slot < y->slot);
}

static void sift_up(struct sort_entry *heap, size_t at)
{
    struct sort_entry moving = heap[at];

    for (; at > 0 && compare(&moving, &heap[(at - 1) / 2]) > 0; at = (at - 1) / 2)
        heap[at] = heap[(at - 1) / 2];
    heap[at] = moving;
}

/* Restores the heap after a new entry came to its root; with a count of 0 it does nothing. */
static void sift_down(struct sort_entry *heap, size_t count)
{
    struct sort_entry moving = heap[0];
    size_t at = 0;

    for (size_t child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && compare(&heap[child + 1], &heap[child]) > 0)
            child++;
        if (compare(&moving, &heap[child]) >= 0)
            break;
        heap[at] = heap[child];
    }
    heap[at] = moving;
}

static bool grow(struct sorter *sorter)
{
    size_t wanted = sorter->capacity ? 2 * sorter->capacity : CAPACITY_FIRST;
    struct sort_entry *entries =
        hf_realloc(&hf_alloc_heap, sorter->entries, wanted * sizeof(*entries));

    if (!entries)
        return false;
    sorter->entries = entries;
    sorter->capacity = wanted;
    return true;
}

bool hf_sorter_add(struct sorter *sorter, const struct row_context *context, const union row *row,
                   uint64_t slot)
{
    struct sort_entry entry = {.slot = slot};

    sorter->total++;
    sorter->column->key(context, row, entry.key);
    if (sorter->descending) {
        for (size_t i = 0; i < SORT_KEY_SIZE; i++)
            entry.key[i] ^= 0xff;
    }
    if (sorter->count == sorter->keep) {
        if (compare(&entry, &sorter->entries[0]) < 0) {
            sorter->entries[0] = entry;
            sift_down(sorter->entries, sorter->count);
        }
        return true;
    }
    if (sorter->count == sorter->capacity && !grow(sorter))
        return false;
    sorter->entries[sorter->count] = entry;
    sift_up(sorter->entries, sorter->count++);
    return true;
}

/* Takes entries from the heap: its root is the last of those that are not in order yet. */
bool hf_sorter_order(struct sorter *sorter, size_t max)
{
    struct sort_entry *heap = sorter->entries;

    for (; max > 0 && sorter->ordered < sorter->count; max--) {
        size_t last = sorter->count - ++sorter->ordered;
        struct sort_entry moving = heap[last];

        heap[last] = heap[0];
        heap[0] = moving;
        sift_down(heap, last);
    }
    return sorter->ordered == sorter->count;
}

void hf_sorter_free(struct sorter *sorter)
{
    hf_free(&hf_alloc_heap, sorter->entries);
}
