#include "core/record.h"

#include <endian.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/hash.h"

/*
 * The encoded form of a record: one byte kind, one byte format version, then the fields in the
 * order of the structure. Numbers are big-endian and of fixed size; bytes are a 16-bit length and
 * the bytes; an address is family, 32-bit scope, and as many bytes as the family has (ports are not
 * kept).
 *
 * A later version may only append fields. So a decoder knows by the version where to stop, and
 * older records stay readable.
 */
enum {
    SERVER_VERSION = 4,
    CLIENT_VERSION = 2,
    LOCK_VERSION = 2,
};

enum { LIFE_SIZE = 4 + 8 };

struct writer {
    uint8_t *p;
};

struct reader {
    const uint8_t *p;
    size_t left;
    bool bad; /* set by the first read that fails, and stays set */
};

static void put_u8(struct writer *w, uint8_t v)
{
    *w->p++ = v;
}

static void put_u16(struct writer *w, uint16_t v)
{
    v = htobe16(v);
    memcpy(w->p, &v, sizeof(v));
    w->p += sizeof(v);
}

static void put_u32(struct writer *w, uint32_t v)
{
    v = htobe32(v);
    memcpy(w->p, &v, sizeof(v));
    w->p += sizeof(v);
}

static void put_u64(struct writer *w, uint64_t v)
{
    v = htobe64(v);
    memcpy(w->p, &v, sizeof(v));
    w->p += sizeof(v);
}

static void put_raw(struct writer *w, const void *data, size_t len)
{
    if (len > 0)
        memcpy(w->p, data, len);
    w->p += len;
}

static void put_bytes(struct writer *w, struct hf_bytes bytes)
{
    put_u16(w, (uint16_t)bytes.len);
    put_raw(w, bytes.data, bytes.len);
}

static size_t addr_len(uint8_t family)
{
    return family == HF_ADDR_IPV4 ? 4 : family == HF_ADDR_IPV6 ? 16 : 0;
}

static void put_addr(struct writer *w, const struct hf_addr *addr)
{
    put_u8(w, addr->family);
    put_u32(w, addr->scope);
    put_raw(w, addr->bytes, addr_len(addr->family));
}

static const uint8_t *take(struct reader *r, size_t len)
{
    const uint8_t *p = r->p;

    if (r->bad || r->left < len) {
        r->bad = true;
        return NULL;
    }
    r->p += len;
    r->left -= len;
    return p;
}

/* Reads a number of so many bytes, the most significant first. */
static inline uint64_t get_number(struct reader *r, size_t size)
{
    const uint8_t *p = take(r, size);
    uint64_t v = 0;

    for (size_t i = 0; p && i < size; i++)
        v = v << 8 | p[i];
    return v;
}

static uint8_t get_u8(struct reader *r)
{
    return (uint8_t)get_number(r, 1);
}

static uint16_t get_u16(struct reader *r)
{
    return (uint16_t)get_number(r, 2);
}

static uint32_t get_u32(struct reader *r)
{
    return (uint32_t)get_number(r, 4);
}

static uint64_t get_u64(struct reader *r)
{
    return get_number(r, 8);
}

static bool get_bool(struct reader *r)
{
    uint8_t v = get_u8(r);

    if (v > 1)
        r->bad = true;
    return v == 1;
}

static struct hf_bytes get_bytes(struct reader *r, size_t max)
{
    size_t len = get_u16(r);
    const uint8_t *p;

    if (len > max)
        r->bad = true;
    p = take(r, len);
    return hf_bytes(p, p ? len : 0);
}

static struct hf_addr get_addr(struct reader *r)
{
    struct hf_addr addr = {.family = get_u8(r)};
    const uint8_t *p;

    addr.scope = get_u32(r);
    if (addr.family != HF_ADDR_NONE && addr_len(addr.family) == 0)
        r->bad = true;
    p = take(r, addr_len(addr.family));
    if (p)
        memcpy(addr.bytes, p, addr_len(addr.family));
    return addr;
}

/* Opens a record for reading: its kind must be this one, and its version one that we know. */
static int open_record(struct hf_bytes bytes, enum hf_record_kind kind, uint8_t newest,
                       struct reader *r)
{
    uint8_t version;

    *r = (struct reader){bytes.data, bytes.len, false};
    if (get_u8(r) != kind || r->bad)
        return HF_EFORMAT;
    version = get_u8(r);
    if (r->bad || version == 0)
        return HF_EFORMAT;
    return version > newest ? HF_EVERSION : 0;
}

/* Returns the version of a record that open_record() has accepted. */
static uint8_t version_of(struct hf_bytes bytes)
{
    return bytes.data[1];
}

static int close_record(const struct reader *r)
{
    return r->bad || r->left > 0 ? HF_EFORMAT : 0;
}

static size_t addr_size(const struct hf_addr *addr)
{
    return 1 + 4 + addr_len(addr->family);
}

/*
 * Returns the oldest version that has all fields the record needs: 2 adds a boot id, 3 a role, 4
 * continuity.
 */
static uint8_t server_version(const struct hf_record_server *s)
{
    static const uint8_t none[HF_BOOT_ID_SIZE];

    if (s->continuity != HF_CONTINUITY_NONE)
        return SERVER_VERSION;
    if (s->role != HF_ROLE_UNKNOWN || s->number_epoch != 0)
        return 3;
    return s->locks_unknown || memcmp(s->boot_id, none, sizeof(none)) != 0 ? 2 : 1;
}

static size_t server_size(const struct hf_record_server *s)
{
    size_t size = 2 + 8 + 1;

    if (server_version(s) > 1)
        size += 1 + HF_BOOT_ID_SIZE;
    if (server_version(s) > 2)
        size += 1 + 1 + 8;
    if (server_version(s) > 3)
        size += 1;
    return size;
}

/* Version 1 of a client's record has no lives. */
static size_t lives_size(const struct hf_record_lives *lives)
{
    return lives->n == 0 ? 0 : 2 + lives->n * LIFE_SIZE;
}

static size_t client_size(const struct hf_record_client *c)
{
    size_t size = 2 + 8 + 1 + 1 + 2 + c->name.len + 1;

    for (unsigned i = 0; i < c->n_addrs; i++)
        size += addr_size(&c->addrs[i]);
    size += addr_size(&c->local) + 4 + 8 + 8 + 8;
    size += 2 + c->my_name.len + 4 + 4 + 4 + HF_PRIV_SIZE + addr_size(&c->callback_host);
    return size + lives_size(&c->lives);
}

/* Version 1 of a lock's record has no extra part. */
static size_t extra_size(const struct hf_record_extra *e)
{
    switch (e->what) {
    case HF_RECORD_HELD:
        return 0;
    case HF_RECORD_WAITING:
    case HF_RECORD_GRANTED:
        return 1 + 8 + 8 + 8 + 8 + addr_size(&e->local) + 3 + 2 + e->had.len;
    case HF_RECORD_SHARED:
        return 1 + 8 + 2;
    }
    HF_UNREACHABLE();
}

static size_t lock_size(const struct hf_record_lock *l)
{
    return 2 + 8 + 8 + (2 + l->export.len) + (2 + l->fh.len) + (2 + l->oh.len) + 4 + 8 + 8 + 1 + 8 +
           8 + extra_size(&l->extra);
}

static void write_server(struct writer *w, const struct hf_record_server *s)
{
    put_u8(w, HF_RECORD_SERVER);
    put_u8(w, server_version(s));
    put_u64(w, s->epoch);
    put_u8(w, s->clean);
    if (server_version(s) == 1)
        return;
    put_u8(w, s->locks_unknown);
    put_raw(w, s->boot_id, HF_BOOT_ID_SIZE);
    if (server_version(s) == 2)
        return;
    put_u8(w, (uint8_t)s->role);
    put_u8(w, (uint8_t)s->durability);
    put_u64(w, s->number_epoch);
    /* Continuity must be the last byte, because holdfast_clear_lease() changes it there. */
    if (server_version(s) > 3)
        put_u8(w, (uint8_t)s->continuity);
}

static void write_lives(struct writer *w, const struct hf_record_lives *lives)
{
    HF_ASSERT(lives->n <= HF_CLIENT_LIVES);
    if (lives->n == 0)
        return;
    put_u8(w, lives->n);
    put_u8(w, lives->n_left);
    for (unsigned i = 0; i < lives->n; i++) {
        put_u32(w, (uint32_t)lives->states[i]);
        put_u64(w, lives->first_ids[i]);
    }
}

static void write_client(struct writer *w, const struct hf_record_client *c)
{
    HF_ASSERT(c->n_addrs <= HF_CLIENT_ADDRS_MAX);
    HF_ASSERT(c->name.len <= HF_NAME_MAX && c->my_name.len <= HF_NAME_MAX);
    put_u8(w, HF_RECORD_CLIENT);
    put_u8(w, c->lives.n > 0 ? CLIENT_VERSION : 1);
    put_u64(w, c->id);
    put_u8(w, (uint8_t)c->protocol);
    put_u8(w, (uint8_t)c->transport);
    put_bytes(w, c->name);
    put_u8(w, (uint8_t)c->n_addrs);
    for (unsigned i = 0; i < c->n_addrs; i++)
        put_addr(w, &c->addrs[i]);
    put_addr(w, &c->local);
    put_u32(w, (uint32_t)c->state);
    put_u64(w, c->ttl_ms);
    put_u64(w, (uint64_t)c->registered_at_ms);
    put_u64(w, c->epoch);
    put_bytes(w, c->my_name);
    put_u32(w, c->prog);
    put_u32(w, c->vers);
    put_u32(w, c->proc);
    put_raw(w, c->priv, HF_PRIV_SIZE);
    put_addr(w, &c->callback_host);
    write_lives(w, &c->lives);
}

enum { FLAG_MSG = 1, FLAG_MONITORED = 2, FLAG_PASSES = 4, FLAGS = 7 };

static void write_extra(struct writer *w, const struct hf_record_extra *e)
{
    if (e->what == HF_RECORD_HELD)
        return;
    put_u8(w, (uint8_t)e->what);
    put_u64(w, e->life_id);
    if (e->what == HF_RECORD_SHARED) {
        put_u8(w, e->mode);
        put_u8(w, e->access);
        return;
    }
    HF_ASSERT(e->n_had <= HF_RECORD_HAD_MAX && e->had.len == (size_t)e->n_had * HF_RECORD_HAD_SIZE);
    put_u64(w, e->place);
    put_u64(w, e->offset);
    put_u64(w, e->length);
    put_addr(w, &e->local);
    put_u8(w, (uint8_t)e->transport);
    put_u8(w, e->version);
    put_u8(w, (uint8_t)((e->msg ? FLAG_MSG : 0) | (e->monitored ? FLAG_MONITORED : 0) |
                        (e->passes ? FLAG_PASSES : 0)));
    put_u16(w, e->n_had);
    put_raw(w, e->had.data, e->had.len);
}

static void write_lock(struct writer *w, const struct hf_record_lock *l)
{
    HF_ASSERT(l->export.len <= HF_EXPORT_NAME_MAX);
    HF_ASSERT(l->fh.len <= HF_FH_MAX && l->oh.len <= HF_OH_MAX);
    put_u8(w, HF_RECORD_LOCK);
    put_u8(w, l->extra.what == HF_RECORD_HELD ? 1 : LOCK_VERSION);
    put_u64(w, l->id);
    put_u64(w, l->client_id);
    put_bytes(w, l->export);
    put_bytes(w, l->fh);
    put_bytes(w, l->oh);
    put_u32(w, (uint32_t)l->svid);
    put_u64(w, l->first);
    put_u64(w, l->last);
    put_u8(w, l->exclusive);
    put_u64(w, (uint64_t)l->acquired_at_ms);
    put_u64(w, l->epoch);
    write_extra(w, &l->extra);
}

/* Reserves `size` bytes, lets `body` write the record, and checks that it wrote exactly that
 * many. */
#define ENCODE(buf, size, body, record)                    \
    do {                                                   \
        size_t size_ = (size);                             \
        struct writer w_ = {hf_buf_reserve((buf), size_)}; \
        const uint8_t *start_ = w_.p;                      \
        if (!w_.p)                                         \
            return HF_ENOMEM;                              \
        body(&w_, (record));                               \
        HF_ASSERT((size_t)(w_.p - start_) == size_);       \
        hf_buf_commit((buf), size_);                       \
    } while (0)

int hf_record_encode_server(const struct hf_record_server *record, struct hf_buf *buf)
{
    ENCODE(buf, server_size(record), write_server, record);
    return 0;
}

int hf_record_encode_client(const struct hf_record_client *record, struct hf_buf *buf)
{
    ENCODE(buf, client_size(record), write_client, record);
    return 0;
}

int hf_record_encode_lock(const struct hf_record_lock *record, struct hf_buf *buf)
{
    ENCODE(buf, lock_size(record), write_lock, record);
    return 0;
}

/* Reads the boot id. A version 2 record has one only if locks were not flushed. */
static void read_boot(struct reader *r, struct hf_record_server *out)
{
    static const uint8_t none[HF_BOOT_ID_SIZE];
    const uint8_t *boot_id;

    out->locks_unknown = get_bool(r);
    boot_id = take(r, HF_BOOT_ID_SIZE);
    if (!boot_id)
        return;
    memcpy(out->boot_id, boot_id, HF_BOOT_ID_SIZE);
    if (memcmp(boot_id, none, sizeof(none)) != 0)
        out->durability = HF_DURABILITY_PROCESS;
}

static void read_role(struct reader *r, struct hf_record_server *out)
{
    uint8_t role = get_u8(r);
    uint8_t durability = get_u8(r);

    if (role > HF_ROLE_MONITOR || durability > HF_DURABILITY_FULL)
        r->bad = true;
    out->role = (enum hf_role)role;
    out->durability = (enum hf_durability)durability;
    out->number_epoch = get_u64(r);
    if (out->number_epoch > out->epoch)
        r->bad = true;
}

static void read_continuity(struct reader *r, struct hf_record_server *out)
{
    uint8_t continuity = get_u8(r);

    if (continuity > HF_CONTINUITY_LOST)
        r->bad = true;
    out->continuity = (enum hf_continuity)continuity;
}

int hf_record_decode_server(struct hf_bytes bytes, struct hf_record_server *out)
{
    struct reader r;
    int rv = open_record(bytes, HF_RECORD_SERVER, SERVER_VERSION, &r);

    if (rv < 0)
        return rv;
    *out = (struct hf_record_server){.epoch = get_u64(&r)};
    out->clean = get_bool(&r);
    if (version_of(bytes) > 1)
        read_boot(&r, out);
    if (version_of(bytes) > 2)
        read_role(&r, out);
    if (version_of(bytes) > 3)
        read_continuity(&r, out);
    return close_record(&r);
}

/* Reads a client's lives, newest first, so their first ids must not grow. */
static void read_lives(struct reader *r, struct hf_record_lives *out)
{
    uint64_t newer_id = UINT64_MAX;

    out->n = get_u8(r);
    out->n_left = get_u8(r);
    if (out->n > HF_CLIENT_LIVES || out->n_left >= out->n)
        r->bad = true;
    for (unsigned i = 0; !r->bad && i < out->n; i++) {
        out->states[i] = (int32_t)get_u32(r);
        out->first_ids[i] = get_u64(r);
        if (out->first_ids[i] > newer_id)
            r->bad = true;
        newer_id = out->first_ids[i];
    }
}

size_t hf_record_encode_lives(const struct hf_record_lives *lives, uint8_t out[HF_RECORD_LIVES_MAX])
{
    write_lives(&(struct writer){out}, lives);
    return lives_size(lives);
}

int hf_record_decode_lives(struct hf_bytes bytes, struct hf_record_lives *out)
{
    struct reader r = {bytes.data, bytes.len, false};

    *out = (struct hf_record_lives){0};
    if (bytes.len > 0)
        read_lives(&r, out);
    return close_record(&r);
}

int hf_record_decode_client(struct hf_bytes bytes, struct hf_record_client *out)
{
    struct reader r;
    const uint8_t *priv;
    uint8_t protocol;
    uint8_t transport;
    int rv = open_record(bytes, HF_RECORD_CLIENT, CLIENT_VERSION, &r);

    if (rv < 0)
        return rv;
    memset(out, 0, sizeof(*out));
    out->id = get_u64(&r);
    protocol = get_u8(&r);
    transport = get_u8(&r);
    if ((protocol != HF_PROTOCOL_NLM && protocol != HF_PROTOCOL_NSM) ||
        (transport != HF_TRANSPORT_UDP && transport != HF_TRANSPORT_TCP))
        return HF_EFORMAT;
    out->protocol = (enum hf_protocol)protocol;
    out->transport = (enum hf_transport)transport;
    out->name = get_bytes(&r, HF_NAME_MAX);
    out->n_addrs = get_u8(&r);
    if (out->n_addrs > HF_CLIENT_ADDRS_MAX)
        return HF_EFORMAT;
    for (unsigned i = 0; i < out->n_addrs; i++)
        out->addrs[i] = get_addr(&r);
    out->local = get_addr(&r);
    out->state = (int32_t)get_u32(&r);
    out->ttl_ms = get_u64(&r);
    out->registered_at_ms = (int64_t)get_u64(&r);
    out->epoch = get_u64(&r);
    out->my_name = get_bytes(&r, HF_NAME_MAX);
    out->prog = get_u32(&r);
    out->vers = get_u32(&r);
    out->proc = get_u32(&r);
    priv = take(&r, HF_PRIV_SIZE);
    if (priv)
        memcpy(out->priv, priv, HF_PRIV_SIZE);
    out->callback_host = get_addr(&r);
    if (version_of(bytes) > 1)
        read_lives(&r, &out->lives);
    return close_record(&r);
}

/* Reads the parts of the range that the owner held before, which are in order and do not
 * overlap. */
static void read_had(struct reader *r, struct hf_record_extra *out)
{
    uint64_t next = 0;

    out->n_had = get_u16(r);
    out->had = hf_bytes(r->p, (size_t)out->n_had * HF_RECORD_HAD_SIZE);
    if (out->n_had > HF_RECORD_HAD_MAX)
        r->bad = true;
    for (unsigned i = 0; !r->bad && i < out->n_had; i++) {
        uint64_t first = get_u64(r);
        uint64_t last = get_u64(r);

        (void)get_bool(r);
        if (first > last || first < next || (last == UINT64_MAX && i + 1 < out->n_had))
            r->bad = true;
        next = last + 1;
    }
}

static void read_waiter(struct reader *r, struct hf_record_extra *out)
{
    uint8_t transport;
    uint8_t flags;

    out->place = get_u64(r);
    out->offset = get_u64(r);
    out->length = get_u64(r);
    out->local = get_addr(r);
    transport = get_u8(r);
    out->version = get_u8(r);
    flags = get_u8(r);
    if ((transport != HF_TRANSPORT_UDP && transport != HF_TRANSPORT_TCP) || flags > FLAGS ||
        out->place == 0)
        r->bad = true;
    out->transport = (enum hf_transport)transport;
    out->msg = flags & FLAG_MSG;
    out->monitored = flags & FLAG_MONITORED;
    out->passes = flags & FLAG_PASSES;
    read_had(r, out);
    if (out->what == HF_RECORD_WAITING && out->n_had > 0)
        r->bad = true;
}

static void read_extra(struct reader *r, struct hf_record_extra *out)
{
    uint8_t what = get_u8(r);

    if (what < HF_RECORD_WAITING || what > HF_RECORD_SHARED)
        r->bad = true;
    out->what = (enum hf_record_what)what;
    out->life_id = get_u64(r);
    if (what != HF_RECORD_SHARED) {
        read_waiter(r, out);
        return;
    }
    out->mode = get_u8(r);
    out->access = get_u8(r);
    if (out->mode > 3 || out->access > 3)
        r->bad = true;
}

size_t hf_record_encode_extra(const struct hf_record_extra *extra, uint8_t out[HF_RECORD_EXTRA_MAX])
{
    write_extra(&(struct writer){out}, extra);
    return extra_size(extra);
}

int hf_record_decode_extra(struct hf_bytes bytes, struct hf_record_extra *out)
{
    struct reader r = {bytes.data, bytes.len, false};

    *out = (struct hf_record_extra){0};
    if (bytes.len > 0)
        read_extra(&r, out);
    return close_record(&r);
}

struct hf_record_had hf_record_had(const struct hf_record_extra *extra, unsigned i)
{
    struct reader r = {extra->had.data + (size_t)i * HF_RECORD_HAD_SIZE, HF_RECORD_HAD_SIZE, false};
    struct hf_record_had had = {.first = get_u64(&r)};

    HF_ASSERT(i < extra->n_had);
    had.last = get_u64(&r);
    had.exclusive = get_bool(&r);
    return had;
}

void hf_record_put_had(uint8_t out[HF_RECORD_HAD_SIZE], const struct hf_record_had *had)
{
    struct writer w = {out};

    put_u64(&w, had->first);
    put_u64(&w, had->last);
    put_u8(&w, had->exclusive);
}

bool hf_record_is_held(struct hf_bytes record)
{
    return record.len > 1 && record.data[0] == HF_RECORD_LOCK && record.data[1] == 1;
}

int hf_record_decode_lock(struct hf_bytes bytes, struct hf_record_lock *out)
{
    struct reader r;
    int rv = open_record(bytes, HF_RECORD_LOCK, LOCK_VERSION, &r);

    if (rv < 0)
        return rv;
    out->id = get_u64(&r);
    out->client_id = get_u64(&r);
    out->export = get_bytes(&r, HF_EXPORT_NAME_MAX);
    out->fh = get_bytes(&r, HF_FH_MAX);
    out->oh = get_bytes(&r, HF_OH_MAX);
    out->svid = (int32_t)get_u32(&r);
    out->first = get_u64(&r);
    out->last = get_u64(&r);
    out->exclusive = get_bool(&r);
    out->acquired_at_ms = (int64_t)get_u64(&r);
    out->epoch = get_u64(&r);
    out->extra = (struct hf_record_extra){0};
    if (version_of(bytes) > 1)
        read_extra(&r, &out->extra);
    if (out->first > out->last)
        return HF_EFORMAT;
    return close_record(&r);
}

uint64_t hf_record_hash(struct hf_bytes record)
{
    static const struct hf_hash_key key = {0x686f6c6466617374ULL, 0x646967657374ULL};

    return hf_siphash(&key, record.data, record.len);
}

void hf_batch_init(struct hf_batch *batch, const struct hf_alloc *alloc)
{
    *batch = (struct hf_batch){.locks_only = true};
    hf_buf_init(&batch->buf, alloc);
}

void hf_batch_free(struct hf_batch *batch)
{
    hf_buf_free(&batch->buf);
}

void hf_batch_clear(struct hf_batch *batch)
{
    hf_buf_clear(&batch->buf);
    batch->n_ops = 0;
    batch->locks_only = true;
}

static void write_op_header(struct writer *w, const struct hf_op *op)
{
    put_u8(w, (uint8_t)op->type);
    put_u8(w, (uint8_t)op->kind);
    put_u16(w, 0);
    put_u32(w, (uint32_t)op->value.len);
    put_u64(w, op->id);
}

/* Reserves room for the header and the value together, so that a failure leaves no half
 * operation. */
static int begin_op(struct hf_batch *batch, const struct hf_op *op)
{
    if (!hf_buf_reserve(&batch->buf, HF_OP_HEADER_SIZE + op->value.len))
        return HF_ENOMEM;
    ENCODE(&batch->buf, HF_OP_HEADER_SIZE, write_op_header, op);
    batch->n_ops++;
    batch->locks_only = batch->locks_only && op->kind == HF_RECORD_LOCK;
    return 0;
}

int hf_batch_put_server(struct hf_batch *batch, const struct hf_record_server *record)
{
    struct hf_op op = {HF_OP_PUT, HF_RECORD_SERVER, 0, {NULL, server_size(record)}};
    int rv = begin_op(batch, &op);

    return rv < 0 ? rv : hf_record_encode_server(record, &batch->buf);
}

int hf_batch_put_client(struct hf_batch *batch, const struct hf_record_client *record)
{
    struct hf_op op = {HF_OP_PUT, HF_RECORD_CLIENT, record->id, {NULL, client_size(record)}};
    int rv = begin_op(batch, &op);

    return rv < 0 ? rv : hf_record_encode_client(record, &batch->buf);
}

int hf_batch_put_lock(struct hf_batch *batch, const struct hf_record_lock *record)
{
    struct hf_op op = {HF_OP_PUT, HF_RECORD_LOCK, record->id, {NULL, lock_size(record)}};
    int rv = begin_op(batch, &op);

    return rv < 0 ? rv : hf_record_encode_lock(record, &batch->buf);
}

int hf_batch_delete(struct hf_batch *batch, enum hf_record_kind kind, uint64_t id)
{
    struct hf_op op = {HF_OP_DELETE, kind, id, {NULL, 0}};

    return begin_op(batch, &op);
}

int hf_batch_put_encoded(struct hf_batch *batch, enum hf_record_kind kind, struct hf_bytes record)
{
    struct hf_record_server server;
    struct hf_record_client client;
    struct hf_record_lock lock;
    int rv;

    switch (kind) {
    case HF_RECORD_SERVER:
        rv = hf_record_decode_server(record, &server);
        return rv < 0 ? rv : hf_batch_put_server(batch, &server);
    case HF_RECORD_CLIENT:
        rv = hf_record_decode_client(record, &client);
        return rv < 0 ? rv : hf_batch_put_client(batch, &client);
    case HF_RECORD_LOCK:
        rv = hf_record_decode_lock(record, &lock);
        return rv < 0 ? rv : hf_batch_put_lock(batch, &lock);
    }
    return HF_EFORMAT;
}

int hf_batch_append(struct hf_batch *batch, const struct hf_batch *more)
{
    struct hf_bytes ops = hf_buf_view(&more->buf);

    if (ops.len > 0 && hf_buf_append(&batch->buf, ops.data, ops.len) < 0)
        return HF_ENOMEM;
    batch->n_ops += more->n_ops;
    batch->locks_only = batch->locks_only && more->locks_only;
    return 0;
}

static void read_op(struct reader *r, struct hf_op *out)
{
    out->type = (enum hf_op_type)get_u8(r);
    out->kind = (enum hf_record_kind)get_u8(r);
    (void)get_u16(r);
    out->value.len = get_u32(r);
    out->id = get_u64(r);
    out->value.data = take(r, out->value.len);
}

static int append_checked(struct hf_batch *batch, const struct hf_op *op)
{
    if (op->type == HF_OP_PUT)
        return hf_batch_put_encoded(batch, op->kind, op->value);
    if (op->type != HF_OP_DELETE || op->kind < HF_RECORD_SERVER || op->kind > HF_RECORD_LOCK)
        return HF_EFORMAT;
    return hf_batch_delete(batch, op->kind, op->id);
}

int hf_batch_append_encoded(struct hf_batch *batch, struct hf_bytes ops)
{
    struct reader r = {ops.data, ops.len, false};
    int rv = 0;

    while (r.left > 0 && rv == 0) {
        struct hf_op op;

        read_op(&r, &op);
        rv = r.bad ? HF_EFORMAT : append_checked(batch, &op);
    }
    return rv;
}

bool hf_batch_next(const struct hf_batch *batch, size_t *cursor, struct hf_op *out)
{
    struct hf_bytes all = hf_buf_view(&batch->buf);
    struct reader r = {all.data + *cursor, all.len - *cursor, false};

    if (r.left == 0)
        return false;
    read_op(&r, out);
    HF_ASSERT(!r.bad); /* cannot happen: we encoded this batch ourselves */
    *cursor = all.len - r.left;
    return true;
}
