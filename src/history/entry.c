#include "history/entry.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/hex.h"
#include "base/quote.h"

static const char *const KINDS[HF_HISTORY_KINDS] = {
    [HF_HISTORY_LOCK] = "lock",
    [HF_HISTORY_WAIT] = "wait",
    [HF_HISTORY_UNDONE] = "undone",
    [HF_HISTORY_NOTE] = "note",
};
static const char NONE[] = "-";

enum { FIELDS = 15, QUOTED_MAX = 4 * HF_HISTORY_NAME_MAX + 1 };
_Static_assert(HF_HISTORY_OH_MAX <= HF_HISTORY_NAME_MAX, "quoted()");

const char *hf_history_kind_name(enum hf_history_kind kind)
{
    return KINDS[kind];
}

/* ---- writing ---- */

/* Quotes a field of a line. The text "-" itself is quoted, because a bare "-" stands for an empty
 * field. */
static const char *quoted(struct hf_bytes bytes, size_t max, char out[QUOTED_MAX])
{
    int len;

    if (bytes.len > max)
        bytes.len = max;
    len = hf_path_quote(bytes, out, QUOTED_MAX);
    HF_ASSERT(len >= 0); /* cannot fail: quoting makes at most four characters of a byte */
    if (strcmp(out, NONE) == 0)
        return "\\x2d";
    return len == 0 ? NONE : out;
}

static const char *hex(struct hf_bytes fh, char out[2 * HF_HISTORY_FH_MAX + 1])
{
    if (fh.len == 0 || fh.len > HF_HISTORY_FH_MAX)
        return NONE;
    hf_hex_encode(fh.data, fh.len, out);
    out[2 * fh.len] = '\0';
    return out;
}

/* Returns a path or text for its field; "-" if it is too long or contains a character that would
 * end the field. */
static const char *text_or_none(const char *text)
{
    size_t len = text ? strcspn(text, "\t\n") : 0;

    return len == 0 || len > HF_HISTORY_TEXT_MAX || text[len] != '\0' ? NONE : text;
}

size_t hf_history_encode(const struct hf_history_entry *e, char line[HF_HISTORY_LINE_MAX])
{
    char client[QUOTED_MAX], owner[QUOTED_MAX];
    char fh[2 * HF_HISTORY_FH_MAX + 1];
    char addr[HF_ADDR_TEXT_MAX];
    int len =
        snprintf(line, HF_HISTORY_LINE_MAX,
                 "%s\t%" PRId64 "\t%" PRId64 "\t%s\t%s\t%" PRIu64 "\t%" PRIu64
                 "\t%s\t%s\t%s\t%" PRId32 "\t%s\t%" PRIu64 "\t%s\t%s\n",
                 KINDS[e->kind], e->from_ms, e->to_ms, e->why, e->exclusive ? "x" : "s", e->first,
                 e->last, e->addr.family == HF_ADDR_NONE ? NONE : hf_addr_format(&e->addr, addr),
                 quoted(e->client, HF_HISTORY_NAME_MAX, client), hex(e->fh, fh), e->svid,
                 quoted(e->oh, HF_HISTORY_OH_MAX, owner), e->id, text_or_none(e->path),
                 text_or_none(e->text));

    HF_ASSERT(len > 0 && len < HF_HISTORY_LINE_MAX);
    return (size_t)len;
}

/* ---- reading ---- */

static bool to_signed(const char *text, int64_t min, int64_t max, int64_t *out)
{
    char *end;

    errno = 0;
    *out = strtoll(text, &end, 10);
    return end != text && *end == '\0' && errno == 0 && *out >= min && *out <= max;
}

static bool to_unsigned(const char *text, uint64_t *out)
{
    char *end;

    errno = 0;
    *out = strtoull(text, &end, 10);
    return text[0] >= '0' && text[0] <= '9' && *end == '\0' && errno == 0;
}

static bool to_kind(const char *text, enum hf_history_kind *out)
{
    for (unsigned k = 0; k < HF_HISTORY_KINDS; k++) {
        if (strcmp(text, KINDS[k]) == 0) {
            *out = (enum hf_history_kind)k;
            return true;
        }
    }
    return false;
}

static const char *or_empty(const char *field)
{
    return strcmp(field, NONE) == 0 ? "" : field;
}

bool hf_history_decode(char *line, struct hf_history_row *out)
{
    char *fields[FIELDS];
    char *next = line;
    int64_t svid;
    unsigned n = 0;

    for (; next && n < FIELDS; n++)
        fields[n] = strsep(&next, "\t");
    if (n < FIELDS || next)
        return false;
    *out = (struct hf_history_row){
        .why = fields[3],
        .exclusive = strcmp(fields[4], "x") == 0,
        .addr = or_empty(fields[7]),
        .client = or_empty(fields[8]),
        .fh = or_empty(fields[9]),
        .owner = or_empty(fields[11]),
        .path = or_empty(fields[13]),
        .text = or_empty(fields[14]),
    };
    if (!to_kind(fields[0], &out->kind) ||
        !to_signed(fields[1], INT64_MIN, INT64_MAX, &out->from_ms) ||
        !to_signed(fields[2], INT64_MIN, INT64_MAX, &out->to_ms) ||
        !to_unsigned(fields[5], &out->first) || !to_unsigned(fields[6], &out->last) ||
        !to_signed(fields[10], INT32_MIN, INT32_MAX, &svid) || !to_unsigned(fields[12], &out->id))
        return false;
    out->svid = (int32_t)svid;
    return true;
}
