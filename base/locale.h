/*
 * The C locale, in which numbers have a point and days English names, for a calling thread whose process has another: an
 * application that embeds the engine chooses its own.
 */
#ifndef ATTN_LOCALE_H
#define ATTN_LOCALE_H

#include <locale.h>

typedef struct PlainLocale {
    locale_t plain, before;
} PlainLocale;

/* From here to locale_end; where there is no memory for a locale, the process's stays. */
PlainLocale locale_begin(void);
void locale_end(PlainLocale locale);

#endif
