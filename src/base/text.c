#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void hf_format(char *out, size_t size, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)vsnprintf(out, size, format, args);
    va_end(args);
}

bool hf_text_copy(char *out, size_t size, const char *text)
{
    size_t len = strlen(text);

    if (len >= size)
        return false;
    memcpy(out, text, len + 1);
    return true;
}
