/* SHA-256 (FIPS 180-4), by which a page says which script it may run. */
#ifndef ATTN_SHA256_H
#define ATTN_SHA256_H

#include <stddef.h>

enum { SHA256_BYTES = 32 };

/* The digest of n bytes. */
void sha256(unsigned char digest[SHA256_BYTES], const void *bytes, size_t n);

#endif
