/*
 * holdfast-announce: tells the neighbours of an interface that an address has moved to it, so that
 * they do not go on sending to the host that had the address before. It uses gratuitous ARP for
 * IPv4 (RFC 5227, section 3), as a request and as a reply, because devices differ in which of them
 * they heed; and unsolicited neighbour advertisement for IPv6 (RFC 4861, section 7.2.6).
 *
 * The shipped hook calls this program. Frames get lost, so it repeats them, but only while the
 * interface still has the address: if the address has moved on, the next host announces it. The
 * program needs CAP_NET_RAW.
 */
#include <errno.h>
#include <getopt.h>
#include <ifaddrs.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <netinet/icmp6.h>
#include <netinet/if_ether.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/addr.h"

enum { ADDRESSES_MAX = 64, COUNT_MAX = 100, INTERVAL_MS_MAX = 60000 };

struct interface {
    const char *name;
    int index;
    uint8_t hardware[ETH_ALEN];
    bool ethernet;
};

/* ---- what the host has now ---- */

static bool is_ethernet(const struct sockaddr_ll *link, const struct interface *interface)
{
    return link->sll_ifindex == interface->index && link->sll_hatype == ARPHRD_ETHER &&
           link->sll_halen == ETH_ALEN;
}

/* True if the interface has the address. It also finds the interface's own hardware address. */
static bool has_address(struct interface *interface, const struct hf_addr *addr)
{
    struct ifaddrs *list;
    bool has = false;

    if (getifaddrs(&list) < 0)
        return false;
    for (const struct ifaddrs *i = list; i; i = i->ifa_next) {
        struct hf_addr own;

        if (!i->ifa_addr || strcmp(i->ifa_name, interface->name) != 0)
            continue;
        if (i->ifa_addr->sa_family == AF_PACKET) {
            struct sockaddr_ll link;

            memcpy(&link, i->ifa_addr, sizeof(link));
            interface->ethernet = is_ethernet(&link, interface);
            memcpy(interface->hardware, link.sll_addr, ETH_ALEN);
        } else if (hf_addr_from_sockaddr(i->ifa_addr, &own) == 0) {
            own.scope = addr->scope;
            has = has || hf_addr_same_host(&own, addr);
        }
    }
    freeifaddrs(list);
    return has;
}

/* ---- IPv4 ---- */

static int send_arp(int fd, const struct interface *interface, const struct hf_addr *addr,
                    uint16_t operation)
{
    static const uint8_t everyone[ETH_ALEN] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
    struct sockaddr_ll to = {.sll_family = AF_PACKET,
                             .sll_protocol = htons(ETH_P_ARP),
                             .sll_ifindex = interface->index,
                             .sll_halen = ETH_ALEN};
    struct ether_arp arp = {
        .ea_hdr = {.ar_hrd = htons(ARPHRD_ETHER),
                   .ar_pro = htons(ETHERTYPE_IP),
                   .ar_hln = ETH_ALEN,
                   .ar_pln = 4,
                   .ar_op = htons(operation)},
    };

    memcpy(to.sll_addr, everyone, ETH_ALEN);
    memcpy(arp.arp_sha, interface->hardware, ETH_ALEN);
    memcpy(arp.arp_spa, addr->bytes, 4);
    memcpy(arp.arp_tpa, addr->bytes, 4);
    if (operation == ARPOP_REPLY)
        memcpy(arp.arp_tha, interface->hardware, ETH_ALEN);
    return sendto(fd, &arp, sizeof(arp), 0, (const struct sockaddr *)&to, sizeof(to)) < 0 ? -errno
                                                                                          : 0;
}

static int announce_ipv4(const struct interface *interface, const struct hf_addr *addr)
{
    int fd;
    int rv;

    if (!interface->ethernet)
        return 0; /* the loopback interface has no neighbours */
    fd = socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    rv = send_arp(fd, interface, addr, ARPOP_REQUEST);
    if (rv == 0)
        rv = send_arp(fd, interface, addr, ARPOP_REPLY);
    close(fd);
    return rv;
}

/* ---- IPv6 ---- */

static int send_advertisement(int fd, const struct interface *interface, const struct hf_addr *addr)
{
    struct {
        struct nd_neighbor_advert advert;
        struct nd_opt_hdr option;
        uint8_t hardware[ETH_ALEN];
    } message = {
        .advert = {.nd_na_hdr = {.icmp6_type = ND_NEIGHBOR_ADVERT}},
        .option = {.nd_opt_type = ND_OPT_TARGET_LINKADDR, .nd_opt_len = 1},
    };
    struct hf_addr everyone;
    struct sockaddr_storage from;
    struct sockaddr_storage to;
    unsigned from_len = hf_addr_to_sockaddr(addr, &from);
    unsigned to_len;
    /* Receivers ignore an advertisement with less than 255 hops, which a router could have passed
     * on. */
    int hops = 255;

    (void)hf_addr_parse("ff02::1", &everyone);
    everyone.scope = (uint32_t)interface->index;
    to_len = hf_addr_to_sockaddr(&everyone, &to);
    message.advert.nd_na_flags_reserved = ND_NA_FLAG_OVERRIDE;
    memcpy(&message.advert.nd_na_target, addr->bytes, 16);
    memcpy(message.hardware, interface->hardware, ETH_ALEN);
    if (setsockopt(fd, IPPROTO_IPV6, IPV6_MULTICAST_HOPS, &hops, sizeof(hops)) < 0 ||
        setsockopt(fd, IPPROTO_IPV6, IPV6_MULTICAST_IF, &interface->index,
                   sizeof(interface->index)) < 0 ||
        bind(fd, (const struct sockaddr *)&from, from_len) < 0 ||
        sendto(fd, &message, sizeof(message), 0, (const struct sockaddr *)&to, to_len) < 0)
        return -errno;
    return 0;
}

static int announce_ipv6(const struct interface *interface, const struct hf_addr *addr)
{
    int fd;
    int rv;

    if (!interface->ethernet)
        return 0;
    fd = socket(AF_INET6, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_ICMPV6);
    if (fd < 0)
        return -errno;
    rv = send_advertisement(fd, interface, addr);
    close(fd);
    return rv;
}

/* ---- the command line ---- */

static int announce(struct interface *interface, const struct hf_addr *addr)
{
    int rv;

    if (!has_address(interface, addr))
        return -EADDRNOTAVAIL;
    rv = addr->family == HF_ADDR_IPV4 ? announce_ipv4(interface, addr)
                                      : announce_ipv6(interface, addr);
    if (rv < 0)
        (void)fprintf(stderr, "holdfast-announce: %s: %s\n", interface->name, strerror(-rv));
    return rv;
}

static int usage(void)
{
    (void)fprintf(stderr, "Usage: holdfast-announce [--count N] [--interval MS] INTERFACE "
                          "ADDRESS...\nTell the neighbours of INTERFACE that it has ADDRESS.\n");
    return 2;
}

static bool read_number(const char *text, unsigned max, unsigned *out)
{
    char *end;
    unsigned long value = strtoul(text, &end, 10);

    *out = (unsigned)value;
    return text[0] >= '0' && text[0] <= '9' && *end == '\0' && value >= 1 && value <= max;
}

static void pause_ms(unsigned ms)
{
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};

    (void)nanosleep(&t, NULL);
}

/* Announces every address in every round; an address that is gone by then is passed over. */
static int announce_all(struct interface *interface, const struct hf_addr *addrs, unsigned n,
                        unsigned count, unsigned interval_ms)
{
    int worst = 0;

    for (unsigned round = 0; round < count; round++) {
        if (round > 0)
            pause_ms(interval_ms);
        for (unsigned i = 0; i < n; i++) {
            int rv = announce(interface, &addrs[i]);

            if (rv < 0 && (round == 0 || rv != -EADDRNOTAVAIL))
                worst = rv;
        }
    }
    return worst;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"count", required_argument, NULL, 'c'},
                                            {"interval", required_argument, NULL, 'i'},
                                            {NULL, 0, NULL, 0}};
    struct hf_addr addrs[ADDRESSES_MAX];
    struct interface interface = {0};
    unsigned interval_ms = 500;
    unsigned count = 1;
    unsigned n = 0;
    int option;

    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if ((option != 'c' || !read_number(optarg, COUNT_MAX, &count)) &&
            (option != 'i' || !read_number(optarg, INTERVAL_MS_MAX, &interval_ms)))
            return usage();
    }
    if (argc - optind < 2 || argc - optind - 1 > ADDRESSES_MAX)
        return usage();
    interface.name = argv[optind++];
    interface.index = (int)if_nametoindex(interface.name);
    while (optind < argc) {
        if (hf_addr_parse(argv[optind++], &addrs[n++]) < 0)
            return usage();
    }
    if (interface.index == 0) {
        (void)fprintf(stderr, "holdfast-announce: no interface %s\n", interface.name);
        return 1;
    }
    return announce_all(&interface, addrs, n, count, interval_ms) < 0 ? 1 : 0;
}
