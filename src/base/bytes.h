/* A view of bytes, which does not own them: names, file handles, owner handles, encoded records. */
#ifndef HF_BASE_BYTES_H
#define HF_BASE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct hf_bytes {
    const uint8_t *data;
    size_t len;
};

static inline struct hf_bytes hf_bytes(const void *data, size_t len)
{
    return (struct hf_bytes){data, len};
}

static inline struct hf_bytes hf_bytes_str(const char *text)
{
    return hf_bytes(text, strlen(text));
}

/* True for printable ASCII that is not empty. */
static inline bool hf_bytes_is_text(struct hf_bytes bytes)
{
    for (size_t i = 0; i < bytes.len; i++) {
        if (bytes.data[i] < 0x20 || bytes.data[i] > 0x7e)
            return false;
    }
    return bytes.len > 0;
}

static inline bool hf_bytes_equal(struct hf_bytes a, struct hf_bytes b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

#endif
