/* Tests of templates, as jinja2's tests.py (3.1) defines them. */
#include "jinja/jinja.h"

#include <math.h>

#define UNUSED (void)r, (void)self, (void)p, (void)args
#define TEST(name, condition)                                                                                \
    static Any name(Render *r, Any self, const Any *p, const Args *args) {                                   \
        return UNUSED, value_bool(condition);                                                                \
    }

TEST(is_boolean, self.kind == VALUE_BOOL)
TEST(is_callable, self.kind >= VALUE_LOOP || self.kind == VALUE_UNDEFINED)
TEST(is_defined, self.kind != VALUE_UNDEFINED)
TEST(is_undefined, self.kind == VALUE_UNDEFINED)
TEST(is_none, self.kind == VALUE_NONE)
TEST(is_true, self.kind == VALUE_BOOL && self.integer)
TEST(is_false, self.kind == VALUE_BOOL && !self.integer)
TEST(is_float, self.kind == VALUE_FLOAT)
TEST(is_an_integer, self.kind == VALUE_INT)
TEST(is_a_number, is_number(self))
TEST(is_string, self.kind == VALUE_STRING)
TEST(is_mapping, self.kind == VALUE_DICT)
TEST(is_iterable, is_list(self) || self.kind == VALUE_STRING || self.kind == VALUE_DICT ||
                      self.kind == VALUE_UNDEFINED || self.kind == VALUE_LOOP)
TEST(is_sequence, self.kind == VALUE_LIST || self.kind == VALUE_TUPLE || self.kind == VALUE_STRING ||
                      self.kind == VALUE_DICT || self.kind == VALUE_UNDEFINED)
TEST(is_equal, value_equals(r, self, p[0]))
TEST(is_unequal, !value_equals(r, self, p[0]))
TEST(is_less, value_compare(r, self, p[0]) < 0)
TEST(is_greater, value_compare(r, self, p[0]) > 0)
TEST(is_at_most, value_compare(r, self, p[0]) <= 0)
TEST(is_at_least, value_compare(r, self, p[0]) >= 0)
TEST(is_in, value_contains(r, p[0], self))
TEST(is_filter, self.kind == VALUE_STRING && find_filter(string_of(self)))

/* The same object, for which values that are not changed count by what they are. */
TEST(is_same,
     self.kind == p[0].kind &&
         (is_list(self) || self.kind >= VALUE_DICT ? self.items == p[0].items : value_equals(r, self, p[0])))

/* The rest of an integer by another. */
static bool divides(Render *r, Any self, Any by, int64_t rest) {
    if (is_number(self) && is_number(by) && number_of(by) != 0 && !(is_integer(self) && is_integer(by)))
        return fabs(fmod(number_of(self), number_of(by))) == (double)rest;
    if (!is_integer(self) || !is_integer(by) || by.integer == 0)
        fail(r, "%s is not divided by %s", value_type(self), value_type(by));
    return !r->failed && (by.integer == -1 || self.integer % by.integer == 0) == (rest == 0);
}
TEST(is_odd, divides(r, self, value_int(2), 1))
TEST(is_even, divides(r, self, value_int(2), 0))
TEST(is_divisible, divides(r, self, p[0], 0))

TEST(is_lower, text_has_case(r, text_of(value_to_text(r, self)), 'l'))
TEST(is_upper, text_has_case(r, text_of(value_to_text(r, self)), 'u'))

static const Builtin tests[] = {
    {"!=", "other!", is_unequal},
    {"<", "other!", is_less},
    {"<=", "other!", is_at_most},
    {"==", "other!", is_equal},
    {">", "other!", is_greater},
    {">=", "other!", is_at_least},
    {"boolean", "", is_boolean},
    {"callable", "", is_callable},
    {"defined", "", is_defined},
    {"divisibleby", "num!", is_divisible},
    {"eq", "other!", is_equal},
    {"equalto", "other!", is_equal},
    {"even", "", is_even},
    {"false", "", is_false},
    {"filter", "", is_filter},
    {"float", "", is_float},
    {"ge", "other!", is_at_least},
    {"greaterthan", "other!", is_greater},
    {"gt", "other!", is_greater},
    {"in", "seq!", is_in},
    {"integer", "", is_an_integer},
    {"iterable", "", is_iterable},
    {"le", "other!", is_at_most},
    {"lessthan", "other!", is_less},
    {"lower", "", is_lower},
    {"lt", "other!", is_less},
    {"mapping", "", is_mapping},
    {"ne", "other!", is_unequal},
    {"none", "", is_none},
    {"number", "", is_a_number},
    {"odd", "", is_odd},
    {"sameas", "other!", is_same},
    {"sequence", "", is_sequence},
    {"string", "", is_string},
    {"true", "", is_true},
    {"undefined", "", is_undefined},
    {"upper", "", is_upper},
};

bool call_test(Render *r, String name, Any self, const Args *args) {
    const Builtin *test = find_builtin(tests, sizeof tests / sizeof *tests, name);
    if (!test) fail(r, "no test is named '%.*s'", string_shown(name), name.data);
    return !r->failed && call_builtin(r, test, self, args).integer;
}
