/* Shows a service with standbys (HA-11), its nodes and its lease, and lets an operator take,
 * release and move the service. */
#include <string.h>

#include "admin/private.h"
#include "admin/values.h"
#include "base/error.h"
#include "base/log.h"
#include "base/text.h"

static bool cluster_of(const struct request *request, struct hf_admin_cluster *out)
{
    const struct hf_admin_ops *ops = &request->admin->config.ops;

    return ops->cluster && ops->cluster(ops->ctx, out);
}

bool hf_admin_cluster_waits(const struct request *request, struct hf_admin_cluster *out)
{
    if (cluster_of(request, out))
        return strcmp(out->role, "active") != 0;
    *out = (struct hf_admin_cluster){.role = "loading"};
    return request->admin->config.service->loading;
}

enum MHD_Result hf_admin_reply_waiting(struct request *request,
                                       const struct hf_admin_cluster *cluster)
{
    char detail[256];
    json_t *json;

    if (!cluster->node)
        return hf_admin_reply_problem(
            request, MHD_HTTP_SERVICE_UNAVAILABLE,
            "The daemon has just started and loads its store. Ask again.");
    hf_format(detail, sizeof(detail),
              "%s: this node, \"%s\", does not serve \"%s\" now; %s%s%s took it last. Ask there.",
              cluster->role, cluster->node, cluster->service, cluster->owner[0] ? "\"" : "",
              cluster->owner[0] ? cluster->owner : "no node", cluster->owner[0] ? "\"" : "");
    json = hf_admin_problem_json(MHD_HTTP_SERVICE_UNAVAILABLE, detail);
    json_object_set_new(json, "role", hf_value_str(cluster->role));
    json_object_set_new(json, "node", hf_value_str(cluster->node));
    json_object_set_new(json, "active_node",
                        hf_value_str(cluster->owner[0] ? cluster->owner : NULL));
    return hf_admin_reply_json(request, MHD_HTTP_SERVICE_UNAVAILABLE, json);
}

static enum MHD_Result reply_single(struct request *request)
{
    return hf_admin_reply_problem(request, MHD_HTTP_NOT_FOUND,
                                  "This service has no standbys (cluster.mode=single).");
}

static json_t *show_nodes(const struct hf_admin_cluster *c)
{
    json_t *nodes = json_array();

    for (unsigned i = 0; i < c->n_nodes; i++) {
        bool own = strcmp(c->nodes[i].name, c->node) == 0;

        json_array_append_new(
            nodes, json_pack("{s:o, s:o, s:b, s:s?, s:f}", "name", hf_value_str(c->nodes[i].name),
                             "version", hf_value_str(c->nodes[i].version), "owner",
                             strcmp(c->nodes[i].name, c->owner) == 0, "role", own ? c->role : NULL,
                             "seen_seconds_ago",
                             own ? 0.0 : (double)(c->nodes[i].seen_ms + c->seen_ms) / 1000));
    }
    return nodes;
}

static json_t *show(const struct hf_admin_cluster *c)
{
    return json_pack("{s:o, s:o, s:s, s:o, s:o, s:o, s:f, s:o, s:I, s:I, s:I, s:I, s:f, s:f}",
                     "service", hf_value_str(c->service), "node", hf_value_str(c->node), "role",
                     c->role, "owner", hf_value_str(c->owner), "taken",
                     c->taken_at_ms ? hf_value_time(c->taken_at_ms) : json_null(), "lease",
                     c->epoch ? hf_value_id(c->epoch) : json_null(), "lease_left_seconds",
                     (double)c->lease_left_ms / 1000, "nodes", show_nodes(c), "takeovers",
                     (json_int_t)c->takeovers, "losses", (json_int_t)c->losses, "expiries",
                     (json_int_t)c->expiries, "alarms", (json_int_t)c->alarms,
                     "last_takeover_seconds", (double)c->last_take_ms / 1000,
                     "last_silence_seconds", (double)c->last_silence_ms / 1000);
}

enum MHD_Result hf_admin_on_cluster(struct request *request)
{
    struct hf_admin_cluster cluster;

    if (!cluster_of(request, &cluster))
        return reply_single(request);
    return hf_admin_reply_json(request, MHD_HTTP_OK, show(&cluster));
}

/* Begins to take, release or move the service. The answer says what has begun; GET cluster shows
 * the result. */
static enum MHD_Result change(struct request *request, enum hf_admin_move what, const char *word)
{
    const struct hf_admin_ops *ops = &request->admin->config.ops;
    struct hf_admin_cluster cluster;
    char who[WHO_MAX];
    int rv;

    if (!cluster_of(request, &cluster))
        return reply_single(request);
    rv = ops->move(ops->ctx, what);
    hf_log(HF_LOG_INFO, "operator: cluster", HF_STR("command", word),
           HF_STR("by", hf_admin_access_who(request, who)), HF_STR("result", hf_strerror(rv)));
    if (rv == HF_ENOENT)
        return hf_admin_reply_problem(request, MHD_HTTP_CONFLICT,
                                      "No other node of this service is there to take it.");
    if (rv < 0)
        return hf_admin_reply_problem(request, MHD_HTTP_CONFLICT,
                                      "The service is not on this node; ask the one that has it.");
    (void)cluster_of(request, &cluster);
    return hf_admin_reply_json(request, MHD_HTTP_ACCEPTED, show(&cluster));
}

enum MHD_Result hf_admin_on_cluster_take(struct request *request)
{
    return change(request, HF_ADMIN_TAKE, "take");
}

enum MHD_Result hf_admin_on_cluster_release(struct request *request)
{
    return change(request, HF_ADMIN_RELEASE, "release");
}

enum MHD_Result hf_admin_on_cluster_move(struct request *request)
{
    return change(request, HF_ADMIN_MOVE, "move");
}
