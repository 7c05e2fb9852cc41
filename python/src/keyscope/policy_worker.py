"""The program's side of a policy in Python: a process that scores rows until its requests end.

The program starts it with the source of `keyscope.policies`, so that a policy needs NumPy and nothing else. Requests
are lines of JSON on stdin: where in the shared memory (file descriptor 3) the arrays of one KV head lie. A reply is a
line of JSON, and behind `{"scores": n}` n float64. What the policy prints goes to stderr.
"""

from __future__ import annotations

import json
import mmap
import os
import signal
import sys
import threading
import time
from typing import Any, BinaryIO

import numpy as np

from keyscope import policies

MEMORY = 3  # the file descriptor of the memory
TYPES = {
    "keys": np.float32,
    "values": np.float32,
    "positions": np.int32,
    "last_row": np.float32,
    "attention_received": np.float64,
    "attention_queries": np.int32,
    "window_sums": np.float32,
}


def map_memory() -> np.ndarray[Any, np.dtype[np.uint8]]:
    """All of it, for reading; hardly any of it is there."""
    return np.frombuffer(mmap.mmap(MEMORY, 0, access=mmap.ACCESS_READ), dtype=np.uint8)


def head_of(request: dict[str, Any], memory: np.ndarray[Any, np.dtype[np.uint8]]) -> policies.PolicyInput:
    """Views of the memory, without a copy: {"name": [first byte, rows, columns]} or [first byte, rows]."""
    arrays: dict[str, Any] = {}
    for name, (first, *shape) in request.pop("arrays").items():
        n_bytes = int(np.prod(shape)) * np.dtype(TYPES[name]).itemsize
        arrays[name] = memory[first : first + n_bytes].view(TYPES[name]).reshape(shape)
    return policies.PolicyInput(**request, **arrays)


def serve(function: policies.Scorer, requests: BinaryIO, replies: BinaryIO) -> None:
    memory = map_memory()
    for line in requests:
        head = head_of(json.loads(line), memory)
        try:
            scores = policies.call(function, head)
        except policies.PolicyError as error:
            reply(replies, {"error": str(error)})
            continue
        reply(replies, {"scores": len(scores)}, scores.tobytes())


def reply(replies: BinaryIO, header: dict[str, Any], payload: bytes = b"") -> None:
    replies.write(json.dumps(header).encode() + b"\n" + payload)
    replies.flush()


def end_with(program: int) -> None:
    """A policy that hangs goes with the program. (What the system offers for that goes by the program's threads.)"""
    while os.getppid() == program:
        time.sleep(1)
    os._exit(1)


def main(name: str) -> None:
    """Serves the function that `name` names, and says first what it needs."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the program decides what an interrupt ends
    threading.Thread(target=end_with, args=(os.getppid(),), daemon=True).start()
    requests, replies = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    try:
        function = policies.load(name)
    except policies.PolicyError as error:
        reply(replies, {"error": str(error)})
        return
    needs = policies.needs_of(function)
    reply(replies, {"needs": vars(needs)})
    try:
        serve(function, requests, replies)
    except BrokenPipeError:
        pass  # the program has gone
