/*
 * File handles and lines of the protocol as holdfast-namesd gets them (NAM-02): every reading stays
 * inside the handle, and every answer is one line that gives back the path.
 */
#include "fuzz.h"

#include "base/quote.h"
#include "handles/handle.h"
#include "namesd/request.h"

static void check_view(struct hf_bytes whole, struct hf_bytes part)
{
    HF_ASSERT(part.len == 0 ||
              (part.data >= whole.data && part.data + part.len <= whole.data + whole.len));
}

static void check_handle(struct hf_bytes bytes)
{
    struct hf_handle out[HF_HANDLE_READINGS_MAX];
    size_t n = hf_handle_read(bytes, out);

    HF_ASSERT(n <= HF_HANDLE_READINGS_MAX);
    for (size_t i = 0; i < n; i++) {
        check_view(bytes, out[i].fid);
        check_view(bytes, out[i].hashes);
        HF_ASSERT(out[i].fsid.uuid_len <= sizeof(out[i].fsid.uuid));
        HF_ASSERT(out[i].fsid.kind != HF_FSID_UUID || out[i].fsid.uuid_len > 0);
    }
}

static void check_answer(struct hf_bytes path)
{
    struct hf_namesd_request request = {.kind = HF_NAMESD_REQUEST_PATH, .id = "1"};
    char back[HF_PATH_BYTES_MAX];
    struct hf_bytes line;
    struct hf_buf out;

    if (path.len >= sizeof(back) || (path.len && memchr(path.data, 0, path.len)))
        return;
    hf_buf_init(&out, &hf_alloc_heap);
    HF_ASSERT(hf_namesd_request_answer(&out, &request, HF_ANSWER_NAMED, path) == 0);
    line = hf_buf_view(&out);
    HF_ASSERT(memchr(line.data, '\n', line.len) == line.data + line.len - 1);
    HF_ASSERT(memcmp(line.data, "1 named ", 8) == 0);
    HF_ASSERT(hf_path_unquote(hf_bytes(line.data + 8, line.len - 9), back, sizeof(back)) ==
              (int)path.len);
    HF_ASSERT(memcmp(back, path.data, path.len) == 0);
    hf_buf_free(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hf_namesd_request request;
    /* A copy of exactly this size, so that AddressSanitizer sees a read beyond it. */
    uint8_t *copy = malloc(size ? size : 1);

    memcpy(copy, data, size);
    check_handle(hf_bytes(copy, size));
    check_answer(hf_bytes(copy, size));
    hf_namesd_request_read(hf_bytes(copy, size), &request);
    HF_ASSERT(request.kind != HF_NAMESD_REQUEST_PATH || (request.len > 0 && request.id[0]));
    if (request.kind == HF_NAMESD_REQUEST_PATH)
        check_handle(hf_bytes(request.handle, request.len));
    free(copy);
    return 0;
}
