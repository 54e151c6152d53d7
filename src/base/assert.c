#include "base/assert.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/log_queue.h"

enum { PANIC_FLUSH_MS = 1000 };

void hf_panic(const char *file, int line, const char *what)
{
    hf_log_queue_flush(PANIC_FLUSH_MS);
    (void)fprintf(stderr, "%sholdfast: invariant broken at %s:%d: %s\n",
                  hf_log_priority(HF_LOG_ERROR), file, line, what);
    abort();
}
