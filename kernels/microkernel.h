/* What attention's weighted sums take from here. */
#ifndef ATTN_MICROKERNEL_H
#define ATTN_MICROKERNEL_H
#include "weights.h"
enum { TOKENS = 6 };
#define FOR_TOKENS(tokens, function, ...)                                                                    \
    switch (tokens) {                                                                                        \
    case 1: function(1, __VA_ARGS__); break;                                                                 \
    case 2: function(2, __VA_ARGS__); break;                                                                 \
    case 3: function(3, __VA_ARGS__); break;                                                                 \
    case 4: function(4, __VA_ARGS__); break;                                                                 \
    case 5: function(5, __VA_ARGS__); break;                                                                 \
    case TOKENS: function(TOKENS, __VA_ARGS__); break;                                                       \
    }
#endif
