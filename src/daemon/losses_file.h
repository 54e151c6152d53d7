/* Keeps the losses that no operator has acknowledged yet over a restart, in the file `losses` of
 * the LMDB store's directory, one line for each client. A worker thread writes the whole file under
 * another name and renames it. The file is a report, not a part of the store: if it cannot be
 * written or read, the log says so, and locks are served nevertheless. The other stores have no
 * directory; with them a restart forgets the list, while the log and the metrics keep it. */
#ifndef HF_DAEMON_LOSSES_FILE_H
#define HF_DAEMON_LOSSES_FILE_H

#include <uv.h>

#include "base/buf.h"
#include "service/service.h"
#include "service/troubles.h"

enum { HF_LOSSES_PATH_MAX = 600 };

struct hf_losses_file {
    struct hf_service *service;
    char path[HF_LOSSES_PATH_MAX]; /* the path of the file of losses; "": there is no file */
    uint64_t version;              /* the version of the list of losses that was last written */
    uv_work_t work;
    bool writing; /* while true, `text` and `error` belong to the worker thread */
    struct hf_buf text;
    int error;
    bool failed; /* the log already has a line about this failure to write */
};

/* Reads the losses that an earlier run left in this directory. NULL: the store has no directory.
 * The service must outlive the file. */
void hf_losses_file_open(struct hf_losses_file *file, struct hf_service *service,
                         const char *directory);

/* Begins to write the list of losses if it has changed. Called once in each turn of the loop. */
void hf_losses_file_follow(struct hf_losses_file *file);

/* Frees the memory of the file of losses, after the loop has ended. */
void hf_losses_file_free(struct hf_losses_file *file);

#endif
