/*
 * Selects rows of a list. A client is named by its id, or by any part of its name or address; a
 * file by any part of its handle in hex or of its path; an export by its name; an owner by its
 * svid, or by any part of its handle: as text if it is text, else in hex. Letters match without
 * regard to case. A search finds a row by any of these. A path, on the other hand, is one file's,
 * and must be equal.
 */
#ifndef HF_ADMIN_FILTER_H
#define HF_ADMIN_FILTER_H

#include <stdbool.h>

#include "admin/names.h"
#include "core/view.h"

enum { HF_FILTER_TEXT_MAX = 256 };

struct filter {
    char client[HF_FILTER_TEXT_MAX]; /* in each of these, "" matches any */
    char file[HF_FILTER_TEXT_MAX];
    char export[HF_FILTER_TEXT_MAX];
    char owner[HF_FILTER_TEXT_MAX];
    char status[HF_FILTER_TEXT_MAX]; /* the status of a notification */
    char search[HF_FILTER_TEXT_MAX]; /* text that some field of the row contains */
    bool searches_files;             /* the caller may see files (ADM-09): search in them, too */
    bool waited;                     /* only locks on files with waiters */
    struct hf_names *names;

    bool by_path;                  /* only the file with this path matches: */
    char path[HF_PATH_QUOTED_MAX]; /* the path as the operator wrote it */
    char quoted[HF_PATH_QUOTED_MAX];
    uint64_t unnamed; /* how many rows were left out because their files have no name */

    bool any_file; /* for now every file passes, so that the names of all files are asked for */
};

/* Selects only the file with this path. Returns false if it is no absolute path, or too long. */
bool hf_filter_set_path(struct filter *filter, const char *path);

/* The fields of a row that a search looks at. A row without a file or an owner has empty ones. */
struct filter_fields {
    uint64_t id; /* the id of the row; like that of the client it must be equal */
    uint64_t client_id;
    struct hf_bytes client_name;
    const struct hf_addr *client_addr;
    struct hf_bytes fh;
    const int32_t *svid;
    struct hf_bytes oh;
};

/* True if the text that is searched for is in one of the fields, or none is. */
bool hf_filter_search(const struct filter *filter, const struct filter_fields *fields);

bool hf_filter_client(const struct filter *filter, uint64_t id, struct hf_bytes name,
                      const struct hf_addr *addr);
bool hf_filter_file(struct filter *filter, struct hf_bytes export, struct hf_bytes fh);
bool hf_filter_owner(const struct filter *filter, int32_t svid, struct hf_bytes oh);

#endif
