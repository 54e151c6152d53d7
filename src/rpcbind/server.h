/*
 * The embedded rpcbind: versions 2, 3 and 4 of the protocol, on port 111 and on the local socket.
 * It does not serve CALLIT, BCAST and INDIRECT, which would forward calls in our name and let a
 * stranger amplify traffic through us, nor the address translations, which clients do not use.
 *
 * Only callers whose user is known may change the table (SEC-11): those on the local socket, and
 * those on the loopback interface with a reserved port, which only root has. Users can remove their
 * own entries; root can remove all but the daemon's. Users other than root can register only ports
 * above 1023 of this host, program numbers that are not assigned to a service, and few of them.
 * Otherwise a user could lead the clients of NFS to another host, or fill the table.
 */
#ifndef HF_RPCBIND_SERVER_H
#define HF_RPCBIND_SERVER_H

#include "base/alloc.h"
#include "rpcbind/rpcbind.h"

struct hf_rpcbind_server;

int hf_rpcbind_server_new(const struct hf_alloc *alloc, struct hf_rpcbind_server **out);
void hf_rpcbind_server_del(struct hf_rpcbind_server *server);

/* Adds a service of the daemon itself to the table. Returns HF_ELIMIT when the table is full. */
int hf_rpcbind_server_add(struct hf_rpcbind_server *server,
                          const struct hf_rpcbind_service *service);

/* Returns the RPC program to serve on port 111; it is valid until hf_rpcbind_server_del(). */
const struct hf_rpc_program *hf_rpcbind_server_program(struct hf_rpcbind_server *server);

#endif
