#include "ctl/nfs_client.h"

#include <poll.h>
#include <stdint.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

#include <nfsc/libnfs.h>

/* The headers below need nfsc/libnfs.h. */
#include <nfsc/libnfs-raw.h>

#include <nfsc/libnfs-raw-mount.h>
#include <nfsc/libnfs-raw-nfs.h>

#include "base/clock.h"
#include "base/text.h"

enum { ANSWER_MS = 10000, TURN_MS = 100, FILE_MODE = 0600 };

static bool fail(struct nfs_client *client, const char *what, const char *why)
{
    hf_format(client->error, sizeof(client->error), "%s: %.150s", what, why ? why : "no reason");
    return false;
}

/* Waits for the callback of a call that was sent (rv 0), which sets done and status. */
static bool wait_for(struct nfs_client *client, const char *what, int rv)
{
    uint64_t end_ms = hf_clock_mono_ms() + ANSWER_MS;

    if (rv < 0)
        return fail(client, what, rpc_get_error(client->rpc));
    while (!client->done) {
        struct pollfd fd = {rpc_get_fd(client->rpc), (short)rpc_which_events(client->rpc), 0};

        if (hf_clock_mono_ms() > end_ms)
            return fail(client, what, "no answer");
        if (poll(&fd, 1, TURN_MS) < 0 || rpc_service(client->rpc, fd.revents) < 0)
            return fail(client, what, rpc_get_error(client->rpc));
    }
    client->done = false;
    if (client->status < 0)
        return fail(client, what, rpc_get_error(client->rpc));
    if (client->status > 0)
        return fail(client, what, nfsstat3_to_str(client->status));
    return true;
}

static void keep(struct nfs_handle *out, size_t len, const char *bytes)
{
    out->len = len <= NFS_HANDLE_MAX ? (unsigned)len : 0;
    memcpy(out->bytes, bytes, out->len);
}

static void on_connected(struct rpc_context *rpc, int status, void *data, void *ctx)
{
    struct nfs_client *client = ctx;

    (void)rpc;
    (void)data;
    client->done = true;
    client->status = status == RPC_STATUS_SUCCESS ? 0 : -1;
}

/* Takes an answer of NFS, whose result begins with its status. */
static void on_answer(struct rpc_context *rpc, int status, void *data, void *ctx)
{
    struct nfs_client *client = ctx;

    on_connected(rpc, status, data, ctx);
    if (client->status == 0)
        client->status = (int)*(const nfsstat3 *)data;
}

static void on_lookup(struct rpc_context *rpc, int status, void *data, void *ctx)
{
    struct nfs_client *client = ctx;
    const LOOKUP3res *res = data;

    on_answer(rpc, status, data, ctx);
    if (client->status == 0)
        keep(&client->found, res->LOOKUP3res_u.resok.object.data.data_len,
             res->LOOKUP3res_u.resok.object.data.data_val);
}

/* Takes an answer of MOUNT, whose first errors have the numbers that NFS gives them. */
static void on_mounted(struct rpc_context *rpc, int status, void *data, void *ctx)
{
    struct nfs_client *client = ctx;
    const mountres3 *res = data;

    on_answer(rpc, status, data, ctx);
    if (client->status == 0)
        keep(&client->found, res->mountres3_u.mountinfo.fhandle.fhandle3_len,
             res->mountres3_u.mountinfo.fhandle.fhandle3_val);
}

static bool connect_to(struct nfs_client *client, const char *host, int program, const char *what)
{
    if (client->rpc)
        rpc_destroy_context(client->rpc);
    client->rpc = rpc_init_context();
    client->done = false;
    if (!client->rpc)
        return fail(client, what, "out of memory");
    return wait_for(client, what,
                    rpc_connect_program_async(client->rpc, host, program, 3, on_connected, client));
}

bool nfs_client_open(struct nfs_client *client, const char *host, const char *directory)
{
    char path[1024];

    *client = (struct nfs_client){0};
    hf_format(path, sizeof(path), "%s", directory);
    if (!connect_to(client, host, MOUNT_PROGRAM, "MOUNT") ||
        !wait_for(client, "MOUNT of the directory",
                  rpc_mount3_mnt_async(client->rpc, on_mounted, path, client)))
        return false;
    client->directory = client->found;
    return connect_to(client, host, NFS_PROGRAM, "NFS version 3");
}

void nfs_client_close(struct nfs_client *client)
{
    if (client->rpc)
        rpc_destroy_context(client->rpc);
    client->rpc = NULL;
}

static nfs_fh3 wire_form(struct nfs_handle *handle)
{
    return (nfs_fh3){{handle->len, handle->bytes}};
}

static diropargs3 entry(struct nfs_client *client, const char *name, char copy[NFS_ERROR_MAX])
{
    hf_format(copy, NFS_ERROR_MAX, "%s", name);
    return (diropargs3){wire_form(&client->directory), copy};
}

bool nfs_client_create(struct nfs_client *client, const char *name)
{
    char copy[NFS_ERROR_MAX];
    CREATE3args args = {.where = entry(client, name, copy), .how = {.mode = GUARDED}};

    args.how.createhow3_u.g_obj_attributes.mode =
        (set_mode3){.set_it = 1, .set_mode3_u = {.mode = FILE_MODE}};
    return wait_for(client, "CREATE", rpc_nfs3_create_async(client->rpc, on_answer, &args, client));
}

bool nfs_client_lookup(struct nfs_client *client, const char *name, struct nfs_handle *out)
{
    char copy[NFS_ERROR_MAX];
    LOOKUP3args args = {entry(client, name, copy)};

    if (!wait_for(client, "LOOKUP", rpc_nfs3_lookup_async(client->rpc, on_lookup, &args, client)))
        return false;
    *out = client->found;
    return true;
}

bool nfs_client_rename(struct nfs_client *client, const char *from, const char *to)
{
    char copies[2][NFS_ERROR_MAX];
    RENAME3args args = {entry(client, from, copies[0]), entry(client, to, copies[1])};

    return wait_for(client, "RENAME", rpc_nfs3_rename_async(client->rpc, on_answer, &args, client));
}

bool nfs_client_remove(struct nfs_client *client, const char *name)
{
    char copy[NFS_ERROR_MAX];
    REMOVE3args args = {entry(client, name, copy)};

    return wait_for(client, "REMOVE", rpc_nfs3_remove_async(client->rpc, on_answer, &args, client));
}

bool nfs_client_getattr(struct nfs_client *client, const struct nfs_handle *handle)
{
    struct nfs_handle copy = *handle;
    GETATTR3args args = {wire_form(&copy)};

    return wait_for(client, "GETATTR",
                    rpc_nfs3_getattr_async(client->rpc, on_answer, &args, client));
}

bool nfs_handle_equal(const struct nfs_handle *a, const struct nfs_handle *b)
{
    return a->len == b->len && memcmp(a->bytes, b->bytes, a->len) == 0;
}
