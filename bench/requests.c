/* Makes the requests of each operation, and checks their answers. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "load.h"
#include "put.h"

enum {
    NLM = 100021,
    NSM = 100024,
    PROC_NULL = 0,
    PROC_TEST = 1,
    PROC_LOCK = 2,
    PROC_CANCEL = 3,
    PROC_UNLOCK = 4,
    PROC_SHARE = 20,
    PROC_UNSHARE = 21,
    PROC_MON = 2,
    PROC_UNMON = 3,
    STAT_GRANTED = 0,
    STAT_DENIED = 1,
    STAT_BLOCKED = 3,
    SHARE_DENY_WRITE = 2,
    SHARE_READ = 1,
    REPLY_HEAD = 24, /* bytes of a reply's header: xid, REPLY, accepted, verifier, status */
    RANGE = 10,
};

const char *const op_names[OPS] = {"lock", "test", "denied", "mon", "null", "wait", "share"};

unsigned op_steps(enum op op)
{
    return op == OP_LOCK || op == OP_MON || op == OP_WAIT || op == OP_SHARE ? 2 : 1;
}

/* Writes the file handle: a file for each id, or a range of a file that was given. Each run has
 * files of its own, so that locks which an earlier run left are not in the way. */
static uint8_t *put_file(uint8_t *p, uint32_t id, uint32_t pid)
{
    uint8_t made_up[32] = {0};

    if (opt.file_count) {
        const struct file *file = &opt.files[id % opt.file_count];
        return put_opaque(p, file->fh, file->len);
    }
    memcpy(made_up + 24, &id, sizeof(id));
    memcpy(made_up + 28, &pid, sizeof(pid));
    return put_opaque(p, made_up, sizeof(made_up));
}

static uint32_t our_pid(void)
{
    static uint32_t pid;

    if (!pid)
        pid = (uint32_t)getpid();
    return pid;
}

/* Writes the caller, the file and the owner of a slot, or of the other owner. */
static uint8_t *put_owner(uint8_t *p, uint32_t id, bool other)
{
    char oh[16];

    memset(oh, 'o', sizeof(oh));
    memcpy(oh, &id, sizeof(id));
    oh[15] = other ? 'b' : 'a';
    p = put_opaque(p, other ? "other" : "bench", 5);
    p = put_file(p, id, our_pid());
    return put_opaque(p, oh, sizeof(oh));
}

/* Writes the lock that a slot wants, or the one of the other owner that stands in its way. */
static uint8_t *put_lock(uint8_t *p, uint32_t id, bool other)
{
    p = put_owner(p, id, other);
    p = put32(p, id);
    p = put64(p, opt.file_count ? ((uint64_t)our_pid() << 32 | id) * 100 : 0);
    return put64(p, RANGE);
}

static uint8_t *put_cookie(uint8_t *p, uint32_t xid)
{
    return put_opaque(p, &xid, sizeof(xid));
}

static uint8_t *put_lockargs(uint8_t *p, uint32_t xid, uint32_t id, bool block, bool other)
{
    p = put_cookie(p, xid);
    p = put32(p, block);
    p = put32(p, 1); /* exclusive */
    p = put_lock(p, id, other);
    p = put32(p, 0);    /* reclaim */
    return put32(p, 1); /* state */
}

static uint8_t *put_cancelargs(uint8_t *p, uint32_t xid, uint32_t id)
{
    p = put_cookie(p, xid);
    p = put32(p, 1); /* block */
    p = put32(p, 1); /* exclusive */
    return put_lock(p, id, false);
}

static uint8_t *put_shareargs(uint8_t *p, uint32_t xid, uint32_t id)
{
    p = put_cookie(p, xid);
    p = put_owner(p, id, false);
    p = put32(p, SHARE_DENY_WRITE);
    p = put32(p, SHARE_READ);
    return put32(p, 0); /* reclaim */
}

/* Writes an address as name: rpc.statd would ask a resolver for any other name. */
static uint8_t *put_mon_id(uint8_t *p, uint32_t id)
{
    char name[32];
    int len =
        snprintf(name, sizeof(name), "127.%u.%u.%u", 1 + (id >> 16 & 127), id >> 8 & 255, id & 255);

    p = put_opaque(p, name, (uint32_t)len);
    p = put_opaque(p, "bench", 5);
    p = put32(p, NLM);
    p = put32(p, 3);
    return put32(p, 16);
}

static size_t finish(uint8_t *out, const uint8_t *end)
{
    size_t len = (size_t)(end - out) - MARK;

    put32(out, 0x80000000U | (uint32_t)len);
    return len + MARK;
}

size_t request_build(enum op op, unsigned step, uint32_t xid, uint32_t id, uint8_t out[REQUEST_MAX])
{
    uint8_t *p = out + MARK;

    switch (op) {
    case OP_LOCK:
        if (step == 0) {
            p = put_head(p, xid, NLM, 4, PROC_LOCK);
            p = put_lockargs(p, xid, id, false, false);
        } else {
            p = put_head(p, xid, NLM, 4, PROC_UNLOCK);
            p = put_cookie(p, xid);
            p = put_lock(p, id, false);
        }
        break;
    case OP_TEST:
        p = put_head(p, xid, NLM, 4, PROC_TEST);
        p = put_cookie(p, xid);
        p = put32(p, 1);
        p = put_lock(p, id, false);
        break;
    case OP_DENIED:
        p = put_head(p, xid, NLM, 4, PROC_LOCK);
        p = put_lockargs(p, xid, id | ID_IN_THE_WAY, false, false);
        break;
    case OP_MON:
        p = put_head(p, xid, NSM, 1, step == 0 ? PROC_MON : PROC_UNMON);
        p = put_mon_id(p, id);
        if (step == 0) {
            memset(p, 'p', 16);
            p += 16;
        }
        break;
    case OP_WAIT:
        p = put_head(p, xid, NLM, 4, step == 0 ? PROC_LOCK : PROC_CANCEL);
        p = step == 0 ? put_lockargs(p, xid, id | ID_IN_THE_WAY, true, false)
                      : put_cancelargs(p, xid, id | ID_IN_THE_WAY);
        break;
    case OP_SHARE:
        p = put_head(p, xid, NLM, 4, step == 0 ? PROC_SHARE : PROC_UNSHARE);
        p = put_shareargs(p, xid, id);
        break;
    default:
        p = put_head(p, xid, NLM, 4, PROC_NULL);
    }
    return finish(out, p);
}

size_t request_hold(uint32_t xid, uint32_t id, uint8_t out[REQUEST_MAX])
{
    uint8_t *p = put_head(out + MARK, xid, NLM, 4, PROC_LOCK);

    return finish(out, put_lockargs(p, xid, id, false, true));
}

/* ---- checking ---- */

static bool head_is_success(uint32_t xid, const uint8_t *reply, size_t len)
{
    return len >= REPLY_HEAD && get32(reply) == xid && get32(reply + 4) == 1 &&
           get32(reply + 8) == 0 && get32(reply + 20) == 0;
}

/* True if the reply echoes the xid as its cookie, byte for byte, followed by this status. */
static bool nlm_stat_is(uint32_t xid, const uint8_t *reply, size_t len, uint32_t stat)
{
    return len >= REPLY_HEAD + 12 && get32(reply + REPLY_HEAD) == 4 &&
           memcmp(reply + REPLY_HEAD + 4, &xid, 4) == 0 && get32(reply + REPLY_HEAD + 8) == stat;
}

bool reply_is_granted(uint32_t xid, const uint8_t *reply, size_t len)
{
    return head_is_success(xid, reply, len) && nlm_stat_is(xid, reply, len, STAT_GRANTED);
}

bool reply_check(enum op op, unsigned step, uint32_t xid, const uint8_t *reply, size_t len)
{
    if (!head_is_success(xid, reply, len))
        return false;
    switch (op) {
    case OP_LOCK:
    case OP_TEST:
    case OP_SHARE:
        return nlm_stat_is(xid, reply, len, STAT_GRANTED);
    case OP_WAIT:
        return nlm_stat_is(xid, reply, len, step == 0 ? STAT_BLOCKED : STAT_GRANTED);
    case OP_DENIED:
        return nlm_stat_is(xid, reply, len, STAT_DENIED);
    case OP_MON: /* the answers: MON has STAT_SUCC and a state, UNMON a state */
        return step == 0 ? len == REPLY_HEAD + 8 && get32(reply + REPLY_HEAD) == 0
                         : len == REPLY_HEAD + 4;
    default:
        return len == REPLY_HEAD;
    }
}
