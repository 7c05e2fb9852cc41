"""Recordings written from models of Hugging Face Transformers; needs torch and transformers."""

from __future__ import annotations

import sys
import types
from typing import Any

from .hooks import RecordError
from .press import record_press
from .recorder import record

__all__ = ["RecordError", "record", "record_press"]


class _Package(types.ModuleType):
    """This package has the name of its function: `keyscope.record(…)` records, whichever was imported first."""

    def __call__(self, *args: Any, **options: Any) -> Any:
        return record(*args, **options)


sys.modules[__name__].__class__ = _Package
