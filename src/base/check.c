#include "base/check.h"

#include <stdio.h>
#include <stdlib.h>

void hf_panic(const char *file, int line, const char *what)
{
    (void)fprintf(stderr, "holdfast: invariant broken at %s:%d: %s\n", file, line, what);
    abort();
}
