/*
 * The error codes of all of Holdfast. A function that can fail returns 0 or one of these codes,
 * which are negative. Output parameters come last, and a failure leaves them unchanged unless the
 * function's comment says otherwise.
 */
#ifndef HF_BASE_ERROR_H
#define HF_BASE_ERROR_H

/* The columns of this table: code, value, text for people. */
#define HF_ERRORS(X)                                                           \
    X(HF_ENOMEM, -1, "out of memory")                                          \
    X(HF_EINVAL, -2, "invalid value")                                          \
    X(HF_ENOENT, -3, "not found")                                              \
    X(HF_EEXIST, -4, "already there")                                          \
    X(HF_ELIMIT, -5, "a limit is reached")                                     \
    X(HF_EFORMAT, -6, "malformed data")                                        \
    X(HF_EVERSION, -7, "written by a newer version")                           \
    X(HF_EIO, -8, "input/output error")                                        \
    X(HF_ENOSPC, -9, "no space left")                                          \
    X(HF_EROFS, -10, "read-only")                                              \
    X(HF_EBUSY, -11, "in use by another process")                              \
    X(HF_EFENCED, -12, "another daemon has taken over")                        \
    X(HF_EDENIED, -13, "not permitted")                                        \
    X(HF_ETIMEDOUT, -14, "timed out")                                          \
    X(HF_EUNREACH, -15, "cannot be reached")                                   \
    X(HF_EREFUSED, -16, "refused by the peer")                                 \
    X(HF_EUNREGISTERED, -17, "program not registered with the peer's rpcbind") \
    X(HF_ECANCELED, -18, "canceled")                                           \
    X(HF_EUNAVAIL, -19, "not available")                                       \
    X(HF_EBEHIND, -20, "the database has lost acknowledged transactions")

enum hf_error {
#define X(name, value, text) name = (value),
    HF_ERRORS(X)
#undef X
};

/* Returns a short English text for a code; never NULL. The text for 0 is "success". */
const char *hf_strerror(int code);

#endif
