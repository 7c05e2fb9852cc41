"""What the measurements beside Transformers have in common: options, Keyscope's part, a model and its tokens."""

import json
import subprocess


class TransformersPeer:
    """Loads the model as Keyscope runs it. Needs `model`, `dtype`, `device`, `threads` and `tokens` of the
    command line."""

    def __init__(self, arguments, model=None):
        """model: the same, loaded already"""
        import torch
        from transformers import AutoModelForCausalLM
        self.torch, self.arguments = torch, arguments
        torch.set_num_threads(arguments.threads)
        self.model = model or AutoModelForCausalLM.from_pretrained(
            arguments.model, dtype=getattr(torch, arguments.dtype), attn_implementation="sdpa").eval().to(
                arguments.device)
        generator = torch.Generator().manual_seed(0)
        self.ids = torch.randint(self.model.config.vocab_size, (1, arguments.tokens), generator=generator).to(
            arguments.device)

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
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
