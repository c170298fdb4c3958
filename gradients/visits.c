#include "gradients/visits.h"

void gradient_rows(const GradientProbe *probe, ProbeSite site, size_t layer, size_t position,
                   const float *data, float *gradient, size_t n, size_t d) {
    if (!gradient_wanted(probe, site, layer, 0)) return;
    probe->visit(probe->user, &(Activation){site, layer, 0, position, n, d, d, (float *)data}, gradient);
}

void gradient_heads(const GradientProbe *probe, ProbeSite site, size_t layer, const float *data,
                    float *gradient, size_t n, size_t n_head, size_t d_head) {
    for (size_t head = 0; head < n_head; head++)
        if (gradient_wanted(probe, site, layer, head))
            probe->visit(probe->user,
                         &(Activation){site, layer, head, 0, n, d_head, n_head * d_head,
                                       (float *)data + head * d_head},
                         gradient + head * d_head);
}
