#include "daemon/config.h"

#include <ctype.h>
#include <errno.h>
#include <ini.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/error.h"
#include "base/hex.h"
#include "base/text.h"

/* NAME is a text that may not be empty, ENDPOINT one that is ADDRESS:PORT or empty. */
enum type { TEXT, NAME, ENDPOINT, NUMBER, CHOICE, ADDRESSES };

/* One key. What can change while the daemon runs is marked; all else needs a restart. */
struct key {
    const char *section;
    const char *name;
    enum type type;
    size_t offset;       /* of the value in struct hf_config */
    const char *initial; /* as it would be written in a file */
    uint32_t min, max;   /* NUMBER */
    const char *choices; /* CHOICE: names separated by '|', the value is the index */
    bool live;
    const char *comment;
};

#define AT(field) offsetof(struct hf_config, field)

static const struct key KEYS[] = {
    {"server", "name", NAME, AT(name), NULL, .comment = "what clients know us by in crash notices"},
    {"server", "listen", ADDRESSES, AT(listen), "0.0.0.0,::", .comment = "addresses, with commas"},
    {"server", "port", NUMBER, AT(port), "4045", 1, 65535, .comment = "UDP and TCP, both programs"},
    {"server", "programs", CHOICE, AT(programs), "all", .choices = "all|nsm",
     .comment = "nsm: no locks, only the status monitor, in the place of rpc.statd"},
    {"rpcbind", "mode", CHOICE, AT(rpcbind_mode), "auto", .choices = "system|embedded|none|auto",
     .comment = "auto: the system's if one answers, else embedded"},
    {"store", "backend", CHOICE, AT(backend), "lmdb", .choices = "memory|lmdb|postgres"},
    {"store", "path", TEXT, AT(path), "/var/lib/holdfast", .comment = "directory, for lmdb"},
    {"store", "dsn", TEXT, AT(dsn), "", .comment = "for postgres; empty: the PG* environment"},
    {"locks", "durable", CHOICE, AT(durable), "yes", .choices = "no|yes",
     .comment = "no: only clients are recorded, as rpc.statd does"},
    {"grace", "seconds", NUMBER, AT(grace_seconds), "90", 0, 86400},
    {"grace", "mode", CHOICE, AT(grace_mode), "strict", .choices = "strict|conflict",
     .comment = "conflict: only what conflicts with an unreclaimed lock waits"},
    {"notify", "timeout", NUMBER, AT(notify_timeout), "5", 1, 60, .comment = "seconds an attempt"},
    {"notify", "attempts", NUMBER, AT(notify_attempts), "3", 1, 100},
    {"notify", "in_flight", NUMBER, AT(notify_in_flight), "2048", 1, 16384},
    {"notify", "on_failure", CHOICE, AT(notify_on_failure), "release", .choices = "release|keep",
     .comment = "the locks of a client that cannot be reached"},
    {"notify", "retry_for", NUMBER, AT(notify_retry_for), "900", 0, 86400,
     .comment = "seconds a notice is repeated in the background"},
    {"limits", "clients", NUMBER, AT(max_clients), "10000", 1, 10000000, .live = true},
    {"limits", "locks_per_client", NUMBER, AT(max_locks_per_client), "100000", 1, 100000000,
     .live = true},
    {"limits", "locks_per_file", NUMBER, AT(max_locks_per_file), "100000", 1, 100000000,
     .live = true},
    {"limits", "locks", NUMBER, AT(max_locks), "1000000", 1, 100000000, .live = true},
    {"limits", "waiters_per_file", NUMBER, AT(max_waiters_per_file), "1000", 1, 1000000,
     .live = true},
    {"admin", "listen", ENDPOINT, AT(admin_listen), "127.0.0.1:8049",
     .comment = "ADDRESS:PORT of the page, REST and metrics; empty: none"},
    {"admin", "socket", TEXT, AT(admin_socket), "auto",
     .comment = "auto: /run/holdfast/admin.sock, or in store.path; empty: none"},
    {"admin", "token_file", TEXT, AT(admin_token_file), "",
     .comment = "holds the token that changes need"},
    {"admin", "fh_map", TEXT, AT(admin_fh_map), "",
     .comment = "lines of HEX PATH: names for file handles"},
    {"log", "level", CHOICE, AT(log_level), "info", .choices = "error|warn|info|debug",
     .live = true},
    {"log", "format", CHOICE, AT(log_format), "text", .choices = "text|json", .live = true},
};

static const char SHARE_SECTION[] = "share ";

/* ---- values ---- */

static void *field(struct hf_config *config, const struct key *key)
{
    return (char *)config + key->offset;
}

static const void *field_const(const struct hf_config *config, const struct key *key)
{
    return (const char *)config + key->offset;
}

static int set_number(const struct key *key, const char *text, uint32_t *out,
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

/* The part of a list of choices at index, or NULL behind the last. */
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

static int set_choice(const struct key *key, const char *text, uint32_t *out,
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

static int set_name(const char *text, char *out, char error[HF_CONFIG_ERROR_MAX])
{
    if (text[0] == '\0') {
        hf_format(error, HF_CONFIG_ERROR_MAX, "empty: clients need a name for us");
        return HF_EINVAL;
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

static int set_addresses(struct hf_config *config, const char *text,
                         char error[HF_CONFIG_ERROR_MAX])
{
    char copy[HF_CONFIG_TEXT_MAX];
    char *rest = copy;
    char *part;

    if (set_text(text, copy, error) < 0)
        return HF_EINVAL;
    memset(config->listen, 0, sizeof(config->listen)); /* a reload compares bytes */
    config->n_listen = 0;
    while ((part = strsep(&rest, ","))) {
        part += strspn(part, " \t");
        part[strcspn(part, " \t")] = '\0';
        if (config->n_listen == HF_CONFIG_LISTEN_MAX) {
            hf_format(error, HF_CONFIG_ERROR_MAX, "more than %d addresses", HF_CONFIG_LISTEN_MAX);
            return HF_EINVAL;
        }
        if (hf_addr_parse(part, &config->listen[config->n_listen++]) < 0) {
            hf_format(error, HF_CONFIG_ERROR_MAX, "\"%.100s\" is not an IPv4 or IPv6 address",
                      part);
            return HF_EINVAL;
        }
    }
    return 0;
}

static int set_value(struct hf_config *config, const struct key *key, const char *text,
                     char error[HF_CONFIG_ERROR_MAX])
{
    switch (key->type) {
    case TEXT:
        return set_text(text, field(config, key), error);
    case NAME:
        return set_name(text, field(config, key), error);
    case ENDPOINT:
        return set_endpoint(text, field(config, key), error);
    case NUMBER:
        return set_number(key, text, field(config, key), error);
    case CHOICE:
        return set_choice(key, text, field(config, key), error);
    case ADDRESSES:
        return set_addresses(config, text, error);
    }
    HF_UNREACHABLE();
}

/* ---- shares ---- */

/* OFFSET:HEXBYTES */
static int parse_pattern(const char *text, struct hf_config_share *share)
{
    char *end;
    unsigned long offset = strtoul(text, &end, 10);
    int len;

    if (!isdigit((unsigned char)text[0]) || *end != ':' || offset >= HF_CONFIG_PATTERN_MAX)
        return HF_EINVAL;
    len = hf_hex_decode(end + 1, strlen(end + 1), share->bytes, HF_CONFIG_PATTERN_MAX - offset);
    if (len < 0)
        return HF_EINVAL;
    share->offset = (unsigned)offset;
    share->len = (unsigned)len;
    return 0;
}

static int set_share(struct hf_config *config, const char *name, const char *key, const char *value,
                     char error[HF_CONFIG_ERROR_MAX])
{
    struct hf_config_share share = {0};
    unsigned i;

    if (strcmp(key, "fh") != 0) {
        hf_format(error, HF_CONFIG_ERROR_MAX, "unknown key (a share has only fh=OFFSET:HEXBYTES)");
        return HF_ENOENT;
    }
    if (name[0] == '\0' || !hf_text_copy(share.name, sizeof(share.name), name)) {
        hf_format(error, HF_CONFIG_ERROR_MAX, "a share needs a name of 1 to %zu bytes",
                  sizeof(share.name) - 1);
        return HF_EINVAL;
    }
    if (parse_pattern(value, &share) < 0) {
        hf_format(error, HF_CONFIG_ERROR_MAX,
                  "\"%.100s\" is not OFFSET:HEXBYTES within the %d bytes of a file handle", value,
                  HF_CONFIG_PATTERN_MAX);
        return HF_EINVAL;
    }
    for (i = 0; i < config->n_shares && strcmp(config->shares[i].name, name) != 0; i++)
        ;
    if (i == HF_CONFIG_SHARES_MAX) {
        hf_format(error, HF_CONFIG_ERROR_MAX, "more than %d shares", HF_CONFIG_SHARES_MAX);
        return HF_ELIMIT;
    }
    config->shares[i] = share;
    if (i == config->n_shares)
        config->n_shares++;
    return 0;
}

/* ---- one assignment ---- */

static int assign(struct hf_config *config, const char *section, const char *name,
                  const char *value, char error[HF_CONFIG_ERROR_MAX])
{
    bool section_known = false;

    if (strncmp(section, SHARE_SECTION, strlen(SHARE_SECTION)) == 0)
        return set_share(config, section + strlen(SHARE_SECTION), name, value, error);
    for (size_t i = 0; i < HF_COUNT_OF(KEYS); i++) {
        if (strcmp(KEYS[i].section, section) != 0)
            continue;
        section_known = true;
        if (strcmp(KEYS[i].name, name) == 0)
            return set_value(config, &KEYS[i], value, error);
    }
    hf_format(error, HF_CONFIG_ERROR_MAX, section_known ? "unknown key" : "unknown section");
    return HF_ENOENT;
}

int hf_config_set(struct hf_config *config, const char *assignment, char error[HF_CONFIG_ERROR_MAX])
{
    char copy[2 * HF_CONFIG_TEXT_MAX];
    char what[HF_CONFIG_ERROR_MAX];
    char *equals;
    char *dot;
    int rv;

    if (!hf_text_copy(copy, sizeof(copy), assignment)) {
        hf_format(error, HF_CONFIG_ERROR_MAX, "--set: longer than %zu bytes", sizeof(copy) - 1);
        return HF_EINVAL;
    }
    equals = strchr(copy, '=');
    if (equals)
        *equals = '\0';
    dot = strrchr(copy, '.');
    if (!equals || !dot) {
        hf_format(error, HF_CONFIG_ERROR_MAX, "--set %.200s: expected section.key=value",
                  assignment);
        return HF_EINVAL;
    }
    *dot = '\0';
    rv = assign(config, copy, dot + 1, equals + 1, what);
    if (rv < 0)
        hf_format(error, HF_CONFIG_ERROR_MAX, "--set %.100s.%.100s: %.700s", copy, dot + 1, what);
    return rv;
}

/* ---- the file ---- */

struct reading {
    struct hf_config *config;
    FILE *file;
    int line;       /* of the line read last */
    int error_line; /* where key and error belong; 0: nothing is wrong that we found ourselves */
    int unreadable; /* errno of a read that failed: a directory can be opened, but not read */
    char key[128];
    char error[HF_CONFIG_ERROR_MAX];
};

/*
 * Hands lines to inih, and counts them: an overlong one would be read as two, and an indented one
 * as a further value of the key before it, so it loses its indentation.
 */
static char *next_line(char *text, int size, void *stream)
{
    struct reading *r = stream;
    size_t len;
    size_t indent;

    if (r->error_line)
        return NULL;
    if (!fgets(text, size, r->file)) {
        r->unreadable = ferror(r->file) ? errno : 0;
        return NULL;
    }
    r->line++;
    len = strlen(text);
    if (len + 1 == (size_t)size && text[len - 1] != '\n') {
        r->error_line = r->line;
        hf_format(r->error, sizeof(r->error),
                  "line longer than %d characters (--set has no such limit)", size - 2);
        return NULL;
    }
    indent = strspn(text, " \t");
    memmove(text, text + indent, len - indent + 1);
    return text;
}

static int on_assignment(void *user, const char *section, const char *name, const char *value)
{
    struct reading *r = user;

    if (assign(r->config, section, name, value, r->error) == 0)
        return 1;
    r->error_line = r->line;
    hf_format(r->key, sizeof(r->key), "%s%s%s: ", section, section[0] ? "." : "", name);
    return 0;
}

int hf_config_read(struct hf_config *config, const char *path, char error[HF_CONFIG_ERROR_MAX])
{
    struct reading r = {.config = config, .file = fopen(path, "re")};
    int bad_line = 0;

    if (r.file) {
        bad_line = ini_parse_stream(next_line, &r, on_assignment, &r);
        (void)fclose(r.file);
    } else {
        r.unreadable = errno;
    }
    if (r.unreadable) {
        hf_format(error, HF_CONFIG_ERROR_MAX, "%.300s: cannot be read: %s", path,
                  strerror(r.unreadable));
        return HF_EIO;
    }
    if (bad_line == 0 && r.error_line == 0)
        return 0;
    /* inih goes on behind a line it cannot read: the first thing wrong is the one to tell. */
    if (r.error_line == 0 || (bad_line > 0 && bad_line < r.error_line))
        hf_format(error, HF_CONFIG_ERROR_MAX,
                  "%.300s:%d: not understood: expected [section] or key=value", path, bad_line);
    else
        hf_format(error, HF_CONFIG_ERROR_MAX, "%.300s:%d: %s%.500s", path, r.error_line, r.key,
                  r.error);
    return HF_EINVAL;
}

/* ---- whole configurations ---- */

void hf_config_init(struct hf_config *config)
{
    char error[HF_CONFIG_ERROR_MAX];

    memset(config, 0, sizeof(*config));
    if (gethostname(config->name, sizeof(config->name)) < 0 || config->name[0] == '\0')
        strcpy(config->name, "localhost");
    config->name[sizeof(config->name) - 1] = '\0';
    for (size_t i = 0; i < HF_COUNT_OF(KEYS); i++) {
        int rv = KEYS[i].initial ? set_value(config, &KEYS[i], KEYS[i].initial, error) : 0;
        HF_ASSERT(rv == 0);
    }
}

int hf_config_check(const struct hf_config *config, char error[HF_CONFIG_ERROR_MAX])
{
    const char *what = NULL;

    if (config->grace_mode == 1 && !config->durable)
        what = "grace.mode=conflict needs locks.durable=yes: it must know what was held";
    else if (config->backend == HF_BACKEND_LMDB && config->path[0] == '\0')
        what = "store.path is empty: the lmdb store needs a directory";
    if (!what)
        return 0;
    hf_format(error, HF_CONFIG_ERROR_MAX, "%s", what);
    return HF_EINVAL;
}

static void print_value(const struct hf_config *config, const struct key *key, FILE *out)
{
    const void *value = field_const(config, key);
    char text[HF_ADDR_TEXT_MAX];
    const char *choice;
    size_t len = 0;

    switch (key->type) {
    case TEXT:
    case NAME:
    case ENDPOINT:
        if (key->offset == AT(dsn) && config->dsn[0])
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
        for (unsigned i = 0; i < config->n_listen; i++)
            (void)fprintf(out, "%s%s", i ? "," : "", hf_addr_format(&config->listen[i], text));
        break;
    }
}

void hf_config_print(const struct hf_config *config, FILE *out)
{
    const char *section = "";

    for (size_t i = 0; i < HF_COUNT_OF(KEYS); i++) {
        const struct key *key = &KEYS[i];

        if (strcmp(section, key->section) != 0)
            (void)fprintf(out, "%s[%s]\n", i ? "\n" : "", section = key->section);
        if (key->comment || key->choices)
            (void)fprintf(out, "; %s%s%s\n", key->choices ? key->choices : "",
                          key->choices && key->comment ? "; " : "",
                          key->comment ? key->comment : "");
        (void)fprintf(out, "%s=", key->name);
        print_value(config, key, out);
        (void)fputc('\n', out);
    }
    for (unsigned i = 0; i < config->n_shares; i++) {
        const struct hf_config_share *share = &config->shares[i];

        (void)fprintf(out, "\n[share %s]\nfh=%u:", share->name, share->offset);
        for (unsigned b = 0; b < share->len; b++)
            (void)fprintf(out, "%02x", share->bytes[b]);
        (void)fputc('\n', out);
    }
}

static size_t field_size(const struct key *key)
{
    switch (key->type) {
    case TEXT:
    case NAME:
    case ENDPOINT:
        return HF_CONFIG_TEXT_MAX;
    case ADDRESSES:
        return sizeof(((struct hf_config *)0)->listen);
    case NUMBER:
    case CHOICE:
        return sizeof(uint32_t);
    }
    HF_UNREACHABLE();
}

/* Both sides were zeroed before their values were set, so bytes compare; but a text may have been
 * set over a longer one. */
static bool is_same(const struct hf_config *a, const struct hf_config *b, const struct key *key)
{
    const void *x = field_const(a, key);
    const void *y = field_const(b, key);

    if (key->type == TEXT || key->type == NAME || key->type == ENDPOINT)
        return strcmp(x, y) == 0;
    return memcmp(x, y, field_size(key)) == 0;
}

void hf_config_reload(struct hf_config *config, const struct hf_config *fresh,
                      void (*report)(const char *key))
{
    char name[64];

    for (size_t i = 0; i < HF_COUNT_OF(KEYS); i++) {
        const struct key *key = &KEYS[i];

        if (is_same(config, fresh, key))
            continue;
        if (key->live) {
            memcpy(field(config, key), field_const(fresh, key), field_size(key));
        } else {
            hf_format(name, sizeof(name), "%s.%s", key->section, key->name);
            report(name);
        }
    }
    if (config->n_shares != fresh->n_shares ||
        memcmp(config->shares, fresh->shares, sizeof(config->shares)) != 0)
        report("share");
}
