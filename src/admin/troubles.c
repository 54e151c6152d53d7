/* Shows losses and limits as an operator sees them (service/troubles.h). */
#include "admin/private.h"
#include "admin/values.h"

static const char *const REASONS[HF_LOSSES] = {
    [HF_LOSS_UNRECLAIMED] = "unreclaimed",
    [HF_LOSS_UNREACHABLE] = "unreachable",
    [HF_LOSS_OUTSIDE] = "outside",
};

static const struct hf_counters *counters_of(const struct hf_admin_config *config)
{
    return hf_core_counters(config->service->core);
}

static json_t *show_name(const struct hf_trouble_host *client)
{
    return hf_value_text(hf_bytes(client->name, client->name_len));
}

json_t *hf_admin_troubles_losses(const struct hf_admin_config *config)
{
    uint64_t clients;
    uint64_t locks;

    hf_troubles_lost(config->service->troubles, counters_of(config), &clients, &locks);
    return json_pack("{s:I, s:I}", "clients", (json_int_t)clients, "locks", (json_int_t)locks);
}

/* Shows each limit that refused a request since the start, with the last client that it refused. */
json_t *hf_admin_troubles_limits(const struct hf_admin_config *config)
{
    json_t *list = json_array();

    for (int i = 0; i < HF_LIMITS; i++) {
        const struct hf_trouble_limit *limit = &config->service->troubles->limits[i];

        if (limit->at_ms == 0)
            continue;
        json_array_append_new(list, json_pack("{s:s, s:I, s:o, s:o, s:o}", "limit",
                                              hf_limit_name((enum hf_limit)i), "hits",
                                              (json_int_t)counters_of(config)->limit_hits[i],
                                              "client", show_name(&limit->client), "address",
                                              hf_value_addr(&limit->client.addr), "time",
                                              hf_value_time(limit->at_ms)));
    }
    return list;
}

static json_t *show_loss(const struct hf_trouble_loss *loss)
{
    return json_pack("{s:o, s:o, s:s, s:o, s:o}", "client", show_name(&loss->client), "address",
                     hf_value_addr(&loss->client.addr), "reason", REASONS[loss->reason], "locks",
                     loss->locks ? json_integer((json_int_t)loss->locks) : json_null(), "time",
                     hf_value_time(loss->at_ms));
}

enum MHD_Result hf_admin_on_losses(struct request *request)
{
    const struct hf_admin_config *config = &request->admin->config;
    json_t *json = hf_admin_troubles_losses(config);
    json_t *list = json_array();

    for (size_t i = 0; i < config->service->troubles->n_losses; i++)
        json_array_append_new(list, show_loss(&config->service->troubles->losses[i]));
    json_object_set_new(json, "losses", list);
    return hf_admin_reply_json(request, MHD_HTTP_OK, json);
}

enum MHD_Result hf_admin_on_acknowledge(struct request *request)
{
    const struct hf_admin_config *config = &request->admin->config;
    json_t *json = hf_admin_troubles_losses(config);

    hf_troubles_acknowledge(config->service->troubles, counters_of(config));
    request->change = "acknowledge losses";
    hf_admin_log_change(request, true);
    return hf_admin_reply_json(request, MHD_HTTP_OK, json);
}
