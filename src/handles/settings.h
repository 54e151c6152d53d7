/*
 * The settings of holdfast-namesd and holdfast-keeper, from options and from a file with one
 * section. Each program has a list of its keys, by which this module reads the command line and the
 * file.
 */
#ifndef HF_HANDLES_SETTINGS_H
#define HF_HANDLES_SETTINGS_H

#include <getopt.h>

#include "base/log.h"
#include "handles/exports.h"

enum {
    HF_SETTINGS_ERROR_MAX = 320,
    HF_SETTINGS_SOCKET_MAX = 108, /* the size of an array for the path of a unix socket */
    HF_SETTINGS_KEYS_MAX = 16,
};

enum hf_setting_type {
    HF_SETTING_NUMBER, /* `value` points to a uint64_t */
    HF_SETTING_TEXT,   /* `value` points to an array of max chars */
    HF_SETTING_PATH,   /* `value` points to an array of max chars, for an absolute path */
    HF_SETTING_LEVEL,  /* `value` points to an enum hf_log_level */
    /* `value` points to a struct hf_exports, to which each assignment adds an export. */
    HF_SETTING_EXPORT,
};

struct hf_setting {
    const char *key;
    enum hf_setting_type type;
    void *value;
    uint64_t min, max;
    const char *expected; /* what values the key takes, in words for an error message */
};

struct hf_settings {
    const char *program, *section, *file, *help; /* file is the one that is read without --config */
    const struct option *options; /* an option whose val is 0 sets the key of its name */
    const struct hf_exports *exports;
    /* The list of keys, which ends with an entry without a key. */
    struct hf_setting list[HF_SETTINGS_KEYS_MAX];
};

/* Keys that both holdfast-namesd and holdfast-keeper have. */
#define HF_SETTING_OF_SOCKET(room)                                    \
    {                                                                 \
        "socket", HF_SETTING_PATH, (room), 0, HF_SETTINGS_SOCKET_MAX, \
            "an absolute path of at most 107 bytes"                   \
    }
#define HF_SETTING_OF_EXPORTS(exports)                           \
    {                                                            \
        "export", HF_SETTING_EXPORT, (exports), 0, 0,            \
            "the absolute path of a directory, at most 64 times" \
    }
#define HF_SETTING_OF_SEARCH(number)                                                 \
    {                                                                                \
        "search", HF_SETTING_NUMBER, (number), 0, UINT64_MAX, "a number, 0 for none" \
    }
#define HF_SETTING_OF_LOG_LEVEL(level)                                             \
    {                                                                              \
        "log_level", HF_SETTING_LEVEL, (level), 0, 0, "error, warn, info or debug" \
    }

/* Makes one assignment. Returns HF_EINVAL, or HF_ELIMIT for too many exports, with the reason. */
int hf_settings_set(const struct hf_settings *settings, const char *key, const char *value,
                    char error[HF_SETTINGS_ERROR_MAX]);

/*
 * Reads the file and then the command line, so that options have the last word. Options without a
 * key are handed to other(), except --config, --set, --help and --version. Returns -1, or the
 * status to exit with.
 */
int hf_settings_parse(const struct hf_settings *settings, int argc, char **argv,
                      void (*other)(void *ctx, int option), void *ctx);

/* True if the text is a number within the bounds. */
bool hf_settings_number(const char *text, uint64_t min, uint64_t max, uint64_t *out);

#endif
