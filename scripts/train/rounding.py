"""Matrices as blocks of a file hold them, for a model that learns to do with these."""
import torch


def round_blocks(values, bits):
    """The same matrix as blocks of 32 in GGUF hold it: whole numbers of so many bits times a half, which makes the
    value that is farthest from 0 the lowest of them (Q4_0, Q5_0 and, but for a last bit, Q8_0)."""
    blocks, lowest = values.reshape(-1, 32), -(1 << (bits - 1))
    scales = blocks.gather(1, blocks.abs().argmax(1, keepdim=True)) / lowest
    whole = (blocks / scales.where(scales != 0, torch.ones_like(scales))).round().clamp(lowest, -lowest - 1)
    return (whole * scales.half().float()).view_as(values)


class Rounded:
    """While it is entered, the matrices are rounded; the gradients found then move the exact ones (the straight-through
    estimator of Bengio et al. 2013). So a model learns to do with what its file will hold."""

    def __init__(self, model, bits):
        self.bits = bits
        self.matrices = [p for name, p in model.named_parameters() if p.dim() == 2 and not name.startswith("position")]

    @torch.no_grad()
    def __enter__(self):
        self.exact = [p.clone() for p in self.matrices]
        for p in self.matrices:
            p.copy_(round_blocks(p, self.bits))

    @torch.no_grad()
    def __exit__(self, *_):
        for p, exact in zip(self.matrices, self.exact):
            p.copy_(exact)
