#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/hex.h"
#include "base/text.h"
#include "daemon/config_private.h"

/* ---- reading ---- */

static int set_number(const struct hf_config_key *key, const char *text, uint32_t *out,
                      char error[HF_CONFIG_ERROR_MAX])
{
    char *end;
    unsigned long long value;

    errno = 0;
    value = strtoull(text, &end, 10);
    if (!isdigit((unsigned char)text[0]) || *end || errno || value < key->min || value > key->max) {
        hf_format(error, HF_CONFIG_ERROR_MAX, "\"%.100s\" is not a number from %u to %u", text,
                  key->min, key->max);
        return HF_EINVAL;
    }
    *out = (uint32_t)value;
    return 0;
}

/* Returns the choice with this index, and in *len its length; NULL if there are fewer choices. */
static const char *choice_at(const char *choices, uint32_t index, size_t *len)
{
    HF_ASSERT(choices);
    while (index-- > 0) {
        choices = strchr(choices, '|');
        if (!choices)
            return NULL;
        choices++;
    }
    *len = strcspn(choices, "|");
    return choices;
}

static int set_choice(const struct hf_config_key *key, const char *text, uint32_t *out,
                      char error[HF_CONFIG_ERROR_MAX])
{
    const char *choice;
    size_t len;

    for (uint32_t i = 0; (choice = choice_at(key->choices, i, &len)); i++) {
        if (strlen(text) == len && strncasecmp(text, choice, len) == 0) {
            *out = i;
            return 0;
        }
    }
    hf_format(error, HF_CONFIG_ERROR_MAX, "\"%.100s\" is none of %s", text, key->choices);
    return HF_EINVAL;
}

static int set_text(const char *text, char *out, char error[HF_CONFIG_ERROR_MAX])
{
    if (!hf_text_copy(out, HF_CONFIG_TEXT_MAX, text)) {
        hf_format(error, HF_CONFIG_ERROR_MAX, "longer than %d bytes", HF_CONFIG_TEXT_MAX - 1);
        return HF_EINVAL;
    }
    return 0;
}

/* A relative path would mean one file to an operator's --check-config, and another one to the
 * daemon that systemd starts in the root directory. */
static int set_path(const struct hf_config_key *key, const char *text, char *out,
                    char error[HF_CONFIG_ERROR_MAX])
{
    bool is_auto = strcmp(key->initial, "auto") == 0;

    if (text[0] && text[0] != '/' && !(is_auto && strcmp(text, "auto") == 0)) {
        hf_format(error, HF_CONFIG_ERROR_MAX, "\"%.100s\" is not an absolute path%s", text,
                  is_auto ? ", nor auto" : "");
        return HF_EINVAL;
    }
    return set_text(text, out, error);
}

static int set_name(const char *text, char *out, char error[HF_CONFIG_ERROR_MAX])
{
    if (text[0] == '\0') {
        hf_format(error, HF_CONFIG_ERROR_MAX, "empty: clients need a name for us");
        return HF_EINVAL;
    }
    for (const char *c = text; *c; c++) {
        if ((unsigned char)*c <= ' ' || *c == 0x7f) {
            hf_format(error, HF_CONFIG_ERROR_MAX,
                      "\"%.100s\" has a space or a control character, and no host has such a name",
                      text);
            return HF_EINVAL;
        }
    }
    return set_text(text, out, error);
}

static int set_endpoint(const char *text, char *out, char error[HF_CONFIG_ERROR_MAX])
{
    struct hf_addr addr;

    if (text[0] && (hf_addr_parse_port(text, &addr) < 0 || addr.port == 0)) {
        hf_format(error, HF_CONFIG_ERROR_MAX,
                  "\"%.100s\" is not ADDRESS:PORT (or [ADDRESS]:PORT for IPv6)", text);
        return HF_EINVAL;
    }
    return set_text(text, out, error);
}

/*
 * Returns the next part of a comma-separated list, without the spaces around it; NULL at the end.
 */
static char *next_part(char **rest)
{
    char *part = strsep(rest, ",");

    if (part) {
        part += strspn(part, " \t");
        part[strcspn(part, " \t")] = '\0';
    }
    return part;
}

static int set_addresses(const struct hf_config_key *key, const char *text,
                         struct hf_config_addresses *out, char error[HF_CONFIG_ERROR_MAX])
{
    char copy[HF_CONFIG_TEXT_MAX];
    char *rest = copy;
    char *part;

    if (set_text(text, copy, error) < 0)
        return HF_EINVAL;
    memset(out, 0, sizeof(*out)); /* clears the padding, too, because a reload compares bytes */
    if (text[0] == '\0' && key->initial[0] == '\0')
        return 0; /* an empty value is allowed for this key */
    while ((part = next_part(&rest))) {
        if (out->n == HF_CONFIG_LISTEN_MAX) {
            hf_format(error, HF_CONFIG_ERROR_MAX, "more than %d addresses", HF_CONFIG_LISTEN_MAX);
            return HF_EINVAL;
        }
        if (hf_addr_parse(part, &out->list[out->n++]) < 0) {
            hf_format(error, HF_CONFIG_ERROR_MAX, "\"%.100s\" is not an IPv4 or IPv6 address",
                      part);
            return HF_EINVAL;
        }
    }
    return 0;
}

int hf_config_networks_parse(const char *text, struct hf_config_networks *out,
                             char error[HF_CONFIG_ERROR_MAX])
{
    char copy[HF_CONFIG_TEXT_MAX];
    char *rest = copy;
    char *part;

    if (set_text(text, copy, error) < 0)
        return HF_EINVAL;
    memset(out, 0, sizeof(*out)); /* clears the padding, too, because a reload compares bytes */
    while (copy[0] && (part = next_part(&rest))) {
        if (out->n == HF_CONFIG_ALLOW_MAX) {
            hf_format(error, HF_CONFIG_ERROR_MAX, "more than %d networks", HF_CONFIG_ALLOW_MAX);
            return HF_EINVAL;
        }
        if (hf_network_parse(part, &out->list[out->n++]) < 0) {
            hf_format(error, HF_CONFIG_ERROR_MAX,
                      "\"%.100s\" is not a network as 192.0.2.0/24 or 2001:db8::/32", part);
            return HF_EINVAL;
        }
    }
    return 0;
}

int hf_config_value_parse(struct hf_config *config, const struct hf_config_key *key,
                          const char *text, char error[HF_CONFIG_ERROR_MAX])
{
    switch (key->type) {
    case TEXT:
        return set_text(text, hf_config_field(config, key), error);
    case PATH:
        return set_path(key, text, hf_config_field(config, key), error);
    case NAME:
        return set_name(text, hf_config_field(config, key), error);
    case ENDPOINT:
        return set_endpoint(text, hf_config_field(config, key), error);
    case NUMBER:
        return set_number(key, text, hf_config_field(config, key), error);
    case CHOICE:
        return set_choice(key, text, hf_config_field(config, key), error);
    case ADDRESSES:
        return set_addresses(key, text, hf_config_field(config, key), error);
    case NETWORKS:
        return hf_config_networks_parse(text, hf_config_field(config, key), error);
    }
    HF_UNREACHABLE();
}

/* ---- writing ---- */

void hf_config_value_print(const struct hf_config *config, const struct hf_config_key *key,
                           FILE *out)
{
    const void *value = hf_config_field_const(config, key);
    const struct hf_config_addresses *addresses;
    const struct hf_config_networks *networks;
    char text[HF_NETWORK_TEXT_MAX];
    const char *choice;
    size_t len = 0;

    switch (key->type) {
    case TEXT:
    case PATH:
    case NAME:
    case ENDPOINT:
        if (key->offset == offsetof(struct hf_config, dsn) && config->dsn[0])
            (void)fputs(" ; set, but not shown: it may hold a password", out);
        else
            (void)fputs(value, out);
        break;
    case NUMBER:
        (void)fprintf(out, "%u", *(const uint32_t *)value);
        break;
    case CHOICE:
        choice = choice_at(key->choices, *(const uint32_t *)value, &len);
        (void)fprintf(out, "%.*s", (int)len, choice);
        break;
    case ADDRESSES:
        addresses = value;
        for (unsigned i = 0; i < addresses->n; i++)
            (void)fprintf(out, "%s%s", i ? "," : "", hf_addr_format(&addresses->list[i], text));
        break;
    case NETWORKS:
        networks = value;
        for (unsigned i = 0; i < networks->n; i++)
            (void)fprintf(out, "%s%s", i ? "," : "", hf_network_format(&networks->list[i], text));
        break;
    }
}

/* ---- export rules ---- */

/* Parses OFFSET:HEXBYTES. */
static int parse_pattern(const char *text, struct hf_config_export_rule *rule)
{
    char *end;
    unsigned long offset = strtoul(text, &end, 10);
    int len;

    if (!isdigit((unsigned char)text[0]) || *end != ':' || offset >= HF_CONFIG_PATTERN_MAX)
        return HF_EINVAL;
    len = hf_hex_decode(end + 1, strlen(end + 1), rule->bytes, HF_CONFIG_PATTERN_MAX - offset);
    if (len < 0)
        return HF_EINVAL;
    rule->offset = (unsigned)offset;
    rule->len = (unsigned)len;
    return 0;
}

int hf_config_export_rule_set(struct hf_config *config, const char *name, const char *key,
                              const char *value, char error[HF_CONFIG_ERROR_MAX])
{
    struct hf_config_export_rule rule = {0};
    unsigned i;

    if (strcmp(key, "fh") != 0) {
        hf_format(error, HF_CONFIG_ERROR_MAX, "unknown key (a share has only fh=OFFSET:HEXBYTES)");
        return HF_ENOENT;
    }
    if (name[0] == '\0' || !hf_text_copy(rule.name, sizeof(rule.name), name)) {
        hf_format(error, HF_CONFIG_ERROR_MAX, "a share needs a name of 1 to %zu bytes",
                  sizeof(rule.name) - 1);
        return HF_EINVAL;
    }
    if (parse_pattern(value, &rule) < 0) {
        hf_format(error, HF_CONFIG_ERROR_MAX,
                  "\"%.100s\" is not OFFSET:HEXBYTES within the %d bytes of a file handle", value,
                  HF_CONFIG_PATTERN_MAX);
        return HF_EINVAL;
    }
    for (i = 0; i < config->n_export_rules && strcmp(config->export_rules[i].name, name) != 0; i++)
        ;
    if (i == HF_CONFIG_EXPORT_RULES_MAX) {
        hf_format(error, HF_CONFIG_ERROR_MAX, "more than %d shares", HF_CONFIG_EXPORT_RULES_MAX);
        return HF_ELIMIT;
    }
    config->export_rules[i] = rule;
    if (i == config->n_export_rules)
        config->n_export_rules++;
    return 0;
}
