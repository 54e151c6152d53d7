/*
 * What the keeper gives up once everything is open (COH-02). It keeps two capabilities: to open
 * files by their handles (CAP_DAC_READ_SEARCH) and for writing (CAP_DAC_OVERRIDE), because a write
 * lock needs a description that may write. The filter of system calls makes such a description
 * worth nothing but its locks: no read, write, map, truncate, splice or send of a file is in it,
 * and none to duplicate a descriptor. read and write are there for one descriptor each, by number:
 * the list of mounts, and the log; and these two can not be closed, so no other file gets their
 * number.
 */
#ifndef HF_KEEPER_CONFINE_H
#define HF_KEEPER_CONFINE_H

#include <stdbool.h>

/* Before threads are started. HF_EUNAVAIL: the capability to open handles is missing; HF_EDENIED.
 */
int hf_keeper_give_up_privileges(void);

/* No file may be made, removed, renamed, truncated or executed (Landlock). HF_EUNAVAIL. */
int hf_keeper_confine_files(void);

/* For all threads. mounts: the descriptor that may be read. `instrumented` adds what sanitizers and
 * coverage do at the end of a process. HF_EUNAVAIL. */
int hf_keeper_confine_calls(int mounts, bool instrumented);

#endif
