/* What every fuzz target includes. A target returns; whatever is wrong aborts. */
#ifndef HF_TESTS_FUZZ_H
#define HF_TESTS_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
