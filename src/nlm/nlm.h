/*
 * NLM, the Network Lock Manager, program 100021 versions 1, 3 and 4 (NLM-01): the tables of its
 * procedures.
 *
 * The caller keeps struct hf_nlm alive as long as the server that serves it.
 */
#ifndef HF_NLM_NLM_H
#define HF_NLM_NLM_H

#include "rpc/program.h"

struct hf_nlm {
    struct hf_rpc_program program;
};

void hf_nlm_init(struct hf_nlm *nlm);

#endif
