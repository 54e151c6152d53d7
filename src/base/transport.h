/*
 * The transports of ONC RPC. A client's record in the store says which transport the client used
 * last, so these numbers must never change.
 */
#ifndef HF_BASE_TRANSPORT_H
#define HF_BASE_TRANSPORT_H

enum hf_transport { HF_TRANSPORT_UDP = 1, HF_TRANSPORT_TCP = 2 };

#endif
