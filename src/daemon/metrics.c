#include "daemon/metrics.h"

#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/text.h"
#include "daemon/term.h"

/* The ranges of histogram buckets, as powers of two: durations go from 16 µs to 17 s; outgoing
 * calls, which are timed in ms, from 1 ms to 17 s; batches from 1 to 64 Ki operations; locks and
 * waits from 1 ms to 37 hours. */
enum { FAST_LOW = 14, CALL_LOW = 20, NS_HIGH = 34, SIZE_HIGH = 16, MS_HIGH = 27 };

static const double NS = 1e-9;
static const double MS = 1e-3;

static void expose_nlm(const struct hf_nlm *nlm, struct hf_exposition *out)
{
    char labels[96];

    hf_expose_family(out, "nlm_requests_total", "counter", "NLM requests answered.");
    for (int k = 0; k < HF_NLM_KINDS; k++) {
        for (int s = 0; s < HF_NLM_STATS; s++) {
            if (nlm->answers[k][s] == 0 && s != HF_STAT_GRANTED)
                continue;
            hf_format(labels, sizeof(labels), "procedure=\"%s\",result=\"%s\"",
                      hf_nlm_kind_name((enum hf_nlm_kind)k), hf_nlm_stat_name((enum hf_stat)s));
            hf_expose_uint(out, "nlm_requests_total", labels, nlm->answers[k][s]);
        }
    }
    hf_expose_family(out, "nlm_request_duration_seconds", "histogram",
                     "From the arrival of an NLM request to its answer.");
    for (int k = 0; k < HF_NLM_KINDS; k++) {
        if (hf_histogram_count(&nlm->durations_ns[k]) == 0)
            continue;
        hf_format(labels, sizeof(labels), "procedure=\"%s\"",
                  hf_nlm_kind_name((enum hf_nlm_kind)k));
        hf_expose_histogram(out, "nlm_request_duration_seconds", labels, &nlm->durations_ns[k],
                            FAST_LOW, NS_HIGH, NS);
    }
    hf_expose_counter(
        out, "nlm_refused_callers_total",
        "Notices of a restart (procedure 16) refused because they came from another host.",
        nlm->refused_callers);
    hf_expose_counter(out, "nlm_refused_foreign_total",
                      "Locks refused because their export belongs to another service.",
                      nlm->refused_foreign);
}

static void expose_nsm(const struct hf_nsm *nsm, struct hf_exposition *out)
{
    static const char *const RESULTS[] = {"success", "failure"};
    char labels[96];

    hf_expose_family(out, "nsm_requests_total", "counter", "NSM requests answered.");
    for (unsigned p = 0; p < HF_NSM_PROCEDURES; p++) {
        for (int r = 0; r < HF_NSM_RESULTS; r++) {
            hf_format(labels, sizeof(labels), "procedure=\"%s\",result=\"%s\"",
                      hf_nsm_procedure_name(p), RESULTS[r]);
            hf_expose_uint(out, "nsm_requests_total", labels, nsm->answers[p][r]);
        }
    }
    hf_expose_family(out, "nsm_request_duration_seconds", "histogram",
                     "From the arrival of an NSM request to its answer.");
    for (unsigned p = 0; p < HF_NSM_PROCEDURES; p++) {
        if (hf_histogram_count(&nsm->durations_ns[p]) == 0)
            continue;
        hf_format(labels, sizeof(labels), "procedure=\"%s\"", hf_nsm_procedure_name(p));
        hf_expose_histogram(out, "nsm_request_duration_seconds", labels, &nsm->durations_ns[p],
                            FAST_LOW, NS_HIGH, NS);
    }
}

/* One sample of a metric family whose samples differ in one label. */
struct labelled {
    const char *value;
    uint64_t count;
};

static void expose_labelled(struct hf_exposition *out, const char *name, const char *help,
                            const char *label, const struct labelled *samples, size_t n)
{
    char labels[96];

    hf_expose_family(out, name, "counter", help);
    for (size_t i = 0; i < n; i++) {
        hf_format(labels, sizeof(labels), "%s=\"%s\"", label, samples[i].value);
        hf_expose_uint(out, name, labels, samples[i].count);
    }
}

static void expose_calls(const struct hf_engine *engine, struct hf_exposition *out)
{
    const struct hf_counters *c = hf_core_counters(engine->service.core);
    const struct labelled notices[] = {{"started", c->notices_started},
                                       {"success", c->notices_delivered},
                                       {"failed", c->notices_failed}};
    const struct labelled callbacks[] = {{"started", c->callbacks_started},
                                         {"accepted", c->callbacks_accepted},
                                         {"denied", c->callbacks_denied},
                                         {"failed", c->callbacks_failed}};
    const struct labelled probes[] = {{"started", c->probes_started}, {"failed", c->probes_failed}};

    expose_labelled(out, "nsm_notifications_total",
                    "Attempts to tell a host of a restart, ours or another's.", "result", notices,
                    HF_COUNT_OF(notices));
    hf_expose_family(out, "nsm_notification_duration_seconds", "histogram",
                     "Of one such attempt: lookup, connection, answer.");
    hf_expose_histogram(out, "nsm_notification_duration_seconds", NULL, &engine->nsm.notices_ns,
                        CALL_LOW, NS_HIGH, NS);
    expose_labelled(out, "nlm_callbacks_total", "Attempts to tell a waiter that it has its lock.",
                    "result", callbacks, HF_COUNT_OF(callbacks));
    hf_expose_family(out, "nlm_callback_duration_seconds", "histogram",
                     "Of one attempt at a GRANTED callback.");
    hf_expose_histogram(out, "nlm_callback_duration_seconds", NULL, &engine->nlm.callbacks_ns,
                        CALL_LOW, NS_HIGH, NS);
    expose_labelled(out, "nlm_probes_total",
                    "Attempts to find out whether a client that waits is still there.", "result",
                    probes, HF_COUNT_OF(probes));
}

static void expose_core(const struct hf_counters *c, struct hf_exposition *out)
{
    struct labelled limits[HF_LIMITS];
    const struct labelled reclaims[] = {{"granted", c->reclaims_granted},
                                        {"denied", c->reclaims_denied}};
    const struct labelled lost[] = {{"unreclaimed", c->locks_lost[HF_LOSS_UNRECLAIMED]},
                                    {"unreachable", c->locks_lost[HF_LOSS_UNREACHABLE]},
                                    {"outside", c->locks_lost[HF_LOSS_OUTSIDE]}};
    const struct labelled lost_clients[] = {{"unreclaimed", c->clients_lost[HF_LOSS_UNRECLAIMED]},
                                            {"unreachable", c->clients_lost[HF_LOSS_UNREACHABLE]},
                                            {"outside", c->clients_lost[HF_LOSS_OUTSIDE]}};
    const struct labelled inbound[] = {{"accepted", c->notifies_in_accepted},
                                       {"repeated", c->notifies_in_repeated},
                                       {"stranger", c->notifies_in_stranger},
                                       {"bad", c->notifies_in_bad},
                                       {"refuted", c->notifies_in_refuted}};

    for (int i = 0; i < HF_LIMITS; i++)
        limits[i] = (struct labelled){hf_limit_name((enum hf_limit)i), c->limit_hits[i]};
    hf_expose_counter(out, "nsm_crashes_detected_total",
                      "Clients found to have restarted or to be gone.", c->crashes_detected);
    hf_expose_counter(out, "nsm_crash_cleanups_total", "Crashed clients whose locks were released.",
                      c->crash_cleanups);
    hf_expose_counter(out, "nsm_locks_cleaned_on_crash_total",
                      "Locks released because their client crashed.", c->locks_cleaned);
    expose_labelled(out, "nsm_notifications_received_total", "SM_NOTIFY from other hosts.",
                    "result", inbound, HF_COUNT_OF(inbound));
    expose_labelled(out, "nlm_reclaims_total", "Locks claimed again after our restart.", "result",
                    reclaims, HF_COUNT_OF(reclaims));
    expose_labelled(out, "holdfast_locks_lost_total",
                    "Locks released after our restart although their client did not give them up.",
                    "reason", lost, HF_COUNT_OF(lost));
    expose_labelled(out, "holdfast_clients_lost_total", "Clients that lost such locks.", "reason",
                    lost_clients, HF_COUNT_OF(lost_clients));
    expose_labelled(out, "nlm_limit_hits_total", "Requests refused because of a limit.", "limit",
                    limits, HF_COUNT_OF(limits));
    hf_expose_counter(out, "nlm_deadlocks_total", "Requests refused to avoid a deadlock.",
                      c->deadlocks);
    hf_expose_counter(out, "nlm_deadlock_searches_cut_total",
                      "Searches for a deadlock that were ended by their bound.",
                      c->deadlock_searches_cut);
    hf_expose_counter(out, "nlm_state_hints_total",
                      "LOCKs with another NSM state than recorded: a restart that went unnoticed?",
                      c->state_hints);
    hf_expose_counter(out, "nlm_granted_res_strangers_total",
                      "GRANTED_RES that did not come from the client that was called.",
                      c->granted_res_stranger);
    hf_expose_counter(out, "holdfast_out_of_memory_total", "Requests refused for lack of memory.",
                      c->out_of_memory);
    hf_expose_counter(out, "holdfast_store_commits_failed_total",
                      "Batches that the store did not take: all in them was refused.",
                      c->commits_failed);
    hf_expose_counter(out, "holdfast_log_events_lost_total",
                      "Events that did not get into the log: too many at one moment.",
                      c->events_lost);
}

static void expose_notices(const struct hf_view_status *s, struct hf_exposition *out)
{
    static const char *const STATUSES[] = {
        [HF_NOTICE_PENDING] = "pending",
        [HF_NOTICE_DELIVERED] = "delivered",
        [HF_NOTICE_FAILING] = "failing",
        [HF_NOTICE_GIVEN_UP] = "given_up",
    };
    char labels[32];

    hf_expose_family(out, "nsm_notices", "gauge", "Clients by the notice of our last restart.");
    for (int i = HF_NOTICE_PENDING; i <= HF_NOTICE_GIVEN_UP; i++) {
        hf_format(labels, sizeof(labels), "status=\"%s\"", STATUSES[i]);
        hf_expose_uint(out, "nsm_notices", labels, s->notices[i]);
    }
}

static void expose_losses(const struct hf_engine *engine, struct hf_exposition *out)
{
    uint64_t clients;
    uint64_t locks;

    hf_troubles_lost(&engine->troubles, hf_core_counters(engine->service.core), &clients, &locks);
    hf_expose_gauge(out, "holdfast_clients_lost_unacknowledged",
                    "Clients that lost locks, until an operator acknowledges it.", (double)clients);
    hf_expose_gauge(out, "holdfast_locks_lost_unacknowledged", "The locks that they lost.",
                    (double)locks);
}

/* Export names come from the configuration: a character that would end the label is shown as _. */
static void expose_waits(const struct hf_core *core, struct hf_exposition *out)
{
    char labels[HF_EXPORT_NAME_MAX + 16];
    struct hf_bytes name;
    uint64_t waiting;

    hf_expose_family(out, "nlm_waits", "gauge", "Requests that wait, by the export of their file.");
    for (unsigned i = 0; hf_core_view_waits(core, i, &name, &waiting); i++) {
        hf_format(labels, sizeof(labels), "share=\"%.*s", (int)name.len, (const char *)name.data);
        for (char *c = labels + sizeof("share=\"") - 1; *c; c++)
            *c = *c == '"' || *c == '\\' || *c < ' ' ? '_' : *c;
        hf_format(labels + strlen(labels), 2, "\"");
        hf_expose_uint(out, "nlm_waits", labels, waiting);
    }
}

/* Shows for how long the locks and waits that have ended had lasted. */
static void expose_endings(const struct hf_recorder *recorder, struct hf_exposition *out)
{
    hf_expose_family(out, "nlm_lock_held_seconds", "histogram",
                     "How long locks were held that are not any more.");
    hf_expose_histogram(out, "nlm_lock_held_seconds", NULL, &recorder->held_ms, 0, MS_HIGH, MS);
    hf_expose_family(out, "nlm_lock_wait_seconds", "histogram",
                     "How long requests waited that do not any more.");
    hf_expose_histogram(out, "nlm_lock_wait_seconds", NULL, &recorder->waited_ms, 0, MS_HIGH, MS);
}

static void expose_state(struct hf_service *service, struct hf_exposition *out)
{
    struct hf_view_status s;

    hf_core_view_status(service->core, hf_service_now(service), &s);
    expose_notices(&s, out);
    hf_expose_gauge(out, "nsm_clients_registered", "Clients that are notified of a restart.",
                    (double)s.registered);
    hf_expose_gauge(out, "nlm_locks_held", "Byte-range locks held.", (double)s.locks);
    hf_expose_gauge(out, "nlm_blocked", "Requests that wait for a lock.", (double)s.waiters);
    hf_expose_gauge(out, "nlm_oldest_wait_seconds",
                    "For how long the oldest request has waited; 0: none waits.",
                    (double)s.oldest_wait_ms / 1000);
    expose_waits(service->core, out);
    hf_expose_gauge(out, "nlm_unreclaimed", "Locks from before the restart, not yet reclaimed.",
                    (double)s.unreclaimed);
    hf_expose_gauge(out, "holdfast_grace_active", "1 while the grace period lasts.",
                    s.grace_active);
    hf_expose_gauge(out, "holdfast_grace_remaining_seconds", "Until the grace period ends.",
                    (double)s.grace_remaining_ms / 1000);
    hf_expose_gauge(out, "holdfast_continued",
                    "1 if the last start told no client (recovery.notify=needed).",
                    s.recovers == HF_RECOVERS_NOT);
    hf_expose_gauge(out, "holdfast_epoch", "Restarts of this server, as its store counts them.",
                    (double)s.epoch);
}

/* Shows the free space of the store's directory; a PostgreSQL store has none, and metrics of its
 * own. */
static void expose_room(const char *path, struct hf_exposition *out)
{
    struct statvfs fs;

    if (path && statvfs(path, &fs) == 0)
        hf_expose_gauge(out, "holdfast_store_free_bytes", "Room on the store's file system.",
                        (double)fs.f_bavail * (double)fs.f_frsize);
}

static void expose_store(struct hf_engine *engine, struct hf_exposition *out)
{
    struct hf_store_health health;

    hf_committer_health(&engine->commits->committer, &health);
    expose_room(engine->store_path, out);
    hf_expose_gauge(out, "holdfast_store_up", "1 while the store takes changes.", health.up);
    hf_expose_family(out, "holdfast_store_busy_poll_seconds_total", "counter",
                     "Time the store's thread spent looking for a batch instead of sleeping.");
    hf_expose_real(out, "holdfast_store_busy_poll_seconds_total", NULL,
                   (double)health.looked_ns / 1e9);
    hf_expose_family(out, "holdfast_store_commit_seconds", "histogram",
                     "From handing a batch to the store until it is durable.");
    hf_expose_histogram(out, "holdfast_store_commit_seconds", NULL, &engine->commits->commits_ns,
                        FAST_LOW, NS_HIGH, NS);
    hf_expose_family(out, "holdfast_store_batch_size", "histogram",
                     "Changes that became durable together.");
    hf_expose_histogram(out, "holdfast_store_batch_size", NULL, &engine->commits->batch_sizes, 0,
                        SIZE_HIGH, 1);
}

/* Shows what one host may not take from the others, and how often it tried (SEC-02, SEC-03, SEC-05,
 * SEC-06). */
static void expose_defences(const struct hf_rpc_counters *c,
                            const struct hf_rpc_client_counters *out_calls,
                            struct hf_exposition *out)
{
    const struct labelled dropped[] = {{"access", c->denied},
                                       {"quota", c->over_quota},
                                       {"cost", c->too_costly},
                                       {"unproven", c->too_long}};

    expose_labelled(out, "holdfast_rpc_dropped_total",
                    "Connections, requests and answers dropped to protect other hosts.", "reason",
                    dropped, HF_COUNT_OF(dropped));
    hf_expose_counter(out, "holdfast_rpc_gave_way_total",
                      "Times that input of a connection had to wait for other connections.",
                      c->gave_way);
    hf_expose_counter(out, "holdfast_rpc_outgoing_calls_total", "Outgoing calls accepted.",
                      out_calls->started);
    hf_expose_counter(out, "holdfast_rpc_outgoing_refused_total",
                      "Outgoing calls not made because too many were waiting or in flight.",
                      out_calls->refused);
    hf_expose_counter(out, "holdfast_rpc_outgoing_gave_way_total",
                      "Answers by _RES whose acknowledgement was no longer waited for.",
                      out_calls->gave_way);
    hf_expose_gauge(out, "holdfast_rpc_outgoing_running", "Outgoing conversations in flight.",
                    (double)out_calls->running);
    hf_expose_gauge(out, "holdfast_rpc_outgoing_waiting",
                    "Outgoing calls that wait for an earlier one to the same address.",
                    (double)out_calls->waiting);
}

static void expose_rpc(const struct hf_rpc_counters *c, struct hf_exposition *out)
{
    const struct labelled closed[] = {
        {"evicted", c->evicted}, {"timed_out", c->timed_out}, {"broken_record", c->broken_records}};

    hf_expose_counter(out, "holdfast_rpc_calls_total", "Well-formed RPC calls.", c->calls);
    hf_expose_counter(out, "holdfast_rpc_refused_total", "Calls answered with an error of RPC.",
                      c->refused);
    hf_expose_counter(out, "holdfast_rpc_undecodable_total", "Messages that were no RPC call.",
                      c->undecodable);
    hf_expose_counter(out, "holdfast_rpc_duplicates_total", "Repeats of a call, answered once.",
                      c->duplicates);
    hf_expose_gauge(out, "holdfast_rpc_connections", "TCP connections open.",
                    (double)c->connections);
    hf_expose_counter(out, "holdfast_rpc_connections_accepted_total", "TCP connections taken.",
                      c->accepted);
    hf_expose_family(out, "holdfast_rpc_busy_poll_seconds_total", "counter",
                     "Time spent looking for the next request instead of sleeping.");
    hf_expose_real(out, "holdfast_rpc_busy_poll_seconds_total", NULL,
                   (double)c->busy_poll_ns / 1e9);
    expose_labelled(out, "holdfast_rpc_connections_closed_total", "TCP connections closed by us.",
                    "reason", closed, HF_COUNT_OF(closed));
}

void hf_metrics_expose_rpcbind(bool up, uint64_t lost, struct hf_exposition *out)
{
    hf_expose_gauge(out, "holdfast_rpcbind_up", "1 while rpcbind sends new clients to us.", up);
    hf_expose_counter(out, "holdfast_rpcbind_registrations_lost_total",
                      "Times that rpcbind had lost a registration of ours.", lost);
}

/* Shows what the kernel holds for our locks (COH-10 to COH-14); all is 0 without a keeper. */
static void expose_coherence(struct hf_engine *engine, struct hf_exposition *out)
{
    const struct hf_counters *c = hf_core_counters(engine->service.core);
    const struct labelled refused[] = {{"stale", c->claims_refused[HF_CLAIM_STALE]},
                                       {"read_only", c->claims_refused[HF_CLAIM_READ_ONLY]},
                                       {"unmirrored", c->claims_refused[HF_CLAIM_UNMIRRORED]},
                                       {"full", c->claims_refused[HF_CLAIM_FULL]}};
    struct hf_view_status s;

    hf_core_view_status(engine->service.core, hf_service_now(&engine->service), &s);
    hf_expose_gauge(out, "holdfast_coherence_wanted",
                    "1 while this node serves and a keeper is configured.",
                    engine->coherence.service != NULL);
    hf_expose_gauge(out, "holdfast_coherence_up",
                    "1 while the kernel holds what clients hold; 0 without a keeper.",
                    s.coherent && s.claims_ready);
    hf_expose_gauge(out, "holdfast_claimed_files", "Files with locks that the kernel holds for us.",
                    (double)s.claimed_files);
    hf_expose_gauge(out, "holdfast_claimed_ranges", "Ranges that the kernel holds for us.",
                    (double)s.claimed_ranges);
    hf_expose_gauge(out, "holdfast_unmirrored_files",
                    "Files with locks that the kernel does not hold.", (double)s.unmirrored_files);
    hf_expose_gauge(out, "holdfast_coarse_files",
                    "Files of which the kernel holds more than clients do.",
                    (double)s.coarse_files);
    hf_expose_gauge(out, "holdfast_outside_waiters", "Waiters behind holders outside.",
                    (double)s.outside_waits);
    hf_expose_counter(out, "holdfast_outside_conflicts_total",
                      "Requests that a holder outside was in the way of.", c->outside_conflicts);
    expose_labelled(out, "holdfast_claims_refused_total",
                    "Locks that the kernel cannot hold for us.", "reason", refused,
                    HF_COUNT_OF(refused));
    hf_expose_counter(out, "holdfast_keeper_lost_total",
                      "Times that the connection to the keeper was lost.", engine->coherence.lost);
    hf_expose_counter(out, "holdfast_claims_missed_total",
                      "Ranges of clients that the kernel did not hold for a while.",
                      engine->coherence.n_missed);
    hf_expose_family(out, "holdfast_claim_seconds", "histogram",
                     "From the first claim of a turn until the keeper has answered all.");
    hf_expose_histogram(out, "holdfast_claim_seconds", NULL, &engine->coherence.claims_ns, FAST_LOW,
                        NS_HIGH, NS);
}

/* Shows the state of a service with standbys (HA-11). */
static void expose_cluster(const struct hf_cluster *c, struct hf_exposition *out)
{
    uint64_t now = hf_clock_boot_ms();
    uint64_t until = hf_lease_valid_until(&c->lease);

    hf_expose_gauge(out, "holdfast_cluster_active", "1 while this node serves the service.",
                    hf_term_phase(c->daemon) == HF_TERM_SERVING && until > now);
    hf_expose_gauge(out, "holdfast_cluster_lease_epoch",
                    "Of the lease that this node has; 0: none.", (double)hf_lease_epoch(&c->lease));
    hf_expose_gauge(out, "holdfast_cluster_lease_left_seconds", "Until the lease runs out.",
                    until > now ? (double)(until - now) / 1000 : 0);
    hf_expose_gauge(out, "holdfast_cluster_alarm",
                    "1 while the database shows less than it once acknowledged.",
                    hf_lease_state(&c->lease, now) == HF_LEASE_ALARM);
    hf_expose_gauge(out, "holdfast_cluster_nodes", "Nodes of this service seen in the last hour.",
                    c->view.n_nodes);
    hf_expose_gauge(out, "holdfast_cluster_last_takeover_seconds",
                    "From taking the lease to the first answer, the last time.",
                    (double)c->view.last_take_ms / 1000);
    hf_expose_counter(out, "holdfast_cluster_takeovers_total", "Times this node took the service.",
                      c->view.takeovers);
    hf_expose_counter(out, "holdfast_cluster_losses_total",
                      "Times another node took the service from this one.", c->view.losses);
    hf_expose_counter(out, "holdfast_cluster_expiries_total",
                      "Times the lease ran out: the service was silent until it was renewed.",
                      c->view.expiries);
}

static void expose_history(const struct hf_recorder *recorder, struct hf_exposition *out)
{
    struct hf_history_counters counters = hf_history_counters(recorder->history);

    hf_expose_counter(out, "holdfast_history_entries_total", "Entries made for the history.",
                      counters.lines);
    hf_expose_counter(out, "holdfast_history_lost_total",
                      "Entries that could not be written, or for which there was no room.",
                      counters.lost);
}

void hf_metrics_expose(struct hf_engine *engine, const struct hf_rpc_counters *rpc,
                       const struct hf_cluster *cluster, struct hf_exposition *out)
{
    struct hf_rpc_client_counters out_calls = hf_rpc_client_counters(engine->client);

    hf_expose_family(out, "holdfast_build_info", "gauge", "1; the version is in the label.");
    hf_expose_uint(out, "holdfast_build_info", "version=\"" HF_VERSION "\"", 1);
    expose_nsm(&engine->nsm, out);
    expose_nlm(&engine->nlm, out);
    expose_calls(engine, out);
    expose_core(hf_core_counters(engine->service.core), out);
    expose_state(&engine->service, out);
    expose_losses(engine, out);
    expose_coherence(engine, out);
    expose_store(engine, out);
    if (engine->recorder)
        expose_endings(engine->recorder, out);
    if (engine->recorder && engine->recorder->history)
        expose_history(engine->recorder, out);
    expose_rpc(rpc, out);
    expose_defences(rpc, &out_calls, out);
    if (cluster)
        expose_cluster(cluster, out);
}
