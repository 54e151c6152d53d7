#include "admin/answer.h"

#include <string.h>

#include "base/quote.h"

static bool read_id(struct hf_bytes text, uint64_t *out)
{
    *out = 0;
    for (size_t i = 0; i < text.len; i++) {
        if (text.data[i] < '0' || text.data[i] > '9' || *out > (UINT64_MAX - 9) / 10)
            return false;
        *out = *out * 10 + (text.data[i] - '0');
    }
    return text.len > 0;
}

/* Reads the path in a namer's answer. The path is unquoted and quoted again, because the namer may
 * have left characters unquoted that must not be shown. */
static bool read_path(struct hf_bytes text, struct hf_name_answer *out)
{
    char path[HF_PATH_BYTES_MAX + 1];
    int len = hf_path_unquote(text, path, sizeof(path));

    if (len <= 0 || path[0] != '/')
        return false;
    len = hf_path_quote(hf_bytes(path, (size_t)len), out->path, sizeof(out->path));
    out->len = len > 0 ? (size_t)len : 0;
    return len > 0;
}

bool hf_name_answer_read(struct hf_bytes line, struct hf_name_answer *out)
{
    struct hf_bytes verb;

    out->status = HF_NAME_NONE;
    out->len = 0;
    if (!read_id(hf_quote_word(&line), &out->id))
        return false;
    verb = hf_quote_word(&line);
    if (hf_bytes_equal(verb, hf_bytes_str("named"))) {
        out->status = HF_NAME_KNOWN;
        return read_path(line, out);
    }
    if (hf_bytes_equal(verb, hf_bytes_str("error")))
        return true;
    if (line.len > 0)
        return false;
    if (hf_bytes_equal(verb, hf_bytes_str("deleted"))) {
        out->status = HF_NAME_DELETED;
        return true;
    }
    return hf_bytes_equal(verb, hf_bytes_str("unknown")) ||
           hf_bytes_equal(verb, hf_bytes_str("later"));
}
