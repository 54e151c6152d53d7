/* The settings of holdfast-namesd, from options and from a file with one section, [names]. */
#ifndef HF_NAMESD_SETTINGS_H
#define HF_NAMESD_SETTINGS_H

#include "base/log.h"
#include "handles/exports.h"

#define HF_NAMES_CONFIG "/etc/holdfast/names.conf"
#define HF_NAMES_SOCKET "/run/holdfast-names/socket"

enum { HF_NAMESD_SETTINGS_ERROR_MAX = 320, HF_NAMESD_SEARCH_DEFAULT = 1000000 };

struct hf_namesd_settings {
    char socket[108]; /* the socket's path, as long as that of a unix socket can be */
    uint64_t search;
    enum hf_log_level log_level;
    struct hf_exports *exports;
};

void hf_namesd_settings_init(struct hf_namesd_settings *settings, struct hf_exports *exports);

/* Makes one assignment: socket, export (again for each), search, log_level. Returns HF_EINVAL, with
 * the reason. */
int hf_namesd_settings_set(struct hf_namesd_settings *settings, const char *key, const char *value,
                           char error[HF_NAMESD_SETTINGS_ERROR_MAX]);

/* Returns HF_ENOENT if there is no such file; HF_EINVAL, with the reason, if it is wrong. */
int hf_namesd_settings_read(struct hf_namesd_settings *settings, const char *file,
                            char error[HF_NAMESD_SETTINGS_ERROR_MAX]);

#endif
