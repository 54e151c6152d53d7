#include "admin/rows.h"

#include "base/error.h"

static const char *const NOTICES[] = {
    [HF_NOTICE_NONE] = "none",           [HF_NOTICE_PENDING] = "pending",
    [HF_NOTICE_DELIVERED] = "delivered", [HF_NOTICE_FAILING] = "failing",
    [HF_NOTICE_GIVEN_UP] = "given_up",
};

const char *hf_row_notice_name(enum hf_notice_status status)
{
    return NOTICES[status];
}

const struct hf_addr *hf_row_client_addr(const struct hf_view_client *client)
{
    static const struct hf_addr NOWHERE;

    if (client->record.protocol == HF_PROTOCOL_NSM)
        return &client->record.callback_host;
    return client->record.n_addrs > 0 ? &client->record.addrs[0] : &NOWHERE;
}

static void put_client(struct writer *w, uint64_t id, struct hf_bytes name,
                       const struct hf_addr *addr)
{
    hf_json_open(w, "client", '{');
    hf_json_id(w, "id", id);
    hf_json_text(w, "name", name);
    hf_json_addr(w, "address", addr);
    hf_json_close(w, '}');
}

/* Shows an owner. Linux clients use text as owner handle, PID@HOST; other clients use any bytes. */
static void put_owner(struct writer *w, int32_t svid, struct hf_bytes oh)
{
    hf_json_open(w, "owner", '{');
    hf_json_int(w, "svid", svid);
    hf_json_hex(w, "handle", oh);
    hf_json_text(w, "text", hf_bytes_is_text(oh) ? oh : hf_bytes(NULL, 0));
    hf_json_close(w, '}');
}

static void put_range(struct writer *w, uint64_t first, uint64_t last)
{
    hf_json_open(w, "range", '{');
    hf_json_id(w, "first", first);
    if (last == UINT64_MAX)
        hf_json_null(w, "last");
    else
        hf_json_id(w, "last", last);
    hf_json_close(w, '}');
}

/* Shows a number that tells files apart and reveals nothing else about them; each run of the daemon
 * has other numbers. */
static void put_alias(struct writer *w, const struct row_context *context, struct hf_bytes fh)
{
    uint64_t alias = hf_siphash(context->file_key, fh.data, fh.len);

    hf_json_hex(w, "file", hf_bytes(&alias, sizeof(alias)));
}

static void put_file(struct writer *w, const struct row_context *context, struct hf_bytes export,
                     struct hf_bytes fh)
{
    static const char *const STATUSES[] = {"unnamed", "named", "deleted"};
    const char *path = NULL;
    enum hf_name_status status =
        context->names ? hf_names_show(context->names, fh, &path) : HF_NAME_NONE;

    hf_json_text(w, "share", export);
    if (context->names)
        hf_json_hex(w, "file", fh);
    else
        put_alias(w, context, fh);
    hf_json_str(w, "path", status == HF_NAME_KNOWN ? path : NULL);
    hf_json_str(w, "path_status", context->names ? STATUSES[status] : "hidden");
}

static const char *mode(bool exclusive)
{
    return exclusive ? "exclusive" : "shared";
}

/* ---- clients ---- */

static void put_notice(struct writer *w, const struct hf_view_client *client)
{
    hf_json_str(w, "status", NOTICES[client->notice]);
    hf_json_int(w, "attempts", client->notice_attempts);
    hf_json_str(w, "error", client->notice_error ? hf_strerror(client->notice_error) : NULL);
}

static void put_callback(struct writer *w, const struct hf_record_client *record)
{
    if (record->protocol != HF_PROTOCOL_NSM) {
        hf_json_null(w, "callback");
        return;
    }
    hf_json_open(w, "callback", '{');
    hf_json_text(w, "name", record->my_name);
    hf_json_int(w, "program", record->prog);
    hf_json_int(w, "version", record->vers);
    hf_json_int(w, "procedure", record->proc);
    hf_json_addr(w, "address", &record->callback_host);
    hf_json_close(w, '}');
}

static void put_identity(struct writer *w, const struct hf_view_client *client)
{
    const struct hf_record_client *record = &client->record;

    hf_json_id(w, "id", record->id);
    hf_json_str(w, "protocol", record->protocol == HF_PROTOCOL_NSM ? "nsm" : "nlm");
    hf_json_text(w, "name", record->name);
    hf_json_addr(w, "address", hf_row_client_addr(client));
    hf_json_open(w, "addresses", '[');
    for (unsigned i = 0; i < record->n_addrs; i++)
        hf_json_addr(w, NULL, &record->addrs[i]);
    hf_json_close(w, ']');
    hf_json_addr(w, "local_address", &record->local);
    hf_json_str(w, "transport", record->transport == HF_TRANSPORT_TCP ? "tcp" : "udp");
}

void hf_row_client(struct writer *w, const struct row_context *context, const union row *row)
{
    const struct hf_view_client *c = &row->client;

    hf_json_open(w, NULL, '{');
    put_identity(w, c);
    hf_json_int(w, "state", c->record.state);
    hf_json_bool(w, "registered", c->registered);
    hf_json_int(w, "locks", c->n_locks);
    hf_json_int(w, "reservations", c->n_shares);
    hf_json_int(w, "waiters", c->n_waiters);
    hf_json_int(w, "unreclaimed", c->n_unreclaimed);
    hf_json_int(w, "requests", (int64_t)c->n_requests);
    hf_json_time(w, "first_seen", c->first_seen_ms);
    hf_json_time(w, "last_seen", c->last_seen_ms);
    hf_json_seconds(w, "idle_seconds", context->wall_ms - c->last_seen_ms);
    if (c->record.ttl_ms > 0)
        hf_json_seconds(w, "ttl_seconds",
                        c->record.ttl_ms < INT64_MAX ? (int64_t)c->record.ttl_ms : INT64_MAX);
    else
        hf_json_null(w, "ttl_seconds");
    hf_json_open(w, "notification", '{');
    put_notice(w, c);
    hf_json_close(w, '}');
    put_callback(w, &c->record);
    hf_json_close(w, '}');
}

void hf_row_notification(struct writer *w, const struct row_context *context, const union row *row)
{
    const struct hf_view_client *c = &row->client;

    (void)context;
    hf_json_open(w, NULL, '{');
    put_client(w, c->record.id, c->record.name, hf_row_client_addr(c));
    put_notice(w, c);
    hf_json_close(w, '}');
}

/* ---- locks, waiters, reservations ---- */

void hf_row_lock(struct writer *w, const struct row_context *context, const union row *row)
{
    const struct hf_view_lock *l = &row->lock;
    const struct hf_record_lock *r = &l->record;

    hf_json_open(w, NULL, '{');
    hf_json_id(w, "id", r->id);
    put_client(w, r->client_id, l->client_name, &l->client_addr);
    put_file(w, context, r->export, r->fh);
    put_owner(w, r->svid, r->oh);
    put_range(w, r->first, r->last);
    hf_json_str(w, "mode", mode(r->exclusive));
    hf_json_time(w, "acquired_at", r->acquired_at_ms);
    hf_json_seconds(w, "held_seconds", context->wall_ms - r->acquired_at_ms);
    hf_json_bool(w, "durable", l->durable);
    hf_json_bool(w, "unreclaimed", l->unreclaimed);
    hf_json_int(w, "waiters", l->n_waiters);
    hf_json_close(w, '}');
}

/* COH-08: the kernel names the process of a POSIX lock, but not that of an OFD lock. */
static void put_outside(struct writer *w, const struct hf_view_waiter *v)
{
    if (!v->outside) {
        hf_json_null(w, "outside");
        return;
    }
    hf_json_open(w, "outside", '{');
    if (v->has_holder) {
        put_range(w, v->holder.first, v->holder.last);
        hf_json_str(w, "mode", mode(v->holder.exclusive));
    } else {
        hf_json_null(w, "range");
        hf_json_null(w, "mode");
    }
    if (v->has_holder && v->holder.pid > 0)
        hf_json_int(w, "pid", v->holder.pid);
    else
        hf_json_null(w, "pid");
    hf_json_close(w, '}');
}

void hf_row_waiter(struct writer *w, const struct row_context *context, const union row *row)
{
    const struct hf_view_waiter *v = &row->waiter;

    hf_json_open(w, NULL, '{');
    hf_json_id(w, "id", v->id);
    put_client(w, v->client_id, v->client_name, &v->client_addr);
    put_file(w, context, v->export, v->fh);
    put_owner(w, v->svid, v->oh);
    put_range(w, v->first, v->last);
    hf_json_str(w, "mode", mode(v->exclusive));
    hf_json_time(w, "since", v->since_ms);
    hf_json_seconds(w, "waiting_seconds", context->wall_ms - v->since_ms);
    hf_json_bool(w, "granting", v->granting);
    hf_json_int(w, "attempts", v->attempts);
    if (v->blocked_by)
        hf_json_id(w, "blocked_by", v->blocked_by);
    else
        hf_json_null(w, "blocked_by");
    put_outside(w, v);
    hf_json_close(w, '}');
}

void hf_row_reservation(struct writer *w, const struct row_context *context, const union row *row)
{
    static const char *const BITS[] = {"none", "read", "write", "both"};
    const struct hf_view_share *s = &row->reservation;

    hf_json_open(w, NULL, '{');
    hf_json_id(w, "id", s->id);
    put_client(w, s->client_id, s->client_name, &s->client_addr);
    put_file(w, context, s->export, s->fh);
    hf_json_hex(w, "owner_handle", s->oh);
    hf_json_str(w, "denies", BITS[s->mode & 3]);
    hf_json_str(w, "access", BITS[s->access & 3]);
    hf_json_close(w, '}');
}
