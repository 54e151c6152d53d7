#include "daemon/systemd.h"

#include <inttypes.h>
#include <systemd/sd-daemon.h>

static void on_watchdog(uv_timer_t *timer)
{
    (void)timer;
    sd_notify(0, "WATCHDOG=1");
}

void hf_systemd_init(struct hf_systemd *systemd, uv_loop_t *loop)
{
    uint64_t interval_us;

    systemd->watching = sd_watchdog_enabled(0, &interval_us) > 0;
    if (systemd->watching) {
        uint64_t period_ms = interval_us / 1000 / 2;
        if (period_ms == 0)
            period_ms = 1;
        uv_timer_init(loop, &systemd->watchdog);
        uv_timer_start(&systemd->watchdog, on_watchdog, period_ms, period_ms);
    }
}

void hf_systemd_ready(const char *status)
{
    sd_notifyf(0, "READY=1\nSTATUS=%s", status);
}

void hf_systemd_reloading(void)
{
    sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%" PRIu64, uv_hrtime() / 1000);
}

void hf_systemd_stopping(void)
{
    sd_notify(0, "STOPPING=1");
}

void hf_systemd_status(const char *what, const char *why)
{
    sd_notifyf(0, "STATUS=%s%s", what, why);
}

void hf_systemd_close(struct hf_systemd *systemd)
{
    if (systemd->watching)
        uv_close((uv_handle_t *)&systemd->watchdog, NULL);
}
