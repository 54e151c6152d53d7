/*
 * Decides what goes into the history (ADM-11, src/history): locks and waits that have ended after
 * more than a configured time, every loss however short, what happened to clients and to this
 * service, and what operators did.
 */
#ifndef HF_DAEMON_RECORDER_H
#define HF_DAEMON_RECORDER_H

#include "base/histogram.h"
#include "core/core.h"
#include "daemon/config.h"
#include "daemon/named_lines.h"
#include "history/history.h"
#include "service/service.h"

struct hf_recorder {
    struct hf_history *history; /* the history; NULL: none is kept */
    struct hf_service *service; /* the service that serves, for the time */
    int64_t longer_than_ms;
    struct hf_histogram held_ms,
        waited_ms; /* of all locks and waits that have ended, for metrics */
    struct hf_named_lines lines;
    char directory[HF_CONFIG_TEXT_MAX];
};

/* Finds the directory of the history; "": none is kept. */
void hf_recorder_directory(const struct hf_config *config, char out[HF_CONFIG_TEXT_MAX]);

/* Opens it; the caller sets lines.names if it has names. */
void hf_recorder_open(struct hf_recorder *recorder, uv_loop_t *loop, const struct hf_config *config,
                      struct hf_service *service);

/* From now on the core of this service tells what ends. */
void hf_recorder_follow(struct hf_recorder *recorder, struct hf_service *service);

void hf_recorder_event(struct hf_recorder *recorder, const struct hf_event *event);

/* Notes an event that concerns all clients, or an operator's action; text may be NULL. */
void hf_recorder_note(struct hf_recorder *recorder, const char *what, const char *text);

void hf_recorder_end_turn(struct hf_recorder *recorder);

/* Closes it, when no core tells of endings any more, and the names are closed. */
void hf_recorder_close(struct hf_recorder *recorder);

#endif
