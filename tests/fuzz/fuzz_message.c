/* The headers of calls and replies (RPC-02): from any bytes, views must lie within the input. */
#include "fuzz.h"

#include "base/error.h"
#include "rpc/message.h"

static void read_call(struct hf_bytes message)
{
    struct hf_rpc_header header;
    size_t args_offset = SIZE_MAX;

    switch (hf_rpc_parse_call(message, &header, &args_offset)) {
    case HF_RPC_OK:
        HF_ASSERT(args_offset >= HF_RPC_CALL_HEADER_SIZE && args_offset <= message.len);
        break;
    case HF_RPC_DROP:
    case HF_RPC_BAD_VERSION:
    case HF_RPC_BAD_CRED:
    case HF_RPC_TOO_WEAK:
        break;
    default:
        HF_UNREACHABLE();
    }
}

static void read_reply(struct hf_bytes message)
{
    size_t offset = SIZE_MAX;
    uint32_t xid;
    int rv = hf_rpc_parse_reply(message, &offset);

    if (rv == 0)
        HF_ASSERT(offset >= 24 && offset <= message.len);
    else
        HF_ASSERT(offset == SIZE_MAX);
    if (rv == 0)
        HF_ASSERT(hf_rpc_parse_reply_xid(message, &xid) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    read_call(hf_bytes(data, size));
    read_reply(hf_bytes(data, size));
    return 0;
}
