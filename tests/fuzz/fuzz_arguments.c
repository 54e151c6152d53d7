/*
 * The arguments of every procedure that is served, through the tables and preset buffers of the
 * daemon: decoding allocates nothing, and decoded arguments, encoded again, decode to the same.
 * The first byte of the input chooses the procedure.
 */
#include "fuzz.h"

#include <sanitizer/allocator_interface.h>

#include "nlm/nlm.h"
#include "nsm/nsm.h"
#include "rpcbind/server.h"

enum { PROCEDURES_MAX = 256, ENCODED_MAX = 16 * 1024 };

static const struct hf_rpc_procedure *procedures[PROCEDURES_MAX];
static size_t n_procedures;

static bool watching;
static unsigned n_allocations;

static void on_malloc(const volatile void *ptr, size_t size)
{
    (void)ptr;
    (void)size;
    if (watching)
        n_allocations++;
}

static void on_free(const volatile void *ptr)
{
    (void)ptr;
}

static void collect(const struct hf_rpc_program *program)
{
    for (size_t v = 0; v < program->n_versions; v++) {
        for (size_t p = 0; p < program->versions[v].n_procedures; p++) {
            const struct hf_rpc_procedure *procedure = &program->versions[v].procedures[p];
            if (!procedure->name || !procedure->decode)
                continue;
            HF_ASSERT(n_procedures < PROCEDURES_MAX);
            procedures[n_procedures++] = procedure;
        }
    }
}

static void collect_all(void)
{
    static struct hf_service service;
    static struct hf_nsm nsm;
    static struct hf_nlm nlm;
    static struct hf_rpcbind_server *rpcbind; /* allocated once, for the life of the process */

    hf_nsm_init(&nsm, &service, NULL);
    hf_nlm_init(&nlm, &service, NULL);
    HF_ASSERT(hf_rpcbind_server_new(&hf_alloc_heap, &rpcbind) == 0);
    collect(&nsm.program);
    collect(&nlm.program);
    collect(hf_rpcbind_server_program(rpcbind));
    HF_ASSERT(n_procedures > 60);
    HF_ASSERT(__sanitizer_install_malloc_and_free_hooks(on_malloc, on_free));
}

static bool decode(const struct hf_rpc_procedure *procedure, const uint8_t *data, size_t size)
{
    bool done;
    XDR xdr;

    xdrmem_create(&xdr, (char *)(uintptr_t)data, (u_int)size, XDR_DECODE);
    n_allocations = 0;
    watching = true;
    done = procedure->decode(&xdr, procedure->args);
    watching = false;
    HF_ASSERT(n_allocations == 0);
    return done;
}

static size_t encode(const struct hf_rpc_procedure *procedure, uint8_t out[ENCODED_MAX])
{
    XDR xdr;

    xdrmem_create(&xdr, (char *)out, ENCODED_MAX, XDR_ENCODE);
    HF_ASSERT(procedure->decode(&xdr, procedure->args));
    return xdr_getpos(&xdr);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t first[ENCODED_MAX], second[ENCODED_MAX];
    const struct hf_rpc_procedure *procedure;
    size_t len;

    if (n_procedures == 0)
        collect_all();
    if (size < 1)
        return 0;
    procedure = procedures[data[0] % n_procedures];
    if (!decode(procedure, data + 1, size - 1))
        return 0;
    len = encode(procedure, first);
    HF_ASSERT(decode(procedure, first, len));
    HF_ASSERT(encode(procedure, second) == len && memcmp(first, second, len) == 0);
    return 0;
}
