/*
 * While something runs: one line that is written over again and again on a terminal, and only once
 * at the end elsewhere.
 */
#ifndef HF_CTL_PROGRESS_H
#define HF_CTL_PROGRESS_H

#include "ctl/ctl.h"

/* Describes the state in text; true while it goes on. */
typedef bool (*ctl_describe)(const json_t *status, char text[CTL_WORD_MAX]);

/* Asks for the status until describe says that it is over. */
int ctl_follow(struct ctl *ctl, ctl_describe describe);

/* A bar of the share that is done. */
const char *ctl_bar(double done, double all, char text[CTL_WORD_MAX]);

#endif
