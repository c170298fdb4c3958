#include "views/attribute_edges.h"
static bool compute(AttributeView *view, Error *error) {
    (void)view;
    return error_set(error, "not there yet");
}
static bool show(Report *report, AttributeView *view, Error *error) {
    (void)report, (void)view;
    return error_set(error, "not there yet");
}
const AttributeWay attribute_edges = {NULL, compute, show};
