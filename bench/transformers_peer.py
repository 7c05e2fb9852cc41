"""What the measurements beside Transformers have in common: options, Keyscope's part, a model and its tokens."""

import json
import subprocess
import time


def best_seconds(run, wait, times=6):
    best = float("inf")
    for _ in range(times):
        wait()
        started = time.perf_counter()
        run()
        wait()
        best = min(best, time.perf_counter() - started)
    return best


def fastest_dtype(torch):
    """Of bfloat16 and float32, that in which PyTorch multiplies faster on this processor."""
    def seconds(dtype):
        x, w = torch.rand(256, 1024, dtype=dtype), torch.rand(1024, 1024, dtype=dtype)
        return best_seconds(lambda: torch.nn.functional.linear(x, w), lambda: None)
    return min(("bfloat16", "float32"), key=lambda name: seconds(getattr(torch, name)))


class TransformersPeer:
    """Loads the model as Keyscope runs it. Needs `model`, `dtype`, `device`, `threads` and `tokens` of the
    command line."""

    def __init__(self, arguments, model=None):
        """model: the same, loaded already"""
        import torch
        from transformers import AutoModelForCausalLM
        self.torch, self.arguments = torch, arguments
        torch.set_num_threads(arguments.threads)
        wanted = getattr(arguments, "peer_dtype", arguments.dtype)
        if wanted == "fastest":  # on a GPU the model's own is
            wanted = fastest_dtype(torch) if arguments.device == "cpu" else arguments.dtype
        dtype = getattr(torch, wanted)
        self.model = model or AutoModelForCausalLM.from_pretrained(
            arguments.model, dtype=dtype, attn_implementation="sdpa").eval().to(arguments.device)
        generator = torch.Generator().manual_seed(0)
        self.ids = torch.randint(self.model.config.vocab_size, (1, arguments.tokens), generator=generator).to(
            arguments.device)

    def dtype_name(self):
        return str(self.model.dtype).removeprefix("torch.")

    def wait(self):
        """Until the device has done all that it was given: a clock read before knows nothing."""
        if self.arguments.device == "cuda":
            self.torch.cuda.synchronize()


def bench_keyscope(arguments, what, *options):
    """The result of one `keyscope bench` in a process of its own; its own clock, so that loading is not counted."""
    command = [arguments.keyscope, "bench", what, "--model", arguments.model, "--block", str(arguments.block),
               "--tokens", str(arguments.tokens), "--threads", str(arguments.threads), "--dtype", arguments.dtype,
               "--device", arguments.device, "--repeat", "1", "--quiet", "--json", "-", *options]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def add_common_options(parser, tokens):
    parser.add_argument("keyscope")
    parser.add_argument("model")
    parser.add_argument("--tokens", type=int, default=tokens)
    parser.add_argument("--block", type=int, default=128)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--dtype", default="bfloat16", choices=("bfloat16", "float32"))
    parser.add_argument("--peer-dtype", default="fastest", choices=("fastest", "bfloat16", "float32"),
                        help="of PyTorch's side; fastest: in which it multiplies faster on this processor")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
