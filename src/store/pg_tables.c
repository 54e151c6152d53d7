#include "store/pg_tables.h"

#include "base/check.h"

static const struct hf_pg_table SERVER = {
    .n_columns = 2,
    .put = "UPDATE server_state SET epoch = ($1::int8[])[1], clean = ($2::int8[])[1] <> 0",
    .delete = "UPDATE server_state SET epoch = NULL, clean = NULL WHERE 0 = ANY ($1::int8[])",
    .list = "SELECT epoch, clean::int::int8 FROM server_state WHERE epoch IS NOT NULL",
    .get = "SELECT epoch, clean::int::int8 FROM server_state "
           "WHERE epoch IS NOT NULL AND $1::int8 = 0",
};

#define CLIENT_COLUMNS                                                                 \
    "id, protocol, transport, mon_name, addresses, local_address, nsm_state, ttl_ms, " \
    "registered_at_ms, server_epoch, my_name, callback_prog, callback_vers, "          \
    "callback_proc, priv, callback_host"

#define CLIENT_SELECT                                                                   \
    "SELECT id, protocol::int8, transport::int8, mon_name, addresses, local_address, "  \
    "nsm_state::int8, ttl_ms, registered_at_ms, server_epoch, my_name, callback_prog, " \
    "callback_vers, callback_proc, priv, callback_host FROM nsm_client_registrations"

static const struct hf_pg_table CLIENTS = {
    .n_columns = 16,
    .put = "INSERT INTO nsm_client_registrations (" CLIENT_COLUMNS ") "
           "SELECT * FROM unnest($1::int8[], $2::int8[], $3::int8[], $4::bytea[], $5::text[], "
           "$6::text[], $7::int8[], $8::int8[], $9::int8[], $10::int8[], $11::bytea[], "
           "$12::int8[], $13::int8[], $14::int8[], $15::bytea[], $16::text[]) "
           "ON CONFLICT (id) DO UPDATE SET (" CLIENT_COLUMNS ") = "
           "(excluded.id, excluded.protocol, excluded.transport, excluded.mon_name, "
           "excluded.addresses, excluded.local_address, excluded.nsm_state, excluded.ttl_ms, "
           "excluded.registered_at_ms, excluded.server_epoch, excluded.my_name, "
           "excluded.callback_prog, excluded.callback_vers, excluded.callback_proc, "
           "excluded.priv, excluded.callback_host)",
    .delete = "DELETE FROM nsm_client_registrations WHERE id = ANY ($1::int8[])",
    .list = CLIENT_SELECT,
    .get = CLIENT_SELECT " WHERE id = $1::int8",
};

#define LOCK_COLUMNS                                                                 \
    "id, client_id, share, file_handle, owner_handle, svid, first_byte, last_byte, " \
    "exclusive, acquired_at_ms, server_epoch"

#define LOCK_SELECT                                                             \
    "SELECT id, client_id, share, file_handle, owner_handle, svid::int8, "      \
    "first_byte::text, last_byte::text, exclusive::int::int8, acquired_at_ms, " \
    "server_epoch FROM nlm_locks"

static const struct hf_pg_table LOCKS = {
    .n_columns = 11,
    .put = "INSERT INTO nlm_locks (" LOCK_COLUMNS ") "
           "SELECT u.id, u.client_id, u.share, u.fh, u.oh, u.svid, u.first::numeric, "
           "u.last::numeric, u.exclusive <> 0, u.acquired, u.epoch "
           "FROM unnest($1::int8[], $2::int8[], $3::bytea[], $4::bytea[], $5::bytea[], "
           "$6::int8[], $7::text[], $8::text[], $9::int8[], $10::int8[], $11::int8[]) AS "
           "u (id, client_id, share, fh, oh, svid, first, last, exclusive, acquired, epoch) "
           "ON CONFLICT (id) DO UPDATE SET (" LOCK_COLUMNS ") = "
           "(excluded.id, excluded.client_id, excluded.share, excluded.file_handle, "
           "excluded.owner_handle, excluded.svid, excluded.first_byte, excluded.last_byte, "
           "excluded.exclusive, excluded.acquired_at_ms, excluded.server_epoch)",
    .delete = "DELETE FROM nlm_locks WHERE id = ANY ($1::int8[])",
    .list = LOCK_SELECT,
    .get = LOCK_SELECT " WHERE id = $1::int8",
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
