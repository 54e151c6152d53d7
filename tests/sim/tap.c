#include "tap.h"

#include <stdarg.h>
#include <stdio.h>

static unsigned count;
static int failed;

void tap_result(bool good, const char *format, ...)
{
    va_list args;

    printf("%sok %u - ", good ? "" : "not ", ++count);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
    failed += !good;
}

int tap_done(void)
{
    printf("1..%u\n", count);
    return failed;
}
