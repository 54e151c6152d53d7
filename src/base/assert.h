/*
 * Assertions that stay enabled in production.
 *
 * HF_ASSERT states an invariant of our own code. When it does not hold the process stops at once,
 * because a lock manager with corrupt state must not grant another lock. Never use it on input from
 * the network, a file or an operator: check such input and answer with an error.
 */
#ifndef HF_BASE_ASSERT_H
#define HF_BASE_ASSERT_H

/* Writes the place and the failed condition to standard error, then aborts. */
_Noreturn void hf_panic(const char *file, int line, const char *what);

#define HF_ASSERT(cond) ((cond) ? (void)0 : hf_panic(__FILE__, __LINE__, #cond))

/* Marks a branch that can never be reached. */
#define HF_UNREACHABLE() hf_panic(__FILE__, __LINE__, "unreachable")

#define HF_COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

#endif
