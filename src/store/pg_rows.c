#include "store/pg_rows.h"

#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/error.h"
#include "base/text.h"
#include "store/pg_tables.h"

/* Types of array elements, from the server's pg_type; they never change. */
enum pg_type { TYPE_BYTEA = 17, TYPE_INT8 = 20, TYPE_TEXT = 25 };

enum { ADDRS_TEXT_MAX = HF_CLIENT_ADDRS_MAX * HF_ADDR_TEXT_MAX, NUMBER_TEXT_MAX = 24 };

/* A binary array: dimensions, has-nulls, element type, then size and lower bound of dimension 1. */
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

/* A row being added: the next column, and whether memory ran out on the way. */
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

static void put_number(struct row_writer *w, uint64_t number)
{
    number = htobe64(number);
    put_element(w, TYPE_INT8, &number, sizeof(number));
}

static void put_signed(struct row_writer *w, int64_t number)
{
    put_number(w, (uint64_t)number);
}

static void put_bytes(struct row_writer *w, struct hf_bytes bytes)
{
    put_element(w, TYPE_BYTEA, bytes.data, bytes.len);
}

static void put_text(struct row_writer *w, const char *text)
{
    put_element(w, TYPE_TEXT, text, strlen(text));
}

static void put_offset(struct row_writer *w, uint64_t offset)
{
    char text[NUMBER_TEXT_MAX];

    hf_format(text, sizeof(text), "%" PRIu64, offset);
    put_text(w, text);
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

static void put_server(struct row_writer *w, const struct hf_record_server *s)
{
    put_number(w, s->epoch);
    put_number(w, s->clean);
}

static void put_client(struct row_writer *w, const struct hf_record_client *c)
{
    put_number(w, c->id);
    put_number(w, c->protocol);
    put_number(w, c->transport);
    put_bytes(w, c->name);
    put_addrs(w, c->addrs, c->n_addrs);
    put_addrs(w, &c->local, 1);
    put_signed(w, c->state);
    put_number(w, c->ttl_ms);
    put_signed(w, c->registered_at_ms);
    put_number(w, c->epoch);
    put_bytes(w, c->my_name);
    put_number(w, c->prog);
    put_number(w, c->vers);
    put_number(w, c->proc);
    put_bytes(w, hf_bytes(c->priv, HF_PRIV_SIZE));
    put_addrs(w, &c->callback_host, 1);
}

static void put_lock(struct row_writer *w, const struct hf_record_lock *l)
{
    put_number(w, l->id);
    put_number(w, l->client_id);
    put_bytes(w, l->share);
    put_bytes(w, l->fh);
    put_bytes(w, l->oh);
    put_signed(w, l->svid);
    put_offset(w, l->first);
    put_offset(w, l->last);
    put_number(w, l->exclusive);
    put_signed(w, l->acquired_at_ms);
    put_number(w, l->epoch);
}

/* A row that did not fit leaves the columns unequal; its batch is not sent then. */
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
            put_server(&w, &r.server);
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

    put_number(&w, id);
    return end_row(&w);
}

/* A row being read: a value that does not fit sets bad, once and for all. */
struct row_reader {
    const PGresult *result;
    int row;
    int column;
    bool bad;
};

static struct hf_bytes get_bytes(struct row_reader *r, size_t max)
{
    int column = r->column++;
    struct hf_bytes bytes = hf_bytes(PQgetvalue(r->result, r->row, column),
                                     (size_t)PQgetlength(r->result, r->row, column));

    if (PQgetisnull(r->result, r->row, column) || bytes.len > max)
        r->bad = true;
    return bytes;
}

static uint64_t get_number(struct row_reader *r)
{
    struct hf_bytes bytes = get_bytes(r, sizeof(uint64_t));
    uint64_t number = 0;

    if (bytes.len == sizeof(number))
        memcpy(&number, bytes.data, sizeof(number));
    else
        r->bad = true;
    return be64toh(number);
}

static uint64_t get_number_below(struct row_reader *r, uint64_t max)
{
    uint64_t number = get_number(r);

    if (number > max)
        r->bad = true;
    return number;
}

static int32_t get_i32(struct row_reader *r)
{
    int64_t number = (int64_t)get_number(r);

    if (number < INT32_MIN || number > INT32_MAX)
        r->bad = true;
    return (int32_t)number;
}

/* libpq ends every value with a NUL of its own. */
static uint64_t get_offset(struct row_reader *r)
{
    struct hf_bytes bytes = get_bytes(r, NUMBER_TEXT_MAX);
    char *end = NULL;
    unsigned long long offset;

    errno = 0;
    offset = strtoull((const char *)bytes.data, &end, 10);
    if (bytes.len == 0 || errno || *end || bytes.data[0] == '-')
        r->bad = true;
    return offset;
}

static unsigned get_addrs(struct row_reader *r, struct hf_addr *addrs, unsigned max)
{
    struct hf_bytes bytes = get_bytes(r, ADDRS_TEXT_MAX - 1);
    char text[ADDRS_TEXT_MAX];
    char *rest = text;
    unsigned count = 0;

    if (r->bad)
        return 0;
    memcpy(text, bytes.data, bytes.len);
    text[bytes.len] = '\0';
    for (char *one; (one = strtok_r(rest, " ", &rest));) {
        if (count == max || hf_addr_parse(one, &addrs[count]) < 0)
            r->bad = true;
        else
            count++;
    }
    return count;
}

static int encode_server(struct row_reader *r, struct hf_buf *out)
{
    struct hf_record_server s = {0};

    s.epoch = get_number(r);
    s.clean = get_number_below(r, 1);
    return r->bad ? HF_EFORMAT : hf_record_encode_server(&s, out);
}

static int encode_client(struct row_reader *r, struct hf_buf *out)
{
    struct hf_record_client c = {0};
    struct hf_bytes priv;

    c.id = get_number(r);
    c.protocol = (enum hf_protocol)get_number_below(r, UINT8_MAX);
    c.transport = (enum hf_transport)get_number_below(r, UINT8_MAX);
    c.name = get_bytes(r, HF_NAME_MAX);
    c.n_addrs = get_addrs(r, c.addrs, HF_CLIENT_ADDRS_MAX);
    get_addrs(r, &c.local, 1);
    c.state = get_i32(r);
    c.ttl_ms = get_number(r);
    c.registered_at_ms = (int64_t)get_number(r);
    c.epoch = get_number(r);
    c.my_name = get_bytes(r, HF_NAME_MAX);
    c.prog = (uint32_t)get_number_below(r, UINT32_MAX);
    c.vers = (uint32_t)get_number_below(r, UINT32_MAX);
    c.proc = (uint32_t)get_number_below(r, UINT32_MAX);
    priv = get_bytes(r, HF_PRIV_SIZE);
    get_addrs(r, &c.callback_host, 1);
    if (r->bad || priv.len != HF_PRIV_SIZE)
        return HF_EFORMAT;
    memcpy(c.priv, priv.data, HF_PRIV_SIZE);
    return hf_record_encode_client(&c, out);
}

static int encode_lock(struct row_reader *r, struct hf_buf *out)
{
    struct hf_record_lock l = {0};

    l.id = get_number(r);
    l.client_id = get_number(r);
    l.share = get_bytes(r, HF_SHARE_NAME_MAX);
    l.fh = get_bytes(r, HF_FH_MAX);
    l.oh = get_bytes(r, HF_OH_MAX);
    l.svid = get_i32(r);
    l.first = get_offset(r);
    l.last = get_offset(r);
    l.exclusive = get_number_below(r, 1);
    l.acquired_at_ms = (int64_t)get_number(r);
    l.epoch = get_number(r);
    return r->bad ? HF_EFORMAT : hf_record_encode_lock(&l, out);
}

int hf_pg_row_encode(const PGresult *result, int row, enum hf_record_kind kind, struct hf_buf *out)
{
    struct row_reader r = {result, row, 0, false};

    HF_ASSERT(PQnfields(result) == (int)hf_pg_table_of(kind)->n_columns);
    switch (kind) {
    case HF_RECORD_SERVER:
        return encode_server(&r, out);
    case HF_RECORD_CLIENT:
        return encode_client(&r, out);
    case HF_RECORD_LOCK:
        return encode_lock(&r, out);
    }
    HF_UNREACHABLE();
}
