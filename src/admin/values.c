#include "admin/values.h"

#include "admin/writer.h"
#include "base/text.h"

#include <stdio.h>
#include <time.h>

json_t *hf_value_id(uint64_t id)
{
    char text[24];

    hf_format(text, sizeof(text), "%llu", (unsigned long long)id);
    return json_string(text);
}

json_t *hf_value_time(int64_t wall_ms)
{
    time_t seconds = (time_t)(wall_ms / 1000);
    struct tm utc;
    char text[64];
    size_t len;

    if (wall_ms <= 0 || !gmtime_r(&seconds, &utc))
        return json_null();
    len = strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &utc);
    hf_format(text + len, sizeof(text) - len, ".%03dZ", (int)(wall_ms % 1000));
    return json_string(text);
}

json_t *hf_value_addr(const struct hf_addr *addr)
{
    char text[HF_ADDR_TEXT_MAX];

    return json_string(hf_addr_format(addr, text));
}

json_t *hf_value_str(const char *text)
{
    return text ? hf_value_text(hf_bytes_str(text)) : json_null();
}

json_t *hf_value_text(struct hf_bytes bytes)
{
    struct hf_buf buf;
    struct writer w = {.out = &buf};
    json_t *value;

    hf_buf_init(&buf, &hf_alloc_heap);
    hf_json_text(&w, NULL, bytes);
    value = json_loadb((const char *)hf_buf_view(&buf).data, hf_buf_view(&buf).len, JSON_DECODE_ANY,
                       NULL);
    hf_buf_free(&buf);
    return value ? value : json_string("");
}
