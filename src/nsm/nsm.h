/*
 * NSM, the Network Status Monitor, program 100024 version 1 (NSM-01): the table of its procedures.
 *
 * The caller keeps struct hf_nsm alive as long as the server that serves it.
 */
#ifndef HF_NSM_NSM_H
#define HF_NSM_NSM_H

#include <stdint.h>

#include "rpc/program.h"

struct hf_nsm {
    struct hf_rpc_program program;
    int32_t state; /* this server's state number: odd while it is up (NSM-06) */
};

void hf_nsm_init(struct hf_nsm *nsm);

#endif
