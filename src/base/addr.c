#include "base/addr.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/text.h"

static const uint8_t MAPPED_PREFIX[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

bool hf_addr_is_loopback(const struct hf_addr *addr)
{
    static const uint8_t one[16] = {[15] = 1};

    if (addr->family == HF_ADDR_IPV4)
        return addr->bytes[0] == 127;
    return addr->family == HF_ADDR_IPV6 && memcmp(addr->bytes, one, 16) == 0;
}

bool hf_addr_is_any(const struct hf_addr *addr)
{
    static const uint8_t zero[16] = {0};

    return addr->family != HF_ADDR_NONE && memcmp(addr->bytes, zero, 16) == 0;
}

static void set_ipv6(struct hf_addr *out, const uint8_t bytes[16], uint32_t scope)
{
    if (memcmp(bytes, MAPPED_PREFIX, sizeof(MAPPED_PREFIX)) == 0) {
        out->family = HF_ADDR_IPV4;
        memcpy(out->bytes, bytes + 12, 4);
        return;
    }
    out->family = HF_ADDR_IPV6;
    out->scope = scope;
    memcpy(out->bytes, bytes, 16);
}

int hf_addr_from_sockaddr(const struct sockaddr *sa, struct hf_addr *out)
{
    *out = (struct hf_addr){0};
    if (sa->sa_family == AF_INET) {
        const struct sockaddr_in *in = (const void *)sa;
        out->family = HF_ADDR_IPV4;
        out->port = ntohs(in->sin_port);
        memcpy(out->bytes, &in->sin_addr, 4);
        return 0;
    }
    if (sa->sa_family == AF_INET6) {
        const struct sockaddr_in6 *in6 = (const void *)sa;
        out->port = ntohs(in6->sin6_port);
        set_ipv6(out, in6->sin6_addr.s6_addr, in6->sin6_scope_id);
        return 0;
    }
    return HF_EINVAL;
}

unsigned hf_addr_to_sockaddr(const struct hf_addr *addr, struct sockaddr_storage *out)
{
    memset(out, 0, sizeof(*out));
    if (addr->family == HF_ADDR_IPV4) {
        struct sockaddr_in *in = (struct sockaddr_in *)out;
        in->sin_family = AF_INET;
        in->sin_port = htons(addr->port);
        memcpy(&in->sin_addr, addr->bytes, 4);
        return sizeof(*in);
    }
    HF_ASSERT(addr->family == HF_ADDR_IPV6);
    struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)out;
    in6->sin6_family = AF_INET6;
    in6->sin6_port = htons(addr->port);
    in6->sin6_scope_id = addr->scope;
    memcpy(&in6->sin6_addr, addr->bytes, 16);
    return sizeof(*in6);
}

int hf_addr_parse(const char *text, struct hf_addr *out)
{
    struct hf_addr addr = {0};
    char host[INET6_ADDRSTRLEN];
    uint8_t bytes[16];
    uint32_t scope = 0;
    const char *percent = strchr(text, '%');
    size_t len = percent ? (size_t)(percent - text) : strlen(text);

    if (len >= sizeof(host))
        return HF_EINVAL;
    memcpy(host, text, len);
    host[len] = '\0';
    if (!percent && inet_pton(AF_INET, host, addr.bytes) == 1) {
        addr.family = HF_ADDR_IPV4;
        *out = addr;
        return 0;
    }
    if (percent) {
        char *end;
        unsigned long number = strtoul(percent + 1, &end, 10);
        bool numeric = end != percent + 1 && *end == '\0' && number <= UINT32_MAX;
        scope = numeric ? (uint32_t)number : if_nametoindex(percent + 1);
        if (scope == 0)
            return HF_EINVAL;
    }
    if (inet_pton(AF_INET6, host, bytes) != 1)
        return HF_EINVAL;
    set_ipv6(&addr, bytes, scope);
    *out = addr;
    return 0;
}

char *hf_addr_format(const struct hf_addr *addr, char text[HF_ADDR_TEXT_MAX])
{
    char host[INET6_ADDRSTRLEN];

    if (addr->family == HF_ADDR_NONE) {
        hf_format(text, HF_ADDR_TEXT_MAX, "none");
        return text;
    }
    inet_ntop(addr->family == HF_ADDR_IPV4 ? AF_INET : AF_INET6, addr->bytes, host, sizeof(host));
    if (addr->scope)
        hf_format(text, HF_ADDR_TEXT_MAX, "%s%%%u", host, addr->scope);
    else
        hf_format(text, HF_ADDR_TEXT_MAX, "%s", host);
    return text;
}

char *hf_addr_format_port(const struct hf_addr *addr, char text[HF_ADDR_TEXT_MAX])
{
    char host[HF_ADDR_TEXT_MAX];
    bool brackets = addr->family == HF_ADDR_IPV6;

    hf_format(text, HF_ADDR_TEXT_MAX, "%s%.60s%s:%u", brackets ? "[" : "",
              hf_addr_format(addr, host), brackets ? "]" : "", addr->port);
    return text;
}

int hf_addr_parse_port(const char *text, struct hf_addr *out)
{
    char host[HF_ADDR_TEXT_MAX];
    const char *colon = strrchr(text, ':');
    bool brackets = text[0] == '[';
    size_t len = colon ? (size_t)(colon - text) : 0;
    struct hf_addr addr;
    unsigned long port;
    char *end;

    if (len == 0 || len >= sizeof(host) || colon[1] < '0' || colon[1] > '9')
        return HF_EINVAL;
    port = strtoul(colon + 1, &end, 10);
    if (*end || port > UINT16_MAX || (brackets && text[len - 1] != ']'))
        return HF_EINVAL;
    memcpy(host, text + brackets, len - 2 * (size_t)brackets);
    host[len - 2 * (size_t)brackets] = '\0';
    /* Demand brackets for IPv6: without them, the last group of the address would be taken for a
     * port. */
    if (hf_addr_parse(host, &addr) < 0 || brackets != (addr.family == HF_ADDR_IPV6))
        return HF_EINVAL;
    addr.port = (uint16_t)port;
    *out = addr;
    return 0;
}

/* Reads ".N" at the end of a universal address as one byte of a port, and cuts it off. */
static int cut_port_byte(char *text, unsigned *byte)
{
    char *dot = strrchr(text, '.');
    char *end;
    unsigned long value;

    if (!dot || dot[1] < '0' || dot[1] > '9')
        return HF_EINVAL;
    value = strtoul(dot + 1, &end, 10);
    if (*end != '\0' || value > 255)
        return HF_EINVAL;
    *dot = '\0';
    *byte = (unsigned)value;
    return 0;
}

int hf_addr_parse_uaddr(const char *text, struct hf_addr *out)
{
    char copy[HF_ADDR_UADDR_MAX];
    struct hf_addr addr;
    unsigned low;
    unsigned high;

    if (!hf_text_copy(copy, sizeof(copy), text))
        return HF_EINVAL;
    if (cut_port_byte(copy, &low) < 0 || cut_port_byte(copy, &high) < 0)
        return HF_EINVAL;
    if (hf_addr_parse(copy, &addr) < 0)
        return HF_EINVAL;
    addr.port = (uint16_t)(high << 8 | low);
    *out = addr;
    return 0;
}

char *hf_addr_format_uaddr(const struct hf_addr *addr, char text[HF_ADDR_UADDR_MAX])
{
    char host[HF_ADDR_TEXT_MAX];

    hf_format(text, HF_ADDR_UADDR_MAX, "%.46s.%u.%u", hf_addr_format(addr, host), addr->port >> 8,
              addr->port & 0xff);
    return text;
}
