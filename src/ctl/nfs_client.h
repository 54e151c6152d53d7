/*
 * Makes a few calls of MOUNT and NFS version 3 through libnfs, which holdfastctl doctor needs to
 * look at the file handles of an NFS server. Nothing is mounted on this host. Each call waits for
 * its answer, for a limited time.
 */
#ifndef HF_CTL_NFS_CLIENT_H
#define HF_CTL_NFS_CLIENT_H

#include <stdbool.h>
#include <stddef.h>

enum { NFS_HANDLE_MAX = 64, NFS_ERROR_MAX = 200 };

struct nfs_handle {
    unsigned len;
    char bytes[NFS_HANDLE_MAX];
};

struct nfs_client {
    struct rpc_context *rpc;     /* the connection; NULL: there is none */
    struct nfs_handle directory; /* the handle of the directory that was mounted */
    bool done;
    int status; /* the result of the last call: 0, an error of NFS, or -1 for no answer */
    struct nfs_handle found;   /* the handle that the last MNT or LOOKUP found */
    char error[NFS_ERROR_MAX]; /* why the last call failed */
};

/* Each of these functions returns false, with the reason in client->error, if it fails. */
bool nfs_client_open(struct nfs_client *client, const char *host, const char *directory);
void nfs_client_close(struct nfs_client *client);

/* nfs_client_create() and the functions below act on a file in the directory. */
bool nfs_client_create(struct nfs_client *client, const char *name);
bool nfs_client_lookup(struct nfs_client *client, const char *name, struct nfs_handle *out);
bool nfs_client_rename(struct nfs_client *client, const char *from, const char *to);
bool nfs_client_remove(struct nfs_client *client, const char *name);

bool nfs_client_getattr(struct nfs_client *client, const struct nfs_handle *handle);

bool nfs_handle_equal(const struct nfs_handle *a, const struct nfs_handle *b);

#endif
