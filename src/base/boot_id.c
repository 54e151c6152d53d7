#include "base/boot_id.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/hex.h"

enum { TEXT_MAX = 64 };

/* Parses 32 hexadecimal digits, with or without dashes between them. */
static int parse(const char *text, uint8_t out[HF_BOOT_ID_BYTES])
{
    char digits[2 * HF_BOOT_ID_BYTES];
    size_t n = 0;

    for (; *text && *text != '\n'; text++) {
        if (*text == '-')
            continue;
        if (n == sizeof(digits))
            return HF_ENOENT;
        digits[n++] = *text;
    }
    return hf_hex_decode(digits, n, out, HF_BOOT_ID_BYTES) == HF_BOOT_ID_BYTES ? 0 : HF_ENOENT;
}

int hf_boot_id_read(uint8_t out[HF_BOOT_ID_BYTES])
{
    char text[TEXT_MAX] = "";
    const char *given = getenv("HOLDFAST_BOOT_ID");
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    int rv = HF_ENOENT;

    if (fd >= 0)
        close(fd);
    memset(out, 0, HF_BOOT_ID_BYTES);
    if (n > 0)
        rv = parse(text, out);
    else if (given)
        rv = parse(given, out);
    if (rv < 0)
        memset(out, 0, HF_BOOT_ID_BYTES);
    return rv;
}
