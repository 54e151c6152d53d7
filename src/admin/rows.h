/* Writes one row of the core's view as JSON. */
#ifndef HF_ADMIN_ROWS_H
#define HF_ADMIN_ROWS_H

#include "admin/names.h"
#include "admin/writer.h"
#include "base/hash.h"
#include "core/view.h"

/* What rows need besides the core's view. */
struct row_context {
    /* The names of files; NULL: the caller may not know which files there are (ADM-09). */
    struct hf_names *names;
    const struct hf_hash_key *file_key;
    int64_t wall_ms;
};

union row {
    struct hf_view_client client;
    struct hf_view_lock lock;
    struct hf_view_waiter waiter;
    struct hf_view_share reservation;
};

void hf_row_client(struct writer *w, const struct row_context *context, const union row *row);
void hf_row_lock(struct writer *w, const struct row_context *context, const union row *row);
void hf_row_waiter(struct writer *w, const struct row_context *context, const union row *row);
void hf_row_reservation(struct writer *w, const struct row_context *context, const union row *row);
void hf_row_notification(struct writer *w, const struct row_context *context, const union row *row);

/* Returns the address that identifies a client; for a registration by SM_MON, the address of its
 * sender. */
const struct hf_addr *hf_row_client_addr(const struct hf_view_client *client);

const char *hf_row_notice_name(enum hf_notice_status status);

#endif
