/*
 * Sequences of requests of several hosts through the handlers and codecs of NLM and NSM to the
 * core, with failed commits, failed allocations, crashes and time in between. Eight bytes are one
 * step: what is done, by which host and owner, to which file and range, how often and how the
 * next differs.
 *
 * It looks for two things: for a state that breaks an invariant of the core, and for a request
 * that costs much. The cost, in nodes visited, is shown to libFuzzer as a coverage of its own, so
 * that it keeps every input that is more expensive than any before.
 */
#include "fuzz.h"

#include <stdio.h>

#include "base/error.h"
#include "requests_server.h"
#include "xdr.h"

enum {
    NLM = 100021,
    NSM = 100024,
    HEAD_BYTES = 2,
    STEP_BYTES = 8,
    HOSTS = 4,
    /* The greatest number of requests in one input, so that it takes well under a second. */
    REQUESTS_MAX = 2000,
    COST_BUCKETS = 48,
    FIXED_COST = 256, /* nodes that any request may visit */
    COST_OF_OBJECT = 4,
    /* How many locks more than its limit an owner can have, because an UNLOCK can split locks. */
    LOCKS_BEYOND = 1000,
};

struct step {
    uint8_t what, who, file, flags, offset, length, count, stride;
};

/* ---- cost ---- */

__attribute__((
    section("__libfuzzer_extra_counters"))) static uint8_t cost_seen[ENTRIES * COST_BUCKETS];

/* Returns the bucket of a cost; there are two to each power of two. */
static unsigned bucket_of(uint64_t cost)
{
    unsigned log2 = 63U - (unsigned)__builtin_clzll(cost | 1);
    unsigned half = log2 > 0 ? (unsigned)(cost >> (log2 - 1) & 1) : 0;
    unsigned bucket = 2 * log2 + half;

    return bucket < COST_BUCKETS ? bucket : COST_BUCKETS - 1;
}

/*
 * The searches have a budget, and so have releases. A LOCK or UNLOCK may change all that its owner
 * has; a release makes a slice that ends with an owner. Only the result of a commit, which may undo
 * what many requests did, costs in proportion to all there is.
 */
static uint64_t allowed(const struct server *server, enum entry entry,
                        const struct objects *objects)
{
    const struct hf_budgets *b = &server->config.budgets;
    uint64_t searches = FIXED_COST + b->search + b->ahead + b->serve;
    uint64_t of_owner = server->config.limits.locks_per_owner + LOCKS_BEYOND;
    uint64_t changed = objects->locks;

    if (entry ==
        ENTRY_NLM + 1) /* TEST changes nothing, but may serve waiters that an earlier event woke */
        return FIXED_COST + b->serve;
    if (entry != ENTRY_COMMIT && changed > of_owner)
        changed = of_owner;
    return searches + b->release + COST_OF_OBJECT * (changed + objects->others);
}

static void on_cost(const struct server *server, enum entry entry, uint64_t nodes,
                    const struct objects *objects)
{
    static uint64_t most[ENTRIES];

    cost_seen[entry * COST_BUCKETS + bucket_of(nodes)] = 1;
    if (nodes > most[entry] && getenv("COSTS"))
        printf("entry %u visits %llu of %llu\n", entry, (unsigned long long)nodes,
               (unsigned long long)(objects->locks + objects->others));
    most[entry] = nodes > most[entry] ? nodes : most[entry];
    HF_ASSERT(nodes <= allowed(server, entry, objects));
}

/* ---- requests ---- */

static struct server fuzzed;

enum what {
    TEST,
    LOCK,
    CANCEL,
    UNLOCK,
    SHARE,
    UNSHARE,
    NM_LOCK,
    FREE_ALL,
    GRANTED_RES,
    NLM_NOTIFY,
    SM_STAT,
    SM_MON,
    SM_UNMON,
    SM_UNMON_ALL,
    SM_SIMU_CRASH,
    SM_NOTIFY,
    RAW,
    /* steps that are not requests */
    COMMIT,
    COMMIT_FAILS,
    TIME,
    CALL_DONE,
    CALL_FAILED,
    CRASH,
    STOP,
    NO_MEMORY,
    LIST,
    WHATS,
};

enum flag {
    EXCLUSIVE = 1,
    BLOCK = 2,
    RECLAIM = 4,
    MESSAGE = 8, /* sent as LOCK_MSG and its like, over UDP */
    OLD = 16,    /* in version 3, or 1 */
    LIE = 32,    /* under the name of another host */
    OTHER = 64,  /* under the host's other name; a status request: with the other state */
    TO_END = 128,
};

static const uint32_t procedures[] = {
    [TEST] = 1,         [LOCK] = 2,         [CANCEL] = 3,        [UNLOCK] = 4,
    [SHARE] = 20,       [UNSHARE] = 21,     [NM_LOCK] = 22,      [FREE_ALL] = 23,
    [GRANTED_RES] = 15, [NLM_NOTIFY] = 16,  [SM_STAT] = 1,       [SM_MON] = 2,
    [SM_UNMON] = 3,     [SM_UNMON_ALL] = 4, [SM_SIMU_CRASH] = 5, [SM_NOTIFY] = 6,
};

static struct hf_addr address_of(unsigned host)
{
    struct hf_addr addr = {.family = HF_ADDR_IPV4, .bytes = {192, 0, 2, (uint8_t)(10 + host)}};
    static const struct hf_addr loopback = {.family = HF_ADDR_IPV4, .bytes = {127, 0, 0, 1}};

    if (host == HOSTS - 1)
        addr = loopback;
    addr.port = 700;
    return addr;
}

static struct hf_bytes name_of(unsigned host, bool other)
{
    static const char *const names[HOSTS][2] = {{"alpha", "alpha.example"},
                                                {"be@", "be`"},
                                                {"gamma.example", "gamma.other"},
                                                {"localhost", "127.0.0.1"}};

    return hf_bytes_str(names[host % HOSTS][other]);
}

static unsigned host_of(const struct step *s)
{
    return s->who % HOSTS;
}

static unsigned named_host(const struct step *s)
{
    return (host_of(s) + (s->flags & LIE ? 1 : 0)) % HOSTS;
}

static void put_number(struct sim_xdr_out *out, const char *prefix, unsigned number)
{
    char text[16];
    int len = snprintf(text, sizeof(text), "%s%u", prefix, number);

    sim_xdr_put_opaque(out, hf_bytes(text, (size_t)len));
}

static void put_lock(const struct step *s, unsigned i, uint32_t vers, struct sim_xdr_out *out)
{
    unsigned owner = s->who / HOSTS + i * (s->stride & 3);
    uint64_t offset = s->offset + (uint64_t)i * (s->stride >> 2 & 15);
    uint64_t length = s->flags & TO_END ? 0 : 1 + (uint64_t)s->length;

    sim_xdr_put_opaque(out, name_of(named_host(s), s->flags & OTHER));
    put_number(out, "file", s->file % 8 + i * (s->stride >> 6));
    put_number(out, "owner", owner);
    sim_xdr_put32(out, owner);
    if (vers == 4) {
        sim_xdr_put64(out, offset);
        sim_xdr_put64(out, length);
    } else {
        sim_xdr_put32(out, (uint32_t)offset);
        sim_xdr_put32(out, (uint32_t)length);
    }
}

static void put_share(const struct step *s, unsigned i, struct sim_xdr_out *out)
{
    sim_xdr_put_opaque(out, name_of(named_host(s), s->flags & OTHER));
    put_number(out, "file", s->file % 8 + i * (s->stride >> 6));
    put_number(out, "owner", s->who / HOSTS + i * (s->stride & 3));
    sim_xdr_put32(out, s->offset % 4);
    sim_xdr_put32(out, s->length % 4);
    sim_xdr_put32(out, (s->flags & RECLAIM) != 0);
}

/* Returns the cookie of a GRANTED in flight, or one near it; the sender may be any host. */
static uint64_t cookie_of(const struct server *server, const struct step *s, unsigned i)
{
    const struct outgoing *call = &server->outgoing[s->offset % OUTCALLS_MAX];

    return (s->offset < server->n_outgoing ? call->cookie : 1) + s->stride % 4 + i;
}

static void put_granted_res(const struct step *s, unsigned i, struct sim_xdr_out *out)
{
    uint64_t cookie = htobe64(cookie_of(&fuzzed, s, i));

    sim_xdr_put_opaque(out, hf_bytes(&cookie, sizeof(cookie)));
    sim_xdr_put32(out, s->length % 2);
}

static void put_nlm(const struct step *s, unsigned i, uint32_t vers, struct sim_xdr_out *out)
{
    bool lock = s->what == LOCK || s->what == NM_LOCK;

    if (s->what == FREE_ALL || s->what == NLM_NOTIFY) {
        sim_xdr_put_opaque(out, name_of(named_host(s), s->flags & OTHER));
        sim_xdr_put32(out, s->length);
        if (s->what == NLM_NOTIFY)
            sim_xdr_put_fixed(out, hf_bytes("0123456789abcdef", 16));
        return;
    }
    if (s->what == GRANTED_RES) {
        put_granted_res(s, i, out);
        return;
    }
    sim_xdr_put_opaque(out, hf_bytes("\0\0\0\0\0\0\0\1", 8));
    if (s->what == SHARE || s->what == UNSHARE) {
        put_share(s, i, out);
        return;
    }
    if (lock || s->what == CANCEL)
        sim_xdr_put32(out, (s->flags & BLOCK) != 0);
    if (s->what != UNLOCK)
        sim_xdr_put32(out, (s->flags & EXCLUSIVE) != 0);
    put_lock(s, i, vers, out);
    if (lock) {
        sim_xdr_put32(out, (s->flags & RECLAIM) != 0);
        sim_xdr_put32(out, s->file >> 6); /* the state: mostly 0, which tells nothing */
    }
}

static void put_nsm(const struct step *s, unsigned i, struct sim_xdr_out *out)
{
    if (s->what == SM_SIMU_CRASH)
        return;
    if (s->what == SM_MON && s->stride)
        put_number(out, "host", i);
    else if (s->what != SM_UNMON_ALL)
        sim_xdr_put_opaque(out, name_of(named_host(s), s->flags & OTHER));
    if (s->what == SM_NOTIFY)
        sim_xdr_put32(out, s->length);
    if (s->what == SM_NOTIFY || s->what == SM_STAT)
        return;
    sim_xdr_put_opaque(out, name_of(host_of(s), false));
    sim_xdr_put32(out, NLM);
    sim_xdr_put32(out, 4);
    sim_xdr_put32(out, 16);
    if (s->what == SM_MON)
        sim_xdr_put_fixed(out, hf_bytes("fedcba9876543210", 16));
}

static uint32_t version_of(const struct step *s)
{
    if (s->what >= SM_STAT && s->what <= SM_NOTIFY)
        return 1;
    if (!(s->flags & OLD))
        return 4;
    return s->file & 8 && s->what <= UNLOCK ? 1 : 3;
}

/* For a request from this host, chooses: root from a reserved port, a user by TCP, or a port that
 * proves nothing. */
static void choose_user(const struct step *s, struct server_request *request)
{
    static const uint32_t users[] = {HF_UID_UNKNOWN, 65534, 12345, HF_UID_UNKNOWN};
    unsigned which = s->file >> 3 & 3;

    request->uid = HF_UID_UNKNOWN;
    if (host_of(s) != HOSTS - 1 || which == 0)
        return;
    request->peer.port = 40000;
    if (request->transport == HF_TRANSPORT_TCP)
        request->uid = users[which];
}

/* SEC-07: a GRANTED_RES that does not answer a GRANTED_MSG to its sender changes nothing. */
struct answered {
    bool forged;
    struct hf_view_status before;
};

static struct answered before_answer(const struct server *server, const struct step *s, unsigned i)
{
    struct answered a = {.forged = s->what == GRANTED_RES};
    struct hf_addr from = address_of(host_of(s));

    for (unsigned n = 0; n < server->n_outgoing; n++) {
        const struct outgoing *call = &server->outgoing[n];

        if (call->msg && call->cookie == cookie_of(server, s, i) &&
            hf_addr_same_host(&call->to, &from))
            a.forged = false;
    }
    hf_core_view_status(server->core, server->service.now, &a.before);
    return a;
}

static void after_answer(const struct server *server, const struct answered *a)
{
    struct hf_view_status now;

    hf_core_view_status(server->core, server->service.now, &now);
    HF_ASSERT(!a->forged || (now.locks == a->before.locks && now.waiters == a->before.waiters));
}

static void ask(struct server *server, const struct step *s, unsigned i)
{
    bool nsm = s->what >= SM_STAT && s->what <= SM_NOTIFY;
    bool message = s->flags & MESSAGE && s->what <= UNLOCK;
    struct sim_xdr_out out = {.len = 0};
    struct server_request request = {.prog = nsm ? NSM : NLM,
                                     .vers = version_of(s),
                                     .proc = procedures[s->what] + (message ? 5 : 0),
                                     .transport =
                                         s->flags & MESSAGE ? HF_TRANSPORT_UDP : HF_TRANSPORT_TCP,
                                     .peer = address_of(host_of(s)),
                                     .local = address_of(HOSTS)};

    struct answered answered = before_answer(server, s, i);

    choose_user(s, &request);
    if (nsm)
        put_nsm(s, i, &out);
    else
        put_nlm(s, i, request.vers, &out);
    request.args = hf_bytes(out.data, out.len);
    HF_ASSERT(server_ask(server, &request));
    after_answer(server, &answered);
}

/* Calls any procedure, with the input's bytes as arguments. */
static void ask_raw(struct server *server, const struct step *s, const uint8_t *data, size_t size)
{
    struct server_request request = {.prog = s->flags & 1 ? NSM : NLM,
                                     .vers = s->flags & 1 ? 1 : version_of(s),
                                     .proc = s->offset % 24,
                                     .peer = address_of(host_of(s)),
                                     .local = address_of(HOSTS),
                                     .uid = HF_UID_UNKNOWN,
                                     .args = hf_bytes(data, size)};

    server_ask(server, &request);
}

/* ---- lists ---- */

/* The cursors of lists that are read piece by piece, while what they show comes and goes (ADM-08).
 */
static uint64_t cursors[16];

static void read_piece(const struct server *server, const struct step *s)
{
    static union {
        struct hf_view_client clients[8];
        struct hf_view_lock locks[8];
        struct hf_view_waiter waiters[8];
        struct hf_view_share shares[8];
    } rows;
    uint64_t *cursor = &cursors[s->who % HF_COUNT_OF(cursors)];
    uint64_t end = s->flags & TO_END ? UINT64_MAX : *cursor + s->length;
    uint64_t before = *cursor;
    size_t max = 1 + s->count % 8;
    size_t n;

    switch (s->who % 4) {
    case 0:
        n = hf_core_view_clients(server->core, cursor, end, rows.clients, max);
        break;
    case 1:
        n = hf_core_view_locks(server->core, cursor, end, rows.locks, max);
        break;
    case 2:
        n = hf_core_view_waiters(server->core, cursor, end, rows.waiters, max);
        break;
    default:
        n = hf_core_view_shares(server->core, cursor, end, rows.shares, max);
        break;
    }
    HF_ASSERT(n <= max && *cursor >= before);
    if (n == 0)
        *cursor = 0; /* from the beginning */
}

/* ---- steps ---- */

static void advance(struct server *server, const struct step *s)
{
    uint64_t deadline = hf_core_deadline(server->core);
    uint64_t ms = (uint64_t)1 << s->count % 24;

    if (s->flags & 1 && deadline != UINT64_MAX && deadline > server->service.now.mono_ms)
        ms = deadline - server->service.now.mono_ms;
    server->service.now.mono_ms += ms;
    server->service.now.wall_ms += (int64_t)ms;
    server_tick(server);
}

static void restart(struct server *server)
{
    server_crash(server);
    server_start(server);
}

static void act(struct server *server, const struct step *s)
{
    switch (s->what) {
    case COMMIT:
        server_commit(server, 0);
        break;
    case COMMIT_FAILS:
        server_commit(server, HF_EIO);
        break;
    case TIME:
        advance(server, s);
        break;
    case CALL_DONE:
        server_call_done(server, s->who, 0, s->flags);
        break;
    case CALL_FAILED:
        server_call_done(server, s->who, HF_ETIMEDOUT, 0);
        break;
    case CRASH:
        restart(server);
        break;
    case STOP:
        server_stop(server);
        break;
    case LIST:
        read_piece(server, s);
        break;
    default: /* NO_MEMORY */
        server->heap.after = s->count;
        server->heap.fail_n = 1 + s->flags % 4;
        break;
    }
}

static unsigned run_step(struct server *server, const struct step *s, const uint8_t *rest,
                         size_t rest_len)
{
    unsigned count = 1U << (s->count & 7);

    if (s->count & 0xf0) /* mostly once: the upper bits must all be set for more */
        count = s->count >> 4 == 0xf ? count * 8 : 1;
    if (s->what == RAW) {
        ask_raw(server, s, rest, rest_len < 128 ? rest_len : 128);
        return 1;
    }
    if (s->what > RAW) {
        act(server, s);
        return 1;
    }
    for (unsigned i = 0; i < count; i++)
        ask(server, s, i);
    return count;
}

static void choose_config(const uint8_t *data, struct hf_core_config *config)
{
    *config = hf_core_config_default();
    config->server_name = hf_bytes_str("server.example");
    config->durable_locks = !(data[0] & 1);
    config->grace_mode = (data[0] & 3) == 2 ? HF_GRACE_CONFLICT : HF_GRACE_STRICT;
    config->on_failure = data[0] & 4 ? HF_ON_FAILURE_KEEP : HF_ON_FAILURE_RELEASE;
    if (data[0] & 8) {
        config->limits.clients = 4;
        config->limits.locks_per_client = 16;
        config->limits.locks_per_file = 12;
        config->limits.locks = 24;
        config->limits.waiters_per_file = 6;
    }
    if (data[0] & 32) { /* limits for each host, and for each user of this host */
        config->limits.clients_per_host = 2;
        config->limits.locks_per_host = 20;
        config->limits.registrations_per_host = 2;
    }
    if (data[0] & 16) {
        config->limits.locks_per_owner = 64;
        config->budgets =
            (struct hf_budgets){.search = 200, .ahead = 100, .serve = 200, .release = 64};
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    unsigned requests = 0;
    bool prompt; /* each batch is durable at once */

    if (size < HEAD_BYTES)
        return 0;
    fuzzed = (struct server){
        .heap = {.after = -1}, .on_cost = on_cost, .service.now = {1000, 1700000000000}};
    fuzzed.alloc = faulty_alloc(&fuzzed.heap);
    choose_config(data, &fuzzed.config);
    prompt = data[1] & 1;
    memset(cursors, 0, sizeof(cursors));
    server_start(&fuzzed);
    data += HEAD_BYTES;
    size -= HEAD_BYTES;
    for (; size >= STEP_BYTES && requests < REQUESTS_MAX; data += STEP_BYTES, size -= STEP_BYTES) {
        struct step s;

        memcpy(&s, data, sizeof(s));
        s.what %= WHATS;
        requests += run_step(&fuzzed, &s, data + STEP_BYTES, size - STEP_BYTES);
        if (prompt)
            server_commit(&fuzzed, 0);
        server_tick(&fuzzed);
        hf_core_verify_invariants(fuzzed.core);
    }
    server_stop(&fuzzed);
    server_free(&fuzzed);
    return 0;
}
