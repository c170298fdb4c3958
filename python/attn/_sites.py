"""The sites of attn.h's probe, and what TransformerLens calls them."""

from __future__ import annotations

from enum import IntEnum
from typing import Dict, List, NamedTuple, Optional, Tuple

import numpy as np
from numpy.typing import NDArray


class Site(IntEnum):
    """AttnSite: in the order of the forward pass."""
    EMBED = 0
    POS_EMBED = 1
    RESID_PRE = 2
    NORM1_SCALE = 3
    Q = 4
    K = 5
    V = 6
    ROT_Q = 7
    ROT_K = 8
    SCORES = 9
    PATTERN = 10
    Z = 11
    RESULT = 12
    ATTN_OUT = 13
    RESID_MID = 14
    NORM2_SCALE = 15
    ROUTER = 16
    EXPERT_WEIGHTS = 17
    MLP_PRE = 18
    MLP_PRE_LINEAR = 19
    MLP_POST = 20
    MLP_OUT = 21
    RESID_POST = 22
    FINAL_SCALE = 23
    LOGITS = 24


class Name(NamedTuple):
    hook: str  # HookedTransformer's, behind "blocks.3." where it belongs to a layer; as `study dump` has it
    bridge: str = ""  # TransformerBridge's, where it is another
    gated: str = ""  # likewise in an MLP that has a gate


NAMES: Dict[Site, Name] = {
    Site.EMBED: Name("hook_embed", "embed.hook_out"),
    Site.POS_EMBED: Name("hook_pos_embed", "pos_embed.hook_out"),
    Site.RESID_PRE: Name("hook_resid_pre", "hook_in"),
    Site.NORM1_SCALE: Name("ln1.hook_scale"),
    Site.Q: Name("attn.hook_q", "attn.q.hook_out"),
    Site.K: Name("attn.hook_k", "attn.k.hook_out"),
    Site.V: Name("attn.hook_v", "attn.v.hook_out"),
    Site.ROT_Q: Name("attn.hook_rot_q"),
    Site.ROT_K: Name("attn.hook_rot_k"),
    Site.SCORES: Name("attn.hook_attn_scores"),
    Site.PATTERN: Name("attn.hook_pattern"),
    Site.Z: Name("attn.hook_z", "attn.o.hook_in"),
    Site.RESULT: Name("attn.hook_result"),
    Site.ATTN_OUT: Name("hook_attn_out", "attn.hook_out"),
    Site.RESID_MID: Name("hook_resid_mid", "ln2.hook_in"),
    Site.NORM2_SCALE: Name("ln2.hook_scale"),
    Site.ROUTER: Name("mlp.hook_router_logits"),
    Site.EXPERT_WEIGHTS: Name("mlp.hook_expert_weights"),
    Site.MLP_PRE: Name("mlp.hook_pre", "mlp.in.hook_out", "mlp.gate.hook_out"),
    Site.MLP_PRE_LINEAR: Name("mlp.hook_pre_linear", "mlp.in.hook_out"),
    Site.MLP_POST: Name("mlp.hook_post", "mlp.out.hook_in"),
    Site.MLP_OUT: Name("hook_mlp_out", "mlp.hook_out"),
    Site.RESID_POST: Name("hook_resid_post", "hook_out"),
    Site.FINAL_SCALE: Name("ln_final.hook_scale"),
    Site.LOGITS: Name("logits"),
}

KEYED = frozenset({Site.SCORES, Site.PATTERN})  # whose rows have a number for each key
SCALES = frozenset({Site.NORM1_SCALE, Site.NORM2_SCALE, Site.FINAL_SCALE})  # to be looked at only
# Visited a row or a few at a time, a head behind another: the head before is then already in use.
PIECEMEAL = frozenset({Site.SCORES, Site.PATTERN, Site.RESULT})
SIDE_BY_SIDE = frozenset({Site.Q, Site.K, Site.V, Site.ROT_Q, Site.ROT_K, Site.Z})  # a visit to one head shows all
HEADED = SIDE_BY_SIDE | PIECEMEAL
TURNED = frozenset({Site.Q, Site.K, Site.ROT_Q, Site.ROT_K})  # whose numbers may stand in another order in the file

Place = Tuple[Site, int]  # a site of a layer


class Hooks:
    """
    The hooks that a model has: in the order of the forward pass, each with its number of heads (1 where it has none). order
    [d_head]: of TURNED sites, where the file has each number of a head, from first to last; None: in its place.
    """

    def __init__(self, model: str, n_layer: int, heads: Dict[Place, int], order: Optional[NDArray[np.intp]]) -> None:
        self.heads = heads
        self.order = order
        self.n_layer = n_layer
        self._model = model
        self.names: Dict[Place, str] = {place: _full(place, NAMES[place[0]].hook) for place in heads}
        self.places: Dict[str, Place] = {name: place for place, name in self.names.items()}
        for place in heads:
            site, layer = place
            name = NAMES[site]
            gated = (Site.MLP_PRE_LINEAR, layer) in heads
            bridge = name.gated if gated and name.gated else name.bridge
            if bridge:
                self.places[_full(place, bridge)] = place

    def find(self, name: str) -> Place:
        """The place of a name, HookedTransformer's or TransformerBridge's; KeyError lists what there is."""
        place = self.places.get(name)
        if place is None:
            raise KeyError(f"{self._model} has no {name!r}; there are {self._listed()}")
        return place

    def _listed(self) -> str:
        """ "hook_embed, logits, and in blocks.0 … blocks.5: hook_resid_pre, …" """
        outside: List[str] = [name for (site, _), name in self.names.items() if not _in_layer(site)]
        layers: Dict[str, List[int]] = {}
        for site, layer in self.names:
            if _in_layer(site):
                layers.setdefault(NAMES[site].hook, []).append(layer)
        inside = [hook if len(have) == self.n_layer else f"{hook} (only {', '.join(map(str, have))})"
                  for hook, have in layers.items()]
        return f"{', '.join(outside)}, and in blocks.0 … blocks.{self.n_layer - 1}: {', '.join(inside)}"


def _in_layer(site: Site) -> bool:
    return Site.RESID_PRE <= site <= Site.RESID_POST


def _full(place: Place, hook: str) -> str:
    site, layer = place
    return f"blocks.{layer}.{hook}" if _in_layer(site) else hook
