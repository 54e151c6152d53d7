#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include "base/text.h"
#include "ctl/ctl.h"

/* Converts the text to wide characters; false if it is not valid in the locale's encoding. */
static bool widen(const char *text, wchar_t wide[CTL_WORD_MAX], size_t *len)
{
    *len = mbstowcs(wide, text, CTL_WORD_MAX - 1);
    if (*len == (size_t)-1)
        return false;
    wide[*len] = L'\0';
    return wcswidth(wide, *len) >= 0;
}

size_t ctl_width(const char *text)
{
    wchar_t wide[CTL_WORD_MAX];
    size_t len;

    return widen(text, wide, &len) ? (size_t)wcswidth(wide, len) : strlen(text);
}

void ctl_elide(const char *text, size_t columns, char out[CTL_WORD_MAX])
{
    wchar_t wide[CTL_WORD_MAX];
    wchar_t cut[CTL_WORD_MAX];
    size_t len;
    size_t head = 0;
    size_t tail;
    size_t used = 1; /* the mark in the middle of the text takes one column */

    if (ctl_width(text) <= columns || !widen(text, wide, &len)) {
        hf_format(out, CTL_WORD_MAX, "%s", text);
        return;
    }
    /*
     * Takes characters from both ends in turn, so that the end of a path or a name stays readable.
     */
    for (tail = len; head < tail; used += (size_t)wcwidth(wide[head++])) {
        if (used + (size_t)wcwidth(wide[tail - 1]) > columns)
            break;
        used += (size_t)wcwidth(wide[--tail]);
        if (head == tail || used + (size_t)wcwidth(wide[head]) > columns)
            break;
    }
    wmemcpy(cut, wide, head);
    cut[head] = MB_CUR_MAX > 1 ? L'…' : L'~';
    wmemcpy(cut + head + 1, wide + tail, len - tail + 1);
    if (wcstombs(out, cut, CTL_WORD_MAX) == (size_t)-1)
        hf_format(out, CTL_WORD_MAX, "%s", text);
    out[CTL_WORD_MAX - 1] = '\0';
}
