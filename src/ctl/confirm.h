/* Before something is taken away. */
#ifndef HF_CTL_CONFIRM_H
#define HF_CTL_CONFIRM_H

#include "ctl/ctl.h"

/* True for --yes, or if the person at the terminal says so. */
bool ctl_confirm(const struct ctl *ctl, const char *question);

#endif
