/* What the brain has to say, as lines of the log. */
#ifndef HF_DAEMON_EVENTS_H
#define HF_DAEMON_EVENTS_H

#include "core/view.h"

void hf_event_log(const struct hf_event *event);

#endif
