/* A module's system has these beside the C library's. */
#ifndef ATTN_WASM_SYSTEM_H
#define ATTN_WASM_SYSTEM_H

#include <stddef.h>

/* Memory at a cache line's address, for free; NULL where there is too little. */
void *system_room(size_t n);

#endif
