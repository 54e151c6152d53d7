/*
 * Assertions that stay in production.
 *
 * HF_ASSERT states an invariant of our own code; when it does not hold the process stops at once,
 * because a lock manager that has lost its mind must not go on promising. It is never used on what
 * came from the network, a file or an operator: that is checked, and answered with an error.
 */
#ifndef HF_BASE_CHECK_H
#define HF_BASE_CHECK_H

/* Writes where and what to standard error, then aborts. */
_Noreturn void hf_panic(const char *file, int line, const char *what);

#define HF_ASSERT(cond) ((cond) ? (void)0 : hf_panic(__FILE__, __LINE__, #cond))

/* The branch that cannot be taken. */
#define HF_UNREACHABLE() hf_panic(__FILE__, __LINE__, "unreachable")

#define HF_COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

#endif
