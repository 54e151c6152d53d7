/*
 * Registers our services with the system's rpcbind. Every function blocks until rpcbind has
 * answered, up to a few seconds, or in libtirpc up to a minute per service when rpcbind is gone. So
 * they are called only while the daemon starts or stops, or on a worker thread.
 */
#ifndef HF_RPCBIND_CLIENT_H
#define HF_RPCBIND_CLIENT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/hash.h"
#include "rpcbind/rpcbind.h"

enum { HF_RPCBIND_ERROR_MAX = 512 };

/* True if an rpcbind answers on this host at present. */
bool hf_rpcbind_system_present(const struct hf_hash_key *key);

/*
 * Registers all services, which must be listening already. A registration left behind by a process
 * that has ended is replaced, and so is that of a user who has no business with the program
 * (holder.h). If the owner of a registration still answers, the result is HF_EBUSY and none of the
 * services stays registered. On failure error holds a text that says what is in the way and what
 * the operator can do.
 */
int hf_rpcbind_system_register(const struct hf_rpcbind_service *services, size_t n,
                               const struct hf_hash_key *key, char error[HF_RPCBIND_ERROR_MAX]);
void hf_rpcbind_system_unregister(const struct hf_rpcbind_service *services, size_t n);

#endif
