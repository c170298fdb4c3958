/* `view` without --json writes a file, and a module has none: these are never reached, for -o is refused before. */
#include "views/page.h"

bool output_spares(const char *option, const char *output, const char *read, const char *what, Error *error) {
    (void)output, (void)read, (void)what;
    return error_set(error, "%s: there are no files here; ask with --json", option);
}

bool page_file_open(Page *page, Error *error) { return output_spares("-o", page->output, NULL, NULL, error); }

bool page_file_write(Page *page, Error *error) { return page_file_open(page, error); }
void page_file_abandon(Page *page) { (void)page; }
