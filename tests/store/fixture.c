#include "fixture.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/hash.h"

void give_up(const char *what)
{
    fprintf(stderr, "Bail out! %s: %s\n", what, strerror(errno));
    exit(99);
}

void scratch_make(char path[PATH_MAX], const char *base)
{
    const char *tmp = base ? base : getenv("TMPDIR");

    snprintf(path, PATH_MAX, "%s/holdfast-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    MUST(mkdtemp(path));
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

void scratch_remove(const char *path)
{
    (void)nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* splitmix64 */
uint64_t dice_roll(struct dice *dice)
{
    uint64_t z = dice->state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

uint64_t dice_below(struct dice *dice, uint64_t limit)
{
    return dice_roll(dice) % limit;
}

static struct hf_bytes make_bytes(struct dice *dice, uint8_t *room, size_t len)
{
    for (size_t i = 0; i < len; i++)
        /* The bytes are of any value, NUL and broken UTF-8 included. */
        room[i] = (uint8_t)dice_roll(dice);
    return hf_bytes(room, len);
}

static void make_addr(struct dice *dice, struct hf_addr *out)
{
    static const char *const SAMPLES[] = {
        "192.0.2.1", "198.51.100.77", "2001:db8::1", "fe80::1%7", "::1", "127.0.0.1",
    };

    MUST(hf_addr_parse(SAMPLES[dice_below(dice, 6)], out) == 0);
}

struct hf_record_client make_client(uint64_t id, uint64_t salt, uint8_t room[HF_NAME_MAX])
{
    struct dice dice = {id ^ salt << 32};
    struct hf_record_client c = {
        .id = id,
        .protocol = dice_below(&dice, 2) ? HF_PROTOCOL_NLM : HF_PROTOCOL_NSM,
        .transport = dice_below(&dice, 2) ? HF_TRANSPORT_UDP : HF_TRANSPORT_TCP,
        .name = make_bytes(&dice, room, dice_below(&dice, 40)),
        .n_addrs = (unsigned)dice_below(&dice, HF_CLIENT_ADDRS_MAX + 1),
        .state = (int32_t)dice_roll(&dice),
        .ttl_ms = dice_roll(&dice),
        .registered_at_ms = (int64_t)dice_roll(&dice),
        .epoch = dice_roll(&dice),
        .my_name = make_bytes(&dice, room + 512, dice_below(&dice, 40)),
        .prog = (uint32_t)dice_roll(&dice),
        .vers = (uint32_t)dice_roll(&dice),
        .proc = (uint32_t)dice_roll(&dice),
    };

    for (unsigned i = 0; i < c.n_addrs; i++)
        make_addr(&dice, &c.addrs[i]);
    if (dice_below(&dice, 2))
        make_addr(&dice, &c.local);
    if (dice_below(&dice, 2))
        make_addr(&dice, &c.callback_host);
    make_bytes(&dice, c.priv, HF_PRIV_SIZE);
    c.lives.n = (uint8_t)dice_below(&dice, HF_CLIENT_LIVES + 1);
    c.lives.n_left = (uint8_t)(c.lives.n > 0 ? dice_below(&dice, c.lives.n) : 0);
    for (unsigned i = 0; i < c.lives.n; i++) {
        c.lives.states[i] = (int32_t)dice_roll(&dice);
        c.lives.first_ids[i] = dice_roll(&dice) / 8 + (HF_CLIENT_LIVES - i) * (UINT64_MAX / 8);
    }
    return c;
}

/* Makes the record of a waiter or a share. */
static struct hf_record_extra make_extra(struct dice *dice, uint8_t *room)
{
    struct hf_record_extra e = {.what = 1 + dice_below(dice, 3), .life_id = dice_roll(dice)};

    if (e.what == HF_RECORD_SHARED) {
        e.mode = (uint8_t)dice_below(dice, 4);
        e.access = (uint8_t)dice_below(dice, 4);
        return e;
    }
    e.place = 1 + dice_below(dice, UINT64_MAX);
    e.offset = dice_roll(dice);
    e.length = dice_roll(dice);
    if (dice_below(dice, 2))
        make_addr(dice, &e.local);
    e.transport = dice_below(dice, 2) ? HF_TRANSPORT_UDP : HF_TRANSPORT_TCP;
    e.version = (uint8_t)dice_below(dice, 5);
    e.msg = dice_below(dice, 2);
    e.monitored = dice_below(dice, 2);
    e.passes = dice_below(dice, 2);
    e.n_had = (uint16_t)(e.what == HF_RECORD_GRANTED ? dice_below(dice, 4) : 0);
    e.had = hf_bytes(room, (size_t)e.n_had * HF_RECORD_HAD_SIZE);
    for (unsigned i = 0; i < e.n_had; i++) {
        const struct hf_record_had had = {i * UINT64_C(1000) + dice_below(dice, 100),
                                          i * UINT64_C(1000) + 100 + dice_below(dice, 900),
                                          dice_below(dice, 2)};
        hf_record_put_had(room + (size_t)i * HF_RECORD_HAD_SIZE, &had);
    }
    return e;
}

struct hf_record_lock make_lock(uint64_t id, uint64_t salt, uint8_t room[HF_FH_MAX])
{
    struct dice dice = {id ^ salt << 32};
    uint64_t a = dice_roll(&dice);
    uint64_t b = dice_below(&dice, 2) ? dice_roll(&dice) : UINT64_MAX;

    struct hf_record_lock l = {
        .id = id,
        .client_id = dice_below(&dice, STORY_IDS),
        .export = hf_bytes_str("default"),
        .fh = make_bytes(&dice, room, 16 + dice_below(&dice, 48)),
        .oh = make_bytes(&dice, room + 512, dice_below(&dice, 24)),
        .svid = (int32_t)dice_roll(&dice),
        .first = a < b ? a : b,
        .last = a < b ? b : a,
        .exclusive = dice_below(&dice, 2),
        .acquired_at_ms = (int64_t)dice_roll(&dice),
        .epoch = dice_roll(&dice),
    };
    if (dice_below(&dice, 3) == 0)
        l.extra = make_extra(&dice, room + 600);
    return l;
}

static void story_op(struct dice *dice, uint64_t seq, struct hf_batch *out)
{
    uint8_t room[HF_NAME_MAX];
    uint64_t id = 1 + dice_below(dice, STORY_IDS);
    uint64_t what = dice_below(dice, 100);
    struct hf_record_client client = make_client(id, seq, room);
    struct hf_record_server server = {.epoch = seq, .clean = seq & 1};
    struct hf_record_lock lock;

    if (what < 3) {
        MUST(hf_batch_put_server(out, &server) == 0);
    } else if (what < 20) {
        MUST(hf_batch_put_client(out, &client) == 0);
    } else if (what < 60) {
        lock = make_lock(id, seq, room);
        MUST(hf_batch_put_lock(out, &lock) == 0);
    } else {
        enum hf_record_kind kind = what < 75 ? HF_RECORD_CLIENT : HF_RECORD_LOCK;
        MUST(hf_batch_delete(out, kind, id) == 0);
    }
}

void story_batch(uint64_t seed, uint64_t seq, struct hf_batch *out)
{
    struct dice dice = {seed ^ seq * UINT64_C(0x2545f4914f6cdd1d)};
    uint64_t count = 1 + dice_below(&dice, 24);

    hf_batch_clear(out);
    out->seq = seq;
    for (uint64_t i = 0; i < count; i++)
        story_op(&dice, seq, out);
}

struct digesting {
    struct digest digest;
    enum hf_record_kind last_kind;
};

static int decode_any(enum hf_record_kind kind, struct hf_bytes record)
{
    struct hf_record_server server;
    struct hf_record_client client;
    struct hf_record_lock lock;

    return kind == HF_RECORD_SERVER   ? hf_record_decode_server(record, &server)
           : kind == HF_RECORD_CLIENT ? hf_record_decode_client(record, &client)
                                      : hf_record_decode_lock(record, &lock);
}

static int digest_one(void *ctx, enum hf_record_kind kind, struct hf_bytes record)
{
    static const struct hf_hash_key KEY = {1, 2};
    struct digesting *d = ctx;
    int rv = decode_any(kind, record);

    if (rv < 0)
        return rv;
    if (kind < d->last_kind)
        return HF_EINVAL; /* the order is: the server, then clients, then locks */
    d->last_kind = kind;
    d->digest.sum += hf_hash(&KEY, record.data, record.len);
    d->digest.count++;
    return 0;
}

int store_digest(struct hf_store *store, struct digest *out)
{
    struct digesting d = {.last_kind = HF_RECORD_SERVER};
    int rv = hf_store_load(store, digest_one, &d);

    *out = d.digest;
    return rv;
}

int ignore_record(void *ctx, enum hf_record_kind kind, struct hf_bytes record)
{
    (void)ctx;
    (void)kind;
    (void)record;
    return 0;
}
