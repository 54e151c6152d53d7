/*
 * Takes from holdfast-namesd, before the first question, what it does not need: all capabilities
 * but CAP_DAC_READ_SEARCH, new privileges by execve, every file's content and every change to a
 * file (Landlock, where the kernel has it; directories can still be listed), and all system calls
 * that it does not need (seccomp).
 */
#ifndef HF_NAMESD_CONFINE_H
#define HF_NAMESD_CONFINE_H

/* Confines the process. Returns HF_EDENIED if privileges could not be given up; HF_EUNAVAIL without
 * the capability that opening handles needs, which the log explains. */
int hf_namesd_confine(void);

#endif
