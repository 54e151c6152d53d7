/*
 * Record marking (RPC-02): however a stream is cut into reads, it gives the same records and ends
 * at the same place. The first byte of the input chooses the cuts, the rest is the stream.
 */
#include "fuzz.h"

#include "base/alloc.h"
#include "base/hash.h"
#include "rpc/marking.h"

/* A digest of the records that were read, and how the stream ended. */
struct heard {
    uint64_t digest;
    size_t records;
    int end;
};

static void feed(struct hf_marking *marking, const uint8_t *data, size_t size, struct heard *heard)
{
    static const struct hf_hash_key key = {1, 2};
    struct hf_bytes input = hf_bytes(data, size);
    struct hf_bytes record;

    while ((heard->end = hf_marking_next(marking, &input, &record)) > 0) {
        HF_ASSERT(record.len <= HF_RPC_RECORD_MAX);
        heard->digest = hf_hash_u64(&key, heard->digest, hf_hash(&key, record.data, record.len));
        heard->records++;
    }
    HF_ASSERT(heard->end < 0 || input.len == 0);
}

static struct heard listen_to(const uint8_t *data, size_t size, size_t piece)
{
    struct heard heard = {0};
    struct hf_marking marking;

    hf_marking_init(&marking, &hf_alloc_heap);
    for (size_t at = 0; at < size && heard.end >= 0; at += piece)
        feed(&marking, data + at, size - at < piece ? size - at : piece, &heard);
    hf_marking_free(&marking);
    return heard;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct heard whole, cut;

    if (size < 2)
        return 0;
    whole = listen_to(data + 1, size - 1, size);
    cut = listen_to(data + 1, size - 1, (size_t)data[0] % 17 + 1);
    HF_ASSERT(whole.digest == cut.digest && whole.records == cut.records && whole.end == cut.end);
    return 0;
}
