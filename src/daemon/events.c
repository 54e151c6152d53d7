#include "daemon/events.h"

#include "base/assert.h"
#include "base/error.h"
#include "base/hex.h"
#include "base/log.h"
#include "service/troubles.h"

/* the least time between two counts of all clients with pending notices */
enum { COUNT_MS = 1000 };

_Static_assert(sizeof(struct hf_event) <= HF_NAMED_LINE_BYTES, "named_lines.h");

/* ---- one event ---- */

/*
 * The log line for each kind of event. What happens to one client is logged at debug, so that a
 * restart with ten thousand clients does not flood the log; what an operator must know is logged at
 * info and above.
 */
static const struct {
    enum hf_log_level level;
    const char *text;
    const char *a; /* The names of the event's two numbers; NULL: the number is not shown. */
    const char *b;
} LINES[] = {
    [HF_EVENT_CLIENT_REGISTERED] = {HF_LOG_DEBUG, "client registered", NULL, NULL},
    [HF_EVENT_CLIENT_UNREGISTERED] = {HF_LOG_DEBUG, "client unregistered", NULL, NULL},
    [HF_EVENT_CLIENT_CRASHED] = {HF_LOG_INFO, "client has crashed", "state", "locks_released"},
    [HF_EVENT_CLIENT_UNREACHABLE] = {HF_LOG_WARN, "client given up as crashed", "state",
                                     "locks_lost"},
    [HF_EVENT_CLIENT_UNTOLD] = {HF_LOG_WARN,
                                "client cannot be told: its locks are kept until grace ends",
                                "state", "locks"},
    [HF_EVENT_CLIENT_UNRECLAIMED] = {HF_LOG_WARN, "client did not reclaim its locks in time",
                                     "state", "locks_lost"},
    [HF_EVENT_CLIENT_OUTSIDE] = {HF_LOG_WARN, "a program of this host has a client's lock", "state",
                                 "locks_lost"},
    [HF_EVENT_CLIENT_DEAD] = {HF_LOG_INFO, "client declared dead", "state", "released"},
    [HF_EVENT_CLIENT_RELEASED] = {HF_LOG_INFO, "client released", NULL, "locks_released"},
    [HF_EVENT_STATE_HINT] = {HF_LOG_WARN, "client may have restarted unnoticed", "state",
                             "recorded_state"},
    [HF_EVENT_NOTIFY_STRANGER] = {HF_LOG_WARN, "crash notice from a stranger", "state", NULL},
    [HF_EVENT_NOTICE_REFUTED] = {HF_LOG_WARN,
                                 "crash notice ignored: the client's status monitor contradicts it",
                                 "state", "monitor_state"},
    [HF_EVENT_GRACE_BEGAN] = {HF_LOG_INFO, "grace period begins", "ms", "to_reclaim"},
    [HF_EVENT_GRACE_ENDED] = {HF_LOG_INFO, "grace period is over", "reclaimed", "released"},
    [HF_EVENT_NOTICE_DELIVERED] = {HF_LOG_DEBUG, "notice delivered", "attempts", "ms"},
    [HF_EVENT_NOTICE_FAILED] = {HF_LOG_DEBUG, "notice failed", "attempts", "ms"},
    [HF_EVENT_NOTICE_GIVEN_UP] = {HF_LOG_DEBUG, "notice given up", "attempts", "ms"},
    [HF_EVENT_GRANT_FAILED] = {HF_LOG_WARN,
                               "GRANTED callback failed: the lock goes to the next waiter",
                               "attempts", NULL},
    [HF_EVENT_WAITERS_DROPPED] = {HF_LOG_WARN, "client does not answer: its waiters are removed",
                                  NULL, "waiters"},
    [HF_EVENT_CLIENT_MOVED] = {HF_LOG_INFO, "client comes from another address now", NULL, NULL},
    [HF_EVENT_CLIENT_DOUBLED] = {HF_LOG_WARN,
                                 "two hosts use the name of a client: they count as two clients",
                                 "state", NULL},
    [HF_EVENT_COMMIT_FAILED] = {HF_LOG_ERROR, "commit failed", "batch", "changes_undone"},
    [HF_EVENT_LIMIT_HIT] = {HF_LOG_WARN, "request refused: a limit is reached", NULL, NULL},
};

static bool is_loss(const struct hf_event *event)
{
    return event->kind == HF_EVENT_CLIENT_UNREACHABLE ||
           event->kind == HF_EVENT_CLIENT_UNRECLAIMED || event->kind == HF_EVENT_CLIENT_OUTSIDE;
}

/* Returns the log level of an event. A grace period that ended with lost locks is a warning. */
static enum hf_log_level level_of(const struct hf_event *event)
{
    if (event->kind == HF_EVENT_GRACE_ENDED && event->b > 0)
        return HF_LOG_WARN;
    return LINES[event->kind].level;
}

/* Returns how many lines of an event may pass in a short time. A client can cause warnings as fast
 * as it likes, and an error repeats each second while the store is down. */
static unsigned burst_of(const struct hf_event *event, enum hf_log_level level)
{
    if (is_loss(event)) /* a loss happens once for each client in a restart */
        return HF_LOG_BURST;
    if (level <= HF_LOG_WARN)
        return HF_LOG_BURST_LIMITED;
    return level == HF_LOG_DEBUG ? HF_LOG_BURST_DEBUG : HF_LOG_BURST;
}

static void log_event(void *ctx, const void *line, const char *path)
{
    const struct hf_event *event = line;
    enum hf_log_level level;
    char hex[2 * HF_EVENT_FH_MAX];
    struct hf_field fields[7];
    unsigned n = 0;

    (void)ctx;
    HF_ASSERT((size_t)event->kind < HF_COUNT_OF(LINES) && LINES[event->kind].text);
    level = level_of(event);
    if (!hf_log_enabled(level))
        return;
    if (event->name_len > 0)
        fields[n++] = HF_BYTES("client", hf_bytes(event->name, event->name_len));
    if (event->addr.family != HF_ADDR_NONE)
        fields[n++] = HF_ADDR("address", &event->addr);
    if (LINES[event->kind].a)
        fields[n++] = HF_INT(LINES[event->kind].a, event->a);
    if (LINES[event->kind].b)
        fields[n++] = HF_INT(LINES[event->kind].b, event->b);
    if (path) {
        fields[n++] = HF_STR("path", path);
    } else if (event->fh_len > 0) {
        hf_hex_encode(event->fh, event->fh_len, hex);
        fields[n++] = HF_BYTES("file", hf_bytes(hex, 2 * (size_t)event->fh_len));
    }
    if (event->kind == HF_EVENT_LIMIT_HIT)
        fields[n++] = HF_STR("limit", hf_limit_name((enum hf_limit)event->a));
    if (event->error < 0)
        fields[n++] = HF_STR("reason", hf_strerror(event->error));
    fields[n] = (struct hf_field){.type = HF_FIELD_END};
    hf_log_write(level, burst_of(event, level), LINES[event->kind].text, fields);
}

/* ---- the events of one turn ---- */

/* Counts the events of one turn for which a line per client would be too many. */
struct tally {
    uint64_t notices, unreachable, lost, untold, kept;
};

static void count_event(struct tally *tally, const struct hf_event *event)
{
    switch (event->kind) {
    case HF_EVENT_NOTICE_DELIVERED:
    case HF_EVENT_NOTICE_FAILED:
    case HF_EVENT_NOTICE_GIVEN_UP:
        tally->notices++;
        break;
    case HF_EVENT_CLIENT_UNREACHABLE:
        tally->unreachable++;
        tally->lost += (uint64_t)event->b;
        break;
    case HF_EVENT_CLIENT_UNTOLD:
        tally->untold++;
        tally->kept += (uint64_t)event->b;
        break;
    default:
        break;
    }
}

/*
 * Looks up the address of a client that is registered by name only, before a notice to it is due.
 */
static void resolve_if_needed(struct hf_events *events, uint64_t client_id)
{
    struct hf_view_client client;

    if (hf_core_view_client(events->service->core, client_id, &client) == 0 &&
        client.record.n_addrs == 0)
        hf_nsm_resolve(events->nsm, client_id, client.record.name);
}

static struct hf_view_status count_notices(struct hf_events *events)
{
    struct hf_now now = hf_service_now(events->service);
    struct hf_view_status status;

    hf_core_view_status(events->service->core, now, &status);
    events->notices_pending = status.notices[HF_NOTICE_PENDING];
    events->counted_ms = now.mono_ms;
    if (events->notices_pending == 0)
        events->summarized_state = status.state;
    return status;
}

/*
 * Logs one line for each restart, when all its notices have been tried. Counting all clients in
 * every turn would cost too much, so they are counted when the last pending notice may have ended,
 * or a second after the last count.
 */
static void summarize_notices(struct hf_events *events, uint64_t ended)
{
    struct hf_service *service = events->service;
    struct hf_view_status status;

    if (hf_core_sm_stat(service->core).state == events->summarized_state)
        return;
    events->notices_pending -= ended < events->notices_pending ? ended : events->notices_pending;
    if (events->notices_pending > 0 &&
        hf_service_now(service).mono_ms - events->counted_ms < COUNT_MS)
        return;
    status = count_notices(events);
    if (events->notices_pending == 0 &&
        status.notices[HF_NOTICE_NONE] < status.nlm_clients + status.nsm_clients)
        hf_log(HF_LOG_INFO, "clients told of our restart", HF_INT("state", status.state),
               HF_UINT("delivered", status.notices[HF_NOTICE_DELIVERED]),
               HF_UINT("failing", status.notices[HF_NOTICE_FAILING]),
               HF_UINT("given_up", status.notices[HF_NOTICE_GIVEN_UP]));
}

void hf_events_init(struct hf_events *events, struct hf_service *service, struct hf_nsm *nsm)
{
    *events = (struct hf_events){.service = service, .nsm = nsm};
    hf_named_lines_init(&events->lines, log_event, NULL);
    (void)count_notices(events);
}

void hf_events_handle(struct hf_events *events)
{
    struct tally tally = {0};
    struct hf_event event;

    while (hf_core_next_event(events->service->core, &event)) {
        hf_named_lines_put(&events->lines, hf_bytes(event.fh, event.fh_len), &event, sizeof(event));
        if (events->recorder)
            hf_recorder_event(events->recorder, &event);
        count_event(&tally, &event);
        hf_troubles_note(events->service->troubles, &event,
                         hf_service_now(events->service).wall_ms);
        if (event.kind == HF_EVENT_CLIENT_REGISTERED)
            resolve_if_needed(events, event.client_id);
    }
    summarize_notices(events, tally.notices);
    if (tally.unreachable > 0)
        hf_log(HF_LOG_WARN, "clients that could not be notified are given up as crashed",
               HF_UINT("clients", tally.unreachable), HF_UINT("locks_lost", tally.lost),
               HF_STR("advice", "holdfastctl losses"));
    if (tally.untold > 0)
        hf_log(HF_LOG_WARN, "clients that could not be notified keep their locks until grace ends",
               HF_UINT("clients", tally.untold), HF_UINT("locks", tally.kept),
               HF_STR("advice", "holdfastctl check CLIENT; if it is dead for certain, holdfastctl "
                                "client dead CLIENT frees its locks now"));
}
