#include "admin/rows.h"

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

static void put_client(struct writer *w, uint64_t id, struct hf_bytes name,
                       const struct hf_addr *addr)
{
    write_open(w, "client", '{');
    write_id(w, "id", id);
    write_text(w, "name", name);
    write_addr(w, "address", addr);
    write_close(w, '}');
}

static bool is_printable(struct hf_bytes bytes)
{
    for (size_t i = 0; i < bytes.len; i++) {
        if (bytes.data[i] < 0x20 || bytes.data[i] > 0x7e)
            return false;
    }
    return bytes.len > 0;
}

/* Linux uses text as owner handle, PID@HOST; other clients use any bytes. */
static void put_owner(struct writer *w, int32_t svid, struct hf_bytes oh)
{
    write_open(w, "owner", '{');
    write_int(w, "svid", svid);
    write_hex(w, "handle", oh);
    write_text(w, "text", is_printable(oh) ? oh : hf_bytes(NULL, 0));
    write_close(w, '}');
}

static void put_range(struct writer *w, uint64_t first, uint64_t last)
{
    write_open(w, "range", '{');
    write_id(w, "first", first);
    if (last == UINT64_MAX)
        write_null(w, "last");
    else
        write_id(w, "last", last);
    write_close(w, '}');
}

/* Tells files apart, and nothing else about them; another run of the daemon has other numbers. */
static void put_alias(struct writer *w, const struct row_context *context, struct hf_bytes fh)
{
    uint64_t alias = hf_siphash(context->file_key, fh.data, fh.len);

    write_hex(w, "file", hf_bytes(&alias, sizeof(alias)));
}

static void put_file(struct writer *w, const struct row_context *context, struct hf_bytes share,
                     struct hf_bytes fh)
{
    static const char *const STATUSES[] = {"unnamed", "named", "deleted"};
    const char *path = NULL;
    enum hf_name_status status =
        context->names ? hf_names_show(context->names, fh, &path) : HF_NAME_NONE;

    write_text(w, "share", share);
    if (context->names)
        write_hex(w, "file", fh);
    else
        put_alias(w, context, fh);
    write_str(w, "path", status == HF_NAME_KNOWN ? path : NULL);
    write_str(w, "path_status", context->names ? STATUSES[status] : "hidden");
}

static const char *mode(bool exclusive)
{
    return exclusive ? "exclusive" : "shared";
}

/* ---- clients ---- */

static void put_notice(struct writer *w, const struct hf_view_client *client)
{
    write_str(w, "status", NOTICES[client->notice]);
    write_int(w, "attempts", client->notice_attempts);
    write_str(w, "error", client->notice_error ? hf_strerror(client->notice_error) : NULL);
}

static void put_callback(struct writer *w, const struct hf_record_client *record)
{
    if (record->protocol != HF_PROTOCOL_NSM) {
        write_null(w, "callback");
        return;
    }
    write_open(w, "callback", '{');
    write_text(w, "name", record->my_name);
    write_int(w, "program", record->prog);
    write_int(w, "version", record->vers);
    write_int(w, "procedure", record->proc);
    write_addr(w, "address", &record->callback_host);
    write_close(w, '}');
}

static void put_identity(struct writer *w, const struct hf_view_client *client)
{
    const struct hf_record_client *record = &client->record;

    write_id(w, "id", record->id);
    write_str(w, "protocol", record->protocol == HF_PROTOCOL_NSM ? "nsm" : "nlm");
    write_text(w, "name", record->name);
    write_addr(w, "address", row_client_addr(client));
    write_open(w, "addresses", '[');
    for (unsigned i = 0; i < record->n_addrs; i++)
        write_addr(w, NULL, &record->addrs[i]);
    write_close(w, ']');
    write_addr(w, "local_address", &record->local);
    write_str(w, "transport", record->transport == HF_TRANSPORT_TCP ? "tcp" : "udp");
}

void row_client(struct writer *w, const struct row_context *context, const union row *row)
{
    const struct hf_view_client *c = &row->client;

    write_open(w, NULL, '{');
    put_identity(w, c);
    write_int(w, "state", c->record.state);
    write_bool(w, "registered", c->registered);
    write_int(w, "locks", c->n_locks);
    write_int(w, "reservations", c->n_shares);
    write_int(w, "waiters", c->n_waiters);
    write_int(w, "unreclaimed", c->n_unreclaimed);
    write_time(w, "first_seen", c->first_seen_ms);
    write_time(w, "last_seen", c->last_seen_ms);
    write_seconds(w, "idle_seconds", context->wall_ms - c->last_seen_ms);
    if (c->record.ttl_ms > 0)
        write_seconds(w, "ttl_seconds",
                      c->record.ttl_ms < INT64_MAX ? (int64_t)c->record.ttl_ms : INT64_MAX);
    else
        write_null(w, "ttl_seconds");
    write_open(w, "notification", '{');
    put_notice(w, c);
    write_close(w, '}');
    put_callback(w, &c->record);
    write_close(w, '}');
}

void row_notification(struct writer *w, const struct row_context *context, const union row *row)
{
    const struct hf_view_client *c = &row->client;

    (void)context;
    write_open(w, NULL, '{');
    put_client(w, c->record.id, c->record.name, row_client_addr(c));
    put_notice(w, c);
    write_close(w, '}');
}

/* ---- locks, waiters, reservations ---- */

void row_lock(struct writer *w, const struct row_context *context, const union row *row)
{
    const struct hf_view_lock *l = &row->lock;
    const struct hf_record_lock *r = &l->record;

    write_open(w, NULL, '{');
    write_id(w, "id", r->id);
    put_client(w, r->client_id, l->client_name, &l->client_addr);
    put_file(w, context, r->share, r->fh);
    put_owner(w, r->svid, r->oh);
    put_range(w, r->first, r->last);
    write_str(w, "mode", mode(r->exclusive));
    write_time(w, "acquired_at", r->acquired_at_ms);
    write_seconds(w, "held_seconds", context->wall_ms - r->acquired_at_ms);
    write_bool(w, "durable", l->durable);
    write_bool(w, "unreclaimed", l->unreclaimed);
    write_int(w, "waiters", l->n_waiters);
    write_close(w, '}');
}

void row_waiter(struct writer *w, const struct row_context *context, const union row *row)
{
    const struct hf_view_waiter *v = &row->waiter;

    write_open(w, NULL, '{');
    write_id(w, "id", v->id);
    put_client(w, v->client_id, v->client_name, &v->client_addr);
    put_file(w, context, v->share, v->fh);
    put_owner(w, v->svid, v->oh);
    put_range(w, v->first, v->last);
    write_str(w, "mode", mode(v->exclusive));
    write_time(w, "since", v->since_ms);
    write_seconds(w, "waiting_seconds", context->wall_ms - v->since_ms);
    write_bool(w, "granting", v->granting);
    write_int(w, "attempts", v->attempts);
    if (v->blocked_by)
        write_id(w, "blocked_by", v->blocked_by);
    else
        write_null(w, "blocked_by");
    write_close(w, '}');
}

void row_reservation(struct writer *w, const struct row_context *context, const union row *row)
{
    static const char *const BITS[] = {"none", "read", "write", "both"};
    const struct hf_view_share *s = &row->reservation;

    write_open(w, NULL, '{');
    write_id(w, "id", s->id);
    put_client(w, s->client_id, s->client_name, &s->client_addr);
    put_file(w, context, s->share, s->fh);
    write_hex(w, "owner_handle", s->oh);
    write_str(w, "denies", BITS[s->mode & 3]);
    write_str(w, "access", BITS[s->access & 3]);
    write_close(w, '}');
}
