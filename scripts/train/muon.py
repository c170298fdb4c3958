"""Muon, the optimiser of a large step for matrices (Jordan 2024)."""
import math

import torch


class Muon(torch.optim.AdamW):
    """Muon (Jordan 2024) for the groups marked so, AdamW for the others. A matrix moves against its momentum with all
    singular values brought near 1, times what lets AdamW's learning rate and decay fit (Liu et al. 2025)."""

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            if group["muon"]:
                self.move(group)
        super().step()

    def move(self, group):
        """All matrices of one shape at once."""
        moves = {}
        for p in group["params"]:
            state = self.state[p]
            if not state:
                state.update(step=torch.tensor(0.0), momentum=torch.zeros_like(p))  # AdamW looks for a step
            momentum = state["momentum"].lerp_(p.grad, 0.05)
            rows, columns = p.shape
            parts = 3 if rows == 3 * columns else 1  # Q, K and V lie in one matrix
            update = p.grad.lerp(momentum, 0.95).view(parts, -1, columns)
            moves.setdefault(update.shape[1:], []).append((p, update))
            p.grad = None  # AdamW passes it by
        for shape, pairs in moves.items():
            updates = orthogonal(torch.cat([update for _, update in pairs])).split([len(update) for _, update in pairs])
            for (p, _), update in zip(pairs, updates):
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.add_(update.reshape(p.shape), alpha=-0.2 * math.sqrt(max(shape)) * group["lr"])


def orthogonal(g):
    """Nearly U V^T of each matrix U S V^T: five steps of Jordan's Newton-Schulz iteration."""
    x = g.bfloat16() / (g.norm(dim=(1, 2), keepdim=True) + 1e-7).bfloat16()
    tall = x.shape[1] > x.shape[2]
    x = x.mT if tall else x
    for _ in range(5):
        a = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(a, a, a, beta=-4.7750, alpha=2.0315), x, beta=3.4445)
    return (x.mT if tall else x).type_as(g)
