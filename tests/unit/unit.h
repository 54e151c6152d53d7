/* What every unit test includes: cmocka after the headers it needs, and a failing allocator. */
#ifndef HF_TESTS_UNIT_H
#define HF_TESTS_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "support/faulty_heap.h"

/* cmocka 2.0 renamed this macro and 1.1 lacks the new name, so tests use assert_between(). */
#undef assert_in_range
#pragma GCC poison assert_in_range
#define assert_between(value, least, most)     \
    assert_true(__extension__({                \
        __auto_type value_ = (value);          \
        value_ >= (least) && value_ <= (most); \
    }))

#endif
