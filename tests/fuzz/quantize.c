/* quantize as a function, and its options. */
#include "tests/fuzz/fuzz.h"

#define main quantize_main
#include "../../quantize.c"

const Options fuzz_quantize_options = {known_options, sizeof known_options / sizeof *known_options, NULL};
