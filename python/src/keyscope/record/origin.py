"""Where a recording comes from: the prompt as ids and text, the model, and what ran it."""

from __future__ import annotations

import hashlib
import json
import platform
import struct
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import torch
import transformers
from numpy.typing import NDArray

from .hooks import RecordError, first_device, text_config
from .writer import TokenText

_CONTEXT = 8  # tokens before one that are decoded with it, where its text depends on them


def prompt_ids(tokenizer: Any, prompt: Any, vocab_size: int) -> NDArray[np.int32]:
    """The ids of a prompt: text, ids as they are, or chat messages (dicts with role and content).

    Raises RecordError where there are none, or one is beyond the vocabulary.
    """
    if isinstance(prompt, str):
        ids = _needs(tokenizer, "a prompt of text")(prompt)["input_ids"]
    elif isinstance(prompt, Sequence) and prompt and isinstance(prompt[0], dict):
        template = _needs(tokenizer, "chat messages").apply_chat_template
        ids = template(list(prompt), add_generation_prompt=True, return_dict=True)["input_ids"]
    else:
        ids = prompt
    if isinstance(ids, torch.Tensor):
        ids = ids.detach().cpu().numpy()
    try:
        array = np.asarray(ids)
    except ValueError:
        raise RecordError("the prompt is a list of lists of different lengths; expected the ids of one text") from None
    if array.ndim == 2 and len(array) == 1:
        array = array[0]
    if array.ndim != 1 or array.dtype.kind not in "iu" or not len(array):
        raise RecordError(
            f"the prompt is {type(prompt).__name__} of shape {array.shape}; expected text, ids or messages"
        )
    wrong = np.flatnonzero((array < 0) | (array >= vocab_size))
    if len(wrong):
        raise RecordError(
            f"prompt token {wrong[0]} is id {array[wrong[0]]}, and the model's vocabulary has ids 0 to {vocab_size - 1}"
        )
    return array.astype(np.int32)


def _needs(tokenizer: Any, what: str) -> Any:
    if tokenizer is not None and not callable(tokenizer):
        raise RecordError(f"tokenizer is {type(tokenizer).__name__}; expected a tokenizer of Transformers, or None")
    if tokenizer is None:
        raise RecordError(f"{what} needs a tokenizer, and None was given; give one, or the prompt as ids")
    return tokenizer


def token_text(tokenizer: Any, ids: Sequence[int] | NDArray[np.int32]) -> TokenText:
    """The bytes that each id adds to the decoded text; none without a tokenizer."""
    pieces = [b""] * len(ids) if tokenizer is None else _pieces(tokenizer, [int(id_) for id_ in ids])
    offset = np.concatenate([[0], np.cumsum([len(piece) for piece in pieces], dtype=np.int64)]).astype(np.int64)
    return TokenText(np.asarray(ids, np.int32), b"".join(pieces), offset)


def _pieces(tokenizer: Any, ids: list[int]) -> list[bytes]:
    if _is_byte_level(tokenizer):
        return [_bytes_of(tokenizer, id_) for id_ in ids]
    # A token's text may depend on those before it (a leading space, a character of several tokens).
    pieces: list[bytes] = []
    for index in range(len(ids)):
        before = ids[max(0, index - _CONTEXT) : index]
        old, new = (_decode(tokenizer, some) for some in (before, [*before, ids[index]]))
        # An unfinished character is shown as U+FFFD, and is the text of the token that ends it.
        old, new = old.rstrip("\ufffd"), new.rstrip("\ufffd")
        pieces.append(new[len(old) :].encode() if new.startswith(old) else b"")
    return pieces


def _decode(tokenizer: Any, ids: list[int]) -> str:
    text: str = tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)
    return text


def _is_byte_level(tokenizer: Any) -> bool:
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        return False
    decoder = json.loads(backend.to_str()).get("decoder") or {}
    return any(part.get("type") == "ByteLevel" for part in (decoder, *decoder.get("decoders", ())))


def _byte_of_character() -> dict[str, int]:
    """GPT-2's characters for bytes: printable ones stand for themselves, the others for what follows U+0100."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + i): byte for i, byte in enumerate(others)}


_BYTES = _byte_of_character()


def _bytes_of(tokenizer: Any, id_: int) -> bytes:
    added = tokenizer.added_tokens_decoder.get(id_)
    token = tokenizer.convert_ids_to_tokens(id_)
    if added is not None or token is None:
        return str(added or "").encode()
    if all(character in _BYTES for character in token):
        return bytes(_BYTES[character] for character in token)
    return str(token).encode()


def provenance(model: Any, configuration: dict[str, Any], ids: NDArray[np.int32], seed: int) -> dict[str, str | int]:
    """The attributes of /entry/provenance."""
    holding = {str(parameter.device) for parameter in model.parameters()} - {"meta"}
    devices = sorted(holding or {str(first_device(model))})
    return {
        "command": f"keyscope.record({type(model).__name__}, …)",
        "configuration": json.dumps(configuration),
        "versions": (
            f"keyscope for Python {_version()}, Transformers {transformers.__version__}, PyTorch {torch.__version__}, "
            f"HDF5 {h5py.version.hdf5_version}"
        ),
        "model_sha256": model_sha256(model),
        "prompt_sha256": hashlib.sha256(ids.astype("<i4").tobytes()).hexdigest(),
        "device": ", ".join(_device_name(device) for device in devices),
        "schedule": "block",
        "started": datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "seed": seed,
    }


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("keyscope")
    except PackageNotFoundError:  # used from its sources
        return "0"


def _device_name(device: str) -> str:
    if device.startswith("cuda"):
        return f"{device} ({torch.cuda.get_device_name(device)})"
    return f"{device} ({platform.processor() or platform.machine()}, {torch.get_num_threads()} threads)"


def config_json(model: Any) -> str:
    """config.json as it was read, where the model came from a folder; else what its configuration would write."""
    folder = _folder(model)
    if folder is not None and (folder / "config.json").is_file():
        return (folder / "config.json").read_text(encoding="utf-8")
    text: str = model.config.to_json_string(use_diff=False)
    return text


def model_sha256(model: Any) -> str:
    """Over config.json, and of each weight file its name, its size and its header, as `keyscope capture` has it.

    Of a model that came from no folder: over its configuration and each tensor's name, dtype and shape.
    """
    digest = hashlib.sha256(config_json(model).encode())
    folder = _folder(model)
    files = sorted(folder.glob("*.safetensors")) if folder is not None else []
    for file in files:
        with file.open("rb") as opened:
            head = opened.read(8)
            header = opened.read(struct.unpack("<Q", head)[0])
        for part in (file.name.encode(), b"\0", str(file.stat().st_size).encode(), b"\0", header):
            digest.update(part)
    if not files:
        for name, tensor in sorted(model.state_dict().items()):
            digest.update(f"{name}\0{tensor.dtype}\0{tuple(tensor.shape)}\0".encode())
    return digest.hexdigest()


def _folder(model: Any) -> Path | None:
    name = getattr(model.config, "_name_or_path", "")
    return Path(name) if name and Path(name).is_dir() else None


def model_name(model: Any) -> str:
    """ORG/NAME, or the folder's name; the class's where there is neither."""
    folder = _folder(model)
    if folder is not None:
        return folder.resolve().name
    return getattr(model.config, "_name_or_path", "") or type(model).__name__


def end_ids(model: Any) -> set[int]:
    """The ids after which generation stops: the generation configuration's, else the model's."""
    for config in (getattr(model, "generation_config", None), text_config(model)):
        found = getattr(config, "eos_token_id", None)
        if found is not None:
            return set(found) if isinstance(found, (list, tuple)) else {int(found)}
    return set()
