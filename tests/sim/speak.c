#include "speak.h"

#include "door.h"
#include "world.h"

/* ---- requests ---- */

static uint64_t length_of(uint64_t first, uint64_t last)
{
    return last == UINT64_MAX ? 0 : last - first + 1;
}

/* The seed draws which version a host speaks; what does not fit into 32 bits needs version 4. */
static uint32_t version_of(const struct sim_world *world, const struct sim_message *r)
{
    static const uint32_t versions[] = {4, 3, 4, 1};
    uint32_t version = versions[(world->config.seed + r->host) % 4];
    uint64_t first = sim_first_byte(world->config.layout, r->range);
    uint64_t last = sim_last_byte(world->config.layout, r->range);

    switch (r->call) {
    case SIM_CALL_NM_LOCK:
        if (version == 1)
            version = 3;
        break;
    case SIM_CALL_SHARE:
    case SIM_CALL_UNSHARE:
    case SIM_CALL_FREE_ALL:
        return version == 1 ? 3 : version;
    default:
        break;
    }
    return first <= UINT32_MAX && length_of(first, last) <= UINT32_MAX ? version : 4;
}

static void put_lock(const struct sim_world *world, const struct sim_message *r, uint32_t vers,
                     struct sim_xdr_out *out)
{
    uint64_t first = sim_first_byte(world->config.layout, r->range);
    uint64_t last = sim_last_byte(world->config.layout, r->range);

    sim_xdr_put_opaque(out, sim_host_name(r->named, SIM_NAME_LONG));
    sim_xdr_put_opaque(out, sim_file_handle(r->range.file));
    sim_xdr_put_opaque(out, sim_owner_handle(r->named, r->proc));
    sim_xdr_put32(out, r->proc);
    if (vers == 4) {
        sim_xdr_put64(out, first);
        sim_xdr_put64(out, length_of(first, last));
    } else {
        sim_xdr_put32(out, (uint32_t)first);
        sim_xdr_put32(out, (uint32_t)length_of(first, last));
    }
}

static void put_share(const struct sim_message *r, struct sim_xdr_out *out)
{
    sim_xdr_put_opaque(out, sim_host_name(r->named, SIM_NAME_LONG));
    sim_xdr_put_opaque(out, sim_file_handle(r->range.file));
    sim_xdr_put_opaque(out, sim_owner_handle(r->named, r->proc));
    sim_xdr_put32(out, r->mode);
    sim_xdr_put32(out, r->access);
    sim_xdr_put32(out, r->reclaim);
}

static void put_monitor(const struct sim_world *world, const struct sim_message *r,
                        struct sim_xdr_out *out)
{
    uint8_t priv[HF_PRIV_SIZE];

    memset(priv, r->host, sizeof(priv));
    if (r->call != SIM_CALL_SM_UNMON_ALL)
        sim_xdr_put_opaque(out, r->named < world->config.hosts
                                    ? sim_host_name(r->named, SIM_NAME_LONG)
                                    : sim_server_name());
    if (r->call == SIM_CALL_SM_STAT)
        return;
    sim_xdr_put_opaque(out, sim_host_name(r->host, SIM_NAME_LONG));
    sim_xdr_put32(out, SIM_NLM);
    sim_xdr_put32(out, 4);
    sim_xdr_put32(out, 16);
    if (r->call == SIM_CALL_SM_MON)
        sim_xdr_put_fixed(out, hf_bytes(priv, sizeof(priv)));
}

static void make_cookie(const struct sim_message *r, uint32_t serial, struct sim_spoken *spoken)
{
    if (r->call == SIM_CALL_GRANTED) { /* an answer carries the server's cookie */
        spoken->cookie_len = sizeof(r->cookie_id);
        for (unsigned i = 0; i < sizeof(r->cookie_id); i++)
            spoken->cookie[i] = (uint8_t)(r->cookie_id >> (56 - 8 * i));
        return;
    }
    spoken->cookie_len = 4 + serial % 7;
    memset(spoken->cookie, 0xc0, sizeof(spoken->cookie));
    memcpy(spoken->cookie, &serial, sizeof(serial));
}

static uint32_t procedure_of(const struct sim_message *r)
{
    static const uint32_t procedures[SIM_CALLS] = {
        [SIM_CALL_TEST] = 1,      [SIM_CALL_LOCK] = 2,       [SIM_CALL_CANCEL] = 3,
        [SIM_CALL_UNLOCK] = 4,    [SIM_CALL_GRANTED] = 15,   [SIM_CALL_SHARE] = 20,
        [SIM_CALL_UNSHARE] = 21,  [SIM_CALL_NM_LOCK] = 22,   [SIM_CALL_FREE_ALL] = 23,
        [SIM_CALL_SM_STAT] = 1,   [SIM_CALL_SM_MON] = 2,     [SIM_CALL_SM_UNMON] = 3,
        [SIM_CALL_SM_NOTIFY] = 6, [SIM_CALL_SIMU_CRASH] = 5, [SIM_CALL_SM_UNMON_ALL] = 4,
    };

    return procedures[r->call];
}

/* True if the request goes as a message (_MSG): LOCK and CANCEL as the process likes, now and then
 * TEST and UNLOCK. */
static bool is_message(const struct sim_message *r)
{
    enum { ONE_IN = 8 };

    switch (r->call) {
    case SIM_CALL_LOCK:
    case SIM_CALL_CANCEL:
        return r->async;
    case SIM_CALL_TEST:
    case SIM_CALL_UNLOCK:
        return r->xid % ONE_IN == 0;
    default:
        return false;
    }
}

static void put_args(const struct sim_world *world, const struct sim_message *r, uint32_t vers,
                     struct sim_xdr_out *out)
{
    bool lock = r->call == SIM_CALL_LOCK || r->call == SIM_CALL_NM_LOCK;

    if (r->call == SIM_CALL_GRANTED) {
        sim_xdr_put32(out, r->stat);
        return;
    }
    if (r->call == SIM_CALL_SHARE || r->call == SIM_CALL_UNSHARE) {
        put_share(r, out);
        return;
    }
    if (lock || r->call == SIM_CALL_CANCEL)
        sim_xdr_put32(out, r->block);
    if (r->call != SIM_CALL_UNLOCK)
        sim_xdr_put32(out, r->exclusive);
    put_lock(world, r, vers, out);
    if (lock) {
        sim_xdr_put32(out, r->reclaim);
        sim_xdr_put32(out, (uint32_t)r->state);
    }
}

void sim_speak_request(const struct sim_world *world, const struct sim_message *r, uint32_t serial,
                       struct sim_spoken *spoken, struct sim_xdr_out *out)
{
    bool nsm = r->call >= SIM_CALL_SM_NOTIFY && r->call <= SIM_CALL_SIMU_CRASH;

    *spoken = (struct sim_spoken){.prog = nsm ? SIM_NSM : SIM_NLM,
                                  .vers = nsm ? 1 : version_of(world, r),
                                  .proc = procedure_of(r),
                                  .msg = is_message(r)};
    out->len = 0;
    if (spoken->msg)
        spoken->proc += 5;
    switch (r->call) {
    case SIM_CALL_SIMU_CRASH:
        break;
    case SIM_CALL_FREE_ALL:
        sim_xdr_put_opaque(out, sim_host_name(r->named, SIM_NAME_LONG));
        sim_xdr_put32(out, (uint32_t)r->state);
        break;
    case SIM_CALL_SM_NOTIFY:
        sim_xdr_put_opaque(out, sim_host_name(r->named, (enum sim_name)r->name));
        sim_xdr_put32(out, (uint32_t)r->state);
        break;
    case SIM_CALL_SM_MON:
    case SIM_CALL_SM_UNMON:
    case SIM_CALL_SM_UNMON_ALL:
    case SIM_CALL_SM_STAT:
        put_monitor(world, r, out);
        break;
    default:
        make_cookie(r, serial, spoken);
        sim_xdr_put_opaque(out, hf_bytes(spoken->cookie, spoken->cookie_len));
        put_args(world, r, spoken->vers, out);
        break;
    }
}

/* ---- answers ---- */

static bool is_test(const struct sim_spoken *spoken)
{
    return spoken->prog == SIM_NLM && (spoken->proc == 1 || spoken->proc == 6);
}

static void read_holder(const struct sim_spoken *spoken, struct sim_xdr_in *in,
                        struct sim_heard *out)
{
    struct hf_holder *h = &out->holder;

    h->exclusive = sim_xdr_get32(in);
    h->svid = (int32_t)sim_xdr_get32(in);
    h->oh = sim_xdr_get_opaque(in);
    h->offset = spoken->vers == 4 ? sim_xdr_get64(in) : sim_xdr_get32(in);
    h->length = spoken->vers == 4 ? sim_xdr_get64(in) : sim_xdr_get32(in);
    if (h->oh.len > sizeof(out->oh))
        in->bad = true;
    else if (h->oh.len > 0)
        memcpy(out->oh, h->oh.data, h->oh.len);
}

static void read_nsm(const struct sim_spoken *spoken, struct sim_xdr_in *in, struct sim_heard *out)
{
    if (spoken->proc == 1 || spoken->proc == 2) /* STAT, MON */
        out->stat = sim_xdr_get32(in) ? HF_STAT_DENIED : HF_STAT_GRANTED;
    if (spoken->proc >= 1 && spoken->proc <= 4)
        out->state = (int32_t)sim_xdr_get32(in);
}

bool sim_speak_read(const struct sim_spoken *spoken, struct hf_bytes bytes, struct sim_heard *out)
{
    enum { SHARE = 20, UNSHARE = 21, FREE_ALL = 23, GRANTED_RES = 15 };
    struct sim_xdr_in in = {.bytes = bytes};

    *out = (struct sim_heard){0};
    if (spoken->prog == SIM_NSM) {
        read_nsm(spoken, &in, out);
    } else if (spoken->proc != FREE_ALL && spoken->proc != GRANTED_RES) {
        if (!hf_bytes_equal(sim_xdr_get_opaque(&in), hf_bytes(spoken->cookie, spoken->cookie_len)))
            return false;
        out->stat = (enum hf_stat)sim_xdr_get32(&in);
        if (is_test(spoken) && out->stat == HF_STAT_DENIED)
            read_holder(spoken, &in, out);
        if (spoken->proc == SHARE || spoken->proc == UNSHARE)
            (void)sim_xdr_get32(&in); /* sequence: no client looks at it */
    }
    return sim_xdr_complete(&in) && out->stat <= HF_STAT_FAILED;
}

struct sim_heard sim_speak_expected(const struct sim_spoken *spoken, const struct hf_answer *answer)
{
    struct sim_heard out = {.stat = answer->stat};
    struct hf_holder *h = &out.holder;

    if (spoken->vers != 4 && out.stat > HF_STAT_DENIED_GRACE_PERIOD)
        out.stat = is_test(spoken) ? HF_STAT_DENIED_NOLOCKS : HF_STAT_DENIED;
    if (!is_test(spoken) || answer->stat != HF_STAT_DENIED)
        return out;
    *h = answer->holder;
    HF_ASSERT(h->oh.len <= sizeof(out.oh));
    memcpy(out.oh, h->oh.data, h->oh.len);
    if (spoken->vers != 4) { /* a range that ends at or beyond the end of 32 bits has no end */
        if (h->length > UINT32_MAX || (h->length && h->offset + h->length - 1 > UINT32_MAX))
            h->length = 0;
        if (h->offset > UINT32_MAX)
            h->offset = UINT32_MAX;
    }
    return out;
}

bool sim_speak_same(const struct sim_spoken *spoken, const struct sim_heard *a,
                    const struct sim_heard *b)
{
    const struct hf_holder *x = &a->holder;
    const struct hf_holder *y = &b->holder;

    if (a->stat != b->stat || a->state != b->state)
        return false;
    if (!is_test(spoken) || a->stat != HF_STAT_DENIED)
        return true;
    return x->exclusive == y->exclusive && x->svid == y->svid && x->offset == y->offset &&
           x->length == y->length &&
           hf_bytes_equal(hf_bytes(a->oh, x->oh.len), hf_bytes(b->oh, y->oh.len));
}

/* ---- the server's own calls ---- */

static bool is_granted(const struct hf_outcall_attempt *call, struct sim_xdr_in *in)
{
    bool v4 = call->vers == 4;
    struct hf_bytes cookie = sim_xdr_get_opaque(in);
    uint64_t id = 0;
    bool same;

    for (size_t i = 0; i < cookie.len; i++)
        id = id << 8 | cookie.data[i];
    same = cookie.len == sizeof(id) && id == call->id;
    same &= sim_xdr_get32(in) == call->exclusive;
    same &= hf_bytes_equal(sim_xdr_get_opaque(in), call->host);
    same &= hf_bytes_equal(sim_xdr_get_opaque(in), call->fh);
    same &= hf_bytes_equal(sim_xdr_get_opaque(in), call->oh);
    same &= (int32_t)sim_xdr_get32(in) == call->svid;
    same &= (v4 ? sim_xdr_get64(in) : sim_xdr_get32(in)) == call->offset;
    same &= (v4 ? sim_xdr_get64(in) : sim_xdr_get32(in)) == call->length;
    return same;
}

static bool is_notice(const struct hf_outcall_attempt *call, bool also, struct sim_xdr_in *in)
{
    bool same =
        hf_bytes_equal(sim_xdr_get_opaque(in), also ? call->mon_name_short : call->mon_name);

    same &= (int32_t)sim_xdr_get32(in) == call->state;
    if (call->kind == HF_OUTCALL_STATUS)
        same &=
            hf_bytes_equal(sim_xdr_get_fixed(in, HF_PRIV_SIZE), hf_bytes(call->priv, HF_PRIV_SIZE));
    return same;
}

bool sim_speak_is_call(const struct hf_outcall_attempt *call, bool also, struct hf_bytes args)
{
    struct sim_xdr_in in = {.bytes = args};
    bool same = true;

    if (call->kind == HF_OUTCALL_GRANTED)
        same = is_granted(call, &in);
    else if (call->kind == HF_OUTCALL_STAT)
        same = sim_xdr_get_opaque(&in).len > 0;
    else if (call->kind != HF_OUTCALL_PROBE)
        same = is_notice(call, also, &in);
    return same && sim_xdr_complete(&in);
}
