#include "rpc/message.h"

#include <endian.h>
#include <string.h>

#include "base/error.h"

enum { MSG_ACCEPTED = 0, MSG_DENIED = 1 };
enum { RPC_MISMATCH = 0, AUTH_ERROR = 1 };

/* The unread words of a message. Behind the end of the message every word reads as 0 and `cut` is
 * set. */
struct words {
    const uint8_t *p;
    size_t left;
    bool cut;
};

static uint32_t get(struct words *w)
{
    uint32_t v;

    if (w->left < 4) {
        w->left = 0;
        w->cut = true;
        return 0;
    }
    memcpy(&v, w->p, 4);
    w->p += 4;
    w->left -= 4;
    return be32toh(v);
}

/* Skips an XDR opaque of len bytes and its padding. */
static void skip(struct words *w, size_t len)
{
    size_t padded = (len + 3) & ~(size_t)3;

    if (padded > w->left) {
        w->left = 0;
        w->cut = true;
        return;
    }
    w->p += padded;
    w->left -= padded;
}

static uint8_t *put(uint8_t *p, uint32_t v)
{
    v = htobe32(v);
    memcpy(p, &v, 4);
    return p + 4;
}

/* Checks the body of AUTH_SYS credentials for the parts of RFC 5531, appendix A: stamp, machine
 * name, uid, gid, gids. */
static bool auth_sys_is_sound(struct hf_bytes body)
{
    struct words w = {body.data, body.len, false};
    uint32_t len;

    get(&w);
    len = get(&w);
    if (len > HF_RPC_MACHINE_NAME_MAX)
        return false;
    skip(&w, len);
    get(&w);
    get(&w);
    len = get(&w);
    if (len > HF_RPC_GIDS_MAX)
        return false;
    skip(&w, 4 * (size_t)len);
    return !w.cut && w.left == 0;
}

static enum hf_rpc_verdict judge_credentials(uint32_t flavor, struct hf_bytes body)
{
    switch (flavor) {
    case HF_AUTH_NONE:
        /* Ignore the body of AUTH_NONE, which RFC 5531, section 10.1 leaves undefined. */
        return HF_RPC_OK;
    case HF_AUTH_SYS:
        return auth_sys_is_sound(body) ? HF_RPC_OK : HF_RPC_BAD_CRED;
    default:
        return HF_RPC_TOO_WEAK;
    }
}

enum hf_rpc_verdict hf_rpc_parse_call(struct hf_bytes message, struct hf_rpc_header *header,
                                      size_t *args_offset)
{
    struct words w = {message.data, message.len, false};
    struct hf_bytes cred;
    uint32_t flavor;
    uint32_t len;

    header->xid = get(&w);
    if (get(&w) != HF_RPC_CALL || w.cut)
        return HF_RPC_DROP;
    if (get(&w) != HF_RPC_VERSION)
        return w.cut ? HF_RPC_DROP : HF_RPC_BAD_VERSION;
    header->prog = get(&w);
    header->vers = get(&w);
    header->proc = get(&w);

    flavor = get(&w);
    len = get(&w);
    if (w.cut)
        return HF_RPC_DROP;
    if (len > HF_RPC_AUTH_BYTES_MAX)
        return HF_RPC_BAD_CRED;
    cred = hf_bytes(w.p, len);
    skip(&w, len);

    /* skip the flavour of the verifier, which means nothing with AUTH_NONE and AUTH_SYS */
    get(&w);
    len = get(&w);
    if (w.cut || len > HF_RPC_AUTH_BYTES_MAX)
        return HF_RPC_DROP;
    skip(&w, len);
    if (w.cut)
        return HF_RPC_DROP;
    *args_offset = (size_t)(w.p - message.data);
    return judge_credentials(flavor, cred);
}

static uint8_t *put_accepted_head(uint8_t *p, uint32_t xid, enum hf_rpc_accept stat)
{
    p = put(p, xid);
    p = put(p, HF_RPC_REPLY);
    p = put(p, MSG_ACCEPTED);
    p = put(p, HF_AUTH_NONE); /* verifier: none */
    p = put(p, 0);
    return put(p, stat);
}

size_t hf_rpc_put_success(uint8_t out[HF_RPC_REPLY_HEADER_MAX], uint32_t xid)
{
    return (size_t)(put_accepted_head(out, xid, HF_RPC_SUCCESS) - out);
}

size_t hf_rpc_put_accepted(uint8_t out[HF_RPC_REPLY_HEADER_MAX], uint32_t xid,
                           enum hf_rpc_accept stat)
{
    return (size_t)(put_accepted_head(out, xid, stat) - out);
}

size_t hf_rpc_put_prog_mismatch(uint8_t out[HF_RPC_REPLY_HEADER_MAX], uint32_t xid, uint32_t low,
                                uint32_t high)
{
    uint8_t *p = put_accepted_head(out, xid, HF_RPC_PROG_MISMATCH);

    p = put(p, low);
    p = put(p, high);
    return (size_t)(p - out);
}

size_t hf_rpc_put_rpc_mismatch(uint8_t out[HF_RPC_REPLY_HEADER_MAX], uint32_t xid)
{
    uint8_t *p = put(out, xid);

    p = put(p, HF_RPC_REPLY);
    p = put(p, MSG_DENIED);
    p = put(p, RPC_MISMATCH);
    p = put(p, HF_RPC_VERSION);
    p = put(p, HF_RPC_VERSION);
    return (size_t)(p - out);
}

size_t hf_rpc_put_auth_error(uint8_t out[HF_RPC_REPLY_HEADER_MAX], uint32_t xid,
                             enum hf_rpc_auth_stat why)
{
    uint8_t *p = put(out, xid);

    p = put(p, HF_RPC_REPLY);
    p = put(p, MSG_DENIED);
    p = put(p, AUTH_ERROR);
    p = put(p, why);
    return (size_t)(p - out);
}

void hf_rpc_put_call(uint8_t out[HF_RPC_CALL_HEADER_SIZE], const struct hf_rpc_header *header)
{
    uint8_t *p = put(out, header->xid);

    p = put(p, HF_RPC_CALL);
    p = put(p, HF_RPC_VERSION);
    p = put(p, header->prog);
    p = put(p, header->vers);
    p = put(p, header->proc);
    memset(p, 0, 16); /* credentials and verifier: AUTH_NONE, without bodies */
}

int hf_rpc_parse_reply_xid(struct hf_bytes message, uint32_t *xid)
{
    struct words w = {message.data, message.len, false};
    uint32_t value = get(&w);

    if (get(&w) != HF_RPC_REPLY) /* true also for a message that is cut short, which is no reply */
        return HF_EFORMAT;
    *xid = value;
    return 0;
}

int hf_rpc_parse_reply(struct hf_bytes message, size_t *results_offset)
{
    struct words w = {message.data, message.len, false};
    uint32_t len;
    uint32_t stat;

    get(&w); /* xid */
    if (get(&w) != HF_RPC_REPLY)
        return HF_EFORMAT;
    switch (get(&w)) {
    case MSG_ACCEPTED:
        break;
    case MSG_DENIED:
        return HF_EDENIED;
    default:
        return HF_EFORMAT;
    }
    get(&w); /* skips the flavour of the verifier */
    len = get(&w);
    if (len > HF_RPC_AUTH_BYTES_MAX)
        return HF_EFORMAT;
    skip(&w, len);
    stat = get(&w);
    if (w.cut)
        return HF_EFORMAT;
    switch (stat) {
    case HF_RPC_SUCCESS:
        *results_offset = (size_t)(w.p - message.data);
        return 0;
    case HF_RPC_PROG_UNAVAIL:
    case HF_RPC_PROG_MISMATCH:
    case HF_RPC_PROC_UNAVAIL:
        return HF_EUNREGISTERED;
    case HF_RPC_SYSTEM_ERR:
        return HF_EDENIED;
    default:
        return HF_EFORMAT;
    }
}
