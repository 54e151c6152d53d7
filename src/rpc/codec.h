/* The type of every codec that rpcgen makes here (scripts/run-rpcgen): encodes or decodes one
 * object, as the stream says. */
#ifndef HF_RPC_CODEC_H
#define HF_RPC_CODEC_H

#include <rpc/rpc.h>

typedef bool_t (*hf_codec)(XDR *xdr, void *object);

#endif
