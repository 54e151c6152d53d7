/* What systemd is told, where it asks (Type=notify, WatchdogSec=); elsewhere all of this does
 * nothing. */
#ifndef HF_DAEMON_SYSTEMD_H
#define HF_DAEMON_SYSTEMD_H

#include <uv.h>

struct hf_systemd {
    uv_timer_t watchdog;
    int watching;
};

/* Begins to feed the watchdog, twice as often as asked: a loop that hangs is then noticed. */
void hf_systemd_init(struct hf_systemd *systemd, uv_loop_t *loop);

void hf_systemd_ready(const char *status);
void hf_systemd_reloading(void);
void hf_systemd_stopping(void);

void hf_systemd_close(struct hf_systemd *systemd);

#endif
