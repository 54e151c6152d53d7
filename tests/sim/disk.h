/* Reads the simulated disk in the terms of the oracle: which cells are held according to the lock
 * records, which hosts are registered, and which epoch it is. Whatever the server has promised must
 * be found there. */
#ifndef HF_SIM_DISK_H
#define HF_SIM_DISK_H

struct sim_world;

/* Brings disk, registered and durable_epoch of the server up to date with its records. */
void sim_disk_read(struct sim_world *world);

#endif
