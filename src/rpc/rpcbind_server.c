#include <rpc/rpc.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/check.h"
#include "base/error.h"
#include "base/text.h"
#include "proto/rpcbind.h"
#include "rpc/rpcbind.h"

/*
 * The embedded rpcbind. What it does not serve: CALLIT, BCAST and INDIRECT, which forward calls in
 * our name and amplify what a stranger sends; and the address translations, which nobody uses.
 *
 * Who may change the table: callers from loopback; and what a caller from a reserved port has
 * registered, only such a caller can remove. Our own entries stay.
 */
enum {
    NETID_SIZE = HF_RPCB_MAXNETID + 1,
    UADDR_SIZE = HF_RPCB_MAXADDR + 1,
};

enum owner { OWNER_SELF, OWNER_ROOT, OWNER_USER };

struct entry {
    uint32_t prog;
    uint32_t vers;
    char netid[NETID_SIZE];
    char uaddr[UADDR_SIZE];
    enum owner owner;
};

struct hf_rpcbind {
    struct hf_rpc_program program;
    const struct hf_alloc *alloc;
    struct entry entries[HF_RPCBIND_ENTRIES_MAX];
    size_t n;
    /* The lists of an answer, rebuilt for each. */
    hf_pmaplist pmaps[HF_RPCBIND_ENTRIES_MAX];
    hf_rpcblist rpcbs[HF_RPCBIND_ENTRIES_MAX];
    hf_rpcb_entry_list addrs[HF_RPCBIND_ENTRIES_MAX];
    char texts[HF_RPCBIND_ENTRIES_MAX][UADDR_SIZE];
};

/* Preset storage for arguments: see program.h. */
static hf_pmap pmap_args;
static char netid_buf[NETID_SIZE];
static char addr_buf[UADDR_SIZE];
static char owner_buf[HF_RPCB_MAXOWNER + 1];
static hf_rpcb rpcb_args = {.netid = netid_buf, .addr = addr_buf, .owner = owner_buf};

static const struct {
    const char *netid;
    uint8_t family;
    enum hf_rpc_transport transport;
    const char *protofmly;
    const char *proto;
} TRANSPORTS[] = {
    {"udp", HF_ADDR_IPV4, HF_RPC_UDP, "inet", "udp"},
    {"tcp", HF_ADDR_IPV4, HF_RPC_TCP, "inet", "tcp"},
    {"udp6", HF_ADDR_IPV6, HF_RPC_UDP, "inet6", "udp"},
    {"tcp6", HF_ADDR_IPV6, HF_RPC_TCP, "inet6", "tcp"},
};

static const char *netid_for(uint8_t family, enum hf_rpc_transport transport)
{
    for (size_t i = 0; i < HF_COUNT_OF(TRANSPORTS); i++) {
        if (TRANSPORTS[i].family == family && TRANSPORTS[i].transport == transport)
            return TRANSPORTS[i].netid;
    }
    HF_UNREACHABLE();
}

static bool netid_is_known(const char *netid)
{
    for (size_t i = 0; i < HF_COUNT_OF(TRANSPORTS); i++) {
        if (strcmp(TRANSPORTS[i].netid, netid) == 0)
            return true;
    }
    return false;
}

/* ---- the table ---- */

static struct entry *find(struct hf_rpcbind *rb, uint32_t prog, uint32_t vers, const char *netid)
{
    for (size_t i = 0; i < rb->n; i++) {
        struct entry *e = &rb->entries[i];
        if (e->prog == prog && e->vers == vers && strcmp(e->netid, netid) == 0)
            return e;
    }
    return NULL;
}

/* For GETPORT and GETADDR: that version, or else any of the program (RFC 1833, section 2.2.1). */
static struct entry *find_nearest(struct hf_rpcbind *rb, uint32_t prog, uint32_t vers,
                                  const char *netid)
{
    struct entry *exact = find(rb, prog, vers, netid);

    if (exact)
        return exact;
    for (size_t i = 0; i < rb->n; i++) {
        struct entry *e = &rb->entries[i];
        if (e->prog == prog && strcmp(e->netid, netid) == 0)
            return e;
    }
    return NULL;
}

static int add(struct hf_rpcbind *rb, uint32_t prog, uint32_t vers, const char *netid,
               const char *uaddr, enum owner owner)
{
    struct entry *e;

    if (rb->n == HF_RPCBIND_ENTRIES_MAX)
        return HF_ELIMIT;
    e = &rb->entries[rb->n++];
    *e = (struct entry){.prog = prog, .vers = vers, .owner = owner};
    hf_format(e->netid, sizeof(e->netid), "%s", netid);
    hf_format(e->uaddr, sizeof(e->uaddr), "%s", uaddr);
    return 0;
}

int hf_rpcbind_add(struct hf_rpcbind *rb, const struct hf_rpcbind_service *service)
{
    char uaddr[HF_ADDR_UADDR_MAX];

    return add(rb, service->prog, service->vers,
               netid_for(service->addr.family, service->transport),
               hf_addr_format_uaddr(&service->addr, uaddr), OWNER_SELF);
}

/* ---- who is asking ---- */

static const char *call_netid(const struct hf_rpc_call *call)
{
    return netid_for(call->peer.family, call->transport);
}

static bool may_change(const struct hf_rpc_call *call)
{
    return hf_addr_is_loopback(&call->peer) && hf_addr_is_loopback(&call->local);
}

static enum owner owner_of(const struct hf_rpc_call *call)
{
    return hf_addr_is_reserved_port(&call->peer) ? OWNER_ROOT : OWNER_USER;
}

static bool may_remove(const struct entry *e, enum owner who)
{
    return e->owner == OWNER_USER || (e->owner == OWNER_ROOT && who == OWNER_ROOT);
}

static void reply_bool(struct hf_rpc_call *call, bool value)
{
    bool_t result = value;

    hf_rpc_reply(call, (xdrproc_t)xdr_bool, &result);
}

/*
 * The address as this caller can use it: a service on all addresses is named at the one the caller
 * reached us by.
 */
static const char *merged(const struct hf_rpc_call *call, const struct entry *e,
                          char text[UADDR_SIZE])
{
    struct hf_addr addr;

    if (hf_addr_parse_uaddr(e->uaddr, &addr) < 0 || !hf_addr_is_any(&addr) ||
        addr.family != call->local.family)
        return e->uaddr;
    memcpy(addr.bytes, call->local.bytes, sizeof(addr.bytes));
    addr.scope = call->local.scope;
    return hf_addr_format_uaddr(&addr, text);
}

/* ---- SET and UNSET ---- */

static bool set_service(struct hf_rpcbind *rb, const struct hf_rpc_call *call, uint32_t prog,
                        uint32_t vers, const char *netid, const char *uaddr)
{
    enum owner who = owner_of(call);
    struct hf_addr addr;

    if (!may_change(call) || !netid_is_known(netid))
        return false;
    if (hf_addr_parse_uaddr(uaddr, &addr) < 0 || addr.port == 0)
        return false;
    /* An ordinary user cannot speak for a port that only root could have bound. */
    if (who == OWNER_USER && hf_addr_is_reserved_port(&addr))
        return false;
    if (find(rb, prog, vers, netid))
        return false; /* RFC 1833: it must be unset first */
    return add(rb, prog, vers, netid, uaddr, who) == 0;
}

/* Removes the version on one transport, or on all (netid empty). */
static bool unset_service(struct hf_rpcbind *rb, const struct hf_rpc_call *call, uint32_t prog,
                          uint32_t vers, const char *netid)
{
    enum owner who = owner_of(call);
    size_t kept = 0;
    size_t before = rb->n;

    if (!may_change(call))
        return false;
    for (size_t i = 0; i < before; i++) {
        struct entry *e = &rb->entries[i];
        bool meant = e->prog == prog && e->vers == vers &&
                     (netid[0] == '\0' || strcmp(e->netid, netid) == 0);
        if (!meant || !may_remove(e, who))
            rb->entries[kept++] = *e;
    }
    rb->n = kept;
    return kept < before;
}

static void v2_set(struct hf_rpc_call *call, void *args)
{
    const hf_pmap *map = args;
    struct hf_addr any = {.family = HF_ADDR_IPV4, .port = (uint16_t)map->port};
    const char *netid = map->prot == IPPROTO_TCP ? "tcp" : "udp";
    char uaddr[HF_ADDR_UADDR_MAX];
    bool sane = map->port <= UINT16_MAX && (map->prot == IPPROTO_TCP || map->prot == IPPROTO_UDP);

    reply_bool(call, sane && set_service(call->program->ctx, call, map->prog, map->vers, netid,
                                         hf_addr_format_uaddr(&any, uaddr)));
}

/* Version 2 ignores protocol and port: both transports go. */
static void v2_unset(struct hf_rpc_call *call, void *args)
{
    const hf_pmap *map = args;
    bool udp = unset_service(call->program->ctx, call, map->prog, map->vers, "udp");
    bool tcp = unset_service(call->program->ctx, call, map->prog, map->vers, "tcp");

    reply_bool(call, udp || tcp);
}

static void v4_set(struct hf_rpc_call *call, void *args)
{
    const hf_rpcb *map = args;

    reply_bool(call,
               set_service(call->program->ctx, call, map->prog, map->vers, map->netid, map->addr));
}

static void v4_unset(struct hf_rpc_call *call, void *args)
{
    const hf_rpcb *map = args;

    reply_bool(call, unset_service(call->program->ctx, call, map->prog, map->vers, map->netid));
}

/* ---- GETPORT, GETADDR ---- */

static void v2_getport(struct hf_rpc_call *call, void *args)
{
    const hf_pmap *map = args;
    const char *netid = map->prot == IPPROTO_TCP ? "tcp" : "udp";
    struct entry *e = find_nearest(call->program->ctx, map->prog, map->vers, netid);
    struct hf_addr addr;
    u_int port = 0;

    if (e && hf_addr_parse_uaddr(e->uaddr, &addr) == 0)
        port = addr.port;
    hf_rpc_reply(call, (xdrproc_t)xdr_u_int, &port);
}

static void reply_addr(struct hf_rpc_call *call, const struct entry *e)
{
    char text[UADDR_SIZE] = "";
    const char *addr = e ? merged(call, e, text) : text;

    hf_rpc_reply(call, (xdrproc_t)xdr_hf_rpcb_addr, &addr);
}

/* The transport is the one the question came by, whatever netid it names (section 2.2.1). */
static void v4_getaddr(struct hf_rpc_call *call, void *args)
{
    const hf_rpcb *map = args;

    reply_addr(call, find_nearest(call->program->ctx, map->prog, map->vers, call_netid(call)));
}

static void v4_getversaddr(struct hf_rpc_call *call, void *args)
{
    const hf_rpcb *map = args;

    reply_addr(call, find(call->program->ctx, map->prog, map->vers, call_netid(call)));
}

static void v4_gettime(struct hf_rpc_call *call, void *args)
{
    u_int now = (u_int)time(NULL);

    (void)args;
    hf_rpc_reply(call, (xdrproc_t)xdr_u_int, &now);
}

/* ---- DUMP, GETADDRLIST ---- */

static void v2_dump(struct hf_rpc_call *call, void *args)
{
    struct hf_rpcbind *rb = call->program->ctx;
    hf_pmaplist_ptr head = NULL;
    hf_pmaplist_ptr *tail = &head;

    (void)args;
    for (size_t i = 0; i < rb->n; i++) {
        const struct entry *e = &rb->entries[i];
        bool tcp = strcmp(e->netid, "tcp") == 0;
        struct hf_addr addr;

        if ((!tcp && strcmp(e->netid, "udp") != 0) || hf_addr_parse_uaddr(e->uaddr, &addr) < 0)
            continue; /* version 2 knows IPv4 only */
        rb->pmaps[i].map = (hf_pmap){e->prog, e->vers, tcp ? IPPROTO_TCP : IPPROTO_UDP, addr.port};
        rb->pmaps[i].next = NULL;
        *tail = &rb->pmaps[i];
        tail = &rb->pmaps[i].next;
    }
    hf_rpc_reply(call, (xdrproc_t)xdr_hf_pmaplist_ptr, &head);
}

static char *owner_name(enum owner owner)
{
    static char superuser[] = "superuser";
    static char unknown[] = "unknown";

    return owner == OWNER_USER ? unknown : superuser;
}

static void v4_dump(struct hf_rpc_call *call, void *args)
{
    struct hf_rpcbind *rb = call->program->ctx;
    hf_rpcblist_ptr head = NULL;

    (void)args;
    for (size_t i = rb->n; i-- > 0;) {
        struct entry *e = &rb->entries[i];
        rb->rpcbs[i].map = (hf_rpcb){e->prog, e->vers, e->netid, e->uaddr, owner_name(e->owner)};
        rb->rpcbs[i].next = head;
        head = &rb->rpcbs[i];
    }
    hf_rpc_reply(call, (xdrproc_t)xdr_hf_rpcblist_ptr, &head);
}

static void fill_addr_entry(struct hf_rpcbind *rb, const struct hf_rpc_call *call, size_t i,
                            hf_rpcb_entry *out)
{
    struct entry *e = &rb->entries[i];

    for (size_t t = 0; t < HF_COUNT_OF(TRANSPORTS); t++) {
        if (strcmp(TRANSPORTS[t].netid, e->netid) != 0)
            continue;
        *out = (hf_rpcb_entry){
            .maddr = (char *)(uintptr_t)merged(call, e, rb->texts[i]),
            .netid = e->netid,
            .semantics = TRANSPORTS[t].transport == HF_RPC_TCP ? 3 : 1,
            .protofmly = (char *)(uintptr_t)TRANSPORTS[t].protofmly,
            .proto = (char *)(uintptr_t)TRANSPORTS[t].proto,
        };
        return;
    }
    HF_UNREACHABLE(); /* SET lets only known transports in */
}

static void v4_getaddrlist(struct hf_rpc_call *call, void *args)
{
    struct hf_rpcbind *rb = call->program->ctx;
    const hf_rpcb *map = args;
    hf_rpcb_entry_list_ptr head = NULL;

    for (size_t i = rb->n; i-- > 0;) {
        if (rb->entries[i].prog != map->prog || rb->entries[i].vers != map->vers)
            continue;
        fill_addr_entry(rb, call, i, &rb->addrs[i].entry);
        rb->addrs[i].next = head;
        head = &rb->addrs[i];
    }
    hf_rpc_reply(call, (xdrproc_t)xdr_hf_rpcb_entry_list_ptr, &head);
}

static void null(struct hf_rpc_call *call, void *args)
{
    (void)args;
    hf_rpc_reply_void(call);
}

/* ---- the tables ---- */

#define PMAP (xdrproc_t) xdr_hf_pmap, &pmap_args
#define RPCB (xdrproc_t) xdr_hf_rpcb, &rpcb_args

static const struct hf_rpc_procedure V2[] = {
    [HF_PMAP_NULL] = {"NULL", NULL, NULL, null, false},
    [HF_PMAP_SET] = {"SET", PMAP, v2_set, true},
    [HF_PMAP_UNSET] = {"UNSET", PMAP, v2_unset, true},
    [HF_PMAP_GETPORT] = {"GETPORT", PMAP, v2_getport, false},
    [HF_PMAP_DUMP] = {"DUMP", NULL, NULL, v2_dump, false},
};

static const struct hf_rpc_procedure V3[] = {
    [HF_RPCB3_NULL] = {"NULL", NULL, NULL, null, false},
    [HF_RPCB3_SET] = {"SET", RPCB, v4_set, true},
    [HF_RPCB3_UNSET] = {"UNSET", RPCB, v4_unset, true},
    [HF_RPCB3_GETADDR] = {"GETADDR", RPCB, v4_getaddr, false},
    [HF_RPCB3_DUMP] = {"DUMP", NULL, NULL, v4_dump, false},
    [HF_RPCB3_GETTIME] = {"GETTIME", NULL, NULL, v4_gettime, false},
};

static const struct hf_rpc_procedure V4[] = {
    [HF_RPCB4_NULL] = {"NULL", NULL, NULL, null, false},
    [HF_RPCB4_SET] = {"SET", RPCB, v4_set, true},
    [HF_RPCB4_UNSET] = {"UNSET", RPCB, v4_unset, true},
    [HF_RPCB4_GETADDR] = {"GETADDR", RPCB, v4_getaddr, false},
    [HF_RPCB4_DUMP] = {"DUMP", NULL, NULL, v4_dump, false},
    [HF_RPCB4_GETTIME] = {"GETTIME", NULL, NULL, v4_gettime, false},
    [HF_RPCB4_GETVERSADDR] = {"GETVERSADDR", RPCB, v4_getversaddr, false},
    [HF_RPCB4_GETADDRLIST] = {"GETADDRLIST", RPCB, v4_getaddrlist, false},
};

static const struct hf_rpc_version VERSIONS[] = {
    {HF_PMAP_VERS, V2, HF_COUNT_OF(V2)},
    {HF_RPCB_VERS3, V3, HF_COUNT_OF(V3)},
    {HF_RPCB_VERS4, V4, HF_COUNT_OF(V4)},
};

int hf_rpcbind_new(const struct hf_alloc *alloc, struct hf_rpcbind **out)
{
    struct hf_rpcbind *rb = hf_calloc(alloc, 1, sizeof(*rb));

    if (!rb)
        return HF_ENOMEM;
    rb->alloc = alloc;
    rb->program =
        (struct hf_rpc_program){HF_RPCB_PROG, "rpcbind", VERSIONS, HF_COUNT_OF(VERSIONS), rb};
    *out = rb;
    return 0;
}

void hf_rpcbind_del(struct hf_rpcbind *rb)
{
    if (rb)
        hf_free(rb->alloc, rb);
}

const struct hf_rpc_program *hf_rpcbind_program(struct hf_rpcbind *rb)
{
    return &rb->program;
}
