/*
 * What the daemon and holdfast-keeper say to each other (COH-01). The keeper holds locks of the
 * kernel for the daemon, so that NFSv4, SMB and programs on the server meet the locks of NFSv3
 * clients, and these meet theirs. The socket is of type SOCK_SEQPACKET: one send is one message.
 *
 *     daemon                                keeper
 *       HELLO version                  ─►
 *                                      ◄─   HELLO status, limits, incarnation
 *       OPS up to HF_KEEPER_OPS_MAX    ─►
 *                                      ◄─   RESULTS, one for each operation, by id, in any order
 *       LIST                           ─►
 *                                      ◄─   HELD ... HELD, the last one with fewer than the most
 *       PATH let go or take back       ─►
 *                                      ◄─   RESULTS
 *       EXPORTS                        ─►
 *                                      ◄─   EXPORTS ... EXPORTS, one export each, the last message
 * without
 *
 * Both ends run on one host, so numbers have its byte order. Every record has a fixed size and
 * every message a limit; hf_keeper_check() judges a message before any field of it is used, because
 * a daemon that faces the network may be in the hands of an attacker.
 *
 * The daemon has one connection at a time. When the connection is lost the keeper holds on: the
 * daemon that comes back asks with LIST and corrects the difference.
 */
#ifndef HF_KEEPER_PROTOCOL_H
#define HF_KEEPER_PROTOCOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    HF_KEEPER_VERSION = 1,
    HF_KEEPER_HANDLE_MAX = 64, /* RFC 1813: NFS3_FHSIZE */
    HF_KEEPER_OPS_MAX = 512,   /* how many operations a message may have */
    HF_KEEPER_PATH_MAX = 4096, /* the longest path in a message, with its zero byte */
    HF_KEEPER_LEASE_MAX_MS = 60 * 60 * 1000,
};

enum hf_keeper_message {
    HF_KEEPER_HELLO = 1, /* struct hf_keeper_hello, the first message in each direction */
    HF_KEEPER_OPS,       /* to the keeper: operations, each a struct hf_keeper_op */
    HF_KEEPER_RESULTS,   /* from the keeper: results, each a struct hf_keeper_result */
    HF_KEEPER_LIST,      /* to the keeper: asks for all that is held; has no record */
    HF_KEEPER_HELD, /* from the keeper: struct hf_keeper_op with kind SET, one for each range */
    /* To the keeper: lets go a path or takes it back; has one struct hf_keeper_path. */
    HF_KEEPER_PATH,
    HF_KEEPER_EXPORTS, /* to the keeper: no record; from it: one struct hf_keeper_export, or none */
};

/* The header in front of the records of every message. */
struct hf_keeper_header {
    uint32_t message;
    uint32_t count; /* how many records the message has */
};

enum hf_keeper_mode { HF_KEEPER_NONE, HF_KEEPER_SHARED, HF_KEEPER_EXCLUSIVE };

enum hf_keeper_kind {
    /* Asks which file a handle means; the result has its identity. */
    HF_KEEPER_RESOLVE,
    /* Raises every byte of the range to at least the mode: all of it, or nothing. */
    HF_KEEPER_CLAIM,
    /* Sets every byte of the range to exactly the mode. Lowering never fails; raising is a claim.
     */
    HF_KEEPER_SET,
    /* Asks whether a claim would conflict with a holder outside. Locks that the keeper itself holds
     * are not seen. */
    HF_KEEPER_TEST,
    /* Makes a claim as soon as the holders outside let go. It has one result: OK, CANCELLED, or why
     * it can never be made. */
    HF_KEEPER_WAIT,
    /* Ends the wait of this id. CANCEL has no result of its own: the wait's result is OK if its
     * claim was made before. */
    HF_KEEPER_CANCEL,
    /* Lets everything go: every lock is released, every file closed, every wait cancelled. */
    HF_KEEPER_RELEASE_ALL,
    /*
     * The lease of a service with standbys is valid until `offset`, in milliseconds of
     * CLOCK_BOOTTIME. From the first RENEW on, the keeper lets everything go when the lease ends. A
     * time later than HF_KEEPER_LEASE_MAX_MS from now is refused (FAILED), because a daemon that an
     * attacker has taken over could keep the files locked after its end. The result's length is 1
     * if the keeper has let everything go since the RENEW before: the daemon then asks with LIST.
     */
    HF_KEEPER_RENEW,
    HF_KEEPER_KINDS,
};

struct hf_keeper_op {
    uint64_t id; /* an id that the daemon chooses, and that the result carries */
    /* Where the range begins; ranges are clamped to the 63 bits that the kernel has. */
    uint64_t offset;
    uint64_t length; /* 0: the range goes to the end of the file, however long it gets */
    uint8_t kind;
    uint8_t mode;
    uint8_t handle_len;
    uint8_t zero[5];
    uint8_t handle[HF_KEEPER_HANDLE_MAX];
};

/* columns: status, text for people */
#define HF_KEEPER_STATUSES(X)                                                                     \
    X(OK, "ok")                                                                                   \
    X(CONFLICT, "held outside") /* the result has the holder */                                   \
    X(CANCELLED, "cancelled")                                                                     \
    X(NOT_YET, "not yet") /* a lease or delegation is being broken, or a search is in progress */ \
    X(UNKNOWN_HANDLE, "no known form of handle, or no file system of the exports has it")         \
    X(STALE, "the file is gone")                                                                  \
    X(NOT_IN_EXPORT, "outside the configured exports")                                            \
    X(NOT_A_FILE, "not a regular file")                                                           \
    X(READ_ONLY, "the file cannot be opened for writing: read-only file system, or immutable")    \
    X(EXECUTED, "the file is a program that is running")                                          \
    X(FOREIGN, "locks of this file system do not meet those of other programs")                   \
    X(TOO_MANY_RANGES, "too many ranges on this file")                                            \
    X(TOO_MANY_FILES, "too many files")                                                           \
    X(TOO_MANY_WAITS, "too many waits")                                                           \
    X(WAS_LET_GO, "the operator has let this file system go")                                     \
    X(LEASE_OVER, "the lease of the service is over")                                             \
    X(NO_MEMORY, "out of memory")                                                                 \
    X(FAILED, "the kernel refused for another reason")

enum hf_keeper_status {
#define X(name, text) HF_KEEPER_##name,
    HF_KEEPER_STATUSES(X)
#undef X
        HF_KEEPER_STATUS_COUNT,
};

/* These return a text for people, and a name for metrics ("not_in_export"); never NULL. */
const char *hf_keeper_status_text(unsigned status);
const char *hf_keeper_status_name(unsigned status);

/* The identity of a file: two handles with one identity name one file. */
struct hf_keeper_identity {
    uint64_t device, inode;
    /* The generation; 0 where the file system has none that its handles show. */
    uint64_t generation;
};

struct hf_keeper_result {
    uint64_t id;
    uint32_t status;
    /* CONFLICT: the holder's pid, -1 where the kernel does not know it (OFD locks). */
    int32_t pid;
    /* The identity of the file, for RESOLVE, CLAIM, SET, TEST and WAIT, once it is known. */
    struct hf_keeper_identity file;
    /* For CONFLICT, the range of the holder outside; length 0: to the end. For PATH, `length` files
     * were closed. For RENEW, see HF_KEEPER_RENEW. */
    uint64_t offset, length;
    /* CONFLICT: the holder's mode; NONE if it had let go before it could be named. */
    uint8_t mode;
    uint8_t zero[7];
};

enum hf_keeper_path_kind {
    /* Closes all files below the path, and refuses new ones there (WAS_LET_GO). */
    HF_KEEPER_LET_GO,
    HF_KEEPER_TAKE_BACK, /* opens files below the path again */
};

struct hf_keeper_path {
    uint64_t id;
    uint32_t kind;
    uint32_t zero;
    char path[HF_KEEPER_PATH_MAX]; /* the absolute path, which ends with a zero byte */
};

/* An export, or a directory that was let go, and what is open below it. */
struct hf_keeper_export {
    uint64_t files, ranges;
    uint32_t let_go; /* 1: the operator has let this directory go */
    uint32_t zero;
    char path[HF_KEEPER_PATH_MAX]; /* the path of the directory, which ends with a zero byte */
};

/* The answer in the keeper's HELLO. */
enum hf_keeper_welcome {
    HF_KEEPER_WELCOME,
    HF_KEEPER_BUSY, /* another daemon is connected */
    /* The keeper speaks another version of the protocol, which `version` names. */
    HF_KEEPER_OTHER_VERSION,
};

struct hf_keeper_hello {
    uint32_t version;
    uint32_t welcome; /* enum hf_keeper_welcome */
    /* A random number that the keeper chose at its start: another number means that locks may be
     * gone. */
    uint64_t incarnation;
    uint64_t files, ranges;                    /* how many files and ranges the keeper holds now */
    uint64_t files_max, ranges_max, waits_max; /* limits; ranges_max is the limit of one file */
    /* How many waits have a thread at a time; the others are tried again after pauses. */
    uint32_t threads;
    uint32_t zero;
};

enum {
    HF_KEEPER_MESSAGE_MAX =
        sizeof(struct hf_keeper_header) + HF_KEEPER_OPS_MAX * sizeof(struct hf_keeper_op),
};

/* Returns the size of a record of this message; 0 for a message without records, or one that is not
 * known. */
size_t hf_keeper_record_size(uint32_t message);

/*
 * Checks a message of `len` bytes that came from the daemon or, with from_keeper, from the keeper.
 * Returns its records, and sets *header; NULL if the message is malformed, belongs to the other
 * side, or has a field that no program of ours sends. For a message without records the pointer
 * must not be followed.
 */
const void *hf_keeper_check(const void *message, size_t len, bool from_keeper,
                            struct hf_keeper_header *header);

#endif
