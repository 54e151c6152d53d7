/*
 * Finds which of the addresses this host has, and on which interfaces (RTM_GETADDR). If an address
 * comes or goes while the kernel lists them, the kernel may leave out others, and marks the list
 * (NLM_F_DUMP_INTR). Such a list proves that the addresses in it are there; it does not prove that
 * others are not.
 */
#include <errno.h>
#include <linux/rtnetlink.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "addresses/private.h"
#include "base/error.h"

enum { ANSWER_MAX = 32768, TRIES = 16 };

/* Returns the number of the address in the configuration; -1: it is not configured. */
static int number_of(const struct hf_addr *addresses, unsigned n, uint8_t family,
                     const uint8_t *bytes, unsigned len)
{
    uint8_t own = family == AF_INET ? HF_ADDR_IPV4 : HF_ADDR_IPV6;

    for (unsigned i = 0; i < n; i++) {
        if (addresses[i].family == own && memcmp(addresses[i].bytes, bytes, len) == 0)
            return (int)i;
    }
    return -1;
}

/* Finds the address that a message is about. IFA_LOCAL is the host's own address; on a link with
 * two ends IFA_ADDRESS is the other end's. */
static int number_told(const struct hf_addr *addresses, unsigned n, const struct nlmsghdr *message)
{
    const struct ifaddrmsg *head = NLMSG_DATA(message);
    unsigned len = head->ifa_family == AF_INET ? 4 : 16;
    int left = (int)IFA_PAYLOAD(message);
    const uint8_t *bytes = NULL;

    if (head->ifa_family != AF_INET && head->ifa_family != AF_INET6)
        return -1;
    for (const struct rtattr *a = IFA_RTA(head); RTA_OK(a, left); a = RTA_NEXT(a, left)) {
        if (RTA_PAYLOAD(a) == len &&
            (a->rta_type == IFA_LOCAL || (a->rta_type == IFA_ADDRESS && !bytes)))
            bytes = RTA_DATA(a);
    }
    return bytes ? number_of(addresses, n, head->ifa_family, bytes, len) : -1;
}

static void look_at(struct hf_held_list *list, const struct hf_addr *addresses, unsigned n,
                    const struct nlmsghdr *message)
{
    const struct ifaddrmsg *head = NLMSG_DATA(message);
    int number = number_told(addresses, n, message);

    if (number >= 0 && list->n < HF_HELD_MAX)
        list->held[list->n++] = (struct hf_held){.head = *head, .number = (unsigned)number};
}

int hf_host_list(int fd, const struct hf_addr *addresses, unsigned n, struct hf_held_list *out)
{
    struct {
        struct nlmsghdr head;
        struct ifaddrmsg body;
    } question = {
        .head = {.nlmsg_len = sizeof(question),
                 .nlmsg_type = RTM_GETADDR,
                 .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP},
        .body = {.ifa_family = AF_UNSPEC},
    };
    static union {
        struct nlmsghdr head;
        uint8_t bytes[ANSWER_MAX];
    } answer;
    bool interrupted = false;

    out->n = 0;
    if (send(fd, &question, sizeof(question), 0) < 0)
        return HF_EUNAVAIL;
    for (;;) {
        ssize_t received = recv(fd, &answer, sizeof(answer), 0);
        size_t size = (size_t)received;

        if (received <= 0)
            return HF_EUNAVAIL;
        for (const struct nlmsghdr *m = &answer.head; NLMSG_OK(m, size); m = NLMSG_NEXT(m, size)) {
            interrupted = interrupted || (m->nlmsg_flags & NLM_F_DUMP_INTR);
            if (m->nlmsg_type == NLMSG_DONE)
                return interrupted ? HF_EBUSY : 0;
            if (m->nlmsg_type == NLMSG_ERROR)
                return HF_EUNAVAIL;
            if (m->nlmsg_type == RTM_NEWADDR)
                look_at(out, addresses, n, m);
        }
    }
}

bool hf_host_news(int fd, const struct hf_addr *addresses, unsigned n, int *added)
{
    union {
        struct nlmsghdr head;
        uint8_t bytes[8192];
    } news;
    bool any = false;

    *added = 0;
    for (;;) {
        ssize_t received = recv(fd, &news, sizeof(news), MSG_DONTWAIT);
        size_t size = received > 0 ? (size_t)received : 0;

        /*
         * ENOBUFS: the kernel had more to tell than the socket could hold, so there was something.
         */
        if (received < 0 && errno != ENOBUFS && errno != EINTR)
            return any;
        any = true;
        for (const struct nlmsghdr *m = &news.head; NLMSG_OK(m, size); m = NLMSG_NEXT(m, size)) {
            int number = m->nlmsg_type == RTM_NEWADDR ? number_told(addresses, n, m) : -1;

            if (number >= 0)
                *added |= 1 << number;
        }
    }
}

int hf_addresses_present(const struct hf_addr *addresses, unsigned n)
{
    struct hf_held_list list;
    int fd = hf_netlink_open(0);
    int rv = HF_EBUSY;
    int present = 0;

    if (fd < 0)
        return HF_EUNAVAIL;
    for (unsigned i = 0; rv == HF_EBUSY && i < TRIES; i++)
        rv = hf_host_list(fd, addresses, n, &list);
    close(fd);
    if (rv < 0)
        return rv;
    for (unsigned i = 0; i < list.n; i++)
        present |= 1 << list.held[i].number;
    return present;
}
