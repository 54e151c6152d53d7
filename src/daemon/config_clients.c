/*
 * Reads sections [client NAME]: the clients with changing addresses that the operator vouches for.
 */
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "base/text.h"
#include "daemon/config_private.h"

/* Returns the section of this name, and adds it if it is missing. Returns NULL, with the reason in
 * error, if it cannot be added. */
static struct hf_config_client *section_of(struct hf_config *config, const char *name,
                                           char error[HF_CONFIG_ERROR_MAX])
{
    struct hf_config_client *client;

    for (unsigned i = 0; i < config->n_clients; i++) {
        client = &config->clients[i];
        if (strcmp(client->name, name) == 0)
            return client;
        if (strcasecmp(client->name, name) == 0) {
            hf_format(error, HF_CONFIG_ERROR_MAX,
                      "[client %.100s] and [client %.100s] are one name: one of them must go",
                      client->name, name);
            return NULL;
        }
    }
    if (config->n_clients == HF_CONFIG_CLIENTS_MAX) {
        hf_format(error, HF_CONFIG_ERROR_MAX, "more than %d clients", HF_CONFIG_CLIENTS_MAX);
        return NULL;
    }
    client = &config->clients[config->n_clients];
    /* clears the padding, too, because a reload compares bytes */
    memset(client, 0, sizeof(*client));
    if (name[0] == '\0' || !hf_text_copy(client->name, sizeof(client->name), name)) {
        hf_format(error, HF_CONFIG_ERROR_MAX, "a client needs a name of 1 to %zu bytes",
                  sizeof(client->name) - 1);
        return NULL;
    }
    for (const char *c = name; *c; c++) {
        if (!isgraph((unsigned char)*c)) {
            hf_format(error, HF_CONFIG_ERROR_MAX, "a client's name has no spaces");
            return NULL;
        }
    }
    config->n_clients++;
    return client;
}

/* Refuses networks that do not identify a client: those of all addresses, and loopback, which every
 * host has. */
static int check_networks(const struct hf_config_networks *networks,
                          char error[HF_CONFIG_ERROR_MAX])
{
    for (unsigned i = 0; i < networks->n; i++) {
        if (networks->list[i].bits > 0 && !hf_addr_is_loopback(&networks->list[i].addr))
            continue;
        hf_format(error, HF_CONFIG_ERROR_MAX,
                  networks->list[i].bits == 0
                      ? "a network of all addresses: any host could act as this client"
                      : "a loopback address is every host's own");
        return HF_EINVAL;
    }
    if (networks->n > 0)
        return 0;
    hf_format(error, HF_CONFIG_ERROR_MAX, "empty: name the networks that the client comes from");
    return HF_EINVAL;
}

int hf_config_client_set(struct hf_config *config, const char *name, const char *key,
                         const char *value, char error[HF_CONFIG_ERROR_MAX])
{
    struct hf_config_client *client = section_of(config, name, error);
    struct hf_config_networks networks;

    if (!client)
        return HF_EINVAL;
    if (strcmp(key, "addresses") == 0) {
        if (hf_config_networks_parse(value, &networks, error) < 0 ||
            check_networks(&networks, error) < 0)
            return HF_EINVAL;
        client->addresses = networks;
        return 0;
    }
    if (strcmp(key, "at_once") != 0) {
        hf_format(error, HF_CONFIG_ERROR_MAX, "unknown key (a client has addresses and at_once)");
        return HF_ENOENT;
    }
    if (strcmp(value, "yes") != 0 && strcmp(value, "no") != 0) {
        hf_format(error, HF_CONFIG_ERROR_MAX, "\"%.100s\" is not no or yes", value);
        return HF_EINVAL;
    }
    client->at_once = value[0] == 'y';
    return 0;
}
