/* Reports to systemd (Type=notify, WatchdogSec=). Without systemd these functions do nothing. */
#ifndef HF_DAEMON_SYSTEMD_H
#define HF_DAEMON_SYSTEMD_H

#include <uv.h>

struct hf_systemd {
    uv_timer_t watchdog;
    int watching;
};

/* Starts to feed systemd's watchdog, twice as often as required, so that systemd notices when the
 * loop hangs. */
void hf_systemd_init(struct hf_systemd *systemd, uv_loop_t *loop);

void hf_systemd_ready(const char *status);
void hf_systemd_reloading(void);
void hf_systemd_stopping(void);
/* Sets the line that `systemctl status` shows, even after the daemon has ended: `what` followed by
 * `why`. */
void hf_systemd_status(const char *what, const char *why);

void hf_systemd_close(struct hf_systemd *systemd);

#endif
