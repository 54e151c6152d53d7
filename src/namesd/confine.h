/*
 * What holdfast-namesd gives up before it takes the first question: all capabilities but
 * CAP_DAC_READ_SEARCH, new privileges by execve, every file's content and every change to a file
 * (Landlock, where the kernel has it; directories can still be listed), and all system calls that
 * it does not need (seccomp).
 */
#ifndef HF_NAMESD_CONFINE_H
#define HF_NAMESD_CONFINE_H

/* HF_EDENIED: privileges could not be given up. HF_EUNAVAIL: without the capability no handle can
 * be opened, which the log explains. */
int hf_namesd_confine(void);

#endif
