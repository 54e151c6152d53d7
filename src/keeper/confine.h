/*
 * Takes from the keeper, once everything is open, what it does not need (COH-02). The keeper keeps
 * two capabilities: to open files by their handles (CAP_DAC_READ_SEARCH) and for writing
 * (CAP_DAC_OVERRIDE), because a write lock needs a description that may write. The filter of system
 * calls makes such a description good for locks only: it allows no call that reads, writes, maps,
 * truncates, splices or sends a file, and none that duplicates a descriptor. It allows read and
 * write for one descriptor each, by number: the list of mounts, and the log. These two cannot be
 * closed, so no other file gets their numbers.
 */
#ifndef HF_KEEPER_CONFINE_H
#define HF_KEEPER_CONFINE_H

#include <stdbool.h>

/* Gives up privileges; must be called before threads are started. Returns HF_EUNAVAIL if the
 * capability to open handles is missing; HF_EDENIED. */
int hf_keeper_give_up_privileges(void);

/* Forbids making, removing, renaming, truncating and executing files (Landlock). Returns
 * HF_EUNAVAIL if the kernel has no Landlock. */
int hf_keeper_confine_files(void);

/*
 * Loads the filter of system calls for all threads. mounts is the descriptor that may be read.
 * `instrumented` adds calls that sanitizers and coverage make at the end of a process. Returns
 * HF_EUNAVAIL.
 */
int hf_keeper_confine_calls(int mounts, bool instrumented);

#endif
