#include "admin/writer.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/hex.h"
#include "base/utf8.h"

static void put(struct writer *w, const char *text, size_t len)
{
    if (!w->failed && hf_buf_append(w->out, text, len) < 0)
        w->failed = true;
}

static void put_key(struct writer *w, const char *key)
{
    if (w->comma)
        put(w, ",", 1);
    w->comma = true;
    if (!key)
        return;
    put(w, "\"", 1);
    put(w, key, strlen(key));
    put(w, "\":", 2);
}

void hf_json_open(struct writer *w, const char *key, char bracket)
{
    put_key(w, key);
    put(w, &bracket, 1);
    w->comma = false;
}

void hf_json_close(struct writer *w, char bracket)
{
    put(w, &bracket, 1);
    w->comma = true;
}

static void put_value(struct writer *w, const char *key, const char *text, size_t len)
{
    put_key(w, key);
    put(w, text, len);
}

void hf_json_null(struct writer *w, const char *key)
{
    put_value(w, key, "null", 4);
}

void hf_json_bool(struct writer *w, const char *key, bool value)
{
    put_value(w, key, value ? "true" : "false", value ? 4 : 5);
}

void hf_json_int(struct writer *w, const char *key, int64_t value)
{
    char text[24];

    put_value(w, key, text, (size_t)snprintf(text, sizeof(text), "%lld", (long long)value));
}

void hf_json_id(struct writer *w, const char *key, uint64_t value)
{
    char text[28];

    put_value(w, key, text,
              (size_t)snprintf(text, sizeof(text), "\"%llu\"", (unsigned long long)value));
}

void hf_json_seconds(struct writer *w, const char *key, int64_t ms)
{
    char text[32];
    long long shown = ms > 0 ? ms : 0; /* no age is negative, even if the clock was set back */

    put_value(w, key, text,
              (size_t)snprintf(text, sizeof(text), "%lld.%03d", shown / 1000, (int)(shown % 1000)));
}

void hf_json_time(struct writer *w, const char *key, int64_t wall_ms)
{
    time_t seconds = (time_t)(wall_ms / 1000);
    struct tm utc;
    char text[48];
    size_t len;

    if (wall_ms <= 0 || !gmtime_r(&seconds, &utc)) {
        hf_json_null(w, key);
        return;
    }
    len = strftime(text, sizeof(text), "\"%Y-%m-%dT%H:%M:%S", &utc);
    len += (size_t)snprintf(text + len, sizeof(text) - len, ".%03dZ\"", (int)(wall_ms % 1000));
    put_value(w, key, text, len);
}

void hf_json_addr(struct writer *w, const char *key, const struct hf_addr *addr)
{
    char text[HF_ADDR_TEXT_MAX];

    if (addr->family == HF_ADDR_NONE)
        hf_json_null(w, key);
    else
        hf_json_str(w, key, hf_addr_format(addr, text));
}

void hf_json_hex(struct writer *w, const char *key, struct hf_bytes bytes)
{
    uint8_t *room;

    put_value(w, key, "\"", 1);
    room = hf_buf_reserve(w->out, 2 * bytes.len);
    if (w->failed || !room) {
        w->failed = true;
        return;
    }
    hf_hex_encode(bytes.data, bytes.len, (char *)room);
    hf_buf_commit(w->out, 2 * bytes.len);
    put(w, "\"", 1);
}

/* Returns the length of the beginning of a text that needs no escape. */
static size_t plain(const uint8_t *p, size_t left)
{
    size_t len = 0;

    while (len < left) {
        size_t wide = p[len] >= 0x80 ? hf_utf8_printable(p + len, left - len) : 0;

        if (wide == 0 && (p[len] < 0x20 || p[len] >= 0x7f || p[len] == '"' || p[len] == '\\'))
            break;
        len += wide ? wide : 1;
    }
    return len;
}

void hf_json_text(struct writer *w, const char *key, struct hf_bytes bytes)
{
    char escape[8];

    if (!bytes.data) {
        hf_json_null(w, key);
        return;
    }
    put_value(w, key, "\"", 1);
    for (size_t i = 0; i < bytes.len; i++) {
        size_t len = plain(bytes.data + i, bytes.len - i);
        uint8_t c;

        put(w, (const char *)bytes.data + i, len);
        i += len;
        if (i == bytes.len)
            break;
        c = bytes.data[i];
        if (c == '"' || c == '\\')
            len = (size_t)snprintf(escape, sizeof(escape), "\\%c", c);
        else
            len = (size_t)snprintf(escape, sizeof(escape), "\\\\x%02x", c);
        put(w, escape, len);
    }
    put(w, "\"", 1);
}

void hf_json_str(struct writer *w, const char *key, const char *text)
{
    hf_json_text(w, key, hf_bytes(text, text ? strlen(text) : 0));
}
