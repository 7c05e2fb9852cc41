"""Processes that train one model together: each reads its rows of every batch.

With matrices as small as these a second process is worth far more than a second thread.
"""

import tempfile

import torch
from torch import distributed, multiprocessing


class Team:
    """What one of `size` processes needs to know of the others."""

    def __init__(self, rank: int = 0, size: int = 1):
        self.rank, self.size = rank, size
        self.leads = rank == 0  # writes files and the log

    def rows(self, arrays):
        """This process's share of each array, along the first axis."""
        return [a[self.rank::self.size] for a in arrays]

    @torch.no_grad()
    def add_up(self, tensors: list[torch.Tensor]) -> None:
        """Replaces each tensor by its sum over the processes."""
        if self.size == 1:
            return
        flat = torch.cat([t.flatten() for t in tensors])
        distributed.all_reduce(flat)
        for t, total in zip(tensors, flat.split([t.numel() for t in tensors]), strict=True):
            t.copy_(total.view_as(t))


def _join(rank: int, size: int, meeting: str, work, args) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank,
                                   world_size=size)
    work(Team(rank, size), args)
    distributed.destroy_process_group()


def run(work, size: int, args) -> None:
    """`work(team, args)` in `size` processes, which end together."""
    if size == 1:
        work(Team(), args)
        return
    with tempfile.TemporaryDirectory() as folder:
        multiprocessing.spawn(_join, (size, f"{folder}/meeting", work, args), nprocs=size)
