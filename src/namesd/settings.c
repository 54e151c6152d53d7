#include "namesd/settings.h"

struct hf_settings hf_namesd_settings_init(struct hf_namesd_settings *settings,
                                           struct hf_exports *exports)
{
    *settings = (struct hf_namesd_settings){
        .socket = HF_NAMES_SOCKET, .search = 1000000, .log_level = HF_LOG_INFO};
    return (struct hf_settings){
        .program = "holdfast-namesd",
        .section = "names",
        .file = HF_NAMES_CONFIG,
        .exports = exports,
        .list = {HF_SETTING_OF_SOCKET(settings->socket), HF_SETTING_OF_EXPORTS(exports),
                 HF_SETTING_OF_SEARCH(&settings->search),
                 HF_SETTING_OF_LOG_LEVEL(&settings->log_level)},
    };
}
