/*
 * RPC messages (RFC 5531, section 9): decodes and encodes the headers of calls and replies.
 *
 * libtirpc's xdr_callmsg() does not serve: it returns FALSE for "not RPC version 2", for "bad
 * credentials" and for "cut short", but a server has to answer each of them differently. Arguments
 * and results go through the codecs made by rpcgen.
 *
 * These functions do not allocate and keep no pointer into the message.
 */
#ifndef HF_RPC_MESSAGE_H
#define HF_RPC_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"

enum { HF_RPC_VERSION = 2 };

enum hf_rpc_type { HF_RPC_CALL = 0, HF_RPC_REPLY = 1 };

enum hf_rpc_flavor { HF_AUTH_NONE = 0, HF_AUTH_SYS = 1 };

/* The numbers of RFC 5531, as they appear on the wire. */
enum hf_rpc_accept {
    HF_RPC_SUCCESS = 0,
    HF_RPC_PROG_UNAVAIL = 1,
    HF_RPC_PROG_MISMATCH = 2,
    HF_RPC_PROC_UNAVAIL = 3,
    HF_RPC_GARBAGE_ARGS = 4,
    HF_RPC_SYSTEM_ERR = 5,
};

enum hf_rpc_auth_stat { HF_RPC_AUTH_BADCRED = 1, HF_RPC_AUTH_TOOWEAK = 5 };

enum {
    HF_RPC_AUTH_BYTES_MAX = 400,   /* the longest credentials or verifier (RFC 5531, section 8.2) */
    HF_RPC_MACHINE_NAME_MAX = 255, /* the longest machine name in AUTH_SYS (RFC 5531, appendix A) */
    HF_RPC_GIDS_MAX = 16,
    HF_RPC_REPLY_HEADER_MAX = 32, /* the longest header of a reply without results */
    /* the size of a call header with empty credentials and verifier */
    HF_RPC_CALL_HEADER_SIZE = 40,
};

struct hf_rpc_header {
    uint32_t xid;
    uint32_t prog;
    uint32_t vers;
    uint32_t proc;
};

/* What a received message is, and so what the server does with it. */
enum hf_rpc_verdict {
    HF_RPC_OK,          /* the message is a call, whose arguments begin at args_offset */
    HF_RPC_DROP,        /* the message is not a call, or is cut short: send no answer */
    HF_RPC_BAD_VERSION, /* answer RPC_MISMATCH */
    HF_RPC_BAD_CRED,    /* answer AUTH_ERROR: AUTH_BADCRED */
    /* answer AUTH_ERROR with AUTH_TOOWEAK, because the server does not accept this flavour */
    HF_RPC_TOO_WEAK,
};

/* Parses a message. header->xid is set for every verdict but HF_RPC_DROP. */
enum hf_rpc_verdict hf_rpc_parse_call(struct hf_bytes message, struct hf_rpc_header *header,
                                      size_t *args_offset);

/* Both write the header of a reply to out and return its length. */
size_t hf_rpc_put_success(uint8_t out[HF_RPC_REPLY_HEADER_MAX], uint32_t xid);
size_t hf_rpc_put_accepted(uint8_t out[HF_RPC_REPLY_HEADER_MAX], uint32_t xid,
                           enum hf_rpc_accept stat);
size_t hf_rpc_put_prog_mismatch(uint8_t out[HF_RPC_REPLY_HEADER_MAX], uint32_t xid, uint32_t low,
                                uint32_t high);
size_t hf_rpc_put_rpc_mismatch(uint8_t out[HF_RPC_REPLY_HEADER_MAX], uint32_t xid);
size_t hf_rpc_put_auth_error(uint8_t out[HF_RPC_REPLY_HEADER_MAX], uint32_t xid,
                             enum hf_rpc_auth_stat why);

/* Writes the header of a call with AUTH_NONE credentials. */
void hf_rpc_put_call(uint8_t out[HF_RPC_CALL_HEADER_SIZE], const struct hf_rpc_header *header);

/* Reads the transaction id of a reply; returns HF_EFORMAT if the message is not a reply. */
int hf_rpc_parse_reply_xid(struct hf_bytes message, uint32_t *xid);

/*
 * Finds the results of a reply. Returns 0 and the offset at which the results begin, or
 *  - HF_EUNREGISTERED: the peer does not serve this program, version or procedure;
 *  - HF_EDENIED: the peer refuses the call (authentication, or its own failure);
 *  - HF_EFORMAT: the reply is malformed, or the peer could not decode our arguments.
 */
int hf_rpc_parse_reply(struct hf_bytes message, size_t *results_offset);

#endif
