/* The type of every codec that rpcgen generates here (scripts/run-rpcgen): it encodes or decodes
 * one object, depending on the direction of the stream. */
#ifndef HF_RPC_CODEC_H
#define HF_RPC_CODEC_H

#include <rpc/rpc.h>

typedef bool_t (*hf_codec)(XDR *xdr, void *object);

#endif
