/* Durable records from a damaged disk: each is refused, or is the same when written and read once
 * more. */
#include "fuzz.h"

#include "core/record.h"

#define ROUND_TRIP(kind)                                                       \
    static void kind##_round_trips(struct hf_bytes bytes)                      \
    {                                                                          \
        struct hf_record_##kind record;                                        \
        struct hf_buf first, second;                                           \
                                                                               \
        if (hf_record_decode_##kind(bytes, &record) < 0)                       \
            return;                                                            \
        hf_buf_init(&first, &hf_alloc_heap);                                   \
        hf_buf_init(&second, &hf_alloc_heap);                                  \
        HF_ASSERT(hf_record_encode_##kind(&record, &first) == 0);              \
        HF_ASSERT(hf_record_decode_##kind(hf_buf_view(&first), &record) == 0); \
        HF_ASSERT(hf_record_encode_##kind(&record, &second) == 0);             \
        HF_ASSERT(hf_bytes_equal(hf_buf_view(&first), hf_buf_view(&second)));  \
        hf_buf_free(&first);                                                   \
        hf_buf_free(&second);                                                  \
    }

ROUND_TRIP(server)
ROUND_TRIP(client)
ROUND_TRIP(lock)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    server_round_trips(hf_bytes(data, size));
    client_round_trips(hf_bytes(data, size));
    lock_round_trips(hf_bytes(data, size));
    return 0;
}
