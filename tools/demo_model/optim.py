"""Muon (Keller Jordan 2024): momentum, with the step made near-orthogonal."""

import torch

# The type of the iteration: bfloat16 where the processor multiplies it, or else it is many
# times slower than float32.
FAST = torch.bfloat16 if torch.cpu._is_avx512_bf16_supported() else torch.float32


def orthogonalise(g: torch.Tensor, steps: int = 5) -> torch.Tensor:
    """g [m, n] with its singular values moved near 1, by Newton-Schulz iteration."""
    a, b, c = 3.4445, -4.7750, 2.0315
    tall = g.shape[0] > g.shape[1]
    x = (g.T if tall else g).to(FAST)
    x = x / (x.norm() + 1e-7)
    for _ in range(steps):
        s = x @ x.T
        x = a * x + (b * s + c * s @ s) @ x
    return (x.T if tall else x).to(g.dtype)


class Muon(torch.optim.Optimizer):
    """For weight matrices of hidden layers; the rest goes to AdamW."""

    def __init__(self, params, lr: float = 0.02, momentum: float = 0.95):
        super().__init__(params, {"lr": lr, "momentum": momentum})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["buffer"] = torch.zeros_like(p)
                buffer = state["buffer"]
                buffer.lerp_(p.grad, 1 - group["momentum"])
                update = orthogonalise(p.grad.lerp(buffer, group["momentum"]))
                scale = max(1.0, p.shape[0] / p.shape[1]) ** 0.5
                p.add_(update, alpha=-group["lr"] * scale)
