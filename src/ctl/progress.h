/* Shows the progress of a running operation: on a terminal in one line that is overwritten,
 * elsewhere in one line at the end. */
#ifndef HF_CTL_PROGRESS_H
#define HF_CTL_PROGRESS_H

#include "ctl/ctl.h"

/* Describes an answer in text for the user; true while the operation runs. */
typedef bool (*ctl_describe)(const json_t *answer, char text[CTL_WORD_MAX]);

/*
 * Requests this path again and again until describe returns false. With --json it prints nothing.
 */
int ctl_follow(struct ctl *ctl, const char *path, ctl_describe describe);

/* Draws a bar that shows which part of the work is done. */
const char *ctl_bar(double done, double all, char text[CTL_WORD_MAX]);

#endif
