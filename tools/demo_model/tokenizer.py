"""Trains the byte-level BPE tokenizer and writes it in Hugging Face layout.

Ids: 0-255 bytes, then merges, then BOS and EOS, then names and cities as added
tokens (not special, not normalised), 1536 in all. A name is the same one token
at the start of a line and after a space, where the space is a token by itself.
"""

import json
import random
from pathlib import Path

from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    pre_tokenizers,
    processors,
    trainers,
)
from words import CITIES, NAMES

VOCAB_SIZE = 1536
BOS, EOS = "<|begin_of_text|>", "<|end_of_text|>"

# The split pattern of Qwen2: among other things, every digit stands alone.
SPLIT = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
         r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def check_words() -> None:
    """No word twice, none within another: the added-token split is then unique."""
    words = NAMES + CITIES
    if len(set(words)) != len(words):
        raise ValueError("a word is listed twice")
    for a in words:
        for b in words:
            if a != b and a in b:
                raise ValueError(f"{a} is a part of {b}")


def train_tokenizer(chapters: list[str], synthetic: list[str]) -> Tokenizer:
    """BPE over the training chapters and samples of the synthetic tasks."""
    check_words()
    words = NAMES + CITIES
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(SPLIT), behavior="isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=False, use_regex=False),
    ])
    tok.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB_SIZE - 2 - len(words),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    # The words become added tokens, which BPE never sees: keep them out of it.
    lines = list(chapters) + list(synthetic)
    for word in words:
        lines = [line.replace(word, " ") for line in lines]
    tok.train_from_iterator(lines, trainer)
    tok.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in (BOS, EOS)])
    tok.add_tokens([AddedToken(w, normalized=False) for w in words])
    if tok.get_vocab_size() != VOCAB_SIZE:
        raise ValueError(f"{tok.get_vocab_size()} entries, not {VOCAB_SIZE}")
    bos = tok.token_to_id(BOS)
    tok.post_processor = processors.TemplateProcessing(
        single=f"{BOS} $A", pair=f"{BOS} $A {BOS} $B:1", special_tokens=[(BOS, bos)])
    return tok


def save_tokenizer(tok: Tokenizer, out: Path, max_length: int) -> None:
    """Writes tokenizer.json, tokenizer_config.json and special_tokens_map.json."""
    tok.save(str(out / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": BOS,
        "eos_token": EOS,
        "pad_token": EOS,
        "clean_up_tokenization_spaces": False,
        "model_input_names": ["input_ids", "attention_mask"],
        "model_max_length": max_length,
    }
    names = {"bos_token": BOS, "eos_token": EOS, "pad_token": EOS}
    for name, value in (("tokenizer_config.json", config), ("special_tokens_map.json", names)):
        (out / name).write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")


def synthetic_samples(count: int, seed: int) -> list[str]:
    """Samples of the tasks' fixed wording, so that the BPE learns it whole."""
    import tasks

    rng = random.Random(seed)
    samples = []
    for _ in range(count):
        samples.append(tasks.needle_line(rng.choice(CITIES), tasks.digits(rng, 7)))
        samples.append(tasks.BOOK_HEAD + tasks.book_line(rng.choice(NAMES), tasks.digits(rng, 4)))
        samples.append(tasks.BOOK_ASK)
        samples.append("." + tasks.NEEDLE_ASK)
    return samples
