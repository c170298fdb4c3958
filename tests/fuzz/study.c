/* study as a function, and the options that its views share. */
#include "tests/fuzz/fuzz.h"

#define main study_main
#include "../../study.c"

const Options fuzz_study_options[] = {
    {all_know, COUNT(all_know), NULL},
    {of_a_model, COUNT(of_a_model), NULL},
    {of_a_text, COUNT(of_a_text), NULL},
};

const View *const *const fuzz_views = views;
const size_t fuzz_n_views = N_VIEWS;
