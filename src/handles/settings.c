#include "handles/settings.h"

#include <errno.h>
#include <ini.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/text.h"

enum { EXIT_USAGE = 2, KEY_MAX = 32 };

/* ---- one assignment ---- */

bool hf_settings_number(const char *text, uint64_t min, uint64_t max, uint64_t *out)
{
    char *end;

    errno = 0;
    *out = strtoull(text, &end, 10);
    return text[0] >= '0' && text[0] <= '9' && *end == '\0' && errno == 0 && *out >= min &&
           *out <= max;
}

static int set_level(const char *text, enum hf_log_level *out)
{
    static const char *const LEVELS[] = {"error", "warn", "info", "debug"};

    for (size_t i = 0; i < HF_COUNT_OF(LEVELS); i++) {
        if (strcmp(text, LEVELS[i]) == 0) {
            *out = (enum hf_log_level)i;
            return 0;
        }
    }
    return HF_EINVAL;
}

static int set_value(const struct hf_setting *s, const char *text)
{
    uint64_t number;

    switch (s->type) {
    case HF_SETTING_NUMBER:
        if (!hf_settings_number(text, s->min, s->max, &number))
            return HF_EINVAL;
        *(uint64_t *)s->value = number;
        return 0;
    case HF_SETTING_LEVEL:
        return set_level(text, s->value);
    case HF_SETTING_EXPORT:
        return hf_exports_add(s->value, text);
    case HF_SETTING_PATH:
        if (text[0] != '/')
            return HF_EINVAL;
        break;
    case HF_SETTING_TEXT:
        break;
    }
    return text[0] && hf_text_copy(s->value, s->max, text) ? 0 : HF_EINVAL;
}

static void list_keys(const struct hf_settings *settings, char *out, size_t size)
{
    size_t len = 0;

    for (const struct hf_setting *s = settings->list; s->key && len < size; s++)
        len += (size_t)snprintf(out + len, size - len, "%s%s", len > 0 ? ", " : "", s->key);
}

int hf_settings_set(const struct hf_settings *settings, const char *key, const char *value,
                    char error[HF_SETTINGS_ERROR_MAX])
{
    const struct hf_setting *s = settings->list;
    char keys[HF_SETTINGS_ERROR_MAX / 2];
    int rv;

    while (s->key && strcmp(s->key, key) != 0)
        s++;
    if (!s->key) {
        list_keys(settings, keys, sizeof(keys));
        hf_format(error, HF_SETTINGS_ERROR_MAX, "there is no key \"%.60s\"; there are %s", key,
                  keys);
        return HF_EINVAL;
    }
    rv = set_value(s, value);
    if (rv < 0)
        hf_format(error, HF_SETTINGS_ERROR_MAX, "%s takes %s, not \"%.100s\"", key, s->expected,
                  value);
    return rv;
}

/* ---- the file ---- */

struct reading {
    const struct hf_settings *settings;
    char *error;
};

static int on_assignment(void *ctx, const char *section, const char *name, const char *value)
{
    const struct reading *reading = ctx;

    if (strcmp(section, reading->settings->section) != 0) {
        hf_format(reading->error, HF_SETTINGS_ERROR_MAX,
                  "there is no section \"%.60s\"; all keys are in [%s]", section,
                  reading->settings->section);
        return 0;
    }
    return hf_settings_set(reading->settings, name, value, reading->error) == 0;
}

/* Reads the settings in a file. Returns HF_ENOENT if there is no such file; HF_EINVAL, with the
 * reason, if its content is wrong. */
static int read_file(const struct hf_settings *settings, const char *file,
                     char error[HF_SETTINGS_ERROR_MAX])
{
    struct reading reading = {settings, error};
    char reason[HF_SETTINGS_ERROR_MAX];
    int line;

    error[0] = '\0';
    line = ini_parse(file, on_assignment, &reading);
    if (line == 0)
        return 0;
    if (line < 0) {
        hf_format(error, HF_SETTINGS_ERROR_MAX, "cannot read %.200s: %s", file, strerror(errno));
        return HF_ENOENT;
    }
    hf_format(reason, sizeof(reason), "%s", error[0] ? error : "expected KEY=VALUE");
    hf_format(error, HF_SETTINGS_ERROR_MAX, "%.120s, line %d: %.160s", file, line, reason);
    return HF_EINVAL;
}

/* ---- the command line ---- */

static int set_pair(const struct hf_settings *settings, const char *pair, char *error)
{
    char key[KEY_MAX];
    const char *equals = strchr(pair, '=');
    size_t len = equals ? (size_t)(equals - pair) : 0;

    if (len == 0 || len >= sizeof(key)) {
        hf_format(error, HF_SETTINGS_ERROR_MAX, "--set takes KEY=VALUE");
        return HF_EINVAL;
    }
    memcpy(key, pair, len);
    key[len] = '\0';
    return hf_settings_set(settings, key, equals + 1, error);
}

/* Sets the key that an option names: --log-level means log_level. */
static int set_option(const struct hf_settings *settings, const char *option, char *error)
{
    char key[KEY_MAX];

    hf_format(key, sizeof(key), "%s", option);
    for (char *dash = key; (dash = strchr(dash, '-')) != NULL;)
        *dash = '_';
    return hf_settings_set(settings, key, optarg, error);
}

static int fail(const struct hf_settings *settings, const char *reason)
{
    (void)fprintf(stderr, "%s: %s\n", settings->program, reason);
    return EXIT_USAGE;
}

/* Answers --help and --version, whatever else is on the command line. */
static bool asks_only(const struct hf_settings *settings, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            (void)fputs(settings->help, stdout);
            return true;
        }
        if (strcmp(argv[i], "--version") == 0 || strcmp(argv[i], "-V") == 0) {
            (void)printf("%s %s\n", settings->program, HF_VERSION);
            return true;
        }
    }
    return false;
}

int hf_settings_parse(const struct hf_settings *settings, int argc, char **argv,
                      void (*other)(void *ctx, int option), void *ctx)
{
    char error[HF_SETTINGS_ERROR_MAX] = "";
    const char *config = NULL;
    int option, index = 0;
    int rv = 0;

    if (asks_only(settings, argc, argv))
        return EXIT_SUCCESS;
    while ((option = getopt_long(argc, argv, "hV", settings->options, NULL)) != -1) {
        if (option == '?')
            return EXIT_USAGE;
        if (option == 'c')
            config = optarg;
    }
    if (!config || config[0])
        rv = read_file(settings, config ? config : settings->file, error);
    if (rv < 0 && (rv != HF_ENOENT || config))
        return fail(settings, error);
    optind = 1;
    while ((option = getopt_long(argc, argv, "hV", settings->options, &index)) != -1) {
        if (option == 0)
            rv = set_option(settings, settings->options[index].name, error);
        else
            rv = option == 'S' ? set_pair(settings, optarg, error) : 0;
        if (rv < 0)
            return fail(settings, error);
        if (option != 0 && option != 'S' && option != 'c')
            other(ctx, option);
    }
    if (optind < argc)
        return fail(settings, "takes options only; see --help");
    if (settings->exports->n_configured == 0) {
        hf_format(error, sizeof(error), "no exports: name them in %s (export=DIR) or by --export",
                  settings->file);
        return fail(settings, error);
    }
    return -1;
}
