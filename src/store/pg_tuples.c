#include "store/pg_tuples.h"

#include <endian.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "store/pg_tables.h"

enum {
    ADDRS_TEXT_MAX = HF_CLIENT_ADDRS_MAX * HF_ADDR_TEXT_MAX,
    NUMERIC_BASE = 10000,
    NUMERIC_DIGITS_MAX = 5, /* a 64-bit number has at most this many digits of base 10000 */
};

static const char SIGNATURE[11] = "PGCOPY\n\377\r\n";

/* A row being read. A value that does not fit sets `bad`, and all later values then read as 0. */
struct tuple_reader {
    struct hf_bytes rest;
    bool bad;
};

static struct hf_bytes take(struct tuple_reader *r, size_t len)
{
    struct hf_bytes bytes = {r->rest.data, len};

    if (r->bad || len > r->rest.len) {
        r->bad = true;
        return hf_bytes(NULL, 0);
    }
    r->rest.data += len;
    r->rest.len -= len;
    return bytes;
}

static void take_number(struct tuple_reader *r, void *number, size_t size)
{
    struct hf_bytes bytes = take(r, size);

    if (!r->bad)
        memcpy(number, bytes.data, size);
}

static uint16_t take_u16(struct tuple_reader *r)
{
    uint16_t number = 0;

    take_number(r, &number, sizeof(number));
    return be16toh(number);
}

static uint32_t take_u32(struct tuple_reader *r)
{
    uint32_t number = 0;

    take_number(r, &number, sizeof(number));
    return be32toh(number);
}

static uint64_t take_u64(struct tuple_reader *r)
{
    uint64_t number = 0;

    take_number(r, &number, sizeof(number));
    return be64toh(number);
}

/* Reads a column's bytes. NULL comes with the length -1, which as an unsigned number exceeds any
 * max. */
static struct hf_bytes get_bytes(struct tuple_reader *r, size_t max)
{
    uint32_t len = take_u32(r);

    if (len > max)
        r->bad = true;
    return take(r, len);
}

/* Reads a boolean, smallint, integer or bigint: the length of the value tells which. */
static int64_t get_signed(struct tuple_reader *r)
{
    struct hf_bytes bytes = get_bytes(r, sizeof(uint64_t));
    struct tuple_reader n = {.rest = bytes};

    switch (r->bad ? 0 : bytes.len) {
    case 1:
        return (int8_t)bytes.data[0];
    case 2:
        return (int16_t)take_u16(&n);
    case 4:
        return (int32_t)take_u32(&n);
    case 8:
        return (int64_t)take_u64(&n);
    default:
        r->bad = true;
        return 0;
    }
}

static uint64_t get_number(struct tuple_reader *r)
{
    return (uint64_t)get_signed(r);
}

static uint64_t get_number_below(struct tuple_reader *r, uint64_t max)
{
    uint64_t number = get_number(r);

    if (number > max)
        r->bad = true;
    return number;
}

static int32_t get_i32(struct tuple_reader *r)
{
    int64_t number = get_signed(r);

    if (number < INT32_MIN || number > INT32_MAX)
        r->bad = true;
    return (int32_t)number;
}

/* Reads a binary numeric of PostgreSQL: the count of digits of base 10000, the power of the first
 * one, sign, digits after the point as displayed, and the digits. Ours are integers that are not
 * negative. */
static uint64_t get_offset(struct tuple_reader *r)
{
    struct tuple_reader n = {.rest = get_bytes(r, (4 + NUMERIC_DIGITS_MAX) * sizeof(uint16_t))};
    unsigned count = take_u16(&n);
    unsigned weight = take_u16(&n);
    unsigned sign = take_u16(&n);
    uint64_t offset = 0;

    (void)take_u16(&n);
    if (n.bad || sign != 0 || weight >= NUMERIC_DIGITS_MAX || count > weight + 1)
        r->bad = true;
    for (unsigned i = 0; i <= weight && !r->bad; i++) {
        unsigned digit = i < count ? take_u16(&n) : 0;

        if (n.bad || digit >= NUMERIC_BASE ||
            __builtin_mul_overflow(offset, NUMERIC_BASE, &offset) ||
            __builtin_add_overflow(offset, digit, &offset))
            r->bad = true;
    }
    return offset;
}

static unsigned get_addrs(struct tuple_reader *r, struct hf_addr *addrs, unsigned max)
{
    struct hf_bytes bytes = get_bytes(r, ADDRS_TEXT_MAX - 1);
    char text[ADDRS_TEXT_MAX];
    char *rest = text;
    unsigned count = 0;

    if (r->bad || bytes.len == 0)
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

static int encode_server(struct tuple_reader *r, struct hf_buf *out)
{
    struct hf_record_server s = {0};
    uint64_t epoch = get_number(r);
    bool clean = get_number_below(r, 1);
    struct hf_bytes record = get_bytes(r, HF_RECORD_SERVER_MAX);
    int rv = record.len > 0 ? hf_record_decode_server(record, &s) : 0;

    if (r->bad || rv < 0)
        return r->bad ? HF_EFORMAT : rv;
    if (s.epoch != epoch) /* a program that does not know this column wrote the record */
        s = (struct hf_record_server){.epoch = epoch};
    s.clean = clean;
    return hf_record_encode_server(&s, out);
}

static int encode_client(struct tuple_reader *r, struct hf_buf *out)
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
    c.registered_at_ms = get_signed(r);
    c.epoch = get_number(r);
    c.my_name = get_bytes(r, HF_NAME_MAX);
    c.prog = (uint32_t)get_number_below(r, UINT32_MAX);
    c.vers = (uint32_t)get_number_below(r, UINT32_MAX);
    c.proc = (uint32_t)get_number_below(r, UINT32_MAX);
    priv = get_bytes(r, HF_PRIV_SIZE);
    get_addrs(r, &c.callback_host, 1);
    if (hf_record_decode_lives(get_bytes(r, HF_RECORD_LIVES_MAX), &c.lives) < 0 || r->bad ||
        priv.len != HF_PRIV_SIZE)
        return HF_EFORMAT;
    memcpy(c.priv, priv.data, HF_PRIV_SIZE);
    return hf_record_encode_client(&c, out);
}

static int encode_lock(struct tuple_reader *r, struct hf_buf *out)
{
    struct hf_record_lock l = {0};

    l.id = get_number(r);
    l.client_id = get_number(r);
    l.export = get_bytes(r, HF_EXPORT_NAME_MAX);
    l.fh = get_bytes(r, HF_FH_MAX);
    l.oh = get_bytes(r, HF_OH_MAX);
    l.svid = get_i32(r);
    l.first = get_offset(r);
    l.last = get_offset(r);
    l.exclusive = get_number_below(r, 1);
    l.acquired_at_ms = get_signed(r);
    l.epoch = get_number(r);
    if (hf_record_decode_extra(get_bytes(r, HF_RECORD_EXTRA_MAX), &l.extra) < 0 || r->bad)
        return HF_EFORMAT;
    return hf_record_encode_lock(&l, out);
}

bool hf_pg_tuples_skip_header(struct hf_bytes *message)
{
    struct tuple_reader r = {.rest = *message};
    struct hf_bytes signature = take(&r, sizeof(SIGNATURE));

    /* the header's flags: the low half can be ignored, the high half must be empty */
    (void)take_u32(&r);
    take(&r, take_u32(&r)); /* skips the extension area of the header */
    if (r.bad || memcmp(signature.data, SIGNATURE, sizeof(SIGNATURE)) != 0)
        return false;
    *message = r.rest;
    return true;
}

bool hf_pg_tuples_end(struct hf_bytes message)
{
    struct tuple_reader r = {.rest = message};

    return message.len == 0 || take_u16(&r) == UINT16_MAX;
}

bool hf_pg_tuple_id(struct hf_bytes message, uint64_t *out)
{
    struct tuple_reader r = {.rest = message};

    (void)take_u16(&r);
    *out = get_number(&r);
    return !r.bad;
}

int hf_pg_tuple_encode(struct hf_bytes message, enum hf_record_kind kind, struct hf_buf *out)
{
    struct tuple_reader r = {.rest = message};

    if (take_u16(&r) != hf_pg_table_of(kind)->n_columns)
        return HF_EFORMAT;
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
