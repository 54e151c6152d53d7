/* The format of the recording: one header per event, then len bytes. */
#ifndef HF_TESTS_STORE_RECORDER_H
#define HF_TESTS_STORE_RECORDER_H

#include <stdbool.h>
#include <stdint.h>

enum event_type {
    EVENT_WRITE = 1,         /* a write into the page cache */
    EVENT_WRITE_THROUGH = 2, /* a write that is durable when it returns (O_DSYNC) */
    EVENT_SYNC = 3,
    EVENT_ACK = 4, /* a batch was acknowledged; the bytes are its number, 64 bits */
};

enum { STORE_FILES = 2 };

static const char *const STORE_FILE_NAMES[STORE_FILES] = {"data.mdb", "journal"};

struct event {
    uint32_t type;
    uint32_t file; /* index into STORE_FILE_NAMES */
    uint64_t offset;
    uint64_t len;
};

#endif
