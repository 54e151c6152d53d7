#include "daemon/recorder.h"

#include <string.h>

#include "base/assert.h"
#include "base/log.h"
#include "base/text.h"

/* A line of the history, which may have to wait for the name of its file. */
struct noted {
    enum hf_history_kind kind;
    const char *why;
    bool exclusive;
    uint8_t client_len, fh_len, oh_len;
    int32_t svid;
    uint64_t first, last, id;
    int64_t from_ms, to_ms;
    struct hf_addr addr;
    uint8_t client[HF_HISTORY_NAME_MAX], fh[HF_HISTORY_FH_MAX], oh[HF_HISTORY_OH_MAX];
};
_Static_assert(sizeof(struct noted) <= HF_NAMED_LINE_BYTES, "named_lines.h");

static void write_line(void *ctx, const void *line, const char *path)
{
    struct hf_recorder *recorder = ctx;
    const struct noted *n = line;
    struct hf_history_entry entry = {
        .kind = n->kind,
        .from_ms = n->from_ms,
        .to_ms = n->to_ms,
        .why = n->why,
        .exclusive = n->exclusive,
        .first = n->first,
        .last = n->last,
        .addr = n->addr,
        .client = hf_bytes(n->client, n->client_len),
        .fh = hf_bytes(n->fh, n->fh_len),
        .oh = hf_bytes(n->oh, n->oh_len),
        .svid = n->svid,
        .id = n->id,
        .path = path,
    };

    hf_history_put(recorder->history, &entry);
}

static uint8_t copy(uint8_t *out, size_t max, struct hf_bytes bytes)
{
    size_t len = bytes.len < max ? bytes.len : max;

    if (len > 0)
        memcpy(out, bytes.data, len);
    return (uint8_t)len;
}

static void put(struct hf_recorder *recorder, struct noted *noted, struct hf_bytes client,
                struct hf_bytes fh)
{
    noted->client_len = copy(noted->client, sizeof(noted->client), client);
    noted->fh_len = fh.len <= sizeof(noted->fh) ? copy(noted->fh, sizeof(noted->fh), fh) : 0;
    hf_named_lines_put(&recorder->lines, hf_bytes(noted->fh, noted->fh_len), noted, sizeof(*noted));
}

static int64_t wall_ms(const struct hf_recorder *recorder)
{
    return hf_service_now(recorder->service).wall_ms;
}

/* ---- locks and waits ---- */

static const char *const ENDS[] = {
    [HF_END_UNLOCKED] = "unlocked",
    [HF_END_CONVERTED] = "converted to the other mode",
    [HF_END_NOT_TAKEN] = "granted, but not taken by the client",
    [HF_END_CRASHED] = "client crashed",
    [HF_END_RELEASED] = "client released everything",
    [HF_END_UNREACHABLE] = "lost: client unreachable after our restart",
    [HF_END_UNRECLAIMED] = "lost: not reclaimed in time",
    [HF_END_OUTSIDE] = "lost: a program of this host has it",
    [HF_END_OPERATOR] = "released by the operator",
    [HF_END_RESTART] = "not recorded, and gone with our restart",
    [HF_END_UNDONE] = "not recorded, and held on",
    [HF_END_GRANTED] = "granted",
    [HF_END_CANCELLED] = "cancelled",
    [HF_END_DEADLOCK] = "refused: deadlock",
    [HF_END_SILENT] = "client does not answer",
    [HF_END_REFUSED] = "refused: the kernel cannot hold it",
};

static bool is_loss(enum hf_end end)
{
    return end == HF_END_UNREACHABLE || end == HF_END_UNRECLAIMED || end == HF_END_OUTSIDE;
}

static enum hf_history_kind kind_of(const struct hf_ending *ending)
{
    if (ending->end == HF_END_UNDONE)
        return HF_HISTORY_UNDONE;
    return ending->wait ? HF_HISTORY_WAIT : HF_HISTORY_LOCK;
}

/* Decides whether an ended lock or wait is worth a line. For most locks and waits, which are too
 * short for the history, this is all the work. */
static bool on_heard(void *ctx, enum hf_end end, bool wait, int64_t since_ms)
{
    struct hf_recorder *recorder = ctx;
    int64_t ms = wall_ms(recorder) - since_ms;

    if (end == HF_END_UNDONE)
        return recorder->history != NULL;
    hf_histogram_observe(wait ? &recorder->waited_ms : &recorder->held_ms,
                         ms > 0 ? (uint64_t)ms : 0);
    return recorder->history && (ms >= recorder->longer_than_ms || is_loss(end));
}

static void on_ending(void *ctx, const struct hf_ending *ending)
{
    struct hf_recorder *recorder = ctx;
    int64_t now_ms = wall_ms(recorder);
    struct noted noted = (struct noted){
        .kind = kind_of(ending),
        .why = ENDS[ending->end],
        .exclusive = ending->exclusive,
        .first = ending->first,
        .last = ending->last,
        .svid = ending->svid,
        .id = ending->id,
        .from_ms = ending->since_ms,
        .to_ms = now_ms,
        .addr = ending->addr,
    };
    noted.oh_len = copy(noted.oh, sizeof(noted.oh), ending->oh);
    put(recorder, &noted, ending->client, ending->fh);
}

void hf_recorder_follow(struct hf_recorder *recorder, struct hf_service *service)
{
    recorder->service = service;
    hf_core_tell_endings(service->core, on_heard, on_ending, recorder);
}

/* ---- events ---- */

/* The history's text for each kind of event; NULL: no line. Locks that an event releases have lines
 * of their own. */
static const char *const EVENTS[] = {
    [HF_EVENT_CLIENT_CRASHED] = "client has crashed",
    [HF_EVENT_CLIENT_UNREACHABLE] = "client given up as crashed",
    [HF_EVENT_CLIENT_UNTOLD] = "client cannot be told of our restart",
    [HF_EVENT_CLIENT_UNRECLAIMED] = "client did not reclaim its locks in time",
    [HF_EVENT_CLIENT_DEAD] = "client declared dead",
    [HF_EVENT_CLIENT_RELEASED] = "client released",
    [HF_EVENT_NOTICE_REFUTED] = "crash notice ignored",
    [HF_EVENT_CLIENT_MOVED] = "client comes from another address now",
    [HF_EVENT_CLIENT_DOUBLED] = "two hosts use the name of a client",
    [HF_EVENT_GRACE_BEGAN] = "grace period begins",
    [HF_EVENT_GRACE_ENDED] = "grace period is over",
    [HF_EVENT_GRANT_FAILED] = "GRANTED callback failed",
    [HF_EVENT_WAITERS_DROPPED] = "client does not answer",
};

void hf_recorder_event(struct hf_recorder *recorder, const struct hf_event *event)
{
    struct noted noted = {.kind = HF_HISTORY_NOTE, .addr = event->addr};

    if (!recorder->history || (size_t)event->kind >= HF_COUNT_OF(EVENTS) || !EVENTS[event->kind])
        return;
    noted.why = EVENTS[event->kind];
    noted.from_ms = noted.to_ms = wall_ms(recorder);
    put(recorder, &noted, hf_bytes(event->name, event->name_len),
        hf_bytes(event->fh, event->fh_len));
}

void hf_recorder_note(struct hf_recorder *recorder, const char *what, const char *text)
{
    struct hf_history_entry entry = {.kind = HF_HISTORY_NOTE, .why = what, .text = text};

    if (!recorder->history)
        return;
    entry.from_ms = entry.to_ms = wall_ms(recorder);
    hf_history_put(recorder->history, &entry);
}

/* ---- opening and closing ---- */

void hf_recorder_directory(const struct hf_config *config, char out[HF_CONFIG_TEXT_MAX])
{
    bool is_auto = strcmp(config->history_path, "auto") == 0;

    if (is_auto && config->backend != HF_BACKEND_LMDB)
        out[0] = '\0';
    else
        hf_format(out, HF_CONFIG_TEXT_MAX, "%s", is_auto ? config->path : config->history_path);
}

void hf_recorder_open(struct hf_recorder *recorder, uv_loop_t *loop, const struct hf_config *config,
                      struct hf_service *service)
{
    *recorder = (struct hf_recorder){
        .service = service,
        .longer_than_ms = (int64_t)config->history_longer_than,
    };
    hf_recorder_directory(config, recorder->directory);
    hf_named_lines_init(&recorder->lines, write_line, recorder);
    recorder->lines.loop = loop;
    if (recorder->directory[0] == '\0')
        return;
    recorder->history = hf_history_new(
        loop, &(struct hf_history_config){recorder->directory, (uint64_t)config->history_size << 20,
                                          (int64_t)config->history_days * 86400000});
    if (!recorder->history)
        hf_log(HF_LOG_WARN, "no history is kept", HF_STR("reason", "out of memory"));
}

void hf_recorder_end_turn(struct hf_recorder *recorder)
{
    if (recorder->history)
        hf_history_end_turn(recorder->history);
}

void hf_recorder_close(struct hf_recorder *recorder)
{
    hf_core_tell_endings(recorder->service->core, NULL, NULL, NULL);
    hf_history_close(recorder->history);
    recorder->history = NULL;
}
