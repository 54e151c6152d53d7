/*
 * Selects rows of a list. A client is named by its id, or by any part of its name or address; a
 * file by any part of its handle in hex or of its path; an export by its name; an owner by its
 * svid, or by any part of its owner handle: as text if it is text, else in hex. Letters match
 * without regard to case. A search finds a row by any of these fields. A filter by path is
 * stricter: the path must equal that of the file.
 */
#ifndef HF_ADMIN_FILTER_H
#define HF_ADMIN_FILTER_H

#include <stdbool.h>

#include "admin/names.h"
#include "core/view.h"

enum { HF_FILTER_TEXT_MAX = 256 };

struct filter {
    /* In this text and those below, "" matches every row. */
    char client[HF_FILTER_TEXT_MAX];
    char file[HF_FILTER_TEXT_MAX];
    char export[HF_FILTER_TEXT_MAX];
    char owner[HF_FILTER_TEXT_MAX];
    char status[HF_FILTER_TEXT_MAX]; /* the status that a notification must have */
    char search[HF_FILTER_TEXT_MAX]; /* text that some field of the row contains */
    bool searches_files; /* the caller may see files (ADM-09), so a search looks at them, too */
    bool waited;         /* only locks on files with waiters match */
    struct hf_names *names;

    bool by_path;                  /* only the file at `path` matches */
    char path[HF_PATH_QUOTED_MAX]; /* the path as the operator wrote it */
    char quoted[HF_PATH_QUOTED_MAX];
    uint64_t unnamed; /* how many rows were left out because their files have no name */

    bool any_file; /* every file passes for now, so that the names of all files are asked for */
};

/* Selects only the file with this path. Returns false if it is no absolute path, or too long. */
bool hf_filter_set_path(struct filter *filter, const char *path);

/* The fields of a row that a search looks at. The fields of a file or an owner that the row does
 * not have are empty. */
struct filter_fields {
    /* The id of the row; a search must match this id, and that of the client, as a whole. */
    uint64_t id;
    uint64_t client_id;
    struct hf_bytes client_name;
    const struct hf_addr *client_addr;
    struct hf_bytes fh;
    const int32_t *svid;
    struct hf_bytes oh;
};

/*
 * True if one of the fields contains the text that is searched for, or if no text is searched for.
 */
bool hf_filter_search(const struct filter *filter, const struct filter_fields *fields);

bool hf_filter_client(const struct filter *filter, uint64_t id, struct hf_bytes name,
                      const struct hf_addr *addr);
bool hf_filter_file(struct filter *filter, struct hf_bytes export, struct hf_bytes fh);
bool hf_filter_owner(const struct filter *filter, int32_t svid, struct hf_bytes oh);

#endif
