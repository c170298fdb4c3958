#include "base/locale.h"

PlainLocale locale_begin(void) {
    locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    return (PlainLocale){plain, plain ? uselocale(plain) : (locale_t)0};
}

void locale_end(PlainLocale locale) {
    if (!locale.plain) return;
    uselocale(locale.before);
    freelocale(locale.plain);
}
