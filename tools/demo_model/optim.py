"""Muon (Keller Jordan 2024): momentum, with the step made near-orthogonal.

PyTorch's own iterates in bfloat16, which most processors are many times slower at, and one
matrix after another.
"""

import torch
from device import FAST


def orthogonalise(g: torch.Tensor, steps: int = 5) -> torch.Tensor:
    """g [..., m, n] with the singular values of each matrix moved near 1, by Newton-Schulz
    iteration."""
    a, b, c = 3.4445, -4.7750, 2.0315
    tall = g.shape[-2] > g.shape[-1]
    x = (g.mT if tall else g).to(FAST[g.device.type])
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(steps):
        s = x @ x.mT
        x = a * x + (b * s + c * s @ s) @ x
    return (x.mT if tall else x).to(g.dtype)


def together(matrices: list[torch.Tensor]) -> list[list[torch.Tensor]]:
    """What is orthogonalised at once: on a GPU, where most of the time goes into starting
    kernels, all matrices of one shape; a processor is faster with one after another."""
    lots: dict = {}
    for index, matrix in enumerate(matrices):
        lots.setdefault(matrix.shape if matrix.is_cuda else index, []).append(matrix)
    return list(lots.values())


class Muon(torch.optim.Optimizer):
    """For weight matrices of hidden layers; the rest goes to AdamW."""

    def __init__(self, params, lr: float = 0.02, momentum: float = 0.95):
        super().__init__(params, {"lr": lr, "momentum": momentum})

    def _momentum(self, p: torch.Tensor, momentum: float) -> torch.Tensor:
        """Nesterov's, of the gradients so far."""
        state = self.state[p]
        if not state:
            state["buffer"] = torch.zeros_like(p)
        state["buffer"].lerp_(p.grad, 1 - momentum)
        return p.grad.lerp(state["buffer"], momentum)

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for lot in together([p for p in group["params"] if p.grad is not None]):
                steps = orthogonalise(torch.stack([self._momentum(p, group["momentum"])
                                                   for p in lot]))
                for p, update in zip(lot, steps, strict=True):
                    scale = max(1.0, p.shape[0] / p.shape[1]) ** 0.5
                    p.add_(update, alpha=-group["lr"] * scale)
