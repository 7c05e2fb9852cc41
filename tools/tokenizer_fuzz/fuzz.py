#!/usr/bin/env python3
"""Holds `keyscope tokenize` against Hugging Face's `tokenizers` on random texts.

    tools/tokenizer_fuzz/fuzz.py [--texts 1000000] [--seed 1] [--keyscope build/release/keyscope]

Every pre-tokenizer below is joined with every normaliser and its decoder, and with added tokens that take white space.
Ids and decoded texts must be equal. What is known to differ is left out here, and why stands beside it. Differences
are printed with what is needed to repeat them; the exit status is 1
where there is one. Needs the packages of requirements.txt beside it; nothing of it is needed to build Keyscope.
"""

import argparse
import concurrent.futures
import functools
import io
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import unicodedata

import sentencepiece
import tokenizers
from sentencepiece import sentencepiece_model_pb2
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

TOP = pathlib.Path(__file__).resolve().parent.parent.parent

SENTENCES = [
    "The keys that the cache keeps are not the keys that the query wants; it's 1984, and we'll see 3.14159!",
    "def evict(keys, budget):\n    return keys[cosine(keys, anchor).argsort()[:budget]]\n\n\n\t# don't\r\n",
    "Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich. Straße, STRASSE.",
    "Съешь же ещё этих мягких французских булок, да выпей чаю. Ελληνικά; ΑΒΓ.",
    "いろはにほへと ちりぬるを。東京は日本の首都です。敏捷的棕色狐狸跳过了懒狗。",
    "नमस्ते दुनिया, यह एक परीक्षा है। مرحبا بالعالم، هذه تجربة ١٢٣. שלום עולם",
    "E = mc² — “quotes”, ‘more’, … and ½ of Ⅷ 🚀🙂👩‍👩‍👧‍👦 🇩🇪. ﬁ ｆｕｌｌ ① Å e\u0301",
]

REST = r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
CASED = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+",
         r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*")

EXPRESSIONS = {  # split at by Split, before ByteLevel without its own expression
    "llama3": CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "qwen2": CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "qwen3.5": CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+"
                              r"|\s+(?!\S)|\s+",
    "gpt2": r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    "cl100k": r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]"
              r"|\s+(?!\S)|\s+",
    "newer cl100k": r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$"
                    r"|\s*[\r\n]|\s+(?!\S)|\s",
    "o200k": f"{CASED[0]}{CONTRACTIONS}?|{CASED[1]}{CONTRACTIONS}?" + REST,
    "tekken": "|".join(CASED) + REST.replace("{1,3}", ""),
    "kimi": r"[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?" + REST,
    "bloom": r" ?[^(\s|[.,!?…。，、।۔،])]+",
    "deepseek": r"[!-~&&[^A-Za-z0-9\s]]+[A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+"
                r"|\s+(?!\S)|\s+",
    "words": r"\w+|[^\w\s]+",
    "hexadecimal": r"\h{2}",
    "line edges": r"^\s*|\s*$",
}

PLAIN = {
    "byte level": lambda: pre_tokenizers.ByteLevel(add_prefix_space=False),
    "byte level, prefix": lambda: pre_tokenizers.ByteLevel(add_prefix_space=True),
    "digits, then byte level": lambda: pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]),
    "runs of digits, then byte level": lambda: pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(), pre_tokenizers.ByteLevel(add_prefix_space=False)]),
    "punctuation, then byte level": lambda: pre_tokenizers.Sequence(
        [pre_tokenizers.Punctuation("contiguous"), pre_tokenizers.ByteLevel(add_prefix_space=False)]),
    "merged behind, then bytes": lambda: pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(r"[,;.!?]\s*"), "merged_with_previous"),
         pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]),
    "removed, then bytes": lambda: pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(r"\s+"), "removed"),
         pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]),
    "whitespace": lambda: pre_tokenizers.Whitespace(),
    "whitespace split": lambda: pre_tokenizers.WhitespaceSplit(),
    "metaspace": lambda: pre_tokenizers.Metaspace(),
    "metaspace, first": lambda: pre_tokenizers.Metaspace(prepend_scheme="first"),
    "metaspace, never": lambda: pre_tokenizers.Metaspace(prepend_scheme="never", split=False),
    "none": lambda: None,
    "unigram, metaspace": lambda: pre_tokenizers.Metaspace(),
    "unigram, words, then metaspace": lambda: pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(prepend_scheme="first")]),
    "unigram with bytes": lambda: None,
}

NORMALIZERS = {
    "none": lambda: None,
    "NFC": normalizers.NFC,
    "NFD": normalizers.NFD,
    "NFKC": normalizers.NFKC,
    "NFKD": normalizers.NFKD,
    "lower case": normalizers.Lowercase,
    "strip": normalizers.Strip,
    "no accents": lambda: normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents()]),
    "llama 2": lambda: normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]),
    "replace": lambda: normalizers.Sequence(
        [normalizers.Replace(Regex(r"\s{2,}|x+"), " "), normalizers.Replace("``", '"')]),
    "nmt": normalizers.Nmt,
    "sentencepiece": lambda: normalizers.Sequence(
        [normalizers.Precompiled(replacements("nmt_nfkc_cf")), normalizers.Replace(Regex(" {2,}"), " ")]),
}

# Of added tokens whose characters all stand for bytes, such as "Ü", the library's ByteLevel decoder makes stray bytes,
# and Keyscope what was written; so there is none here.
ADDED = [AddedToken("<|s|>", special=True), AddedToken("<l>", lstrip=True, normalized=False),
         AddedToken("<r>", rstrip=True, normalized=False), AddedToken("<lr>", lstrip=True, rstrip=True),
         AddedToken("word", single_word=True, normalized=False), AddedToken("  ", normalized=False),
         AddedToken("Жormal", normalized=True), AddedToken("\n\n", normalized=False)]

LLAMA2_DECODER = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]


def kind_of_model(name):
    if name.startswith("unigram"):
        return "unigram with bytes" if "bytes" in name else "unigram"
    return "bytes" if name in EXPRESSIONS or "byte" in name else "characters"


@functools.cache
def replacements(rule):
    """SentencePiece's table of replacements, out of a model that is trained for it."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(SENTENCES), model_writer=model, vocab_size=300,
                                             normalization_rule_name=rule, hard_vocab_limit=False, minloglevel=2)
    parsed = sentencepiece_model_pb2.ModelProto()
    parsed.ParseFromString(model.getvalue())
    return parsed.normalizer_spec.precompiled_charsmap


SENTENCEPIECE = {  # models that are a tokenizer.model alone
    "Llama's": {"model_type": "bpe", "byte_fallback": True, "normalization_rule_name": "identity",
                "remove_extra_whitespaces": False, "split_digits": True},
    "unigram, nmt_nfkc": {"model_type": "unigram", "normalization_rule_name": "nmt_nfkc"},
    "unigram with bytes and symbols": {"model_type": "unigram", "byte_fallback": True, "user_defined_symbols": ["<l>", "x"]},
}


def tie(model, a, b):
    """Whether both part the same text, at the same price."""
    text, price = ("".join(map(model.id_to_piece, a)), sum(map(model.get_score, a)))
    other, other_price = ("".join(map(model.id_to_piece, b)), sum(map(model.get_score, b)))
    return text == other and abs(price - other_price) < 1e-3


def compare_sentencepiece(program, name, options, legacy, texts):
    """Ids and text of a tokenizer.model against SentencePiece itself, between its special tokens.

    Where two ways to part a text have the same score, as "." + ".." and ".." + ".", SentencePiece takes one or the
    other by the rounding of single precision, and versions differ; Keyscope takes what the tokenizers library takes.
    """
    stored = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(SENTENCES * 3), model_writer=stored, vocab_size=700,
                                             hard_vocab_limit=False, minloglevel=2, **options)
    parsed = sentencepiece_model_pb2.ModelProto.FromString(stored.getvalue())
    first = sentencepiece.SentencePieceProcessor(model_proto=parsed.SerializeToString())
    if not legacy:
        parsed.normalizer_spec.add_dummy_prefix = False
    later = sentencepiece.SentencePieceProcessor(model_proto=parsed.SerializeToString())
    special = {"<unk>": 0, "<s>": 1, "</s>": 2}

    def ids_of(text):
        ids, done = [1], 0
        for part in re.split("(<unk>|</?s>)", text):
            if part:
                ids += [special[part]] if part in special else (first if done == 0 else later).encode(part)
            done += len(part)
        return ids

    differences = []
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "tokenizer.model").write_bytes(stored.getvalue())
        pathlib.Path(folder, "tokenizer_config.json").write_text(
            json.dumps({"tokenizer_class": "LlamaTokenizer", "legacy": legacy}))
        expected = [ids_of(text) for text in texts]
        found = run_keyscope(program, folder, texts, "--special")
        for text, theirs, ours in zip(texts, expected, found, strict=True):
            if theirs != ours and not tie(first, theirs, ours):
                differences.append(f"{name}: ids of {text!r}: {ours}, not {theirs}")
        plain = [ids[1:] for ids in expected if not set(ids[1:]) & {0, 1, 2}]  # SentencePiece shows these its own way
        for ids, ours in zip(plain, run_keyscope(program, folder, plain, "--decode", "--special"), strict=True):
            if first.decode(ids) != ours:
                differences.append(f"{name}: text of {ids}: {ours!r}, not {first.decode(ids)!r}")
    return differences


def make_unigram(with_bytes):
    """A Unigram model of some hundred tokens."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    special = ["<unk>"] + ([f"<0x{byte:02X}>" for byte in range(256)] if with_bytes else [])
    tokenizer.train_from_iterator(SENTENCES * 3, trainers.UnigramTrainer(
        vocab_size=700, show_progress=False, unk_token="<unk>", special_tokens=special))
    model = json.loads(tokenizer.to_str())["model"]
    model["byte_fallback"] = with_bytes
    return model


def make_model(byte_level):
    """A BPE model of a few hundred tokens: of bytes, or of characters with bytes to fall back to."""
    tokenizer = Tokenizer(models.BPE(byte_fallback=not byte_level))
    if byte_level:
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        trainer = trainers.BpeTrainer(vocab_size=700, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                                      show_progress=False)
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
        trainer = trainers.BpeTrainer(vocab_size=700, show_progress=False,
                                      special_tokens=[f"<0x{byte:02X}>" for byte in range(256)])
    tokenizer.train_from_iterator(SENTENCES * 3, trainer)
    return json.loads(tokenizer.to_str())["model"]


def make_tokenizer(model, pre_name, normalizer_name):
    tokenizer = Tokenizer.from_str(json.dumps({"version": "1.0", "added_tokens": [], "model": model}))
    if pre_name in EXPRESSIONS:
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.Split(Regex(EXPRESSIONS[pre_name]), "isolated"),
             pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    elif (pre := PLAIN[pre_name]()) is not None:
        tokenizer.pre_tokenizer = pre
    if (normalizer := NORMALIZERS[normalizer_name]()) is not None:
        tokenizer.normalizer = normalizer
    if kind_of_model(pre_name) == "bytes":
        tokenizer.decoder = decoders.ByteLevel()
    elif "metaspace" in pre_name:
        tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace()])
    else:
        tokenizer.decoder = decoders.Sequence(LLAMA2_DECODER)
    tokenizer.add_tokens(ADDED)
    return tokenizer


def assigned_characters():
    """All that Python's Unicode has assigned, without surrogates; of private use only a few."""
    return [chr(c) for c in range(0x110000)
            if unicodedata.category(chr(c)) not in ("Cn", "Cs", "Co") or c in (0xE000, 0xF8FF, 0x10FFFD)]


class Texts:
    """Texts of words, numbers, white space, marks and rare characters of all scripts."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.characters = assigned_characters()
        self.words = [word for sentence in SENTENCES for word in sentence.split()]
        self.atoms = ["'s", "'LL", "'re", "’t", " ", "  ", "   ", "\n", "\r\n", "\n\n", "\t", "\u00a0", "\u3000", "\u2028",
                      "\x0b", "\x85", ".", "!?", "...", "``", "(", "[", "]", "|", "/", "_", "-", "1", "123456", "x", "xx",
                      "ABC", "deadbeef", "word", "words", "<s>", "</s>", "<unk>", "\u0301", "ß", "ſ", "İ", "ǅ", "가", "각", "\u200d", "\u200b"]
        self.atoms += [token.content for token in ADDED]

    def one(self):
        parts = []
        for _ in range(self.random.randint(1, 14)):
            kind = self.random.random()
            if kind < 0.4:
                parts.append(self.random.choice(self.atoms) * self.random.choice((1, 1, 1, 2, 3)))
            elif kind < 0.7:
                parts.append(self.random.choice(self.words) + self.random.choice(("", " ", " ", "  ")))
            else:
                parts.append("".join(self.random.choices(self.characters, k=self.random.randint(1, 4))))
        return "".join(parts)


def run_keyscope(program, folder, lines, *options):
    done = subprocess.run([program, "tokenize", "--model", folder, "--lines", *options],
                          input="".join(json.dumps(line) + "\n" for line in lines), capture_output=True, text=True,
                          check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip())
    return [json.loads(line) for line in done.stdout.split("\n")[:-1]]


def encode(tokenizer, texts):
    """Ids of each text; None where the library breaks off, as it does on some combinations of stripping tokens."""
    try:
        return [encoding.ids for encoding in tokenizer.encode_batch(texts, add_special_tokens=False)]
    except BaseException as panic:  # pylint: disable=broad-exception-caught
        if type(panic).__name__ != "PanicException":
            raise
        return [None] if len(texts) == 1 else [encode(tokenizer, [text])[0] for text in texts]


def begins_with_several_words(text):
    """Whether normalisation makes words of a text's first character, as of U+FDFB.

    To the library each of these words stands where the text begins (Metaspace's `first`), since it goes by the place in
    the text before it was normalised; to Keyscope only the first one does.
    """
    return " " in unicodedata.normalize("NFKC", text[:1]) and text[:1] != " "


def compare(program, name, tokenizer, texts):
    """What differs, as sentences; the first few of it."""
    differences = []
    with tempfile.TemporaryDirectory() as folder:
        tokenizer.save(f"{folder}/tokenizer.json")
        # A tokenizer that changes its own meaning when it is saved is not compared with what it was.
        tokenizer = Tokenizer.from_file(f"{folder}/tokenizer.json")
        if "words, then metaspace" in name:
            texts = [text for text in texts if not begins_with_several_words(text)]
        expected = encode(tokenizer, texts)
        texts = [text for text, ids in zip(texts, expected, strict=True) if ids is not None]
        expected = [ids for ids in expected if ids is not None]
        found = run_keyscope(program, folder, texts)
        for text, theirs, ours in zip(texts, expected, found, strict=True):
            if theirs != ours:
                differences.append(f"{name}: ids of {text!r}: {ours}, not {theirs}")
        decoded = tokenizer.decode_batch(expected, skip_special_tokens=False)
        shown = run_keyscope(program, folder, expected, "--decode", "--special")
        for ids, theirs, ours in zip(expected, decoded, shown, strict=True):
            if theirs != ours:
                differences.append(f"{name}: text of {ids}: {ours!r}, not {theirs!r}")
    return differences


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--texts", type=int, default=1_000_000, help="in all, in equal parts over the combinations")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keyscope", default=str(TOP / "build/release/keyscope"))
    parser.add_argument("--only", default="", help="combinations whose name holds this")
    arguments = parser.parse_args()
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    models_by_kind = {"bytes": make_model(True), "characters": make_model(False), "unigram": make_unigram(False),
                      "unigram with bytes": make_unigram(True)}
    names = [(pre, normalizer) for pre in [*EXPRESSIONS, *PLAIN] for normalizer in NORMALIZERS
             if arguments.only in f"{pre} + {normalizer}"]
    share = -(-arguments.texts // (len(names) + 2 * len(SENTENCEPIECE)))
    source = Texts(arguments.seed)
    n_texts = n_different = 0

    def work(job):
        (pre, normalizer), texts = job
        tokenizer = make_tokenizer(models_by_kind[kind_of_model(pre)], pre, normalizer)
        return compare(arguments.keyscope, f"{pre} + {normalizer}", tokenizer, texts)

    for name, options in SENTENCEPIECE.items():
        for legacy in (True, False):
            if arguments.only in f"tokenizer.model, {name}":
                differences = compare_sentencepiece(arguments.keyscope, f"tokenizer.model, {name}", options, legacy,
                                                    [source.one() for _ in range(share)])
                n_texts += share
                n_different += len(differences)
                print(*differences[:5], sep="\n" if differences else "", end="")
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        jobs = ((name, [source.one() for _ in range(share)]) for name in names)
        for (name, differences) in zip(names, pool.map(work, jobs), strict=True):
            n_texts += share
            n_different += len(differences)
            for difference in differences[:5]:
                print(difference)
            if len(differences) > 5:
                print(f"{' + '.join(name)}: {len(differences) - 5} more")
            print(f"\r{n_texts:,} texts, {n_different:,} differences", end="", file=sys.stderr, flush=True)
    print(f"\n{n_texts:,} texts over {len(names)} combinations of {len(EXPRESSIONS) + len(PLAIN)} pre-tokenizers and "
          f"{len(NORMALIZERS)} normalisers, seed {arguments.seed}, tokenizers {tokenizers.__version__}: "
          f"{n_different:,} differences")
    sys.exit(1 if n_different else 0)


if __name__ == "__main__":
    main()
