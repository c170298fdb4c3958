/*
 * cli/process.h in a module, which has no process: nothing interrupts it, for whoever wants it to stop ends its worker, and
 * time stands still, for it is told to people only, who would read it on a terminal.
 */
#include "cli/process.h"

void catch_signals(const char *program) { (void)program; }
bool interrupted(void) { return false; }
void expect_interrupt(void) {}
void last_words(void) {}
double now_ms(void) { return 0; }
