/* Results in the Test Anything Protocol, which scripts/run-tests counts. */
#ifndef HF_SIM_TAP_H
#define HF_SIM_TAP_H

#include <stdbool.h>

/* Prints one line, "ok" or "not ok". */
__attribute__((format(printf, 2, 3))) void tap_result(bool good, const char *format, ...);

/* Prints the plan, at the end; returns how many results were not ok. */
int tap_done(void);

#endif
