"""Muon in f32. The optimizer of torch computes in bf16, which is much slower on CPUs without bf16 instructions.

The method: https://kellerjordan.github.io/posts/muon/. The step is scaled to the size of one of AdamW, so that both can use the same rate.
"""

import math
from collections import defaultdict

import torch

COEFFICIENTS = (3.4445, -4.775, 2.0315)
ITERATIONS = 5


def orthogonalized(updates):
    """Returns [n, rows, columns] matrices with the singular vectors of `updates` and singular values near 1."""
    a, b, c = COEFFICIENTS
    is_tall = updates.size(1) > updates.size(2)
    x = updates.mT if is_tall else updates
    x = x / x.norm(dim=(1, 2), keepdim=True).clamp(min=1e-7)
    for _ in range(ITERATIONS):
        gram = x @ x.mT
        x = a * x + (b * gram + c * (gram @ gram)) @ x
    return x.mT if is_tall else x


class Muon(torch.optim.Optimizer):
    """For 2-D parameters. Matrices of the same shape are computed together."""

    def __init__(self, params, lr, weight_decay=0.05, momentum=0.95):
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay, "momentum": momentum})

    def update_of(self, p, momentum):
        """Returns the update of a parameter with Nesterov momentum."""
        state = self.state[p]
        if "momentum" not in state:
            state["momentum"] = torch.zeros_like(p.grad)
        average = state["momentum"].lerp_(p.grad, 1 - momentum)
        return p.grad.lerp(average, momentum)

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            by_shape = defaultdict(list)
            for p in group["params"]:
                by_shape[p.shape].append(p)
            for (rows, columns), params in by_shape.items():
                updates = orthogonalized(torch.stack([self.update_of(p, group["momentum"]) for p in params]))
                rate = group["lr"] * 0.2 * math.sqrt(max(rows, columns))
                for p, update in zip(params, updates):
                    p.mul_(1 - group["lr"] * group["weight_decay"]).sub_(update, alpha=rate)
