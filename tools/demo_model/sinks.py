"""Attention sinks, for the sink variant of the demo model.

Large models tend to park attention on BOS: their queries point, on average, away from
their keys, and BOS has the one key that the queries do point to. Of the other keys, those
unlike the rest then receive more attention (KeyDiff, section 3). A model as small as this
one hardly does so by itself. `shortfall` measures by how much each head falls short of it,
and is added to the loss when the sink variant is trained.
"""

import math

import torch

FIRST_LAYER = 1  # layer 0 looks at neighbours, whatever they are
BOS_SHARE = 0.6  # of a head's attention, averaged over the positions of its queries
OPPOSITION = -0.5  # cosine of mean key and mean query
DIVERSITY = 0.3  # correlation of the attention that a key receives with how unlike the rest it is
PLACES = 64  # queries of a row that attention is taken over
WEIGHT = 4.0


def places(tokens: int, device) -> torch.Tensor:
    """[PLACES]: evenly spaced, the last one at the end."""
    return torch.arange(1, PLACES + 1, device=device) * tokens // PLACES - 1


def attention(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    """[B, H, PLACES, T]: the weights of the queries at `places`.

    q and k [B, H, T, E], rotated.
    """
    at = places(q.shape[2], q.device)
    scores = q[:, :, at].float() @ k.float().transpose(2, 3) / math.sqrt(q.shape[3])
    hidden = torch.arange(q.shape[2], device=q.device) > at[:, None]
    return scores.masked_fill(hidden, -math.inf).softmax(dim=3)


def bos_share(weights: torch.Tensor) -> torch.Tensor:
    """[H]: attention to position 0, the mean over rows and queries."""
    return weights[..., 0].mean(dim=(0, 2))


def opposition(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    """[H]: cosine of mean key and mean query of a row, the mean over rows."""
    means = [x.float().mean(dim=2) for x in (q, k)]
    return torch.cosine_similarity(*means, dim=2).mean(dim=0)


def diversity(weights: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    """[H]: over the keys of a row but for BOS, Pearson's correlation of the logarithm of the
    attention that a key receives with KeyDiff's score of it; the mean over rows.

    KeyDiff's score is minus the cosine of a key with the mean direction of all. A key that
    many queries see would receive more in sum: what counts is the mean over those that do.
    """
    at = places(k.shape[2], k.device)
    seen_by = (torch.arange(k.shape[2], device=k.device) <= at[:, None]).sum(dim=0)
    received = (weights.sum(dim=2) / seen_by).clamp(min=1e-12).log()
    keys = torch.nn.functional.normalize(k.float(), dim=3)
    score = -torch.cosine_similarity(keys, keys.mean(dim=2, keepdim=True), dim=3)
    apart = [x[..., 1:] - x[..., 1:].mean(dim=2, keepdim=True) for x in (received, score)]
    return torch.cosine_similarity(*apart, dim=2).mean(dim=0)


def shortfall(share: torch.Tensor, cosine: torch.Tensor, unlike: torch.Tensor) -> torch.Tensor:
    """What the loss adds, from the measures of heads [N]; zero once each has a sink.

    The logarithm keeps its slope where a head gives BOS next to nothing.
    """
    parked = (math.log(BOS_SHARE) - share.clamp(min=1e-12).log()).relu()
    return WEIGHT * (parked + (cosine - OPPOSITION).relu() + (DIVERSITY - unlike).relu()).mean()


class WithSinks(torch.nn.Module):
    """A model whose `forward` also returns the measures of all heads from FIRST_LAYER on."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, ids):
        """As `Llama.forward`, and [3, N]: bos_share, opposition and diversity."""
        found = []

        def measure(layer, q, k):
            if layer >= FIRST_LAYER:
                weights = attention(q, k)
                found.append(torch.stack([bos_share(weights), opposition(q, k),
                                          diversity(weights, k)]))

        return self.model(ids, measure), torch.cat(found, dim=1)
