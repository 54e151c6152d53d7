/*
 * libnfs_client HOST: a peer with codecs that are not ours. libnfs asks HOST's rpcbind for each
 * program, connects, and calls; what it made of the answers is printed for test_peers.py.
 */
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>

#include <nfsc/libnfs.h>

/* This header needs the one above. */
#include <nfsc/libnfs-raw.h>

#include <nfsc/libnfs-raw-nlm.h>
#include <nfsc/libnfs-raw-nsm.h>

enum { WAIT_MS = 10000 };

static bool done;

static void fail(const char *what)
{
    fprintf(stderr, "libnfs: %s\n", what);
    exit(EXIT_FAILURE);
}

/* Turns the loop until a callback has set done. */
static void wait_for_answer(struct rpc_context *rpc)
{
    for (int waited_ms = 0; !done; waited_ms += 100) {
        struct pollfd fd = {rpc_get_fd(rpc), (short)rpc_which_events(rpc), 0};

        if (waited_ms > WAIT_MS)
            fail("no answer");
        if (poll(&fd, 1, 100) < 0 || rpc_service(rpc, fd.revents) < 0)
            fail(rpc_get_error(rpc));
    }
    done = false;
}

static void answered(struct rpc_context *rpc, int status, void *data, void *what)
{
    (void)data;
    if (status != RPC_STATUS_SUCCESS)
        fail(rpc_get_error(rpc));
    printf("%s\n", (const char *)what);
    done = true;
}

static void stat_answered(struct rpc_context *rpc, int status, void *data, void *what)
{
    const struct NSM1_STATres *res = data;

    if (status != RPC_STATUS_SUCCESS)
        fail(rpc_get_error(rpc));
    printf("%s result %d state %d\n", (const char *)what, (int)res->res, res->state);
    done = true;
}

static struct rpc_context *connect_to(const char *host, int program, int version, char *what)
{
    struct rpc_context *rpc = rpc_init_context();

    if (!rpc || rpc_connect_program_async(rpc, host, program, version, answered, what) < 0)
        fail("no memory");
    wait_for_answer(rpc);
    return rpc;
}

int main(int argc, char **argv)
{
    static char texts[][16] = {"nlm connected", "nlm null", "nsm connected", "nsm null",
                               "nsm stat"};
    static char name[] = "client.example";
    struct NSM1_STATargs args = {.mon_name = name};
    struct rpc_context *rpc;

    if (argc != 2)
        fail("usage: libnfs_client HOST");
    rpc = connect_to(argv[1], NLM_PROGRAM, NLM_V4, texts[0]);
    if (rpc_nlm4_null_async(rpc, answered, texts[1]) < 0)
        fail(rpc_get_error(rpc));
    wait_for_answer(rpc);
    rpc_destroy_context(rpc);

    rpc = connect_to(argv[1], NSM_PROGRAM, NSM_V1, texts[2]);
    if (rpc_nsm1_null_async(rpc, answered, texts[3]) < 0)
        fail(rpc_get_error(rpc));
    wait_for_answer(rpc);
    if (rpc_nsm1_stat_async(rpc, stat_answered, &args, texts[4]) < 0)
        fail(rpc_get_error(rpc));
    wait_for_answer(rpc);
    rpc_destroy_context(rpc);
    return EXIT_SUCCESS;
}
