#include "store/pg_tables.h"

#include "base/assert.h"

#define COPY_OUT(source) "COPY " source " TO STDOUT (FORMAT binary)"

#define LIST_SERVER(replicated)                                                     \
    COPY_OUT("(SELECT epoch, clean, holdfast_record_here(record, home, " replicated \
             ") FROM " HF_PG_STATE " s WHERE epoch IS NOT NULL)")

const char hf_pg_list_replicated_server[] = LIST_SERVER("true");

static const struct hf_pg_table SERVER = {
    .n_columns = 3,
    .put = "UPDATE server_state SET epoch = ($1::int8[])[1], clean = ($2::bool[])[1], "
           "record = ($3::bytea[])[1], home = holdfast_home() WHERE " HF_PG_STATE_NOW,
    .delete = "UPDATE server_state SET epoch = NULL, clean = NULL, record = NULL, home = '' WHERE "
              "0 = ANY "
              "($1::int8[]) AND " HF_PG_STATE_NOW,
    .list = LIST_SERVER("false"),
};

#define CLIENT_COLUMNS                                                                 \
    "id, protocol, transport, mon_name, addresses, local_address, nsm_state, ttl_ms, " \
    "registered_at_ms, server_epoch, my_name, callback_prog, callback_vers, "          \
    "callback_proc, priv, callback_host, lives"

/* unnest() stands in the select list, because in FROM it would need temporary storage on the
 * server. */
#define CLIENT_INSERT                                                                          \
    "INSERT INTO nsm_client_registrations (" CLIENT_COLUMNS ") "                               \
    "SELECT unnest($1::int8[]), unnest($2::int2[]), unnest($3::int2[]), unnest($4::bytea[]), " \
    "unnest($5::text[]), unnest($6::text[]), unnest($7::int4[]), unnest($8::int8[]), "         \
    "unnest($9::int8[]), unnest($10::int8[]), unnest($11::bytea[]), unnest($12::int8[]), "     \
    "unnest($13::int8[]), unnest($14::int8[]), unnest($15::bytea[]), unnest($16::text[]), "    \
    "unnest($17::bytea[])"

static const struct hf_pg_table CLIENTS = {
    .n_columns = 17,
    .put = CLIENT_INSERT
    " ON CONFLICT (id) DO UPDATE SET (" CLIENT_COLUMNS ") = "
    "(excluded.id, excluded.protocol, excluded.transport, excluded.mon_name, "
    "excluded.addresses, excluded.local_address, excluded.nsm_state, excluded.ttl_ms, "
    "excluded.registered_at_ms, excluded.server_epoch, excluded.my_name, "
    "excluded.callback_prog, excluded.callback_vers, excluded.callback_proc, "
    "excluded.priv, excluded.callback_host, excluded.lives)",
    .delete = "DELETE FROM nsm_client_registrations WHERE id = ANY ($1::int8[])",
    .list = COPY_OUT("nsm_client_registrations (" CLIENT_COLUMNS ")"),
};

#define LOCK_COLUMNS                                                                 \
    "id, client_id, share, file_handle, owner_handle, svid, first_byte, last_byte, " \
    "exclusive, acquired_at_ms, server_epoch, extra"

#define LOCK_INSERT                                                                         \
    "INSERT INTO nlm_locks (" LOCK_COLUMNS ") "                                             \
    "SELECT unnest($1::int8[]), unnest($2::int8[]), unnest($3::bytea[]), "                  \
    "unnest($4::bytea[]), unnest($5::bytea[]), unnest($6::int4[]), unnest($7::numeric[]), " \
    "unnest($8::numeric[]), unnest($9::bool[]), unnest($10::int8[]), unnest($11::int8[]), " \
    "unnest($12::bytea[])"

static const struct hf_pg_table LOCKS = {
    .n_columns = 12,
    .put = LOCK_INSERT
    " ON CONFLICT (id) DO UPDATE SET (" LOCK_COLUMNS ") = "
    "(excluded.id, excluded.client_id, excluded.share, excluded.file_handle, "
    "excluded.owner_handle, excluded.svid, excluded.first_byte, excluded.last_byte, "
    "excluded.exclusive, excluded.acquired_at_ms, excluded.server_epoch, excluded.extra)",
    .delete = "DELETE FROM nlm_locks WHERE id = ANY ($1::int8[])",
    .list = COPY_OUT("nlm_locks (" LOCK_COLUMNS ")"),
};

const struct hf_pg_table *hf_pg_table_of(enum hf_record_kind kind)
{
    switch (kind) {
    case HF_RECORD_SERVER:
        return &SERVER;
    case HF_RECORD_CLIENT:
        return &CLIENTS;
    case HF_RECORD_LOCK:
        return &LOCKS;
    }
    HF_UNREACHABLE();
}
