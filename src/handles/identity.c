#include "handles/identity.h"

#include <string.h>

enum { GANESHA_MARK = 0x43, EXPORT_ID = 2, CONTENT_LEN = 4, HEADER = 5 };

/*
 * The formats of handles have no common mark. A handle that could be another server's as well is
 * left alone, because bytes that are no export number may tell two files apart. Every lock request
 * comes through here, so a handle of another server must cost only one comparison.
 */
struct hf_bytes hf_handle_identity(struct hf_bytes handle, uint8_t out[HF_HANDLE_BYTES_MAX])
{
    size_t content;

    if (handle.len <= HEADER || handle.data[0] != GANESHA_MARK ||
        !hf_handle_is_ganesha_only(handle))
        return handle;
    memcpy(out, handle.data, handle.len);
    memset(out + EXPORT_ID, 0, 2);
    content = HEADER + (size_t)handle.data[CONTENT_LEN];
    memset(out + content, 0, handle.len - content); /* the padding is cleared as well */
    return hf_bytes(out, handle.len);
}
