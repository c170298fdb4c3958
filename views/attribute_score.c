#include "views/attribute.h"

static bool check(const StudyOptions *options, const AttributeView *v, Error *error) {
    (void)options, (void)v, (void)error;
    return true;
}

static bool compute(AttributeView *v, Error *error) {
    (void)v;
    return error_set(error, "not there yet");
}

static bool show(Report *report, AttributeView *v, Error *error) {
    (void)report, (void)v, (void)error;
    return true;
}

const AttributeWay attribute_score = {check, compute, show};
