"""Recordings of KV caches under eviction policies.

    import keyscope

    recording = keyscope.open("needle.h5")
    recording.difference("keydiff", "snapkv")

Reading needs h5py, NumPy, pandas and xarray. `keyscope.record` makes a recording from any Transformers model and
`keyscope.record_press` shows what a kvpress press keeps; they need the extras `record` and `press`, and are imported
when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from .display import token_label
from .hdf5 import MissingError, RecordingError
from .layer import Head, Layer
from .program import Figure, ProgramError
from .recording import Model, Recording, open
from .run import Run

if TYPE_CHECKING:
    from .policies import PolicyError, PolicyInput, policy
    from .record import RecordError, record, record_press
    from .study import study_table

try:
    __version__ = version("keyscope")
except PackageNotFoundError:  # used from a checkout that is not installed
    __version__ = "0"

__all__ = [
    "Figure",
    "Head",
    "Layer",
    "MissingError",
    "Model",
    "PolicyError",
    "PolicyInput",
    "ProgramError",
    "RecordError",
    "Recording",
    "RecordingError",
    "Run",
    "open",
    "policy",
    "record",
    "record_press",
    "study_table",
    "token_label",
]

# What is imported when it is first asked for, and from where.
_LATER = {
    "PolicyError": "policies",
    "PolicyInput": "policies",
    "RecordError": "record",
    "policy": "policies",
    "record": "record",
    "record_press": "record",
    "study_table": "study",
}


def __getattr__(name: str) -> Any:
    module = _LATER.get(name)
    if module is None:
        raise AttributeError(f"module 'keyscope' has no attribute {name!r}")
    found = getattr(import_module(f".{module}", __name__), name)
    globals()[name] = found  # over a submodule of that name
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
