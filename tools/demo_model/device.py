"""Where to train, and what is fast there."""

import torch

# The type of matrix products: bfloat16 where it is multiplied fast; elsewhere it is many times
# slower than float32.
FAST = {
    "cpu": torch.bfloat16 if torch.cpu._is_avx512_bf16_supported() else torch.float32,
    "cuda": torch.bfloat16,
}


def at_hand() -> str:
    """The device that trains fastest."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def suit_device(args) -> None:
    """What was not asked for, as the device does best."""
    on_gpu = args.device == "cuda"
    for name, value in (("processes", 1 if on_gpu else 2), ("drawn_by", 2 if on_gpu else 0),
                        ("compile", not on_gpu), ("bf16", FAST[args.device] == torch.bfloat16)):
        if getattr(args, name) is None:
            setattr(args, name, value)
