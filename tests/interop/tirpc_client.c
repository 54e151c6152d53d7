/*
 * tirpc_client HOST NETTYPE: the client of libtirpc, which rpc.statd and NFS servers in user space
 * use: asks HOST's rpcbind, then calls every program and version. Prints what was answered.
 */
#include <rpc/rpc.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/assert.h"
#include "proto/nlm.h"
#include "proto/nsm.h"

static const struct timeval WAIT = {10, 0};

static CLIENT *connect_to(const char *host, rpcprog_t prog, rpcvers_t vers, const char *nettype)
{
    CLIENT *client = clnt_create(host, prog, vers, nettype);

    if (!client) {
        clnt_pcreateerror(host);
        exit(EXIT_FAILURE);
    }
    return client;
}

static void call(CLIENT *client, rpcproc_t proc, xdrproc_t encode, void *args, xdrproc_t decode,
                 void *results)
{
    if (clnt_call(client, proc, encode, args, decode, results, WAIT) != RPC_SUCCESS) {
        clnt_perror(client, "call");
        exit(EXIT_FAILURE);
    }
}

int main(int argc, char **argv)
{
    static const struct {
        rpcprog_t prog;
        rpcvers_t vers;
    } served[] = {
        {NLM_PROG, NLM_VERS}, {NLM_PROG, NLM_VERSX}, {NLM_PROG, NLM4_VERS}, {SM_PROG, SM_VERS}};
    static char host_name[] = "client.example";
    sm_name name = {{sizeof(host_name) - 1, host_name}};
    sm_stat_res res;
    CLIENT *client;

    if (argc != 3)
        return EXIT_FAILURE;
    for (size_t i = 0; i < HF_COUNT_OF(served); i++) {
        client = connect_to(argv[1], served[i].prog, served[i].vers, argv[2]);
        call(client, NULLPROC, (xdrproc_t)(void (*)(void))xdr_void, NULL,
             (xdrproc_t)(void (*)(void))xdr_void, NULL);
        printf("%lu %lu null\n", (unsigned long)served[i].prog, (unsigned long)served[i].vers);
        clnt_destroy(client);
    }
    client = connect_to(argv[1], SM_PROG, SM_VERS, argv[2]);
    auth_destroy(client->cl_auth);
    /* The credentials are those that lockd and mount send. */
    client->cl_auth = authunix_create_default();
    call(client, SM_STAT, (xdrproc_t)xdr_sm_name, &name, (xdrproc_t)xdr_sm_stat_res, &res);
    printf("nsm stat result %d state %d\n", (int)res.res_stat, res.state);
    auth_destroy(client->cl_auth);
    client->cl_auth = authnone_create();
    clnt_destroy(client);
    return EXIT_SUCCESS;
}
