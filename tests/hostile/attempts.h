/*
 * What code would try that has taken over one of our processes. confined.c tries it in the place of
 * the daemon, confined_namesd.c in the place of holdfast-namesd: each confines itself as that
 * process does, then makes one attempt.
 */
#ifndef HF_TESTS_HOSTILE_ATTEMPTS_H
#define HF_TESTS_HOSTILE_ATTEMPTS_H

/*
 * Makes the attempt of this name and prints "done", or why not. A forbidden system call may end the
 * process by SIGSYS. argument: may be NULL. Returns the exit status: 2 if there is no such attempt.
 */
int attempt(const char *name, const char *argument);

#endif
