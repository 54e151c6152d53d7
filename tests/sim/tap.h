/* Results in the Test Anything Protocol, which scripts/run-tests counts. */
#ifndef HF_SIM_TAP_H
#define HF_SIM_TAP_H

#include <stdbool.h>
#include <sys/types.h>

/* One line, "ok" or "not ok". */
__attribute__((format(printf, 2, 3))) void tap_result(bool good, const char *format, ...);

/* The plan, at the end; returns how many were not ok. */
int tap_done(void);

/*
 * A child process in which a check of the program itself may end the run. True in the child, whose
 * standard error is kept. The parent waits: true if the child ended well; otherwise words is the
 * line that says why, and stopped_itself is true if an assertion or a sanitizer ended it. A child
 * that died in another way (a signal, no memory) has proved nothing.
 */
struct tap_child {
    pid_t pid;
    int fd;
    bool stopped_itself;
    char words[200];
};

bool tap_fork(struct tap_child *child);
bool tap_wait(struct tap_child *child);

#endif
