/*
 * Declarations that the files of the configuration share: config_keys.c is the table of all keys,
 * config_values.c reads and writes one value as text, config_file.c reads assignments from a file
 * and from --set, and config.c handles configurations as a whole.
 */
#ifndef HF_DAEMON_CONFIG_PRIVATE_H
#define HF_DAEMON_CONFIG_PRIVATE_H

#include <stddef.h>

#include "daemon/config.h"

enum hf_config_type {
    TEXT,
    PATH,     /* an absolute path; or the empty text; or "auto", if that is the default */
    NAME,     /* a text that must not be empty */
    ENDPOINT, /* an ADDRESS:PORT, or the empty text */
    NUMBER,
    CHOICE,
    ADDRESSES,
    NETWORKS,
};

struct hf_config_key {
    const char *section;
    const char *name;
    enum hf_config_type type;
    size_t offset;       /* the offset of the key's value in struct hf_config */
    const char *initial; /* the default value, as text; NULL: hf_config_init() computes it */
    uint32_t min, max;   /* for a NUMBER: the smallest and the greatest value */
    /* for a CHOICE: the names, separated by '|'; the value is a name's index */
    const char *choices;
    bool live;           /* A reload changes the key; a key that is not live needs a restart. */
    const char *comment; /* the explanation of the key that hf_config_print() writes */
};

extern const struct hf_config_key hf_config_keys[];
extern const size_t hf_config_n_keys;

static inline void *hf_config_field(struct hf_config *config, const struct hf_config_key *key)
{
    return (char *)config + key->offset;
}

static inline const void *hf_config_field_const(const struct hf_config *config,
                                                const struct hf_config_key *key)
{
    return (const char *)config + key->offset;
}

/* Sets a key from text. On failure error says what is wrong with the text. */
int hf_config_value_parse(struct hf_config *config, const struct hf_config_key *key,
                          const char *text, char error[HF_CONFIG_ERROR_MAX]);
void hf_config_value_print(const struct hf_config *config, const struct hf_config_key *key,
                           FILE *out);

/* Sets a key of section [client NAME], and adds that section if it is missing. */
int hf_config_client_set(struct hf_config *config, const char *name, const char *key,
                         const char *value, char error[HF_CONFIG_ERROR_MAX]);

/* Parses a list of networks, separated by commas. */
int hf_config_networks_parse(const char *text, struct hf_config_networks *out,
                             char error[HF_CONFIG_ERROR_MAX]);

/* Adds the export rule of section [share NAME], or replaces an earlier rule of that name. */
int hf_config_export_rule_set(struct hf_config *config, const char *name, const char *key,
                              const char *value, char error[HF_CONFIG_ERROR_MAX]);

#endif
