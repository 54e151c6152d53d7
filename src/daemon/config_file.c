#include <errno.h>
#include <ini.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/text.h"
#include "daemon/config_private.h"

enum {
    HF_CONFIG_KEYS_MAX = 128,
    /* How many keys all named sections can have together. */
    HF_CONFIG_NAMED_MAX = HF_CONFIG_EXPORT_RULES_MAX + 2 * HF_CONFIG_CLIENTS_MAX,
};

static const char EXPORT_RULE_SECTION[] = "share ";
static const char CLIENT_SECTION[] = "client ";

/* ---- one assignment ---- */

static int assign(struct hf_config *config, const char *section, const char *name,
                  const char *value, char error[HF_CONFIG_ERROR_MAX])
{
    bool section_known = false;

    if (value[0] == '"' || value[0] == '\'') {
        hf_format(error, HF_CONFIG_ERROR_MAX,
                  "the quotes would be part of the value: write it without");
        return HF_EINVAL;
    }
    if (strncmp(section, EXPORT_RULE_SECTION, strlen(EXPORT_RULE_SECTION)) == 0)
        return hf_config_export_rule_set(config, section + strlen(EXPORT_RULE_SECTION), name, value,
                                         error);
    if (strncmp(section, CLIENT_SECTION, strlen(CLIENT_SECTION)) == 0)
        return hf_config_client_set(config, section + strlen(CLIENT_SECTION), name, value, error);
    for (size_t i = 0; i < hf_config_n_keys; i++) {
        if (strcmp(hf_config_keys[i].section, section) != 0)
            continue;
        section_known = true;
        if (strcmp(hf_config_keys[i].name, name) == 0)
            return hf_config_value_parse(config, &hf_config_keys[i], value, error);
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

/* A key of a named section, such as [share NAME]. */
struct named_key {
    char text[320];
    int line;
};

struct reading {
    struct hf_config *config;
    /* the keys that the file has set in named sections */
    struct named_key named[HF_CONFIG_NAMED_MAX];
    unsigned n_named;
    int assigned[HF_CONFIG_KEYS_MAX]; /* the line in which the file set each key; 0: not set yet */
    FILE *file;
    int line;       /* the number of the configuration line that was read last */
    int error_line; /* the line to which key and error refer; 0: no error so far */
    int unreadable; /* the errno of a failed read, for example of a directory */
    char key[128];
    char error[HF_CONFIG_ERROR_MAX];
};

/*
 * Passes lines to inih and counts them. inih would read an overlong line as two lines, so that is
 * an error; and it would take an indented line as another value of the previous key, so the
 * indentation is removed.
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

/* True if the file has not set this key of a named section before. A key that does not fit into
 * text has too long a name, which is refused later. */
static bool is_first_named(struct reading *r, const char *section, const char *name)
{
    struct named_key *key = &r->named[r->n_named];

    if (r->n_named == HF_CONFIG_NAMED_MAX)
        return true;
    hf_format(key->text, sizeof(key->text), "%s.%s", section, name);
    for (unsigned i = 0; i < r->n_named; i++) {
        if (strcmp(r->named[i].text, key->text) != 0)
            continue;
        hf_format(r->error, sizeof(r->error), "set already at line %d: one of them must go",
                  r->named[i].line);
        return false;
    }
    key->line = r->line;
    r->n_named++;
    return true;
}

/* True if the file has not set the key before. A second value would silently override the first,
 * which the operator may have forgotten. */
static bool is_first(struct reading *r, const char *section, const char *name)
{
    HF_ASSERT(hf_config_n_keys <= HF_CONFIG_KEYS_MAX);
    if (strchr(section, ' '))
        return is_first_named(r, section, name);
    for (size_t i = 0; i < hf_config_n_keys; i++) {
        if (strcmp(hf_config_keys[i].section, section) != 0 ||
            strcmp(hf_config_keys[i].name, name) != 0)
            continue;
        if (r->assigned[i]) {
            hf_format(r->error, sizeof(r->error), "set already at line %d: one of them must go",
                      r->assigned[i]);
            return false;
        }
        r->assigned[i] = r->line;
    }
    return true;
}

static int on_assignment(void *user, const char *section, const char *name, const char *value)
{
    struct reading *r = user;

    if (is_first(r, section, name) && assign(r->config, section, name, value, r->error) == 0)
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
    /* inih goes on after a line that it cannot parse, so the line numbers tell which error comes
     * first in the file. */
    if (r.error_line == 0 || (bad_line > 0 && bad_line < r.error_line))
        hf_format(error, HF_CONFIG_ERROR_MAX,
                  "%.300s:%d: not understood: expected [section] or key=value", path, bad_line);
    else
        hf_format(error, HF_CONFIG_ERROR_MAX, "%.300s:%d: %s%.500s", path, r.error_line, r.key,
                  r.error);
    return HF_EINVAL;
}
