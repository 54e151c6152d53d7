/*
 * Messages between the daemon and holdfast-keeper (COH-01): whatever passes the check has only
 * values that the keeper, or the daemon, has a case for, and its records are inside the message.
 * The ranges in it become ranges that the kernel can lock.
 */
#include "fuzz.h"

#include "handles/identity.h"
#include "keeper/protocol.h"
#include "keeper/ranges.h"

static void check_op(const struct hf_keeper_op *op)
{
    uint8_t canonical[HF_HANDLE_BYTES_MAX];
    struct hf_span span;

    HF_ASSERT(op->kind < HF_KEEPER_KINDS && op->mode <= HF_KEEPER_EXCLUSIVE);
    HF_ASSERT(op->handle_len <= sizeof(op->handle));
    HF_ASSERT(hf_handle_identity(hf_bytes(op->handle, op->handle_len), canonical).len ==
              op->handle_len);
    if (hf_range_clamp(op->offset, op->length, &span))
        HF_ASSERT(span.first <= span.last && span.last <= HF_RANGE_LAST);
}

static void check(const uint8_t *message, size_t size, bool from_keeper)
{
    struct hf_keeper_header header;
    const uint8_t *records = hf_keeper_check(message, size, from_keeper, &header);
    size_t record = records ? hf_keeper_record_size(header.message) : 0;

    if (!records)
        return;
    HF_ASSERT(size <= HF_KEEPER_MESSAGE_MAX && records + header.count * record == message + size);
    for (uint32_t i = 0; i < header.count; i++) {
        const void *at = records + i * record;

        if (header.message == HF_KEEPER_OPS || header.message == HF_KEEPER_HELD)
            check_op(at);
        else if (header.message == HF_KEEPER_PATH)
            HF_ASSERT(strlen(((const struct hf_keeper_path *)at)->path) < HF_KEEPER_PATH_MAX);
        else if (header.message == HF_KEEPER_RESULTS)
            HF_ASSERT(hf_keeper_status_name(((const struct hf_keeper_result *)at)->status));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* A copy of exactly this size, so that AddressSanitizer sees a read beyond it. */
    uint8_t *copy = malloc(size ? size : 1);

    memcpy(copy, data, size);
    check(copy, size, false);
    check(copy, size, true);
    free(copy);
    return 0;
}
