"""Trains the byte-level BPE tokenizer and writes it in Hugging Face layout.

Ids: 0-255 bytes, then merges, then BOS and EOS, 3072 in all. Names are what BPE makes of
them, mostly several tokens; a digit is always a token by itself.
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

VOCAB_SIZE = 3072
FILES = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json")
BOS, EOS = "<|begin_of_text|>", "<|end_of_text|>"

# The split pattern of Qwen2: among other things, every digit stands alone.
SPLIT = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
         r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def train_tokenizer(chapters: list[str], synthetic: list[str]) -> Tokenizer:
    """BPE over the training chapters and samples of the synthetic tasks."""
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(SPLIT), behavior="isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=False, use_regex=False),
    ])
    tok.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB_SIZE - 2,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tok.train_from_iterator([*chapters, *synthetic], trainer)
    tok.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in (BOS, EOS)])
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
    """Samples of the tasks' wording and names, so that BPE knows what they are made of."""
    import tasks

    rng = random.Random(seed)
    samples = []
    for _ in range(count):
        samples.append("".join(text for text, _ in tasks.phonebook(rng, 6, 2)))
        facts = tasks.Needles(rng, 2, held_out=False, plain=False)
        samples.append(" ".join(facts.sentences()) + f"\n\n{facts.ask}\n" + "".join(
            text for asked in facts.questions(rng, 2) for text, _ in asked))
    return samples
