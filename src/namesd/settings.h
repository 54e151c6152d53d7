/* The settings of holdfast-namesd, from options and from a file with one section, [names]. */
#ifndef HF_NAMESD_SETTINGS_H
#define HF_NAMESD_SETTINGS_H

#include "handles/settings.h"

#define HF_NAMES_CONFIG "/etc/holdfast/names.conf"
#define HF_NAMES_SOCKET "/run/holdfast-names/socket"

struct hf_namesd_settings {
    char socket[HF_SETTINGS_SOCKET_MAX];
    uint64_t search; /* how many directory entries a walk looks at (struct hf_walk) */
    enum hf_log_level log_level;
};

/* Sets the defaults. Returns the keys, which point to the settings and to the exports. */
struct hf_settings hf_namesd_settings_init(struct hf_namesd_settings *settings,
                                           struct hf_exports *exports);

#endif
