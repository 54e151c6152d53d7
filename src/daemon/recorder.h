/*
 * Decides what goes into the history (ADM-11, src/history): locks and waits that lasted longer than
 * a configured time, every loss however short, what happened to clients and to this service, and
 * what operators did.
 */
#ifndef HF_DAEMON_RECORDER_H
#define HF_DAEMON_RECORDER_H

#include "base/histogram.h"
#include "daemon/config.h"
#include "daemon/named_lines.h"
#include "history/history.h"
#include "service/service.h"

struct hf_recorder {
    struct hf_history *history; /* the history's files; NULL: no history is kept */
    struct hf_service *service; /* the service of the current term */
    int64_t longer_than_ms;
    struct hf_histogram held_ms,
        waited_ms; /* how long locks were held and requests waited, for metrics */
    struct hf_named_lines lines;
    char directory[HF_CONFIG_TEXT_MAX];
};

/* Returns in out the directory of the history; "": no history is kept. */
void hf_recorder_directory(const struct hf_config *config, char out[HF_CONFIG_TEXT_MAX]);

/* Opens the recorder; the caller sets lines.names if it can look up names of files. */
void hf_recorder_open(struct hf_recorder *recorder, uv_loop_t *loop, const struct hf_config *config,
                      struct hf_service *service);

/* Makes the core of this service report the locks and waits that end. */
void hf_recorder_follow(struct hf_recorder *recorder, struct hf_service *service);

void hf_recorder_event(struct hf_recorder *recorder, const struct hf_event *event);

/* Records an event that concerns all clients, or an operator's action. text may be NULL. */
void hf_recorder_note(struct hf_recorder *recorder, const char *what, const char *text);

void hf_recorder_end_turn(struct hf_recorder *recorder);

/* Closes the recorder. By then no core may report to it, and the name lookups are closed. */
void hf_recorder_close(struct hf_recorder *recorder);

#endif
