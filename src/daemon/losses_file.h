/*
 * Keeps losses that no operator has acknowledged yet over a restart, in the file `losses` of the
 * lmdb store's directory, one line for each client. A worker thread writes the whole file, and puts
 * it in its place by a rename. It is a report, not a part of the store: where it cannot be written
 * or read, the log says so, and locks are served nevertheless. The other stores have no directory;
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
    char path[HF_LOSSES_PATH_MAX]; /* the path of the file; "": there is none */
    uint64_t version;              /* the version of the troubles that was last written */
    uv_work_t work;
    bool writing; /* the worker thread owns text and error */
    struct hf_buf text;
    int error;
    bool failed; /* the log has told of a failure already */
};

/* Reads the losses that an earlier run left. directory NULL: there is none. The service must
 * outlive the file. */
void hf_losses_file_open(struct hf_losses_file *file, struct hf_service *service,
                         const char *directory);

/* Begins to write the list if it has changed. It is called once a turn of the loop. */
void hf_losses_file_follow(struct hf_losses_file *file);

/* Frees what it has, after the loop has ended. */
void hf_losses_file_free(struct hf_losses_file *file);

#endif
