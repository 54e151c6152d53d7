#include "admin/filter.h"
#include "base/hex.h"
#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static bool contains(struct hf_bytes haystack, const char *needle)
{
    size_t len = strlen(needle);

    for (size_t i = 0; i + len <= haystack.len; i++) {
        if (strncasecmp((const char *)haystack.data + i, needle, len) == 0)
            return true;
    }
    return false;
}

static bool hex_contains(struct hf_bytes bytes, const char *needle)
{
    char hex[2 * HF_FH_MAX];

    if (bytes.len > HF_FH_MAX)
        return false;
    hf_hex_encode(bytes.data, bytes.len, hex);
    return contains(hf_bytes(hex, bytes.len * 2), needle);
}

static bool is_id(const char *text, uint64_t id)
{
    char shown[24];

    hf_format(shown, sizeof(shown), "%llu", (unsigned long long)id);
    return strcmp(shown, text) == 0;
}

static bool client_has(const char *text, uint64_t id, struct hf_bytes name,
                       const struct hf_addr *addr)
{
    char shown[HF_ADDR_TEXT_MAX];

    return is_id(text, id) || contains(name, text) ||
           (addr->family != HF_ADDR_NONE &&
            contains(hf_bytes_str(hf_addr_format(addr, shown)), text));
}

static bool file_has(const char *text, struct hf_names *names, struct hf_bytes fh)
{
    const char *path = NULL;

    return hex_contains(fh, text) ||
           (hf_names_show(names, fh, &path) == HF_NAME_KNOWN && contains(hf_bytes_str(path), text));
}

static bool owner_has(const char *text, int32_t svid, struct hf_bytes oh)
{
    char shown[16];

    hf_format(shown, sizeof(shown), "%d", svid);
    return strcmp(shown, text) == 0 || contains(oh, text) ||
           (!hf_bytes_is_text(oh) && hex_contains(oh, text));
}

bool hf_filter_search(const struct filter *filter, const struct filter_fields *fields)
{
    const char *text = filter->search;

    if (!text[0] || is_id(text, fields->id) ||
        client_has(text, fields->client_id, fields->client_name, fields->client_addr))
        return true;
    if (fields->svid && owner_has(text, *fields->svid, fields->oh))
        return true;
    return filter->searches_files && fields->fh.len > 0 &&
           (filter->any_file || file_has(text, filter->names, fields->fh));
}

bool hf_filter_client(const struct filter *filter, uint64_t id, struct hf_bytes name,
                      const struct hf_addr *addr)
{
    return !filter->client[0] || client_has(filter->client, id, name, addr);
}

bool hf_filter_set_path(struct filter *filter, const char *path)
{
    char bytes[HF_PATH_BYTES_MAX + 1];

    filter->by_path = path[0] == '/' &&
                      (strlen(path) <= HF_PATH_BYTES_MAX ||
                       hf_path_unquote(hf_bytes_str(path), bytes, sizeof(bytes)) > 0) &&
                      hf_text_copy(filter->path, sizeof(filter->path), path) &&
                      hf_path_quote(hf_bytes_str(path), filter->quoted, sizeof(filter->quoted)) > 0;
    return filter->by_path;
}

static bool is_path(struct filter *filter, struct hf_bytes fh)
{
    const char *path = NULL;
    enum hf_name_status status = hf_names_show(filter->names, fh, &path);

    filter->unnamed += status == HF_NAME_NONE;
    return status == HF_NAME_KNOWN &&
           (strcmp(path, filter->quoted) == 0 || strcmp(path, filter->path) == 0);
}

bool hf_filter_file(struct filter *filter, struct hf_bytes export, struct hf_bytes fh)
{
    if (filter->export[0] && !hf_bytes_equal(export, hf_bytes_str(filter->export)))
        return false;
    if (filter->any_file)
        return true;
    if (filter->by_path && !is_path(filter, fh))
        return false;
    return !filter->file[0] || file_has(filter->file, filter->names, fh);
}

bool hf_filter_owner(const struct filter *filter, int32_t svid, struct hf_bytes oh)
{
    return !filter->owner[0] || owner_has(filter->owner, svid, oh);
}
