/* run as a function, and its options. */
#include "tests/fuzz/fuzz.h"

#define main run_main
#include "../../cli/run_options.c"
#include "../../run.c"

const Options fuzz_run_options = {known_options, sizeof known_options / sizeof *known_options, NULL};
