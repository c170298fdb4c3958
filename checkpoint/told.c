/* Names of tensors as errors tell them. */
#include "format.h"

#include <stdio.h>
#include <string.h>

/* The bytes of "blk.12" at a name's beginning; 0: it is of no layer. */
static size_t layer_bytes(String name) {
    size_t n = 4;
    if (!string_begins(name, "blk.")) return 0;
    while (n < name.n && name.data[n] >= '0' && name.data[n] <= '9') n++;
    return n;
}

/*
 * Puts the number of a layer, ".12" of "blk.12", in the place of another's in that one's own name. False where it is written in
 * another way there.
 */
static bool move_to_layer(TensorName *own, String number, String others) {
    char dotted[24];
    TensorName rest;
    snprintf(dotted, sizeof dotted, "%.*s.", (int)others.n, others.data);
    char *at = strstr(own->text, dotted);
    if (!at) return false;
    snprintf(rest.text, sizeof rest.text, "%s", at + others.n);
    snprintf(at, sizeof own->text - (size_t)(at - own->text), "%.*s%s", (int)number.n, number.data,
             rest.text);
    return true;
}

TensorName checkpoint_told(const Checkpoint *checkpoint, String name) {
    TensorName told, its;
    const size_t n = layer_bytes(name);
    snprintf(told.text, sizeof told.text, "%.*s", (int)name.n, name.data);
    for (size_t i = 0; i < checkpoint->n_tensors; i++) {
        const Tensor *tensor = &checkpoint->tensors[i];
        const String other = tensor->name, own = tensor->own_name;
        const size_t other_n = layer_bytes(other);
        if (own.n == 0 || other.n - other_n != name.n - n ||
            memcmp(other.data + other_n, name.data + n, name.n - n) != 0)
            continue;
        snprintf(its.text, sizeof its.text, "%.*s", (int)own.n, own.data);
        if (string_compare(other, name) == 0) return its;
        if (n > 0 && other_n > 0 &&
            move_to_layer(&its, (String){name.data + 3, n - 3}, (String){other.data + 3, other_n - 3}))
            told = its;
    }
    return told;
}
