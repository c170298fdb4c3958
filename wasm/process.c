/* What of cli/program.h is a matter of processes and signals: a module has neither. Who wants it to stop ends its worker. */
#include "cli/program.h"

void catch_signals(const char *program) { (void)program; }
bool interrupted(void) { return false; }
void last_words(void) {}
