#include "store/pg_rows.h"

#include <endian.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"

/* PostgreSQL's type numbers for array elements (pg_type), which never change. */
enum pg_type {
    TYPE_BOOL = 16,
    TYPE_BYTEA = 17,
    TYPE_INT8 = 20,
    TYPE_INT2 = 21,
    TYPE_INT4 = 23,
    TYPE_TEXT = 25,
    TYPE_NUMERIC = 1700,
};

enum {
    ADDRS_TEXT_MAX = HF_CLIENT_ADDRS_MAX * HF_ADDR_TEXT_MAX,
    NUMERIC_BASE = 10000,
    NUMERIC_DIGITS_MAX = 5, /* a 64-bit number has at most this many digits of base 10000 */
};

/* The head of a binary array in PostgreSQL's protocol: number of dimensions, has-nulls, element
 * type, then size and lower bound of dimension 1. */
struct array_header {
    uint32_t dimensions;
    uint32_t has_nulls;
    uint32_t type;
    uint32_t size;
    uint32_t lower_bound;
};

void hf_pg_rows_init(struct hf_pg_rows *rows, const struct hf_alloc *alloc)
{
    *rows = (struct hf_pg_rows){0};
    for (unsigned i = 0; i < HF_PG_COLUMNS_MAX; i++)
        hf_buf_init(&rows->columns[i], alloc);
}

void hf_pg_rows_free(struct hf_pg_rows *rows)
{
    for (unsigned i = 0; i < HF_PG_COLUMNS_MAX; i++)
        hf_buf_free(&rows->columns[i]);
}

void hf_pg_rows_clear(struct hf_pg_rows *rows)
{
    for (unsigned i = 0; i < HF_PG_COLUMNS_MAX; i++)
        hf_buf_clear(&rows->columns[i]);
    rows->n_columns = 0;
    rows->n_rows = 0;
}

void hf_pg_rows_finish(struct hf_pg_rows *rows)
{
    uint32_t size = htobe32(rows->n_rows);

    for (unsigned i = 0; i < rows->n_columns; i++)
        memcpy(rows->columns[i].data + offsetof(struct array_header, size), &size, sizeof(size));
}

/* The row being added: its next column, and whether memory ran out. */
struct row_writer {
    struct hf_pg_rows *rows;
    unsigned column;
    bool no_memory;
};

static void put_element(struct row_writer *w, enum pg_type type, const void *data, size_t len)
{
    struct hf_buf *buf = &w->rows->columns[w->column++];
    uint32_t size = htobe32((uint32_t)len);
    struct array_header header = {htobe32(1), 0, htobe32(type), 0, htobe32(1)};

    HF_ASSERT(w->column <= HF_PG_COLUMNS_MAX);
    if ((w->rows->n_rows == 0 && hf_buf_append(buf, &header, sizeof(header)) < 0) ||
        hf_buf_append(buf, &size, sizeof(size)) < 0 || hf_buf_append(buf, data, len) < 0)
        w->no_memory = true;
}

static void put_i64(struct row_writer *w, int64_t number)
{
    uint64_t wire = htobe64((uint64_t)number);

    put_element(w, TYPE_INT8, &wire, sizeof(wire));
}

static void put_i32(struct row_writer *w, int32_t number)
{
    uint32_t wire = htobe32((uint32_t)number);

    put_element(w, TYPE_INT4, &wire, sizeof(wire));
}

static void put_u8(struct row_writer *w, uint8_t number)
{
    uint16_t wire = htobe16(number);

    put_element(w, TYPE_INT2, &wire, sizeof(wire));
}

static void put_bool(struct row_writer *w, bool value)
{
    uint8_t wire = value;

    put_element(w, TYPE_BOOL, &wire, sizeof(wire));
}

static void put_bytes(struct row_writer *w, struct hf_bytes bytes)
{
    put_element(w, TYPE_BYTEA, bytes.data, bytes.len);
}

static void put_text(struct row_writer *w, const char *text)
{
    put_element(w, TYPE_TEXT, text, strlen(text));
}

/* Writes a number as a binary numeric of PostgreSQL: the count of digits of base 10000, the power
 * of the first one, sign, digits after the point, and the digits, the highest first. */
static void put_offset(struct row_writer *w, uint64_t offset)
{
    uint16_t wire[4 + NUMERIC_DIGITS_MAX] = {0};
    uint16_t *digits = wire + 4;
    unsigned count = 0;

    for (uint64_t rest = offset; rest > 0; rest /= NUMERIC_BASE)
        count++;
    wire[0] = htobe16((uint16_t)count);
    wire[1] = htobe16((uint16_t)(count > 0 ? count - 1 : 0));
    for (unsigned i = count; i > 0; i--, offset /= NUMERIC_BASE)
        digits[i - 1] = htobe16((uint16_t)(offset % NUMERIC_BASE));
    put_element(w, TYPE_NUMERIC, wire, (4 + count) * sizeof(wire[0]));
}

static void put_addrs(struct row_writer *w, const struct hf_addr *addrs, unsigned count)
{
    char text[ADDRS_TEXT_MAX] = "";
    size_t len = 0;

    for (unsigned i = 0; i < count; i++) {
        char one[HF_ADDR_TEXT_MAX];
        if (addrs[i].family == HF_ADDR_NONE)
            continue;
        len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%s", len > 0 ? " " : "",
                                hf_addr_format(&addrs[i], one));
        HF_ASSERT(len < sizeof(text));
    }
    put_text(w, text);
}

/* Adds the server's record. Its epoch and clean flag have columns of their own, for operators; the
 * encoded record contains everything. */
static void put_server(struct row_writer *w, const struct hf_record_server *s,
                       struct hf_bytes record)
{
    put_i64(w, (int64_t)s->epoch);
    put_bool(w, s->clean);
    put_bytes(w, record);
}

static void put_client(struct row_writer *w, const struct hf_record_client *c)
{
    uint8_t lives[HF_RECORD_LIVES_MAX];

    put_i64(w, (int64_t)c->id);
    put_u8(w, (uint8_t)c->protocol);
    put_u8(w, (uint8_t)c->transport);
    put_bytes(w, c->name);
    put_addrs(w, c->addrs, c->n_addrs);
    put_addrs(w, &c->local, 1);
    put_i32(w, c->state);
    put_i64(w, (int64_t)c->ttl_ms);
    put_i64(w, c->registered_at_ms);
    put_i64(w, (int64_t)c->epoch);
    put_bytes(w, c->my_name);
    put_i64(w, c->prog);
    put_i64(w, c->vers);
    put_i64(w, c->proc);
    put_bytes(w, hf_bytes(c->priv, HF_PRIV_SIZE));
    put_addrs(w, &c->callback_host, 1);
    put_bytes(w, hf_bytes(lives, hf_record_encode_lives(&c->lives, lives)));
}

static void put_lock(struct row_writer *w, const struct hf_record_lock *l)
{
    uint8_t extra[HF_RECORD_EXTRA_MAX];

    put_i64(w, (int64_t)l->id);
    put_i64(w, (int64_t)l->client_id);
    put_bytes(w, l->export);
    put_bytes(w, l->fh);
    put_bytes(w, l->oh);
    put_i32(w, l->svid);
    put_offset(w, l->first);
    put_offset(w, l->last);
    put_bool(w, l->exclusive);
    put_i64(w, l->acquired_at_ms);
    put_i64(w, (int64_t)l->epoch);
    put_bytes(w, hf_bytes(extra, hf_record_encode_extra(&l->extra, extra)));
}

/* Ends a row. If memory ran out, the columns have unequal lengths and the batch is not sent. */
static int end_row(struct row_writer *w)
{
    if (w->no_memory)
        return HF_ENOMEM;
    w->rows->n_columns = w->column;
    w->rows->n_rows++;
    return 0;
}

int hf_pg_rows_add(struct hf_pg_rows *rows, enum hf_record_kind kind, struct hf_bytes record)
{
    struct row_writer w = {.rows = rows};
    union {
        struct hf_record_server server;
        struct hf_record_client client;
        struct hf_record_lock lock;
    } r;
    int rv = HF_EFORMAT;

    switch (kind) {
    case HF_RECORD_SERVER:
        rv = hf_record_decode_server(record, &r.server);
        if (rv == 0)
            put_server(&w, &r.server, record);
        break;
    case HF_RECORD_CLIENT:
        rv = hf_record_decode_client(record, &r.client);
        if (rv == 0)
            put_client(&w, &r.client);
        break;
    case HF_RECORD_LOCK:
        rv = hf_record_decode_lock(record, &r.lock);
        if (rv == 0)
            put_lock(&w, &r.lock);
        break;
    }
    return rv < 0 ? rv : end_row(&w);
}

int hf_pg_rows_add_id(struct hf_pg_rows *rows, uint64_t id)
{
    struct row_writer w = {.rows = rows};

    put_i64(&w, (int64_t)id);
    return end_row(&w);
}

int hf_pg_rows_add_part(struct hf_pg_rows *rows, uint64_t slot, uint64_t number,
                        struct hf_bytes part)
{
    struct row_writer w = {.rows = rows};

    put_i64(&w, (int64_t)slot);
    put_i64(&w, (int64_t)number);
    put_bytes(&w, part);
    return end_row(&w);
}
