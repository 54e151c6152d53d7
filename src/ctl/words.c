#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "ctl/ctl.h"

const char *ctl_text(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text ? text : "";
}

double ctl_number(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

const char *ctl_word_age(double seconds, char text[CTL_WORD_MAX])
{
    long s = (long)seconds;

    if (s < 60)
        hf_format(text, CTL_WORD_MAX, "%lds", s);
    else if (s < 3600)
        hf_format(text, CTL_WORD_MAX, "%ldm %02lds", s / 60, s % 60);
    else if (s < 86400)
        hf_format(text, CTL_WORD_MAX, "%ldh %02ldm", s / 3600, s / 60 % 60);
    else
        hf_format(text, CTL_WORD_MAX, "%ldd %02ldh", s / 86400, s / 3600 % 24);
    return text;
}

const char *ctl_word_client(const json_t *client, char text[CTL_WORD_MAX])
{
    const char *address = ctl_text(client, "address");

    hf_format(text, CTL_WORD_MAX, address[0] ? "%.250s (%.60s)" : "%.250s",
              ctl_text(client, "name"), address);
    return text;
}

/* The path if it is known; otherwise the whole handle, which `release` needs. */
const char *ctl_word_file(const json_t *row, char text[CTL_WORD_MAX])
{
    const char *path = ctl_text(row, "path");

    hf_format(text, CTL_WORD_MAX, "%s", path[0] ? path : ctl_text(row, "file"));
    return text;
}

const char *ctl_word_owner(const json_t *owner, char text[CTL_WORD_MAX])
{
    const char *readable = ctl_text(owner, "text");
    int svid = (int)ctl_number(owner, "svid");
    size_t len = (size_t)snprintf(text, CTL_WORD_MAX, "%d@", svid);

    if (strncmp(readable, text, len) == 0) /* Linux: PID@HOST includes the svid */
        hf_format(text, CTL_WORD_MAX, "%.300s", readable);
    else
        hf_format(text, CTL_WORD_MAX, "%d %.280s", svid,
                  readable[0] ? readable : ctl_text(owner, "handle"));
    return text;
}

const char *ctl_word_range(const json_t *range, char text[CTL_WORD_MAX])
{
    const char *first = ctl_text(range, "first");
    const char *last = ctl_text(range, "last");

    if (strcmp(first, "0") == 0 && !last[0])
        hf_format(text, CTL_WORD_MAX, "whole file");
    else
        hf_format(text, CTL_WORD_MAX, "%s-%s", first, last[0] ? last : "end");
    return text;
}
