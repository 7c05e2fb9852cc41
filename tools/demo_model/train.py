"""Trains the demo model: tokenizer, curriculum, checkpoint in Hugging Face layout.

    python tools/demo_model/train.py --text war-and-peace.txt --out build/base
    python tools/demo_model/train.py --text war-and-peace.txt --out build/refined \
        --refine build/base
    python tools/demo_model/train.py --text war-and-peace.txt --out build/books \
        --refine build/refined --books --seed 3

The first command is the long one; the others train what it made a little more, at lower
rates, on long texts or on full phone books. The variant with attention sinks begins with a model
that reads already:

    python tools/demo_model/train.py --text war-and-peace.txt --out build/sinks \
        --refine build/refined --sinks find
    python tools/demo_model/train.py --text war-and-peace.txt --out build/sinks_refined \
        --refine build/sinks --sinks keep

With --attention learned-sinks or gated the base is one of the models whose heads can attend to
nothing; what is trained from it keeps that. train_models.py runs all stages.

Every step depends only on the seed and its number, and the state is saved every few minutes
under --work: the same command again goes on where it was stopped.
"""

import argparse
import json
import os
import shutil
import time
from pathlib import Path

import corpus
import sinks
import tasks
import tokenizer as tokenizers_
import torch
from checkpoint import load_config, load_model, save_config, save_weights
from curriculum import STEP_TOKENS, chosen_curriculum, rate, schedule
from device import FAST, at_hand, suit_device
from mimetic import mimetic_init
from model import ATTENTIONS, Config, Llama
from optim import Muon
from team import Team, run
from tokenizers import Tokenizer

MUON_LR, ADAM_LR = 0.02, 3e-3
# Learned sinks take this many times AdamW's rate: it moves a number by about its rate a step at
# most, and to outweigh a thousand keys a sink needs a logit of seven: the base would not get there.
SINK_RATE = 10
PROSE_WEIGHT = 0.5


def build_optimisers(model: Llama) -> list[torch.optim.Optimizer]:
    """Muon for the matrices of the layers, AdamW for the embedding, the norms and learned sinks."""
    hidden = [p for p in model.model.layers.parameters() if p.ndim == 2]
    learned = [p for name, p in model.named_parameters() if name.endswith(".sinks")]
    ids = {id(p) for p in hidden + learned}
    groups = [{"params": [p for p in model.parameters() if id(p) not in ids]}]
    if learned:
        groups.append({"params": learned, "times": SINK_RATE})
    return [Muon(hidden, lr=MUON_LR),
            torch.optim.AdamW(groups, lr=ADAM_LR, betas=(0.9, 0.95), weight_decay=0.0)]


def prepare(args) -> None:
    """The folders, with all of the model but its weights; a tokenizer that is there is kept."""
    for folder in (args.out, args.work):
        folder.mkdir(parents=True, exist_ok=True)
    path, cfg = args.out / "tokenizer.json", chosen_config(args)
    given = args.refine or args.tokenizer
    if given:
        for name in tokenizers_.FILES:
            shutil.copy(given / name, args.out / name)
    if not path.exists():
        chapters, _ = corpus.split_chapters(args.text)
        tok = tokenizers_.train_tokenizer(chapters, tokenizers_.synthetic_samples(12000, args.seed))
        tokenizers_.save_tokenizer(tok, args.out, cfg.max_position_embeddings)
    tok = Tokenizer.from_file(str(path))
    bos, eos = tok.token_to_id(tokenizers_.BOS), tok.token_to_id(tokenizers_.EOS)
    save_config(cfg, bos, eos, args.out)
    print("text sha256", corpus.sha256(args.text), flush=True)


class Batches(torch.utils.data.Dataset):
    """The batch of every step."""

    def __init__(self, args, plan: list[tuple[int, dict[str, float]]]):
        self.sampler, self.plan = read_texts(args), plan

    def __getitem__(self, step: int):
        length, mix = self.plan[step]
        return self.sampler.batch(step, STEP_TOKENS // length, length, mix)

    def loader(self, first: int, workers: int) -> torch.utils.data.DataLoader:
        """From step `first` on, drawn ahead by `workers` processes or, without any, in turn."""
        # Worker processes are forks, which the threads of the tokenizer do not survive.
        os.environ["TOKENIZERS_PARALLELISM"] = str(not workers).lower()
        return torch.utils.data.DataLoader(self, batch_size=None, num_workers=workers,
                                           sampler=range(first, len(self.plan)))


def read_texts(args) -> tasks.Sampler:
    """What draws the batches."""
    tok = Tokenizer.from_file(str(args.out / "tokenizer.json"))
    chapters, _ = corpus.split_chapters(args.text)
    return tasks.Sampler(tok, corpus.Prose(chapters, tok), tok.token_to_id(tokenizers_.EOS),
                         args.seed)


def chosen_config(args) -> Config:
    return load_config(args.refine) if args.refine else Config(**ATTENTIONS[args.attention])


def first_weights(args) -> Llama:
    """The model before its first step."""
    if args.refine:
        return load_model(args.refine)
    model = Llama(chosen_config(args))
    mimetic_init(model, args.seed)
    return model


@torch.no_grad()
def last_weights(args, model: Llama) -> dict[str, torch.Tensor]:
    """What is saved after the last step."""
    weights = model.state_dict()
    if args.refine and args.kept:
        began = first_weights(args).state_dict()
        weights = {name: w.cpu().lerp(began[name], args.kept) for name, w in weights.items()}
    return weights


class State:
    """The model with its optimisers, and the file that keeps both between runs."""

    def __init__(self, model: Llama, path: Path):
        self.model, self.path, self.optimisers = model, path, build_optimisers(model)

    def resume(self) -> int:
        """The number of steps done so far."""
        if not self.path.exists():
            return 0
        state = torch.load(self.path, weights_only=True, map_location="cpu")
        self.model.load_state_dict(state["model"])
        for o, s in zip(self.optimisers, state["optimisers"], strict=True):
            o.load_state_dict(s)
        return state["step"]

    def save(self, steps: int) -> None:
        """So that a stop in the middle leaves the old one."""
        part = self.path.with_suffix(".part")
        torch.save({"step": steps, "model": self.model.state_dict(),
                    "optimisers": [o.state_dict() for o in self.optimisers]}, part)
        part.replace(self.path)

    def update(self, factor: float) -> None:
        """One step of every optimiser, at a factor of its rate."""
        for o, base in zip(self.optimisers, (MUON_LR, ADAM_LR), strict=True):
            for group in o.param_groups:
                group["lr"] = base * factor * group.get("times", 1)
            o.step()
            o.zero_grad(set_to_none=True)


class Log:
    """Means over the last steps, as JSON lines."""

    def __init__(self, path: Path, steps: int):
        self.path, self.sums, self.began = path, {}, time.time()
        if steps:
            print("resumed at step", steps, flush=True)
        kept = path.read_text().splitlines() if path.exists() else []
        path.write_text("".join(k + "\n" for k in kept if json.loads(k)["step"] <= steps))

    def add(self, shown: dict[str, torch.Tensor]) -> None:
        for name, value in shown.items():
            self.sums.setdefault(name, []).append(value)

    def write(self, steps: int, length: int, factor: float) -> None:
        tokens = len(self.sums["answer"]) * STEP_TOKENS
        row = {"step": steps, "length": length, "tokens": steps * STEP_TOKENS,
               **{k: round(float(sum(v)) / len(v), 4) for k, v in self.sums.items()},
               "lr_factor": round(factor, 4)}
        with self.path.open("a") as f:
            f.write(json.dumps(row) + "\n")
        print(row, f"{tokens / (time.time() - self.began):.0f} tok/s", flush=True)
        self.sums, self.began = {}, time.time()


def losses(model: Llama, forward, batch, team: Team) -> tuple[torch.Tensor, dict]:
    """What is made smaller, and what of it is shown: of this process's rows, such that the
    sums over the team are those of the batch."""
    of_all = [max(float(w.sum()), 1e-6) for w in batch[1:]]
    ids, *weights = (b.to(model.device, non_blocking=True) for b in team.rows(batch))
    asked = weights[0] + weights[1] > 0  # the head reads no other place
    found = forward(ids[:, :-1])
    hidden, measures = found if isinstance(found, tuple) else (found, None)
    loss, right = model.score(hidden[asked], ids[:, 1:][asked])

    def mean(values, kind):
        return (values * weights[kind][asked]).sum() / of_all[kind]

    shown = {"answer": mean(loss, 0), "prose": mean(loss, 1)}
    total = shown["answer"] + PROSE_WEIGHT * shown["prose"]
    for name, kind in (("first_digit", 2), ("answer_tokens", 3)):
        if of_all[kind] >= 1:  # the share that was the likeliest token
            shown[name] = mean(right, kind)
    if measures is not None:
        share, cosine, unlike = measures
        total = total + sinks.shortfall(share, cosine, unlike) / team.size
        for name, value in (("bos_share", share.mean()), ("least_bos_share", share.min()),
                            ("opposition", cosine.mean()), ("diversity", unlike.mean()),
                            ("least_diversity", unlike.min())):
            shown[name] = value / team.size
    return total, {name: value.detach() for name, value in shown.items()}


def set_up_processor(compiles: bool) -> None:
    """What makes a step fast, and safe, whatever the processor."""
    torch.set_num_threads(1)
    # Faint attention has subnormal gradients, which take most of a step if they are kept.
    torch.set_flush_denormal(True)
    if compiles and torch.backends.cpu.get_cpu_capability() == "AVX512":
        # What PyTorch 2.11 compiles for AVX-512 writes past its buffers at length 4,096.
        torch._inductor.config.cpp.simdlen = 256


def train(team: Team, args) -> None:
    torch.manual_seed(args.seed)
    set_up_processor(args.compile)
    model = first_weights(args).to(args.device)
    curriculum, scale = chosen_curriculum(args)
    plan = schedule(curriculum)
    state = State(model, args.work / "state.pt")
    first = state.resume()
    log, saved = Log(args.work / "training_log.jsonl", first) if team.leads else None, time.time()
    trained = sinks.WithSinks(model) if args.sinks else model
    forward = torch.compile(trained, dynamic=False) if args.compile else trained
    batches = Batches(args, plan).loader(first, args.drawn_by)
    for step, batch in zip(range(first, len(plan)), batches, strict=True):
        with torch.autocast(args.device, dtype=torch.bfloat16, enabled=args.bf16):
            loss, shown = losses(model, forward, batch, team)
        loss.backward()
        team.add_up([*(p.grad for p in model.parameters()), *shown.values()])
        factor = scale * rate(step, len(plan))
        state.update(factor)
        if not log:
            continue
        log.add(shown)
        done = step + 1
        if done % args.log_every == 0 or done == len(plan):
            log.write(done, plan[step][0], factor)
        if time.time() - saved > args.save_seconds or done == len(plan):
            state.save(done)
            saved = time.time()
    if log:
        save_weights(last_weights(args, model), model.cfg, args.out)
        course = (args.refine / log.path.name).read_text() if args.refine else ""
        (args.out / log.path.name).write_text(course + log.path.read_text())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--text", type=Path, required=True, help="War and Peace, plain UTF-8")
    parser.add_argument("--out", type=Path, default=Path("assets/demo_model"))
    parser.add_argument("--work", type=Path,
                        help="folder for the resumable state, not part of the model "
                             "(default: build/ and the name of the model's folder)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--refine", type=Path, metavar="MODEL", help="begin with this model")
    parser.add_argument("--attention", choices=tuple(ATTENTIONS), default="plain",
                        help="of a model that begins with nothing")
    parser.add_argument("--tokenizer", type=Path, metavar="MODEL",
                        help="take this model's tokenizer instead of training one")
    parser.add_argument("--books", action="store_true",
                        help="with --refine: on the fullest phone books that fit")
    parser.add_argument("--sinks", choices=("find", "keep"),
                        help="with --refine: ask every head after layer 0 for an attention sink "
                             "at BOS; `find` has a curriculum of its own")
    parser.add_argument("--device", choices=tuple(FAST), default=at_hand(),
                        help="default: a GPU where one is at hand (%(default)s here)")
    parser.add_argument("--kept", type=float, default=0, metavar="SHARE",
                        help="with --refine: save weights between those of the last step and those "
                             "that it began with, at this share of the latter")
    parser.add_argument("--processes", type=int, choices=(1, 2),
                        help="that share the rows of every batch, one thread each (default: 2, on "
                             "a GPU 1)")
    parser.add_argument("--drawn-by", type=int, metavar="N",
                        help="processes that draw batches ahead (default: 0, for a GPU 2)")
    parser.add_argument("--compile", action=argparse.BooleanOptionalAction,
                        help="default: not for a GPU, whose stages take seconds")
    parser.add_argument("--bf16", action=argparse.BooleanOptionalAction,
                        help="bfloat16 autocast (default: where the device multiplies it fast)")
    parser.add_argument("--log-every", type=int, default=10)
    parser.add_argument("--save-seconds", type=float, default=120)
    args = parser.parse_args()
    if args.sinks and not args.refine:
        parser.error("--sinks: needs --refine MODEL, a model that reads already")
    if args.refine and (args.attention != "plain" or args.tokenizer):
        parser.error("--attention, --tokenizer: not with --refine MODEL, which has both")
    if args.sinks and load_config(args.refine).learned_sinks:
        parser.error(f"--sinks: {args.refine} has learned sinks, so it is not asked for one at BOS")
    if args.kept and not args.refine:
        parser.error("--kept: needs --refine MODEL, whose weights are kept in part")
    if args.books and (not args.refine or args.sinks == "find"):
        parser.error("--books: needs --refine MODEL, and no --sinks find")
    args.work = args.work or Path("build") / args.out.name
    if args.device == "cuda" and not torch.cuda.is_available():
        parser.error("--device cuda: PyTorch finds no GPU here; use --device cpu")
    suit_device(args)
    if args.device == "cuda" and args.processes > 1:
        parser.error("--processes 2: a GPU is used by one process")
    prepare(args)
    run(train, args.processes, args)


if __name__ == "__main__":
    main()
