#include "namesd/settings.h"

#include <errno.h>
#include <ini.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"

void hf_namesd_settings_init(struct hf_namesd_settings *settings, struct hf_exports *exports)
{
    *settings = (struct hf_namesd_settings){
        .socket = HF_NAMES_SOCKET,
        .search = HF_NAMESD_SEARCH_DEFAULT,
        .log_level = HF_LOG_INFO,
        .exports = exports,
    };
}

static int set_search(struct hf_namesd_settings *settings, const char *value, char *error)
{
    char *end;

    errno = 0;
    settings->search = strtoull(value, &end, 10);
    if (value[0] >= '0' && value[0] <= '9' && *end == '\0' && errno == 0)
        return 0;
    hf_format(error, HF_NAMESD_SETTINGS_ERROR_MAX,
              "search takes a number, 0 for none, not \"%.100s\"", value);
    return HF_EINVAL;
}

static int set_export(struct hf_namesd_settings *settings, const char *value, char *error)
{
    int rv = hf_exports_add(settings->exports, value);

    if (rv == HF_ELIMIT)
        hf_format(error, HF_NAMESD_SETTINGS_ERROR_MAX, "more than %d exports", HF_EXPORTS_MAX);
    else if (rv < 0)
        hf_format(error, HF_NAMESD_SETTINGS_ERROR_MAX,
                  "export takes the absolute path of a directory, not \"%.100s\"", value);
    return rv;
}

static int set_level(struct hf_namesd_settings *settings, const char *value, char *error)
{
    static const char *const LEVELS[] = {"error", "warn", "info", "debug"};

    for (size_t i = 0; i < sizeof(LEVELS) / sizeof(LEVELS[0]); i++) {
        if (strcmp(value, LEVELS[i]) == 0) {
            settings->log_level = (enum hf_log_level)i;
            return 0;
        }
    }
    hf_format(error, HF_NAMESD_SETTINGS_ERROR_MAX, "log_level is error, warn, info or debug");
    return HF_EINVAL;
}

int hf_namesd_settings_set(struct hf_namesd_settings *settings, const char *key, const char *value,
                           char error[HF_NAMESD_SETTINGS_ERROR_MAX])
{
    if (strcmp(key, "search") == 0)
        return set_search(settings, value, error);
    if (strcmp(key, "export") == 0)
        return set_export(settings, value, error);
    if (strcmp(key, "log_level") == 0)
        return set_level(settings, value, error);
    if (strcmp(key, "socket") == 0) {
        if (value[0] == '/' && hf_text_copy(settings->socket, sizeof(settings->socket), value))
            return 0;
        hf_format(error, HF_NAMESD_SETTINGS_ERROR_MAX,
                  "socket takes an absolute path of at most 107 bytes, not \"%.100s\"", value);
        return HF_EINVAL;
    }
    hf_format(error, HF_NAMESD_SETTINGS_ERROR_MAX,
              "there is no key \"%.60s\"; there are socket, export, search, log_level", key);
    return HF_EINVAL;
}

struct reading {
    struct hf_namesd_settings *settings;
    char *error;
};

static int on_assignment(void *ctx, const char *section, const char *name, const char *value)
{
    const struct reading *reading = ctx;

    if (strcmp(section, "names") != 0) {
        hf_format(reading->error, HF_NAMESD_SETTINGS_ERROR_MAX,
                  "there is no section \"%.60s\"; all keys are in [names]", section);
        return 0;
    }
    return hf_namesd_settings_set(reading->settings, name, value, reading->error) == 0;
}

int hf_namesd_settings_read(struct hf_namesd_settings *settings, const char *file,
                            char error[HF_NAMESD_SETTINGS_ERROR_MAX])
{
    struct reading reading = {settings, error};
    char reason[HF_NAMESD_SETTINGS_ERROR_MAX];
    int line;

    error[0] = '\0';
    line = ini_parse(file, on_assignment, &reading);
    if (line == 0)
        return 0;
    if (line < 0) {
        hf_format(error, HF_NAMESD_SETTINGS_ERROR_MAX, "cannot read %.200s: %s", file,
                  strerror(errno));
        return HF_ENOENT;
    }
    hf_format(reason, sizeof(reason), "%s", error[0] ? error : "expected KEY=VALUE");
    hf_format(error, HF_NAMESD_SETTINGS_ERROR_MAX, "%.120s, line %d: %.160s", file, line, reason);
    return HF_EINVAL;
}
