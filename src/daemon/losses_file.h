/*
 * Losses that no operator has acknowledged yet survive a restart: in the file `losses` of the lmdb
 * store's directory, one line for each client. The file is written by a worker thread, whole, and
 * put in its place by a rename. It is a report, not a part of the store: where it cannot be written
 * or read, the log says so, and locks are served all the same. The other stores have no directory;
 * there, a restart forgets the list, and the log and the metrics keep it.
 */
#ifndef HF_DAEMON_LOSSES_FILE_H
#define HF_DAEMON_LOSSES_FILE_H

#include <uv.h>

#include "base/buf.h"
#include "service/service.h"
#include "service/troubles.h"

enum { HF_LOSSES_PATH_MAX = 600 };

struct hf_losses_file {
    struct hf_service *service;
    char path[HF_LOSSES_PATH_MAX]; /* "": none */
    uint64_t version;              /* of the troubles, as they were last written */
    uv_work_t work;
    bool writing; /* the worker thread owns text and error */
    struct hf_buf text;
    int error;
    bool failed; /* the log says so already */
};

/* Reads what an earlier run left. directory NULL: there is none. The service outlives the file. */
void hf_losses_file_open(struct hf_losses_file *file, struct hf_service *service,
                         const char *directory);

/* Begins to write the list if it has changed: once a turn of the loop. */
void hf_losses_file_follow(struct hf_losses_file *file);

/* After the loop has ended. */
void hf_losses_file_free(struct hf_losses_file *file);

#endif
