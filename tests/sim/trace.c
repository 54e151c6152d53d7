#include "trace.h"

#include <inttypes.h>
#include <stdarg.h>

void sim_trace_print(struct sim_trace *trace, uint64_t now_ms, const char *format, ...)
{
    va_list args;

    fprintf(trace->out, "%7" PRIu64 ".%03" PRIu64 "  ", now_ms / 1000, now_ms % 1000);
    va_start(args, format);
    vfprintf(trace->out, format, args);
    va_end(args);
    fputc('\n', trace->out);
}
