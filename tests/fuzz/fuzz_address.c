/* Addresses as text, and rpcbind's universal addresses: what is accepted, written and read again is
 * equal. */
#include "fuzz.h"

#include "base/addr.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char text[HF_ADDR_TEXT_MAX];
    char uaddr[HF_ADDR_UADDR_MAX];
    char input[300];
    struct hf_addr addr, again;

    if (size >= sizeof(input))
        return 0;
    memcpy(input, data, size);
    input[size] = '\0';
    if (hf_addr_parse(input, &addr) == 0) {
        HF_ASSERT(hf_addr_parse(hf_addr_format(&addr, text), &again) == 0);
        HF_ASSERT(hf_addr_equal(&addr, &again));
    }
    if (hf_addr_parse_uaddr(input, &addr) == 0) {
        HF_ASSERT(hf_addr_parse_uaddr(hf_addr_format_uaddr(&addr, uaddr), &again) == 0);
        HF_ASSERT(hf_addr_equal(&addr, &again));
    }
    return 0;
}
