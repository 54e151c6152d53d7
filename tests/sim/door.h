/*
 * The server's door: a simulated message goes through the handlers (wire.h) to the core, and the
 * core's answer back through them.
 *
 * What the answer must be is worked out from the naive model before the core is asked
 * (predict.h), and the model follows the answer.
 */
#ifndef HF_SIM_DOOR_H
#define HF_SIM_DOOR_H

#include "config.h"
#include "core/core.h"
#include "message.h"

struct sim_world;

/* A host's status monitor has named its state, or (0) could not be asked. Decides the notices that
 * waited for this. */
void sim_door_verified(struct sim_world *world, unsigned host, int32_t state);

/* The same as sim_door_verified() for the machine's other mounts that joined the question; called
 * when the core has heard the answer. */
void sim_door_twins_verified(struct sim_world *world, unsigned host, int32_t state);

/* The core has begun to verify a notice of this host, or one forged in its name; or it believes the
 * notice and has begun to release the host's locks. */
void sim_door_undecided(struct sim_world *world, unsigned host, int32_t claimed, int32_t recorded);

/* True if a notice is still being verified for any of the clients that it concerns. */
bool sim_door_is_undecided(struct sim_world *world, const struct sim_message *notice,
                           unsigned hosts);

/* Executes a request through the handlers and the core, and sends the answer. */
void sim_door_execute(struct sim_world *world, const struct sim_message *request);

/* A host's NSM state as the server has it recorded; -1 if the server does not know the host. */
int32_t sim_recorded_state(struct sim_world *world, unsigned host);

/* Addresses and names of simulated machines; host config.hosts is the server's name. */
void sim_names_begin(enum sim_twins kind);
unsigned sim_machine(unsigned host); /* the first of the hosts that are mounts of this machine */
bool sim_is_same_address(unsigned host, unsigned other);
/* The two hosts are mounts of one machine, by the same address of the server. */
bool sim_is_same_server(unsigned host, unsigned other);
struct hf_addr sim_host_addr(unsigned host);
/* The address of the server that this host sends to. */
struct hf_addr sim_server_addr(unsigned host);
enum hf_transport sim_host_transport(unsigned host);
struct hf_bytes sim_host_name(unsigned host, enum sim_name name);
struct hf_bytes sim_server_name(void);
struct hf_bytes sim_file_handle(unsigned file);
struct hf_bytes sim_owner_handle(unsigned host, unsigned proc);

/* The host that has this address; -1 if no simulated host has it. */
int sim_host_of_addr(const struct hf_addr *addr);
int sim_host_of_record(const struct hf_record_client *client);
int sim_host_of_client(const struct sim_world *world, uint64_t client_id,
                       const struct hf_addr *addr);
int sim_file_of_handle(struct hf_bytes fh);

#endif
