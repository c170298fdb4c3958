#include "probe.h"

const char *probe_site_name(ProbeSite site) {
    static const char *const names[PROBE_N_BACK_SITES] = {
        "embed",
        "pos_embed",
        "resid_pre",
        "ln1_scale",
        "q",
        "k",
        "v",
        "rot_q",
        "rot_k",
        "scores",
        "pattern",
        "z",
        "result",
        "attn_out",
        "resid_mid",
        "ln2_scale",
        "router_logits",
        "expert_weights",
        "mlp_pre",
        "mlp_pre_linear",
        "mlp_post",
        "mlp_out",
        "resid_post",
        "ln_final_scale",
        "logits",
        "q_input",
        "k_input",
        "v_input",
        "gate_input",
        "state_input",
        "mlp_input",
    };
    return site < PROBE_N_BACK_SITES ? names[site] : "?";
}

void probe_rows(const Probe *probe, ProbeSite site, size_t layer, size_t position, float *data, size_t n,
                size_t d) {
    if (!probe || !probe->wants(probe->user, site, layer, 0)) return;
    probe->visit(probe->user, &(Activation){site, layer, 0, position, n, d, d, data});
}

void probe_heads(const Probe *probe, ProbeSite site, size_t layer, size_t position, float *data, size_t n,
                 size_t n_head, size_t d_head) {
    if (!probe) return;
    for (size_t head = 0; head < n_head; head++)
        if (probe->wants(probe->user, site, layer, head))
            probe->visit(probe->user, &(Activation){site, layer, head, position, n, d_head, n_head * d_head,
                                                    data + head * d_head});
}
