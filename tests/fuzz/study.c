/* study as a function, and its views. */
#include "tests/fuzz/fuzz.h"

#define main study_main
#include "../../study.c"

const View *const *const fuzz_views = views;
const size_t fuzz_n_views = N_VIEWS;
