#include "keeper/settings.h"

#include <pwd.h>

#include "base/error.h"

struct hf_settings hf_keeper_settings_init(struct hf_keeper_settings *settings,
                                           struct hf_exports *exports)
{
    *settings = (struct hf_keeper_settings){
        .socket = HF_KEEPER_SOCKET,
        .user = "holdfast",
        .search = 1000000,
        .store = 4096,
        .files = 500000,
        .ranges = 1000,
        .waits = 4096,
        .threads = 32,
        .log_level = HF_LOG_INFO,
    };
    return (struct hf_settings){
        .program = "holdfast-keeper",
        .section = "keeper",
        .file = HF_KEEPER_CONFIG,
        .exports = exports,
        .list = {HF_SETTING_OF_SOCKET(settings->socket),
                 {"user", HF_SETTING_TEXT, settings->user, 0, sizeof(settings->user),
                  "a user's name or number"},
                 HF_SETTING_OF_EXPORTS(exports),
                 {"files", HF_SETTING_NUMBER, &settings->files, 1, 10000000,
                  "a number from 1 to 10000000"},
                 {"ranges", HF_SETTING_NUMBER, &settings->ranges, 1, 100000,
                  "a number from 1 to 100000"},
                 {"waits", HF_SETTING_NUMBER, &settings->waits, 1, 100000,
                  "a number from 1 to 100000"},
                 {"threads", HF_SETTING_NUMBER, &settings->threads, 1, HF_WAIT_THREADS_MAX,
                  "a number from 1 to 256"},
                 HF_SETTING_OF_SEARCH(&settings->search),
                 {"store", HF_SETTING_NUMBER, &settings->store, 0, 1000000,
                  "a number from 0 to 1000000, 0 for none"},
                 HF_SETTING_OF_LOG_LEVEL(&settings->log_level)},
    };
}

int hf_keeper_settings_user(const struct hf_keeper_settings *settings, uid_t *out)
{
    struct passwd entry, *found = NULL;
    char room[4096];
    uint64_t number;

    if (hf_settings_number(settings->user, 0, UINT32_MAX - 1, &number)) {
        *out = (uid_t)number;
        return 0;
    }
    if (getpwnam_r(settings->user, &entry, room, sizeof(room), &found) != 0 || !found)
        return HF_ENOENT;
    *out = found->pw_uid;
    return 0;
}
