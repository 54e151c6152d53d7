/*
 * The ONC RPC program numbers that Holdfast serves or calls, as IANA assigned them. The headers
 * that rpcgen makes from the files in proto/ define the same numbers; each room that uses such a
 * header asserts that both agree.
 */
#ifndef HF_BASE_PROGRAMS_H
#define HF_BASE_PROGRAMS_H

enum {
    HF_PROGRAM_RPCBIND = 100000,
    HF_PROGRAM_NFS = 100003,
    HF_PROGRAM_NLM = 100021,
    HF_PROGRAM_NSM = 100024,
};

#endif
