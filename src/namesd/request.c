#include "namesd/request.h"

#include <stdio.h>
#include <string.h>

#include "base/hex.h"
#include "base/quote.h"

static bool read_id(struct hf_bytes text, char out[HF_NAMES_ID_MAX + 1])
{
    if (text.len == 0 || text.len > HF_NAMES_ID_MAX)
        return false;
    for (size_t i = 0; i < text.len; i++) {
        if (text.data[i] < '0' || text.data[i] > '9')
            return false;
    }
    memcpy(out, text.data, text.len);
    out[text.len] = '\0';
    return true;
}

void hf_namesd_request_read(struct hf_bytes line, struct hf_namesd_request *out)
{
    struct hf_bytes rest = line;
    struct hf_bytes verb = hf_quote_word(&rest);
    struct hf_bytes hex;
    int len;

    *out = (struct hf_namesd_request){.kind = HF_NAMESD_REQUEST_BAD};
    if (hf_bytes_equal(line, hf_bytes_str(HF_NAMES_GREETING))) {
        out->kind = HF_NAMESD_REQUEST_GREETING;
        return;
    }
    if (!read_id(hf_quote_word(&rest), out->id) || !hf_bytes_equal(verb, hf_bytes_str("path")))
        return;
    hex = rest;
    len = hf_hex_decode((const char *)hex.data, hex.len, out->handle, sizeof(out->handle));
    if (len <= 0)
        return;
    out->len = (size_t)len;
    out->kind = HF_NAMESD_REQUEST_PATH;
}

int hf_namesd_request_answer(struct hf_buf *out, const struct hf_namesd_request *request,
                             enum hf_answer answer, struct hf_bytes path)
{
    static const char *const WORDS[] = {"named", "deleted", "unknown", "later"};
    char line[HF_PATH_QUOTED_MAX + 64];
    int len = snprintf(line, sizeof(line), "%s %s", request->id, WORDS[answer]);
    int quoted;

    if (answer == HF_ANSWER_NAMED) {
        line[len++] = ' ';
        quoted = hf_path_quote(path, line + len, sizeof(line) - (size_t)len - 1);
        if (quoted < 0)
            return hf_namesd_request_answer(out, request, HF_ANSWER_UNKNOWN, path);
        len += quoted;
    }
    line[len++] = '\n';
    return hf_buf_append(out, line, (size_t)len);
}

int hf_namesd_request_refuse(struct hf_buf *out, const struct hf_namesd_request *request)
{
    char line[128];
    int len = snprintf(line, sizeof(line), "%s error this line is not understood\n",
                       request->id[0] ? request->id : "0");

    return hf_buf_append(out, line, (size_t)len);
}
