#include "admin/rows.h"

#include "admin/values.h"
#include "base/error.h"

static const char *const NOTICES[] = {
    [HF_NOTICE_NONE] = "none",           [HF_NOTICE_PENDING] = "pending",
    [HF_NOTICE_DELIVERED] = "delivered", [HF_NOTICE_FAILING] = "failing",
    [HF_NOTICE_GIVEN_UP] = "given_up",
};

const char *row_notice_name(enum hf_notice_status status)
{
    return NOTICES[status];
}

const struct hf_addr *row_client_addr(const struct hf_view_client *client)
{
    static const struct hf_addr NOWHERE;

    if (client->record.protocol == HF_PROTOCOL_NSM)
        return &client->record.callback_host;
    return client->record.n_addrs > 0 ? &client->record.addrs[0] : &NOWHERE;
}

static json_t *show_who(uint64_t id, struct hf_bytes name, const struct hf_addr *addr)
{
    return json_pack("{s:o, s:o, s:o}", "id", value_id(id), "name", value_text(name), "address",
                     value_addr(addr));
}

static bool is_printable(struct hf_bytes bytes)
{
    for (size_t i = 0; i < bytes.len; i++) {
        if (bytes.data[i] < 0x20 || bytes.data[i] > 0x7e)
            return false;
    }
    return bytes.len > 0;
}

/* Linux makes its owner handle a text, PID@HOST; others do not. */
static json_t *show_owner(int32_t svid, struct hf_bytes oh)
{
    return json_pack("{s:i, s:o, s:o}", "svid", svid, "handle", value_hex(oh), "text",
                     is_printable(oh) ? value_text(oh) : json_null());
}

static json_t *show_range(uint64_t first, uint64_t last)
{
    return json_pack("{s:o, s:o}", "first", value_id(first), "last",
                     last == UINT64_MAX ? json_null() : value_id(last));
}

static json_t *show_path(const struct row_context *context, struct hf_bytes fh)
{
    const char *path = hf_fh_map_path(context->map, fh);

    return path ? value_text(hf_bytes_str(path)) : json_null();
}

static const char *mode(bool exclusive)
{
    return exclusive ? "exclusive" : "shared";
}

/* ---- clients ---- */

static json_t *show_notice(const struct hf_view_client *client)
{
    return json_pack("{s:s, s:i, s:s?}", "status", NOTICES[client->notice], "attempts",
                     (int)client->notice_attempts, "error",
                     client->notice_error ? hf_strerror(client->notice_error) : NULL);
}

static json_t *show_callback(const struct hf_record_client *record)
{
    if (record->protocol != HF_PROTOCOL_NSM)
        return json_null();
    return json_pack("{s:o, s:I, s:I, s:I, s:o}", "name", value_text(record->my_name), "program",
                     (json_int_t)record->prog, "version", (json_int_t)record->vers, "procedure",
                     (json_int_t)record->proc, "address", value_addr(&record->callback_host));
}

static json_t *show_addrs(const struct hf_record_client *record)
{
    json_t *array = json_array();

    for (unsigned i = 0; i < record->n_addrs; i++)
        json_array_append_new(array, value_addr(&record->addrs[i]));
    return array;
}

json_t *row_client(const struct row_context *context, const union row *row)
{
    const struct hf_view_client *c = &row->client;

    return json_pack(
        "{s:o, s:s, s:o, s:o, s:o, s:o, s:s, s:i, s:b, s:i, s:i, s:i, s:i, s:o, s:o, s:o, s:o, "
        "s:o}",
        "id", value_id(c->record.id), "protocol",
        c->record.protocol == HF_PROTOCOL_NSM ? "nsm" : "nlm", "name", value_text(c->record.name),
        "address", value_addr(row_client_addr(c)), "addresses", show_addrs(&c->record),
        "local_address", value_addr(&c->record.local), "transport",
        c->record.transport == HF_TRANSPORT_TCP ? "tcp" : "udp", "state", c->record.state,
        "registered", c->registered, "locks", (int)c->n_locks, "reservations", (int)c->n_shares,
        "waiters", (int)c->n_waiters, "unreclaimed", (int)c->n_unreclaimed, "first_seen",
        value_time(c->first_seen_ms), "last_seen", value_time(c->last_seen_ms), "idle_seconds",
        value_seconds(context->wall_ms - c->last_seen_ms), "notification", show_notice(c),
        "callback", show_callback(&c->record));
}

json_t *row_notification(const struct row_context *context, const union row *row)
{
    const struct hf_view_client *c = &row->client;
    json_t *json = show_notice(c);

    (void)context;
    if (json)
        json_object_set_new(json, "client",
                            show_who(c->record.id, c->record.name, row_client_addr(c)));
    return json;
}

/* ---- locks and the like ---- */

json_t *row_lock(const struct row_context *context, const union row *row)
{
    const struct hf_view_lock *l = &row->lock;
    const struct hf_record_lock *r = &l->record;

    return json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:s, s:o, s:o, s:b, s:b, s:i}", "id", value_id(r->id),
        "client", show_who(r->client_id, l->client_name, &l->client_addr), "share",
        value_text(r->share), "file", value_hex(r->fh), "path", show_path(context, r->fh), "owner",
        show_owner(r->svid, r->oh), "range", show_range(r->first, r->last), "mode",
        mode(r->exclusive), "acquired_at", value_time(r->acquired_at_ms), "held_seconds",
        value_seconds(context->wall_ms - r->acquired_at_ms), "durable", l->durable, "unreclaimed",
        l->unreclaimed, "waiters", (int)l->n_waiters);
}

json_t *row_waiter(const struct row_context *context, const union row *row)
{
    const struct hf_view_waiter *w = &row->waiter;

    return json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:s, s:o, s:o, s:b, s:i, s:o}", "id", value_id(w->id),
        "client", show_who(w->client_id, w->client_name, &w->client_addr), "share",
        value_text(w->share), "file", value_hex(w->fh), "path", show_path(context, w->fh), "owner",
        show_owner(w->svid, w->oh), "range", show_range(w->first, w->last), "mode",
        mode(w->exclusive), "since", value_time(w->since_ms), "waiting_seconds",
        value_seconds(context->wall_ms - w->since_ms), "granting", w->granting, "attempts",
        (int)w->attempts, "blocked_by", w->blocked_by ? value_id(w->blocked_by) : json_null());
}

json_t *row_reservation(const struct row_context *context, const union row *row)
{
    static const char *const BITS[] = {"none", "read", "write", "both"};
    const struct hf_view_share *s = &row->reservation;

    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:s, s:s}", "id", value_id(s->id), "client",
                     show_who(s->client_id, s->client_name, &s->client_addr), "share",
                     value_text(s->share), "file", value_hex(s->fh), "path",
                     show_path(context, s->fh), "owner_handle", value_hex(s->oh), "denies",
                     BITS[s->mode & 3], "access", BITS[s->access & 3]);
}
