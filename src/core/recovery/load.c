/*
 * Loads what was durable before a restart. Clients are registered again; locks are held again from
 * the first moment, as unclaimed (GRC-02). If the server's record says that this start may
 * continue, locks are held as they were, and so are waiters and shares; otherwise records of
 * waiters and shares are deleted. Every record is checked, because it comes from a disk.
 */
#include "core/clients/clients.h"
#include "core/common/event.h"
#include "core/core.h"
#include "core/durable/durable.h"
#include "core/internal.h"
#include "core/recovery/private.h"
#include "core/table/table.h"
#include "core/wait/wait.h"

/* The last epoch that another one can follow (hf_record_first_id()). */
enum { EPOCH_MAX = (1 << 24) - 2 };

/* Notes an epoch that a record names, in its id or as such: the new epoch must be later than all of
 * these. */
static int note_epoch(struct hf_core *core, uint64_t epoch)
{
    if (epoch > EPOCH_MAX)
        return HF_EFORMAT;
    if (epoch > core->epoch)
        core->epoch = epoch;
    return 0;
}

static int load_server(struct hf_core *core, struct hf_bytes bytes)
{
    struct hf_record_server record;
    int rv = hf_record_decode_server(bytes, &record);

    if (rv < 0)
        return rv;
    core->recovery->before = record;
    core->recovery->start = hf_start_decide(core);
    return note_epoch(core, record.epoch);
}

static int refuse(struct hf_core *core, int code, enum hf_record_kind kind, uint64_t id,
                  enum hf_record_kind other_kind, uint64_t other_id)
{
    core->recovery->load_conflict = (struct hf_load_conflict){kind, id, other_kind, other_id};
    return code;
}

struct hf_load_conflict hf_core_load_conflict(const struct hf_core *core)
{
    return core->recovery->load_conflict;
}

static const struct hf_client *find_known(struct hf_core *core,
                                          const struct hf_record_client *record)
{
    const struct hf_client *client = hf_client_find_id(core, record->id);
    struct hf_mon_args mon = {record->name, record->my_name, record->prog,
                              record->vers, record->proc,    {0}};

    if (client)
        return client;
    struct hf_peer peer = {.name = record->name,
                           .addr = record->addrs[0],
                           .local = record->local,
                           .transport = record->transport};

    if (record->protocol == HF_PROTOCOL_NLM)
        return hf_client_find_nlm(core, &peer);
    return hf_client_find_nsm(core, &mon, &record->callback_host);
}

static int load_client(struct hf_core *core, struct hf_bytes bytes)
{
    struct hf_record_client record;
    const struct hf_client *known;
    struct hf_client *client;
    int rv = hf_record_decode_client(bytes, &record);

    if (rv < 0)
        return rv;
    if (record.id == 0 || (record.protocol == HF_PROTOCOL_NLM && record.n_addrs == 0))
        return HF_EFORMAT;
    known = find_known(core, &record);
    if (known)
        return refuse(core, HF_EEXIST, HF_RECORD_CLIENT, record.id, HF_RECORD_CLIENT, known->id);
    rv = note_epoch(core, hf_record_epoch_of(record.id));
    if (rv < 0)
        return rv;
    client = hf_client_new(core, &record, NULL);
    if (!client)
        return HF_ENOMEM;
    hf_client_set_registered(core, client, true);
    hf_client_unref(core, client);
    return 0;
}

/*
 * Drops a lock that conflicts since two handles, two files when their locks were recorded, are one
 * file now (COH-05). Only one of the locks can be held: the one that was loaded first stays.
 */
static int lose_merged(struct hf_core *core, struct hf_client *client,
                       const struct hf_record_lock *record)
{
    struct hf_event *event;

    core->recovery->merged = true;
    core->counters.locks_lost[HF_LOSS_UNRECLAIMED]++;
    core->counters.clients_lost[HF_LOSS_UNRECLAIMED]++;
    event = hf_client_event(core, HF_EVENT_CLIENT_UNRECLAIMED, client, client->m.state, 1, 0);
    if (event)
        hf_event_set_file(event, record->fh);
    return hf_batch_delete(&core->recovery->obsolete, HF_RECORD_LOCK, record->id);
}

/* True if the start continues, as far as loading shows; hf_epoch_start() decides. */
static bool continues(const struct hf_core *core)
{
    return core->recovery->start.recovers == HF_RECOVERS_NOT;
}

static int hold(struct hf_core *core, struct hf_file *file, struct hf_owner *owner,
                const struct hf_record_lock *record)
{
    struct hf_want want = {owner, record->first, record->last, record->exclusive, true};
    const struct hf_lock *other = hf_table_conflict(core, file, &want);

    if (!other)
        other = hf_table_own(core, file, owner, record->first, record->last, NULL);
    if (other && !hf_bytes_equal(record->fh, hf_file_fh(file)))
        return lose_merged(core, owner->client, record);
    if (other)
        return refuse(core, HF_EEXIST, HF_RECORD_LOCK, record->id, HF_RECORD_LOCK, other->id);
    return hf_lock_load(core, file, owner, record, !continues(core));
}

static int load_share(struct hf_core *core, struct hf_client *client, struct hf_file *file,
                      const struct hf_record_lock *record)
{
    const struct hf_share *other = hf_share_find(core, file, client, record->oh);

    if (other || hf_share_conflicts(file, NULL, record->extra.mode, record->extra.access))
        return refuse(core, HF_EEXIST, HF_RECORD_LOCK, record->id, HF_RECORD_LOCK,
                      other ? other->id : record->id);
    return hf_share_load(core, client, file, record);
}

static int load_owned(struct hf_core *core, struct hf_client *client, struct hf_file *file,
                      const struct hf_record_lock *record)
{
    struct hf_owner *owner = hf_owner_get(core, client, record->svid, record->oh);
    int rv;

    if (!owner)
        return HF_ENOMEM;
    rv = record->extra.what == HF_RECORD_HELD ? hold(core, file, owner, record)
                                              : hf_waiter_load(core, file, owner, record);
    hf_owner_unref(core, owner);
    return rv;
}

/* True if this run has no use for the record: locks are not durable, or the record is of a waiter
 * or share and the start does not continue. */
static bool is_obsolete(const struct hf_core *core, const struct hf_record_lock *record)
{
    return !core->config.durable_locks ||
           (record->extra.what != HF_RECORD_HELD && !continues(core));
}

int hf_load_lock(struct hf_core *core, const struct hf_record_lock *record)
{
    struct hf_client *client;
    struct hf_file *file;
    int rv;

    if (record->id == 0 || note_epoch(core, hf_record_epoch_of(record->id)) < 0 ||
        note_epoch(core, hf_record_epoch_of(record->extra.place)) < 0)
        return HF_EFORMAT;
    if (is_obsolete(core, record))
        return hf_batch_delete(&core->recovery->obsolete, HF_RECORD_LOCK, record->id);
    client = hf_client_find_id(core, record->client_id);
    if (!client || client->protocol != HF_PROTOCOL_NLM)
        return refuse(core, HF_ENOENT, HF_RECORD_LOCK, record->id, HF_RECORD_CLIENT,
                      record->client_id);
    if (record->acquired_at_ms > client->last_seen_ms)
        client->last_seen_ms = record->acquired_at_ms; /* the client was heard from then */
    file = hf_file_get(core, record->fh);
    if (!file)
        return HF_ENOMEM;
    rv = record->extra.what == HF_RECORD_SHARED ? load_share(core, client, file, record)
                                                : load_owned(core, client, file, record);
    hf_file_unref(core, file);
    return rv;
}

static int load_lock(struct hf_core *core, struct hf_bytes bytes)
{
    struct hf_record_lock record;
    int rv = hf_record_decode_lock(bytes, &record);

    return rv < 0 ? rv : hf_load_lock(core, &record);
}

int hf_core_load(struct hf_core *core, enum hf_record_kind kind, struct hf_bytes bytes)
{
    switch (kind) {
    case HF_RECORD_SERVER:
        return load_server(core, bytes);
    case HF_RECORD_CLIENT:
        return load_client(core, bytes);
    case HF_RECORD_LOCK:
        return load_lock(core, bytes);
    }
    return HF_EFORMAT;
}
