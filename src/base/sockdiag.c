#include "base/sockdiag.h"

#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "base/trust.h"

struct question {
    struct nlmsghdr header;
    struct inet_diag_req_v2 request;
};

union answer {
    struct nlmsghdr header;
    uint8_t bytes[1024];
};

int hf_sockdiag_open(void)
{
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);

    return fd < 0 ? HF_EUNAVAIL : fd;
}

static int read_answer(int fd, uint32_t number, struct hf_sockdiag *out)
{
    union answer answer;
    struct inet_diag_msg found;
    ssize_t n;

    do { /* skips a late answer to an earlier question */
        n = recv(fd, answer.bytes, sizeof(answer.bytes), MSG_DONTWAIT);
        if (n < (ssize_t)sizeof(answer.header))
            return HF_EUNAVAIL;
    } while (answer.header.nlmsg_seq != number);
    if (answer.header.nlmsg_type != SOCK_DIAG_BY_FAMILY || (size_t)n < NLMSG_HDRLEN + sizeof(found))
        return HF_ENOENT;
    memcpy(&found, answer.bytes + NLMSG_HDRLEN, sizeof(found));
    *out = (struct hf_sockdiag){found.idiag_uid, found.idiag_inode};
    return 0;
}

static int ask(int fd, int protocol, const struct hf_addr *source, const struct hf_addr *target,
               struct hf_sockdiag *out)
{
    static uint32_t numbers;
    uint32_t number = ++numbers;
    struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
    struct question question = {
        .header = {.nlmsg_len = sizeof(question),
                   .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                   .nlmsg_flags = NLM_F_REQUEST,
                   .nlmsg_seq = number},
        .request = {.sdiag_family = source->family == HF_ADDR_IPV6 ? AF_INET6 : AF_INET,
                    .sdiag_protocol = (uint8_t)protocol,
                    .idiag_states = UINT32_MAX,
                    .id = {.idiag_sport = htons(source->port),
                           .idiag_dport = htons(target->port),
                           .idiag_cookie = {INET_DIAG_NOCOOKIE, INET_DIAG_NOCOOKIE}}},
    };

    memcpy(question.request.id.idiag_src, source->bytes, sizeof(source->bytes));
    memcpy(question.request.id.idiag_dst, target->bytes, sizeof(target->bytes));
    if (sendto(fd, &question, sizeof(question), MSG_DONTWAIT, (struct sockaddr *)&kernel,
               sizeof(kernel)) < 0)
        return HF_EUNAVAIL;
    return read_answer(fd, number, out);
}

int hf_sockdiag_connection(int fd, const struct hf_addr *at, const struct hf_addr *to,
                           struct hf_sockdiag *out)
{
    int rv = ask(fd, IPPROTO_TCP, at, to, out);

    /* The process has closed this socket, and the kernel wrongly names root as its owner. */
    if (rv == 0 && out->inode == 0)
        out->uid = HF_UID_UNKNOWN;
    return rv;
}

int hf_sockdiag_service(int fd, enum hf_transport transport, const struct hf_addr *at,
                        struct hf_sockdiag *out)
{
    struct hf_addr any = {.family = at->family};

    /* For UDP the kernel looks up the socket that would receive a packet, so the packet's source
     * comes first. */
    if (transport == HF_TRANSPORT_UDP)
        return ask(fd, IPPROTO_UDP, &any, at, out);
    return ask(fd, IPPROTO_TCP, at, &any, out);
}
