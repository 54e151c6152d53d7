/* Reports to systemd (Type=notify, WatchdogSec=). Nothing is reported if systemd did not ask for
 * it. */
#ifndef HF_DAEMON_SYSTEMD_H
#define HF_DAEMON_SYSTEMD_H

#include <uv.h>

struct hf_systemd {
    uv_timer_t watchdog;
    int watching;
};

/* Starts to feed the watchdog, twice as often as required, so that systemd notices a loop that
 * hangs. */
void hf_systemd_init(struct hf_systemd *systemd, uv_loop_t *loop);

void hf_systemd_ready(const char *status);
void hf_systemd_reloading(void);
void hf_systemd_stopping(void);
/* Sets what `systemctl status` shows, also after the daemon has ended: two parts of one line. */
void hf_systemd_status(const char *what, const char *why);

void hf_systemd_close(struct hf_systemd *systemd);

#endif
