/*
 * Removes addresses from the host's interfaces by rtnetlink (RTM_GETADDR, RTM_DELADDR). No program
 * is run and nothing is waited for but the kernel, so this works at once, whatever the hook does.
 */
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "addresses/private.h"
#include "base/error.h"

enum { ANSWER_MAX = 32768, FOUND_MAX = 64 };

/* One address on one interface, as the kernel listed it. */
struct found {
    struct ifaddrmsg head;
    uint8_t bytes[16];
    unsigned len;
};

struct search {
    const struct hf_addr *addresses;
    unsigned n_addresses;
    struct found found[FOUND_MAX];
    unsigned n;
};

static bool is_wanted(const struct search *s, uint8_t family, const uint8_t *bytes, unsigned len)
{
    uint8_t own = family == AF_INET ? HF_ADDR_IPV4 : HF_ADDR_IPV6;

    for (unsigned i = 0; i < s->n_addresses; i++) {
        if (s->addresses[i].family == own && memcmp(s->addresses[i].bytes, bytes, len) == 0)
            return true;
    }
    return false;
}

/* IFA_LOCAL is the host's own address; on a link with two ends IFA_ADDRESS is the other end's. */
static void look_at(struct search *s, const struct nlmsghdr *message)
{
    const struct ifaddrmsg *head = NLMSG_DATA(message);
    unsigned len = head->ifa_family == AF_INET ? 4 : 16;
    int left = (int)IFA_PAYLOAD(message);
    const uint8_t *bytes = NULL;

    if (head->ifa_family != AF_INET && head->ifa_family != AF_INET6)
        return;
    for (const struct rtattr *a = IFA_RTA(head); RTA_OK(a, left); a = RTA_NEXT(a, left)) {
        if (RTA_PAYLOAD(a) == len &&
            (a->rta_type == IFA_LOCAL || (a->rta_type == IFA_ADDRESS && !bytes)))
            bytes = RTA_DATA(a);
    }
    if (!bytes || s->n == FOUND_MAX || !is_wanted(s, head->ifa_family, bytes, len))
        return;
    s->found[s->n] = (struct found){.head = *head, .len = len};
    memcpy(s->found[s->n].bytes, bytes, len);
    s->n++;
}

/* One piece of the answer. 1: the list is complete; 0: more follows. */
static int look_at_all(struct search *s, const struct nlmsghdr *message, size_t size)
{
    for (; NLMSG_OK(message, size); message = NLMSG_NEXT(message, size)) {
        if (message->nlmsg_type == NLMSG_DONE)
            return 1;
        if (message->nlmsg_type == NLMSG_ERROR)
            return HF_EUNAVAIL;
        if (message->nlmsg_type == RTM_NEWADDR)
            look_at(s, message);
    }
    return 0;
}

static int find(int fd, struct search *s)
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
    int rv = 0;

    s->n = 0;
    if (send(fd, &question, sizeof(question), 0) < 0)
        return HF_EUNAVAIL;
    while (rv == 0) {
        ssize_t size = recv(fd, &answer, sizeof(answer), 0);

        rv = size <= 0 ? HF_EUNAVAIL : look_at_all(s, &answer.head, (size_t)size);
    }
    return rv < 0 ? rv : 0;
}

/* Without asking for an acknowledgement: the list is read again afterwards. */
static void remove_one(int fd, const struct found *found)
{
    struct {
        struct nlmsghdr head;
        struct ifaddrmsg body;
        struct rtattr attribute;
        uint8_t bytes[16];
    } order = {
        .head = {.nlmsg_type = RTM_DELADDR, .nlmsg_flags = NLM_F_REQUEST},
        .body = found->head,
        .attribute = {.rta_type = IFA_LOCAL},
    };

    order.attribute.rta_len = (unsigned short)RTA_LENGTH(found->len);
    order.head.nlmsg_len = (uint32_t)(NLMSG_LENGTH(sizeof(order.body)) + RTA_SPACE(found->len));
    memcpy(order.bytes, found->bytes, found->len);
    (void)send(fd, &order, order.head.nlmsg_len, 0);
}

/* A refusal arrives as a message of its own; the next question must not read it as its answer. */
static void forget_refusals(int fd)
{
    uint8_t refusal[1024];

    while (recv(fd, refusal, sizeof(refusal), MSG_DONTWAIT) > 0)
        ;
}

int hf_addresses_remove(const struct hf_addr *addresses, unsigned n)
{
    struct search s = {.addresses = addresses, .n_addresses = n};
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    int rv;

    if (fd < 0)
        return HF_EUNAVAIL;
    rv = find(fd, &s);
    if (rv == 0 && s.n > 0) {
        for (unsigned i = 0; i < s.n; i++)
            remove_one(fd, &s.found[i]);
        forget_refusals(fd);
        rv = find(fd, &s);
    }
    close(fd);
    return rv < 0 ? rv : (int)s.n;
}
