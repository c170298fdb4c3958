/* The one file of a module's system, which the page gives. */
#ifndef ATTN_WASM_SYSTEM_H
#define ATTN_WASM_SYSTEM_H

#include <stddef.h>

/* Memory at a cache line's address, for free; NULL where there is too little. */
void *system_room(size_t n);

/* From now on the file at path has these n bytes, which came from system_room; who maps it owns them. */
void system_give(const char *path, void *bytes, size_t n);

#endif
