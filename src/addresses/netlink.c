#include <errno.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>
#include <unistd.h>

#include "addresses/private.h"

int hf_netlink_open(uint32_t groups)
{
    struct sockaddr_nl own = {.nl_family = AF_NETLINK, .nl_groups = groups};
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);

    if (fd >= 0 && bind(fd, (const struct sockaddr *)&own, sizeof(own)) < 0) {
        close(fd);
        return -1;
    }
    return fd;
}

int hf_netlink_ask(int fd, const struct nlmsghdr *order)
{
    struct {
        struct nlmsghdr head;
        struct nlmsgerr body;
        uint8_t rest[512];
    } answer;

    if (send(fd, order, order->nlmsg_len, 0) < 0)
        return -errno;
    if (recv(fd, &answer, sizeof(answer), 0) < (ssize_t)NLMSG_LENGTH(sizeof(answer.body)) ||
        answer.head.nlmsg_type != NLMSG_ERROR)
        return -EPROTO;
    return answer.body.error;
}
