/*
 * The functions of cli/program.h that deal with processes and signals: a module has neither. To stop it, end its
 * worker.
 */
#include "cli/program.h"

void catch_signals(const char *program) { (void)program; }
bool interrupted(void) { return false; }
void last_words(void) {}
