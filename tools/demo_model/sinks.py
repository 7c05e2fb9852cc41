"""Attention sinks, for the twin of the demo model.

Large models tend to park attention on BOS: their queries point, on average, away from
their keys, and BOS has the one key that the queries do point to (KeyDiff, section 3).
A model as small as this one hardly does so by itself. `shortfall` measures by how much
each head falls short of it, and is added to the loss when the twin is trained.
"""

import math

import torch

FIRST_LAYER = 1  # layer 0 looks at neighbours, whatever they are
BOS_SHARE = 0.6  # of a head's attention, averaged over the positions of its queries
OPPOSITION = -0.5  # cosine of mean key and mean query
PLACES = 64  # queries of a row that the share is taken over
WEIGHT = 4.0


def bos_share(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    """[H]: attention to position 0, the mean over rows and PLACES evenly spaced queries.

    q and k [B, H, T, E], rotated.
    """
    tokens = q.shape[2]
    at = torch.arange(1, PLACES + 1, device=q.device) * tokens // PLACES - 1
    scores = q[:, :, at].float() @ k.float().transpose(2, 3) / math.sqrt(q.shape[3])
    seen = torch.arange(tokens, device=q.device) <= at[:, None]
    weights = scores.masked_fill(~seen, -math.inf).softmax(dim=3)
    return weights[..., 0].mean(dim=(0, 2))


def opposition(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    """[H]: cosine of mean key and mean query of a row, the mean over rows."""
    means = [x.float().mean(dim=2) for x in (q, k)]
    return torch.cosine_similarity(*means, dim=2).mean(dim=0)


def shortfall(share: torch.Tensor, cosine: torch.Tensor) -> torch.Tensor:
    """What the loss adds, from both measures of heads [N]; zero once each has a sink.

    The logarithm keeps its slope where a head gives BOS next to nothing.
    """
    parked = (math.log(BOS_SHARE) - share.clamp(min=1e-12).log()).relu()
    return WEIGHT * (parked + (cosine - OPPOSITION).relu()).mean()


class WithSinks(torch.nn.Module):
    """A model whose `forward` also returns both measures of all heads from FIRST_LAYER on."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, ids):
        """As `Llama.forward`, and [2, N]: bos_share and opposition."""
        found = []

        def measure(layer, q, k):
            if layer >= FIRST_LAYER:
                found.append(torch.stack([bos_share(q, k), opposition(q, k)]))

        return self.model(ids, measure), torch.cat(found, dim=1)
