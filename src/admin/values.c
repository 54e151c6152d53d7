#include "admin/values.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

json_t *value_id(uint64_t id)
{
    char text[24];

    snprintf(text, sizeof(text), "%llu", (unsigned long long)id);
    return json_string(text);
}

json_t *value_time(int64_t wall_ms)
{
    time_t seconds = (time_t)(wall_ms / 1000);
    struct tm utc;
    char text[64];
    size_t len;

    if (wall_ms <= 0 || !gmtime_r(&seconds, &utc))
        return json_null();
    len = strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &utc);
    snprintf(text + len, sizeof(text) - len, ".%03dZ", (int)(wall_ms % 1000));
    return json_string(text);
}

json_t *value_seconds(int64_t ms)
{
    return json_real(ms > 0 ? (double)ms / 1000 : 0);
}

json_t *value_text(struct hf_bytes bytes)
{
    json_t *json = json_stringn((const char *)bytes.data, bytes.len);
    char *escaped;
    size_t len = 0;

    if (json)
        return json;
    /* Not UTF-8. */
    escaped = malloc(bytes.len * 4 + 1);
    if (!escaped)
        return NULL;
    for (size_t i = 0; i < bytes.len; i++) {
        uint8_t c = bytes.data[i];
        if (c >= 0x20 && c < 0x7f)
            escaped[len++] = (char)c;
        else
            len += (size_t)sprintf(escaped + len, "\\x%02x", c);
    }
    json = json_stringn(escaped, len);
    free(escaped);
    return json;
}

json_t *value_hex(struct hf_bytes bytes)
{
    static const char DIGITS[] = "0123456789abcdef";
    char *text = malloc(bytes.len * 2 + 1);
    json_t *json;

    if (!text)
        return NULL;
    for (size_t i = 0; i < bytes.len; i++) {
        text[2 * i] = DIGITS[bytes.data[i] >> 4];
        text[2 * i + 1] = DIGITS[bytes.data[i] & 15];
    }
    json = json_stringn(text, bytes.len * 2);
    free(text);
    return json;
}

json_t *value_addr(const struct hf_addr *addr)
{
    char text[HF_ADDR_TEXT_MAX];

    return addr->family == HF_ADDR_NONE ? json_null() : json_string(hf_addr_format(addr, text));
}
