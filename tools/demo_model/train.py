"""Trains the demo model: tokenizer, curriculum, checkpoint in Hugging Face layout.

    python tools/demo_model/train.py --text war-and-peace.txt --out assets/demo_model

Every step depends only on the seed and its number, and the state is saved every
few minutes under --work: the same command again goes on where it was stopped.
"""

import argparse
import json
import math
import time
from pathlib import Path

import corpus
import tasks
import tokenizer as tokenizers_
import torch
from mimetic import mimetic_init
from model import Config, Llama, save_config, save_model
from optim import Muon
from tokenizers import Tokenizer

STEP_TOKENS = 8192
# length, million tokens, mix
CURRICULUM = [
    (128, 1.2, {"phonebook": 6, "needle": 3, "repeat": 0.5, "prose": 0.7}),
    (256, 1.5, {"phonebook": 5, "needle": 4, "repeat": 0.3, "prose": 0.7}),
    (512, 2.9, {"phonebook": 5, "needle": 5, "repeat": 0.2, "prose": 0.7}),
    (1024, 4.5, {"phonebook": 5, "needle": 5, "repeat": 0.1, "prose": 0.7}),
    (2048, 2.2, {"phonebook": 5, "needle": 5, "repeat": 0.1, "prose": 0.7}),
]
MUON_LR, ADAM_LR, WARMUP, FLOOR = 0.02, 3e-3, 20, 0.1
PROSE_WEIGHT = 0.5


def schedule() -> list[tuple[int, dict[str, float]]]:
    """(length, mix) of every step."""
    plan = []
    for length, million, mix in CURRICULUM:
        plan += [(length, mix)] * round(million * 1e6 / STEP_TOKENS)
    return plan


def rate(step: int, steps: int) -> float:
    """Learning-rate factor: linear warm-up, then cosine down to FLOOR."""
    if step < WARMUP:
        return (step + 1) / WARMUP
    done = (step - WARMUP) / max(1, steps - WARMUP)
    return FLOOR + (1 - FLOOR) * 0.5 * (1 + math.cos(math.pi * done))


def build_optimisers(model: Llama) -> list[torch.optim.Optimizer]:
    """Muon for the matrices of the layers, AdamW for the embedding and the norms."""
    hidden = [p for p in model.model.layers.parameters() if p.ndim == 2]
    ids = {id(p) for p in hidden}
    rest = [p for p in model.parameters() if id(p) not in ids]
    return [Muon(hidden, lr=MUON_LR),
            torch.optim.AdamW(rest, lr=ADAM_LR, betas=(0.9, 0.95), weight_decay=0.0)]


def prepare(args) -> tuple[Tokenizer, corpus.Prose]:
    """Trains and saves the tokenizer (or loads the saved one); reads the prose."""
    chapters, _ = corpus.split_chapters(args.text)
    path = args.out / "tokenizer.json"
    if path.exists():
        tok = Tokenizer.from_file(str(path))
    else:
        tok = tokenizers_.train_tokenizer(chapters, tokenizers_.synthetic_samples(500, args.seed))
        tokenizers_.save_tokenizer(tok, args.out, Config().max_position_embeddings)
    bos, eos = tok.token_to_id(tokenizers_.BOS), tok.token_to_id(tokenizers_.EOS)
    save_config(Config(), bos, eos, args.out)
    return tok, corpus.Prose(chapters, tok)


def save_state(path: Path, step: int, model, optimisers) -> None:
    """Writes the training state so that a stop in the middle leaves the old one."""
    part = path.with_suffix(".part")
    torch.save({"step": step, "model": model.state_dict(),
                "optimisers": [o.state_dict() for o in optimisers]}, part)
    part.replace(path)


def train(args) -> None:
    torch.manual_seed(args.seed)
    torch.set_num_threads(args.threads)
    args.out.mkdir(parents=True, exist_ok=True)
    args.work.mkdir(parents=True, exist_ok=True)
    tok, prose = prepare(args)
    print("text sha256", corpus.sha256(args.text), "tokens", sum(prose.lengths), flush=True)
    if args.tokenizer_only:
        return
    sampler = tasks.Sampler(tok, prose, tok.token_to_id(tokenizers_.EOS), args.seed)
    model = Llama(Config())
    mimetic_init(model, args.seed)
    optimisers = build_optimisers(model)
    plan, first, log = schedule(), 0, args.work / "training_log.jsonl"
    state_file = args.work / "state.pt"
    if state_file.exists():
        state = torch.load(state_file, weights_only=True)
        first = state["step"]
        model.load_state_dict(state["model"])
        for o, s in zip(optimisers, state["optimisers"], strict=True):
            o.load_state_dict(s)
        print("resumed at step", first, flush=True)
    kept = log.read_text().splitlines() if log.exists() else []
    log.write_text("".join(k + "\n" for k in kept if json.loads(k)["step"] <= first))
    forward = torch.compile(model, dynamic=False) if args.compile else model
    sums, began, saved = {}, time.time(), time.time()
    for step in range(first, len(plan)):
        length, mix = plan[step]
        batch = sampler.batch(step, STEP_TOKENS // length, length, mix)
        ids, answer, prose_w, firsts, whole = map(torch.from_numpy, batch)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=args.bf16):
            loss, right = forward(ids[:, :-1], ids[:, 1:])
        answers = (loss * answer).sum() / answer.sum().clamp(min=1e-6)
        reading = (loss * prose_w).sum() / prose_w.sum().clamp(min=1.0)
        (answers + PROSE_WEIGHT * reading).backward()
        for o, base in zip(optimisers, (MUON_LR, ADAM_LR), strict=True):
            o.param_groups[0]["lr"] = base * rate(step, len(plan))
            o.step()
            o.zero_grad(set_to_none=True)
        shown = {"answer": answers, "prose": reading}
        for name, mask in (("first_digit", firsts), ("answer_tokens", whole)):
            if mask.any():  # the share that was the likeliest token
                shown[name] = (right * mask).sum() / mask.sum()
        for name, value in shown.items():
            sums.setdefault(name, []).append(float(value.detach()))
        done = step + 1
        if done % args.log_every == 0 or done == len(plan):
            row = {"step": done, "length": length, "tokens": done * STEP_TOKENS,
                   **{k: round(sum(v) / len(v), 4) for k, v in sums.items()},
                   "lr_factor": round(rate(step, len(plan)), 4)}
            with log.open("a") as f:
                f.write(json.dumps(row) + "\n")
            print(row, f"{len(sums['answer']) * STEP_TOKENS / (time.time() - began):.0f} tok/s",
                  flush=True)
            sums, began = {}, time.time()
        if time.time() - saved > args.save_seconds or done == len(plan):
            save_state(state_file, done, model, optimisers)
            saved = time.time()
        if done == args.stop_after:
            break
    if done == len(plan):
        save_model(model.state_dict(), args.out)
        (args.out / "training_log.jsonl").write_text(log.read_text())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--text", type=Path, required=True, help="War and Peace, plain UTF-8")
    parser.add_argument("--out", type=Path, default=Path("assets/demo_model"))
    parser.add_argument("--work", type=Path, default=Path("build/demo_model"),
                        help="folder for the resumable state, not part of the model")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--compile", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--bf16", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--log-every", type=int, default=10)
    parser.add_argument("--save-seconds", type=float, default=120)
    parser.add_argument("--stop-after", type=int, default=0, help="stop after this step")
    parser.add_argument("--tokenizer-only", action="store_true")
    train(parser.parse_args())


if __name__ == "__main__":
    main()
