"""Recordings written from models of Hugging Face Transformers, which with PyTorch are imported when they are needed."""

from __future__ import annotations

import sys
import types
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .hooks import RecordError
    from .press import record_press
    from .recorder import record

__all__ = ["RecordError", "record", "record_press"]

_PLACES = {"RecordError": "hooks", "record": "recorder", "record_press": "press"}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(f".{_PLACES[name]}", __name__), name)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("keyscope"):
            raise
        sentence = f"keyscope.{name} needs {error.name}, which is not installed: pip install 'keyscope[record]'"
        raise ModuleNotFoundError(sentence, name=error.name) from error


class _Package(types.ModuleType):
    """This package has the name of its function: `keyscope.record(…)` records, whichever was imported first."""

    def __call__(self, *args: Any, **options: Any) -> Any:
        return self.record(*args, **options)


sys.modules[__name__].__class__ = _Package
