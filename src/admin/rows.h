/* One row of the core's view as JSON; each returns a new object, or NULL when memory runs out. */
#ifndef HF_ADMIN_ROWS_H
#define HF_ADMIN_ROWS_H

#include <jansson.h>

#include "admin/fh_map.h"
#include "core/view.h"

/* What a row needs beside itself. */
struct row_context {
    const struct hf_fh_map *map;
    int64_t wall_ms;
};

union row {
    struct hf_view_client client;
    struct hf_view_lock lock;
    struct hf_view_waiter waiter;
    struct hf_view_share reservation;
};

json_t *row_client(const struct row_context *context, const union row *row);
json_t *row_lock(const struct row_context *context, const union row *row);
json_t *row_waiter(const struct row_context *context, const union row *row);
json_t *row_reservation(const struct row_context *context, const union row *row);
json_t *row_notification(const struct row_context *context, const union row *row);

/* The address a client is known by; that of a registration is where it came from. */
const struct hf_addr *row_client_addr(const struct hf_view_client *client);

const char *row_notice_name(enum hf_notice_status status);

#endif
