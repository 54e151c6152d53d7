/*
 * Bars addresses from being a source: a policy rule "from ADDRESS blackhole", by rtnetlink.
 *
 * Linux sends nothing from an IPv4 address that the host does not have. From an IPv6 address that
 * is gone it still sends: repeats of a connection, its FIN, and packets of a stopped process that
 * goes on. So an address is barred when it is dropped, and the bar is lifted when it is taken
 * again. The shipped hook uses the same rule.
 */
#include <errno.h>
#include <linux/fib_rules.h>
#include <linux/rtnetlink.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "addresses/private.h"
#include "base/error.h"

enum { PRIORITY = 4045, ADDRESS_LEN = 16, RULES_MAX = 16 };

struct rule {
    struct nlmsghdr head;
    struct fib_rule_hdr body;
    struct rtattr source_head;
    uint8_t source[ADDRESS_LEN];
    struct rtattr priority_head;
    uint32_t priority;
};

/* Lets packets leave from an address again. Its rule may be there more than once, if other programs
 * added it. */
static int lift(int fd, struct rule *rule)
{
    int rv = 0;

    rule->head.nlmsg_type = RTM_DELRULE;
    rule->head.nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK;
    for (unsigned i = 0; rv == 0 && i < RULES_MAX; i++)
        rv = hf_netlink_ask(fd, &rule->head);
    return rv == -ENOENT ? 0 : rv;
}

static int put(int fd, struct rule *rule)
{
    int rv;

    rule->head.nlmsg_type = RTM_NEWRULE;
    rule->head.nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL;
    rv = hf_netlink_ask(fd, &rule->head);
    return rv == -EEXIST ? 0 : rv;
}

int hf_addresses_bar(const struct hf_addr *addresses, unsigned n, bool barred)
{
    struct rule rule = {
        .head = {.nlmsg_len = sizeof(rule)},
        .body = {.family = AF_INET6, .src_len = 8 * ADDRESS_LEN, .action = FR_ACT_BLACKHOLE},
        .source_head = {.rta_len = RTA_LENGTH(ADDRESS_LEN), .rta_type = FRA_SRC},
        .priority_head = {.rta_len = RTA_LENGTH(sizeof(uint32_t)), .rta_type = FRA_PRIORITY},
        .priority = PRIORITY,
    };
    int fd = hf_netlink_open(0);
    int worst = 0;

    if (fd < 0)
        return HF_EUNAVAIL;
    for (unsigned i = 0; i < n; i++) {
        int rv;

        if (addresses[i].family != HF_ADDR_IPV6)
            continue;
        memcpy(rule.source, addresses[i].bytes, ADDRESS_LEN);
        rv = barred ? put(fd, &rule) : lift(fd, &rule);
        if (rv < 0)
            worst = rv == -EPERM ? HF_EDENIED : HF_EUNAVAIL;
    }
    close(fd);
    return worst;
}
