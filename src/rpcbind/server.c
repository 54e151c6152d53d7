#include "rpcbind/server.h"

#include <errno.h>
#include <rpc/rpc.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/programs.h"
#include "base/socket.h"
#include "proto/rpcbind.h"
#include "rpcbind/table.h"

_Static_assert(HF_RPCB_PROG == HF_PROGRAM_RPCBIND, "rpcbind.x and base/programs.h");

enum {
    UADDR_SIZE = HF_RPCB_MAXADDR + 1,
    /*
     * The r_nc_semantics of a GETADDRLIST answer: NC_TPI_CLTS and NC_TPI_COTS_ORD of netconfig(5).
     */
    SEMANTICS_DATAGRAM = 1,
    SEMANTICS_STREAM = 3,
    /* The first program number that is free for any user; lower numbers are assigned to services
     * (RFC 5531, section 8.3). */
    FIRST_FREE_PROGRAM = 0x20000000,
};

struct hf_rpcbind_server {
    struct hf_rpc_program program;
    const struct hf_alloc *alloc;
    struct hf_rpcbind_table table;
    /* Storage for answers that list many entries; each such answer fills it anew. */
    hf_pmaplist pmaps[HF_RPCBIND_ENTRIES_MAX];
    hf_rpcblist rpcbs[HF_RPCBIND_ENTRIES_MAX];
    hf_rpcb_entry_list addrs[HF_RPCBIND_ENTRIES_MAX];
    char texts[HF_RPCBIND_ENTRIES_MAX][UADDR_SIZE];
};

/* Storage into which arguments are decoded (rpc/program.h). */
static hf_pmap pmap_args;
static char netid_buf[HF_RPCB_MAXNETID + 1];
static char addr_buf[UADDR_SIZE];
static char owner_buf[HF_RPCB_MAXOWNER + 1];
static hf_rpcb rpcb_args = {.netid = netid_buf, .addr = addr_buf, .owner = owner_buf};

int hf_rpcbind_server_add(struct hf_rpcbind_server *server,
                          const struct hf_rpcbind_service *service)
{
    char uaddr[HF_ADDR_UADDR_MAX];

    return hf_rpcbind_table_add(&server->table, service->prog, service->vers,
                                hf_rpcbind_netid_name(service->addr.family, service->transport),
                                hf_addr_format_uaddr(&service->addr, uaddr), HF_RPCBIND_OWNER_SELF);
}

/* ---- the caller ---- */

static struct hf_rpcbind_table *table_of(const struct hf_rpc_call *call)
{
    struct hf_rpcbind_server *server = call->program->ctx;

    return &server->table;
}

static const char *call_netid(const struct hf_rpc_call *call)
{
    return hf_rpcbind_netid_name(call->peer.family, call->transport);
}

/*
 * Finds the user who calls. Returns false if the user is unknown, and so must not change the table.
 */
static bool find_owner(const struct hf_rpc_call *call, hf_rpcbind_owner *out)
{
    if (call->uid != HF_RPC_UID_UNKNOWN) {
        *out = call->uid;
        return true;
    }
    *out = HF_RPCBIND_OWNER_ROOT;
    return call->trust == HF_TRUST_ROOT && hf_addr_is_loopback(&call->local);
}

static void reply_bool(struct hf_rpc_call *call, bool value)
{
    bool_t result = value;

    hf_rpc_reply(call, xdr_hf_rpcbind_truth, &result);
}

/* Returns the address of an entry as this caller can use it: for a service bound to all addresses,
 * the address on which the caller asked. */
static const char *merged(const struct hf_rpc_call *call, const struct hf_rpcbind_entry *e,
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

/* True if the address belongs to this host, that is, if a socket can be bound to it. */
static bool is_of_this_host(const struct hf_addr *addr)
{
    struct hf_addr at = *addr;
    int fd = hf_socket_open(addr, SOCK_DGRAM);
    int rv;

    if (fd < 0)
        return false;
    at.port = 0;
    rv = hf_socket_bind(fd, &at, HF_BIND_EXACTLY);
    close(fd);
    return rv == 0;
}

/* True if the caller may register this program at this address. A program that the daemon or
 * another user has registered cannot be replaced; a user other than root can register only
 * unassigned program numbers at unreserved ports. */
static bool may_set(const struct hf_rpc_call *call, hf_rpcbind_owner owner, uint32_t prog,
                    const struct hf_addr *addr)
{
    if (owner != HF_RPCBIND_OWNER_ROOT &&
        (prog < FIRST_FREE_PROGRAM || hf_addr_is_reserved_port(addr)))
        return false;
    return !hf_rpcbind_table_is_taken(table_of(call), prog, owner);
}

static bool set_service(const struct hf_rpc_call *call, uint32_t prog, uint32_t vers,
                        const char *netid, const char *uaddr)
{
    const struct hf_rpcbind_netid *transport = hf_rpcbind_netid_find(netid);
    hf_rpcbind_owner owner;
    struct hf_addr addr;

    if (!transport || !find_owner(call, &owner))
        return false;
    if (hf_addr_parse_uaddr(uaddr, &addr) < 0 || addr.port == 0 ||
        addr.family != transport->family || !is_of_this_host(&addr))
        return false;
    if (!may_set(call, owner, prog, &addr))
        return false;
    if (hf_rpcbind_table_find(table_of(call), prog, vers, netid))
        return false; /* RFC 1833: the caller must remove the old entry by UNSET first */
    return hf_rpcbind_table_add(table_of(call), prog, vers, netid, uaddr, owner) == 0;
}

static bool unset_service(const struct hf_rpc_call *call, uint32_t prog, uint32_t vers,
                          const char *netid)
{
    hf_rpcbind_owner owner;

    return find_owner(call, &owner) &&
           hf_rpcbind_table_remove(table_of(call), prog, vers, netid, owner);
}

static void v2_set(struct hf_rpc_call *call, void *args)
{
    const hf_pmap *map = args;
    struct hf_addr any = {.family = HF_ADDR_IPV4, .port = (uint16_t)map->port};
    const char *netid = map->prot == IPPROTO_TCP ? "tcp" : "udp";
    char uaddr[HF_ADDR_UADDR_MAX];
    bool sane = map->port <= UINT16_MAX && (map->prot == IPPROTO_TCP || map->prot == IPPROTO_UDP);

    reply_bool(call, sane && set_service(call, map->prog, map->vers, netid,
                                         hf_addr_format_uaddr(&any, uaddr)));
}

/* UNSET of version 2: ignores protocol and port, and removes the program's entries for both
 * transports. */
static void v2_unset(struct hf_rpc_call *call, void *args)
{
    const hf_pmap *map = args;
    bool udp = unset_service(call, map->prog, map->vers, "udp");
    bool tcp = unset_service(call, map->prog, map->vers, "tcp");

    reply_bool(call, udp || tcp);
}

static void v4_set(struct hf_rpc_call *call, void *args)
{
    const hf_rpcb *map = args;

    reply_bool(call, set_service(call, map->prog, map->vers, map->netid, map->addr));
}

static void v4_unset(struct hf_rpc_call *call, void *args)
{
    const hf_rpcb *map = args;

    reply_bool(call, unset_service(call, map->prog, map->vers, map->netid));
}

/* ---- GETPORT, GETADDR ---- */

static void v2_getport(struct hf_rpc_call *call, void *args)
{
    const hf_pmap *map = args;
    const char *netid = map->prot == IPPROTO_TCP ? "tcp" : "udp";
    struct hf_rpcbind_entry *e =
        hf_rpcbind_table_find_nearest(table_of(call), map->prog, map->vers, netid);
    struct hf_addr addr;
    u_int port = 0;

    if (e && hf_addr_parse_uaddr(e->uaddr, &addr) == 0)
        port = addr.port;
    hf_rpc_reply(call, xdr_hf_rpcbind_number, &port);
}

static void reply_addr(struct hf_rpc_call *call, const struct hf_rpcbind_entry *e)
{
    char text[UADDR_SIZE] = "";
    const char *addr = e ? merged(call, e, text) : text;

    hf_rpc_reply(call, xdr_hf_rpcb_addr, &addr);
}

/* GETADDR: answers for the transport by which the question came, and ignores the netid in the
 * arguments (RFC 1833, section 2.2.1). */
static void v4_getaddr(struct hf_rpc_call *call, void *args)
{
    const hf_rpcb *map = args;

    reply_addr(call, hf_rpcbind_table_find_nearest(table_of(call), map->prog, map->vers,
                                                   call_netid(call)));
}

static void v4_getversaddr(struct hf_rpc_call *call, void *args)
{
    const hf_rpcb *map = args;

    reply_addr(call, hf_rpcbind_table_find(table_of(call), map->prog, map->vers, call_netid(call)));
}

static void v4_gettime(struct hf_rpc_call *call, void *args)
{
    u_int now = (u_int)time(NULL);

    (void)args;
    hf_rpc_reply(call, xdr_hf_rpcbind_number, &now);
}

/* ---- DUMP, GETADDRLIST ---- */

/* Charges the caller for an answer that lists the table: each entry is visited, formatted and
 * encoded. */
static void charge(struct hf_rpc_call *call)
{
    enum { NODES_EACH = 4 };

    hf_rpc_charge(call, NODES_EACH * (unsigned)table_of(call)->n);
}

static void v2_dump(struct hf_rpc_call *call, void *args)
{
    struct hf_rpcbind_server *server = call->program->ctx;
    hf_pmaplist_ptr head = NULL;
    hf_pmaplist_ptr *tail = &head;

    (void)args;
    charge(call);
    for (size_t i = 0; i < server->table.n; i++) {
        const struct hf_rpcbind_entry *e = &server->table.entries[i];
        bool tcp = strcmp(e->netid, "tcp") == 0;
        struct hf_addr addr;

        if ((!tcp && strcmp(e->netid, "udp") != 0) || hf_addr_parse_uaddr(e->uaddr, &addr) < 0)
            continue; /* version 2 of rpcbind knows only IPv4 */
        server->pmaps[i].map =
            (hf_pmap){e->prog, e->vers, tcp ? IPPROTO_TCP : IPPROTO_UDP, addr.port};
        server->pmaps[i].next = NULL;
        *tail = &server->pmaps[i];
        tail = &server->pmaps[i].next;
    }
    hf_rpc_reply(call, xdr_hf_pmaplist_ptr, &head);
}

static char *owner_name(hf_rpcbind_owner owner)
{
    static char superuser[] = "superuser";
    static char unknown[] = "unknown";

    return owner == HF_RPCBIND_OWNER_ROOT || owner == HF_RPCBIND_OWNER_SELF ? superuser : unknown;
}

static void v4_dump(struct hf_rpc_call *call, void *args)
{
    struct hf_rpcbind_server *server = call->program->ctx;
    hf_rpcblist_ptr head = NULL;

    (void)args;
    charge(call);
    for (size_t i = server->table.n; i-- > 0;) {
        struct hf_rpcbind_entry *e = &server->table.entries[i];
        server->rpcbs[i].map =
            (hf_rpcb){e->prog, e->vers, e->netid, e->uaddr, owner_name(e->owner)};
        server->rpcbs[i].next = head;
        head = &server->rpcbs[i];
    }
    hf_rpc_reply(call, xdr_hf_rpcblist_ptr, &head);
}

static void fill_addr_entry(struct hf_rpcbind_server *server, const struct hf_rpc_call *call,
                            size_t i, hf_rpcb_entry *out)
{
    struct hf_rpcbind_entry *e = &server->table.entries[i];
    const struct hf_rpcbind_netid *netid = hf_rpcbind_netid_find(e->netid);

    HF_ASSERT(netid); /* cannot fail: SET refuses an unknown netid */
    *out = (hf_rpcb_entry){
        .maddr = (char *)(uintptr_t)merged(call, e, server->texts[i]),
        .netid = e->netid,
        .semantics = netid->transport == HF_TRANSPORT_TCP ? SEMANTICS_STREAM : SEMANTICS_DATAGRAM,
        .protofmly = (char *)(uintptr_t)netid->protofmly,
        .proto = (char *)(uintptr_t)netid->proto,
    };
}

static void v4_getaddrlist(struct hf_rpc_call *call, void *args)
{
    struct hf_rpcbind_server *server = call->program->ctx;
    const hf_rpcb *map = args;
    hf_rpcb_entry_list_ptr head = NULL;

    charge(call);
    for (size_t i = server->table.n; i-- > 0;) {
        if (server->table.entries[i].prog != map->prog ||
            server->table.entries[i].vers != map->vers)
            continue;
        fill_addr_entry(server, call, i, &server->addrs[i].entry);
        server->addrs[i].next = head;
        head = &server->addrs[i];
    }
    hf_rpc_reply(call, xdr_hf_rpcb_entry_list_ptr, &head);
}

static void null(struct hf_rpc_call *call, void *args)
{
    (void)args;
    hf_rpc_reply_void(call);
}

/* ---- the tables ---- */

#define PMAP xdr_hf_pmap, &pmap_args
#define RPCB xdr_hf_rpcb, &rpcb_args

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

int hf_rpcbind_server_new(const struct hf_alloc *alloc, struct hf_rpcbind_server **out)
{
    struct hf_rpcbind_server *server = hf_calloc(alloc, 1, sizeof(*server));

    if (!server)
        return HF_ENOMEM;
    server->alloc = alloc;
    server->program = (struct hf_rpc_program){
        .number = HF_PROGRAM_RPCBIND,
        .name = "rpcbind",
        .versions = VERSIONS,
        .n_versions = HF_COUNT_OF(VERSIONS),
        .ctx = server,
        .any_port = true, /* any user may look up ports, which are no secret */
    };
    *out = server;
    return 0;
}

void hf_rpcbind_server_del(struct hf_rpcbind_server *server)
{
    if (server)
        hf_free(server->alloc, server);
}

const struct hf_rpc_program *hf_rpcbind_server_program(struct hf_rpcbind_server *server)
{
    return &server->program;
}
