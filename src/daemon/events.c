#include "daemon/events.h"

#include "base/check.h"
#include "base/error.h"
#include "base/log.h"

/*
 * How each kind of event reads. What happens to one client is a line of its own at debug, so that a
 * restart with ten thousand of them does not flood; what an operator must know is at info and
 * above.
 */
static const struct {
    enum hf_log_level level;
    const char *text;
    const char *a; /* names of the two numbers; NULL: not shown */
    const char *b;
} LINES[] = {
    [HF_EVENT_CLIENT_REGISTERED] = {HF_LOG_DEBUG, "client registered", NULL, NULL},
    [HF_EVENT_CLIENT_UNREGISTERED] = {HF_LOG_DEBUG, "client unregistered", NULL, NULL},
    [HF_EVENT_CLIENT_CRASHED] = {HF_LOG_INFO, "client has crashed", "state", "locks_released"},
    [HF_EVENT_CLIENT_UNREACHABLE] = {HF_LOG_DEBUG, "client given up as crashed", "state",
                                     "locks_released"},
    [HF_EVENT_CLIENT_RELEASED] = {HF_LOG_INFO, "client released", NULL, "locks_released"},
    [HF_EVENT_STATE_HINT] = {HF_LOG_WARN, "client may have restarted unnoticed", "state",
                             "recorded_state"},
    [HF_EVENT_NOTIFY_STRANGER] = {HF_LOG_WARN, "crash notice from a stranger", "state", NULL},
    [HF_EVENT_GRACE_BEGAN] = {HF_LOG_INFO, "grace period begins", "ms", "to_reclaim"},
    [HF_EVENT_GRACE_ENDED] = {HF_LOG_INFO, "grace period is over", "reclaimed", "released"},
    [HF_EVENT_NOTICE_DELIVERED] = {HF_LOG_DEBUG, "notice delivered", "attempts", "ms"},
    [HF_EVENT_NOTICE_FAILED] = {HF_LOG_DEBUG, "notice failed", "attempts", "ms"},
    [HF_EVENT_NOTICE_GIVEN_UP] = {HF_LOG_DEBUG, "notice given up", "attempts", "ms"},
    [HF_EVENT_GRANT_FAILED] = {HF_LOG_WARN, "waiter could not be told of its lock", "attempts",
                               NULL},
    [HF_EVENT_WAITERS_DROPPED] = {HF_LOG_WARN, "a client that does not answer waits no longer",
                                  NULL, "waiters"},
    [HF_EVENT_COMMIT_FAILED] = {HF_LOG_ERROR, "commit failed", "batch", "changes_undone"},
};

void hf_event_log(const struct hf_event *event)
{
    static struct hf_log_limit limits[HF_COUNT_OF(LINES)];
    enum hf_log_level level;
    struct hf_field fields[7];
    uint64_t held_back = 0;
    unsigned n = 0;

    HF_ASSERT((size_t)event->kind < HF_COUNT_OF(LINES) && LINES[event->kind].text);
    level = LINES[event->kind].level;
    if (!hf_log_enabled(level))
        return;
    /* A warning is about what a peer did, and may do again as fast as it likes; an error about a
     * store that may be down all night, and is tried again each second. */
    if (level <= HF_LOG_WARN && !hf_log_limit_pass(&limits[event->kind], &held_back))
        return;
    if (event->name_len > 0)
        fields[n++] = HF_BYTES("client", hf_bytes(event->name, event->name_len));
    if (event->addr.family != HF_ADDR_NONE)
        fields[n++] = HF_ADDR("address", &event->addr);
    if (LINES[event->kind].a)
        fields[n++] = HF_INT(LINES[event->kind].a, event->a);
    if (LINES[event->kind].b)
        fields[n++] = HF_INT(LINES[event->kind].b, event->b);
    if (event->error < 0)
        fields[n++] = HF_STR("reason", hf_strerror(event->error));
    if (held_back > 0)
        fields[n++] = HF_UINT("held_back", held_back);
    fields[n] = (struct hf_field){.type = HF_FIELD_END};
    hf_log_write(level, LINES[event->kind].text, fields);
}
