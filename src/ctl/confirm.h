/* Asks the user to confirm a release. */
#ifndef HF_CTL_CONFIRM_H
#define HF_CTL_CONFIRM_H

#include "ctl/ctl.h"

/* True with --yes, or if the user at the terminal confirms. */
bool ctl_confirm(const struct ctl *ctl, const char *question);

#endif
