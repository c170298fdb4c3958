/* Bytes as text: base64 of RFC 4648, section 4, with padding. */
#ifndef ATTN_BASE64_H
#define ATTN_BASE64_H

#include <stddef.h>

/* Characters that n bytes become. */
#define BASE64_SIZE(n) (((n) + 2) / 3 * 4)

/* Writes BASE64_SIZE(n) characters, without a NUL, and returns their number. */
size_t base64_encode(char *text, const void *bytes, size_t n);

#endif
