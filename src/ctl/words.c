#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "ctl/ctl.h"

const char *ctl_text(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text ? text : "";
}

bool ctl_stands_by(const json_t *answer)
{
    const char *role = ctl_text(answer, "role");

    return role[0] && strcmp(role, "active") != 0;
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

/* Copies the text, with its middle left out if it is very long; a character is never cut in two. */
static void copy_ends(const char *from, char text[CTL_WORD_MAX])
{
    enum { END = 140 };
    size_t len = strlen(from);
    const char *tail = from + (len > END ? len - END : 0);
    int head = END;

    if (len <= 2 * (size_t)END) {
        hf_format(text, CTL_WORD_MAX, "%s", from);
        return;
    }
    while (head > 0 && (from[head] & 0xc0) == 0x80)
        head--;
    while ((*tail & 0xc0) == 0x80)
        tail++;
    hf_format(text, CTL_WORD_MAX, "%.*s...%s", head, from, tail);
}

/* Returns the path if it is known; otherwise the whole handle, which `release` needs. */
const char *ctl_word_file(const json_t *row, char text[CTL_WORD_MAX])
{
    const char *path = ctl_text(row, "path");
    size_t len;

    if (strcmp(ctl_text(row, "path_status"), "hidden") == 0) {
        hf_format(text, CTL_WORD_MAX, "(hidden)");
        return text;
    }
    copy_ends(path[0] ? path : ctl_text(row, "file"), text);
    len = strlen(text);
    if (strcmp(ctl_text(row, "path_status"), "deleted") == 0)
        hf_format(text + len, CTL_WORD_MAX - len, " (deleted)");
    return text;
}

const char *ctl_word_owner(const json_t *owner, char text[CTL_WORD_MAX])
{
    const char *readable = ctl_text(owner, "text");
    int svid = (int)ctl_number(owner, "svid");
    size_t len = (size_t)snprintf(text, CTL_WORD_MAX, "%d@", svid);

    /* The owner handle of Linux, PID@HOST, already has the svid in it. */
    if (strncmp(readable, text, len) == 0)
        hf_format(text, CTL_WORD_MAX, "%.300s", readable);
    else
        hf_format(text, CTL_WORD_MAX, "%d %.280s", svid,
                  readable[0] ? readable : ctl_text(owner, "handle"));
    return text;
}

/* Finds the name of a process of this host; "" if the system does not show it to us. */
static void read_program(long pid, char out[32])
{
    char path[64];
    FILE *file;

    out[0] = '\0';
    hf_format(path, sizeof(path), "/proc/%ld/comm", pid);
    file = fopen(path, "re");
    if (file && fgets(out, 32, file))
        out[strcspn(out, "\n")] = '\0';
    if (file)
        (void)fclose(file);
}

const char *ctl_word_outside(const json_t *outside, char text[CTL_WORD_MAX])
{
    long pid = (long)ctl_number(outside, "pid");
    char program[32];

    if (pid <= 0) {
        hf_format(text, CTL_WORD_MAX, "outside (NFSv4, SMB or local)");
        return text;
    }
    read_program(pid, program);
    hf_format(text, CTL_WORD_MAX, program[0] ? "outside: pid %ld, %s" : "outside: pid %ld", pid,
              program);
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
