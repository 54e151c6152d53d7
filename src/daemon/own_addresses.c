#include "daemon/own_addresses.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"

_Static_assert((int)HF_ADDRESSES_MAX >= (int)HF_CONFIG_LISTEN_MAX, "addresses.h and config.h");

/* True if Holdfast moves the service's addresses itself. */
static bool are_ours(const struct hf_config *config)
{
    return config->cluster_mode == HF_CLUSTER_STANDBY && config->cluster_hook[0];
}

static struct hf_addresses_config from(const struct hf_config *config)
{
    struct hf_addresses_config addresses = {
        .n_addresses = config->cluster_addresses.n,
        .keep_privileges = !config->confine,
    };

    hf_format(addresses.hook, sizeof(addresses.hook), "%s", config->cluster_hook);
    hf_format(addresses.service, sizeof(addresses.service), "%s", config->service);
    memcpy(addresses.addresses, config->cluster_addresses.list,
           sizeof(addresses.addresses[0]) * addresses.n_addresses);
    return addresses;
}

static void log_failure(const struct hf_config *config, int error)
{
    const char *advice = "";

    if (error == HF_EBUSY)
        advice = "another holdfastd on this host serves one of these addresses, or another process "
                 "has TCP port 404 there: ss -tanp";
    else if (error == HF_EDENIED)
        advice = "start it as root or with CAP_NET_BIND_SERVICE, CAP_NET_ADMIN and CAP_NET_RAW";
    hf_log(HF_LOG_ERROR, "cannot handle the service's addresses",
           HF_STR("service", config->service), HF_STR("reason", hf_strerror(error)),
           HF_STR("advice", advice));
}

int hf_own_addresses_start(const struct hf_config *config, struct hf_addresses **out)
{
    struct hf_addresses_config addresses = from(config);
    int rv;

    *out = NULL;
    if (!are_ours(config))
        return 0;
    rv = hf_addresses_start(&addresses, out);
    if (rv < 0)
        log_failure(config, rv);
    return rv;
}

int hf_own_addresses_clear(const struct hf_config *config)
{
    struct hf_addresses_config addresses = from(config);
    int rv = are_ours(config) ? hf_addresses_clear(&addresses) : 0;

    if (rv < 0)
        log_failure(config, rv);
    return rv < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
