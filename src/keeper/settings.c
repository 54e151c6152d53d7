#include "keeper/settings.h"

#include <errno.h>
#include <ini.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/text.h"

void hf_keeper_settings_init(struct hf_keeper_settings *settings, struct hf_exports *exports)
{
    *settings = (struct hf_keeper_settings){
        .socket = HF_KEEPER_SOCKET,
        .user = "holdfast",
        .search = 1000000,
        .store = 4096,
        .log_level = HF_LOG_INFO,
        .limits = {.files = 500000, .ranges = 1000, .waits = 4096, .threads = 32},
        .exports = exports,
    };
}

static int refuse(char *error, const char *key, const char *expected, const char *value)
{
    hf_format(error, HF_KEEPER_ERROR_MAX, "%s takes %s, not \"%.100s\"", key, expected, value);
    return HF_EINVAL;
}

static bool read_number(const char *text, uint64_t min, uint64_t max, uint64_t *out)
{
    char *end;

    errno = 0;
    *out = strtoull(text, &end, 10);
    return text[0] >= '0' && text[0] <= '9' && *end == '\0' && errno == 0 && *out >= min &&
           *out <= max;
}

/* Returns NULL if no number has this key. */
static const char *set_number(struct hf_keeper_settings *settings, const char *key,
                              const char *value, bool *ok)
{
    static const struct {
        const char *key, *expected;
        uint64_t min, max;
    } NUMBERS[] = {
        {"files", "a number from 1 to 10000000", 1, 10000000},
        {"ranges", "a number from 1 to 100000", 1, 100000},
        {"waits", "a number from 1 to 100000", 1, 100000},
        {"threads", "a number from 1 to 256", 1, HF_WAIT_THREADS_MAX},
        {"search", "a number, 0 for none", 0, UINT64_MAX},
        {"store", "a number from 0 to 1000000, 0 for none", 0, 1000000},
    };
    uint64_t number;

    for (size_t i = 0; i < HF_COUNT_OF(NUMBERS); i++) {
        if (strcmp(key, NUMBERS[i].key) != 0)
            continue;
        *ok = read_number(value, NUMBERS[i].min, NUMBERS[i].max, &number);
        if (!*ok)
            return NUMBERS[i].expected;
        switch (i) {
        case 0:
            settings->limits.files = number;
            break;
        case 1:
            settings->limits.ranges = (uint32_t)number;
            break;
        case 2:
            settings->limits.waits = number;
            break;
        case 3:
            settings->limits.threads = number;
            break;
        case 4:
            settings->search = number;
            break;
        default:
            settings->store = number;
            break;
        }
        return NUMBERS[i].expected;
    }
    return NULL;
}

static bool set_level(struct hf_keeper_settings *settings, const char *value)
{
    static const char *const LEVELS[] = {"error", "warn", "info", "debug"};

    for (size_t i = 0; i < HF_COUNT_OF(LEVELS); i++) {
        if (strcmp(value, LEVELS[i]) == 0) {
            settings->log_level = (enum hf_log_level)i;
            return true;
        }
    }
    return false;
}

int hf_keeper_settings_set(struct hf_keeper_settings *settings, const char *key, const char *value,
                           char error[HF_KEEPER_ERROR_MAX])
{
    bool ok = false;
    const char *expected = set_number(settings, key, value, &ok);

    if (!expected && strcmp(key, "export") == 0) {
        expected = "the absolute path of a directory, at most 64 times";
        ok = hf_exports_add(settings->exports, value) == 0;
    } else if (!expected && strcmp(key, "log_level") == 0) {
        expected = "error, warn, info or debug";
        ok = set_level(settings, value);
    } else if (!expected && strcmp(key, "user") == 0) {
        expected = "a user's name or number";
        ok = value[0] && hf_text_copy(settings->user, sizeof(settings->user), value);
    } else if (!expected && strcmp(key, "socket") == 0) {
        expected = "an absolute path of at most 107 bytes";
        ok = value[0] == '/' && hf_text_copy(settings->socket, sizeof(settings->socket), value);
    }
    if (!expected) {
        hf_format(
            error, HF_KEEPER_ERROR_MAX,
            "there is no key \"%.60s\"; there are socket, user, export, files, ranges, waits, "
            "threads, search, store, log_level",
            key);
        return HF_EINVAL;
    }
    return ok ? 0 : refuse(error, key, expected, value);
}

struct reading {
    struct hf_keeper_settings *settings;
    char *error;
};

static int on_assignment(void *ctx, const char *section, const char *name, const char *value)
{
    const struct reading *reading = ctx;

    if (strcmp(section, "keeper") != 0) {
        hf_format(reading->error, HF_KEEPER_ERROR_MAX,
                  "there is no section \"%.60s\"; all keys are in [keeper]", section);
        return 0;
    }
    return hf_keeper_settings_set(reading->settings, name, value, reading->error) == 0;
}

int hf_keeper_settings_read(struct hf_keeper_settings *settings, const char *file,
                            char error[HF_KEEPER_ERROR_MAX])
{
    struct reading reading = {settings, error};
    char reason[HF_KEEPER_ERROR_MAX];
    int line;

    error[0] = '\0';
    line = ini_parse(file, on_assignment, &reading);
    if (line == 0)
        return 0;
    if (line < 0) {
        hf_format(error, HF_KEEPER_ERROR_MAX, "cannot read %.200s: %s", file, strerror(errno));
        return HF_ENOENT;
    }
    hf_format(reason, sizeof(reason), "%s", error[0] ? error : "expected KEY=VALUE");
    hf_format(error, HF_KEEPER_ERROR_MAX, "%.120s, line %d: %.160s", file, line, reason);
    return HF_EINVAL;
}

int hf_keeper_settings_user(const struct hf_keeper_settings *settings, uid_t *out)
{
    struct passwd entry, *found = NULL;
    char room[4096];
    uint64_t number;

    if (read_number(settings->user, 0, UINT32_MAX - 1, &number)) {
        *out = (uid_t)number;
        return 0;
    }
    if (getpwnam_r(settings->user, &entry, room, sizeof(room), &found) != 0 || !found)
        return HF_ENOENT;
    *out = found->pw_uid;
    return 0;
}
