#include "base/error.h"

const char *hf_strerror(int code)
{
    switch (code) {
    case 0:
        return "success";
#define X(name, value, text) \
    case name:               \
        return text;
        HF_ERRORS(X)
#undef X
    default:
        return "unknown error";
    }
}
