/*
 * An IP address with a port, small enough to be passed and compared by value. An IPv4 address that
 * arrived mapped into IPv6 (::ffff:a.b.c.d) is stored as IPv4, so that a host has one address
 * whether its packets come by IPv4 or mapped.
 */
#ifndef HF_BASE_ADDR_H
#define HF_BASE_ADDR_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

struct sockaddr;
struct sockaddr_storage;

enum hf_family { HF_ADDR_NONE = 0, HF_ADDR_IPV4 = 4, HF_ADDR_IPV6 = 6 };

struct hf_addr {
    uint8_t family; /* enum hf_family */
    uint16_t port;
    uint32_t scope; /* the interface of an IPv6 link-local address, else 0 */
    /* The address in network byte order; IPv4 uses the first four bytes, the others are 0. */
    uint8_t bytes[16];
};

enum {
    HF_ADDR_TEXT_MAX = 72, /* room for "[" address "%" scope "]:" port and the NUL */
    HF_ADDR_UADDR_MAX = 64,
};

/* True if two addresses belong to one host; ports are ignored. */
static inline bool hf_addr_same_host(const struct hf_addr *a, const struct hf_addr *b)
{
    return a->family == b->family && a->scope == b->scope && memcmp(a->bytes, b->bytes, 16) == 0;
}

static inline bool hf_addr_equal(const struct hf_addr *a, const struct hf_addr *b)
{
    return a->port == b->port && hf_addr_same_host(a, b);
}

/* The first port that an ordinary user may bind. */
enum { HF_PORT_RESERVED_END = 1024 };

static inline bool hf_addr_is_reserved_port(const struct hf_addr *addr)
{
    return addr->port != 0 && addr->port < HF_PORT_RESERVED_END;
}

/* True for loopback addresses: 127.0.0.0/8 and ::1. */
bool hf_addr_is_loopback(const struct hf_addr *addr);

/* True for the addresses that mean "any": 0.0.0.0 and ::. */
bool hf_addr_is_any(const struct hf_addr *addr);

/* Converts a socket address. Returns HF_EINVAL unless its family is AF_INET or AF_INET6. */
int hf_addr_from_sockaddr(const struct sockaddr *sa, struct hf_addr *out);

/*
 * Makes a socket address of an address and returns its length. The family must not be HF_ADDR_NONE.
 */
unsigned hf_addr_to_sockaddr(const struct hf_addr *addr, struct sockaddr_storage *out);

/* Parses an address in numeric form only ("192.0.2.1", "2001:db8::1", "fe80::1%2") and never asks a
 * resolver. The port becomes 0. */
int hf_addr_parse(const char *text, struct hf_addr *out);

/*
 * Parses an address with its port, as hf_addr_format_port() writes it: "192.0.2.1:8049",
 * "[::1]:8049".
 */
int hf_addr_parse_port(const char *text, struct hf_addr *out);

/* Formats an address without or with its port: "192.0.2.1:4045", "[::1]:4045". Both functions
 * return text. */
char *hf_addr_format(const struct hf_addr *addr, char text[HF_ADDR_TEXT_MAX]);
char *hf_addr_format_port(const struct hf_addr *addr, char text[HF_ADDR_TEXT_MAX]);

/* Parse and format rpcbind's universal address, "192.0.2.1.15.205" (RFC 5665, section 5.2.3). */
int hf_addr_parse_uaddr(const char *text, struct hf_addr *out);
char *hf_addr_format_uaddr(const struct hf_addr *addr, char text[HF_ADDR_UADDR_MAX]);

#endif
