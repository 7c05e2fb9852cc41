#!/usr/bin/env python3
"""Golden tokenizations: small BPE and Unigram tokenizers of every supported shape, and what Hugging Face's `tokenizers`
library makes of several hundred tricky texts with them.

    python make_tokenizer_goldens.py        writes texts.json and <name>.golden.json here, and <name>.tokenizer.json
                                            where that is not there: training breaks its ties differently every time

Made with tokenizers 0.23.3 and sentencepiece 0.2.3. The training text and the texts are generated from the lists below; seed 20240607.
"""

import io
import itertools
import json
import pathlib
import random
import re
import tempfile

import sentencepiece as sentencepiece_library
import tokenizers
from sentencepiece import sentencepiece_model_pb2
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

SEED = 20240607
HERE = pathlib.Path(__file__).parent

SENTENCES = [
    "The keys that the cache keeps are not the keys that the query wants.",
    "It's a truth universally acknowledged, that we'll need more memory; they've said so, and I'd agree.",
    "In 1984 there were 1,234,567 rows and 3.14159 of them were round (roughly 0.1 %).",
    "def evict(keys, budget):\n    scores = cosine(keys, anchor)\n    return keys[scores.argsort()[:budget]]\n",
    "Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich.",
    "Portez ce vieux whisky au juge blond qui fume ; l'été, à Noël, ça va.",
    "Съешь же ещё этих мягких французских булок, да выпей чаю.",
    "いろはにほへと ちりぬるを。東京は日本の首都です。",
    "敏捷的棕色狐狸跳过了懒狗。一二三四五。",
    "नमस्ते दुनिया, यह एक परीक्षा है।",
    "مرحبا بالعالم، هذه تجربة ١٢٣.",
    "E = mc² — “quotes”, ‘more’, … and ½ of Ⅷ 🚀🙂👩‍👩‍👧‍👦 🇩🇪.",
]

CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
LLAMA3 = (CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
QWEN35 = QWEN2.replace(r"\p{L}+", r"[\p{L}\p{M}]+").replace(r" ?[^\s\p{L}\p{N}]+", r" ?[^\s\p{L}\p{M}\p{N}]+")
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
CASED = [r"[^\r\n\p{L}\p{N}]?" + UPPER + "*" + LOWER + "+", r"[^\r\n\p{L}\p{N}]?" + UPPER + "+" + LOWER + "*"]
REST = r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
O200K = f"{CASED[0]}{CONTRACTIONS}?|{CASED[1]}{CONTRACTIONS}?" + r"|\p{N}{1,3}" + REST
TEKKEN = "|".join(CASED) + r"|\p{N}" + REST
CL100K = (r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*"
          r"|\s*[\r\n]|\s+(?!\S)|\s+")


def train(tokenizer, vocab_size=420, alphabet=(), special=(), **options):
    trainer = trainers.BpeTrainer(vocab_size=vocab_size, initial_alphabet=list(alphabet), show_progress=False,
                                  special_tokens=list(special), **options)
    tokenizer.train_from_iterator(SENTENCES * 3, trainer)
    return tokenizer


def byte_level(pre_tokenizer, normalizer=None, vocab_size=420):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.ByteLevel()
    return train(tokenizer, vocab_size, pre_tokenizers.ByteLevel.alphabet())


def split_then_bytes(pattern, normalizer=None):
    return byte_level(pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"),
                                               pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]),
                      normalizer)


def edited(tokenizer, edit):
    document = json.loads(tokenizer.to_str())
    edit(document)
    return Tokenizer.from_str(json.dumps(document))


def gpt2():
    tokenizer = byte_level(pre_tokenizers.ByteLevel(add_prefix_space=False))
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    tokenizer.add_special_tokens(["<|endoftext|>"])
    return tokenizer


def gpt2_prefix_space():
    return byte_level(pre_tokenizers.ByteLevel(add_prefix_space=True))


def llama3():
    def ignore_merges(document):
        document["model"]["ignore_merges"] = True
        # A token that no merge leads to: only taken when a whole piece is looked up.
        document["model"]["vocab"]["Ġuniversally"] = len(document["model"]["vocab"])

    tokenizer = edited(split_then_bytes(LLAMA3), ignore_merges)
    tokenizer.add_special_tokens(["<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>"])
    begin = tokenizer.token_to_id("<|begin_of_text|>")
    template = processors.TemplateProcessing(single="<|begin_of_text|> $A",
                                             special_tokens=[("<|begin_of_text|>", begin)])
    tokenizer.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), template])
    return tokenizer


def qwen():
    tokenizer = split_then_bytes(QWEN2, normalizers.NFC())
    tokenizer.add_special_tokens(["<|im_start|>", "<|im_end|>"])
    tokenizer.add_tokens([AddedToken("<think>", normalized=False), AddedToken("</think>", normalized=False),
                          AddedToken("<left>", lstrip=True, normalized=False),
                          AddedToken("<right>", rstrip=True, normalized=False),
                          AddedToken("<both>", lstrip=True, rstrip=True, normalized=True),
                          AddedToken("word", single_word=True, normalized=False),
                          AddedToken("<|im_start|>user", normalized=False),
                          AddedToken("e\u0301t\u00e9", normalized=True)])
    return tokenizer


def cl100k():
    return split_then_bytes(CL100K)


def qwen35():
    return split_then_bytes(QWEN35, normalizers.NFC())


def o200k():
    return split_then_bytes(O200K)


def tekken():
    return split_then_bytes(TEKKEN)


def smollm():
    return byte_level(pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                               pre_tokenizers.ByteLevel(add_prefix_space=False)]))


def digit_runs():
    return byte_level(pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=False),
                                               pre_tokenizers.Punctuation(behavior="contiguous"),
                                               pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]))


def other_patterns():
    """Patterns that no scanner knows, and every behaviour of Split."""
    steps = [pre_tokenizers.Split(Regex(r"[\r\n]"), "removed"),
             pre_tokenizers.Split(Regex(r"\s?[!-/:-~！-／：-～‘-‟　-。]+"), "isolated"),
             pre_tokenizers.Split("-", "merged_with_previous"),
             pre_tokenizers.Split("_", "merged_with_next"),
             pre_tokenizers.Split(Regex(r"\p{Nd}"), "contiguous"),
             pre_tokenizers.Split(Regex(r"[^\p{Han}]+"), "merged_with_next", invert=True),
             pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    return byte_level(pre_tokenizers.Sequence(steps))


SENTENCEPIECE_DECODER = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]


def sentencepiece(normalizer, pre_tokenizer):
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizer or pre_tokenizers.Metaspace()  # keeps training from merging sentences
    tokenizer.decoder = decoders.Sequence(SENTENCEPIECE_DECODER)
    special = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    train(tokenizer, 560, special=special, limit_alphabet=110)
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])

    def only_three_added(document):
        document["added_tokens"] = [token for token in document["added_tokens"] if token["id"] < 3]

    return edited(tokenizer, only_three_added)


def llama2():
    return sentencepiece(normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]), None)


def mistral():
    return sentencepiece(None, pre_tokenizers.Metaspace(prepend_scheme="first", split=False))


def metaspace():
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=False))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always", split=True)
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="always", split=True)
    train(tokenizer, 300, special=["<unk>"], limit_alphabet=90)
    return tokenizer


def word_ends():
    """The first BPE tokenizers: a mark at the end of a word, lower case, tokens looked for after normalisation."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>", continuing_subword_prefix="##"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents(), normalizers.Lowercase(),
                                                 normalizers.Strip(), normalizers.Replace(Regex(r"[0-9]+"), "0")])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation()])
    tokenizer.decoder = decoders.BPEDecoder()
    train(tokenizer, 300, special=["<unk>"], limit_alphabet=60, end_of_word_suffix="</w>", continuing_subword_prefix="##")
    tokenizer.add_tokens([AddedToken("NOËL", normalized=True)])
    tokenizer.post_processor = processors.RobertaProcessing(("<unk>", 0), ("<unk>", 0))
    return tokenizer


def words_only():
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True))
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    train(tokenizer, 260, special=["<unk>"], limit_alphabet=80)
    return tokenizer


RULES = [("①", "1"), ("ﬁ", "fi"), ("…", "..."), ("e\u0301", "\u00e9"), ("\u3000", " "), ("\u200b", ""), ("ａ", "a"), ("½", "1⁄2")]


def train_model(**options):
    """A tokenizer.model of SentencePiece."""
    stored = io.BytesIO()
    sentencepiece_library.SentencePieceTrainer.train(
        sentence_iterator=iter(SENTENCES * 3), model_writer=stored, hard_vocab_limit=False, minloglevel=2, **options)
    return stored.getvalue()


def rule_table():
    with tempfile.NamedTemporaryFile("w", suffix=".tsv", encoding="utf-8") as file:
        for old, new in RULES:
            codes = lambda text: " ".join(f"{ord(c):X}" for c in text)
            file.write(f"{codes(old)}\t{codes(new)}\n")
        file.flush()
        return train_model(vocab_size=300, normalization_rule_tsv=file.name)


def train_unigram(tokenizer, special, **options):
    tokenizer.train_from_iterator(SENTENCES * 3, trainers.UnigramTrainer(
        vocab_size=500, show_progress=False, unk_token="<unk>", special_tokens=special, **options))
    return tokenizer


def unigram():
    """T5's shape: SentencePiece's replacements, words, unknown characters fused."""
    tokenizer = Tokenizer(models.Unigram())
    table = sentencepiece_model_pb2.ModelProto.FromString(rule_table()).normalizer_spec.precompiled_charsmap
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Nmt(), normalizers.Precompiled(table), normalizers.Replace(Regex(" {2,}"), " ")])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    train_unigram(tokenizer, ["<pad>", "</s>", "<unk>"])
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    return tokenizer


def unigram_bytes():
    """Llama's shape with a unigram model: no words, bytes to fall back to."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Sequence(SENTENCEPIECE_DECODER)
    train_unigram(tokenizer, ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)])
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.pre_tokenizer = None

    def with_fallback(document):
        document["model"]["byte_fallback"] = True
        document["added_tokens"] = [token for token in document["added_tokens"] if token["id"] < 3]

    return edited(tokenizer, with_fallback)


SENTENCEPIECE_MODELS = {
    "sentencepiece_bpe": {"model_type": "bpe", "vocab_size": 500, "byte_fallback": True, "split_digits": True,
                          "normalization_rule_name": "identity", "remove_extra_whitespaces": False},
    "sentencepiece_unigram": {"model_type": "unigram", "vocab_size": 350, "normalization_rule_name": "identity",
                              "user_defined_symbols": ["<|im_end|>", "x"]},
}


def has_tie(model, text):
    """Whether two ways to part a text have the same score: SentencePiece's versions take one or the other."""
    best = model.nbest_encode(text, nbest_size=2)
    scores = [sum(map(model.get_score, ids)) for ids in best]
    return len(scores) > 1 and abs(scores[0] - scores[1]) < 1e-3


def write_sentencepiece(texts):
    for name, options in SENTENCEPIECE_MODELS.items():
        path = HERE / f"{name}.model"
        if not path.exists():
            path.write_bytes(train_model(**options))
        first = sentencepiece_library.SentencePieceProcessor(model_file=str(path))
        parsed = sentencepiece_model_pb2.ModelProto.FromString(path.read_bytes())
        parsed.normalizer_spec.add_dummy_prefix = False
        later = sentencepiece_library.SentencePieceProcessor(model_proto=parsed.SerializeToString())
        cases = []
        for text in texts:
            parts = [part for part in re.split("(<unk>|</?s>)", text) if part]
            is_unigram = options["model_type"] == "unigram"
            if "\x00" in text or (is_unigram and any(has_tie(first, part) for part in parts)):
                continue
            special = {"<unk>": 0, "<s>": 1, "</s>": 2}
            ids = lambda rest: [id for i, part in enumerate(parts) for id in
                                ([special[part]] if part in special else (first if i == 0 else rest).encode(part))]
            cases.append({"text": text, "ids": ids(later), "legacy_ids": ids(first)})
        (HERE / f"{name}.golden.json").write_text(json.dumps(
            {"sentencepiece": sentencepiece_library.__version__, "cases": cases}, separators=(",", ":")) + "\n")
        print(name, path.stat().st_size, len(cases))


SHAPES = [gpt2, gpt2_prefix_space, llama3, qwen, cl100k, qwen35, o200k, tekken, smollm, digit_runs, other_patterns,
          llama2, mistral, metaspace, word_ends, words_only, unigram, unigram_bytes]

HAND_MADE = [
    "", " ", "  ", "   ", "\n", "\r\n", "\n\n \n", " \t\n ", "\t\tx", "a", " a", "  a", "a ", "a  ", "a b", "a  b",
    "don't DON'T Don'T we'll WE'LL they've I'm I'd you're 're 'ſ o'clock ''s", "'s", "'", "x's's", "x'llama",
    "1", "12", "123", "1234", "12345678901", " 1 22 333", "1,234.5", "½Ⅷ٣४", "a1b22c333",
    "Hello, world!", "...", " ...", "!!!\n\n", "?!\r\n\r\nx", "//\n/", "a/b/c", "a - b -- c", "snake_case__name",
    "camelCaseWords HTTPServer XMLHttpRequest ABc aBC ǅungla", "ªAAA ʰʰA", "e\u0301te\u0301 ét\u00e9 e\u0301t\u00e9",
    "\u0301\u0301a", "a\u0301\u0300\u0327b", "नमस्ते", "한국어 한국어", "ﬁ ﬀ ① ㍿ Å K", "İstanbul ẞ ΑΣ",
    "日本語とEnglish混在123", "مرحبا", "שלום", "🙂", "👩‍👩‍👧‍👦", "🇩🇪🇫🇷", "\u200b\u200c\u200d\ufeff", "a\u0085b", "a\u00a0b", "a\u3000 b",
    "\u1680\u2000\u2028\u2029\u202f\u205f", "\x00\x01\x1c\x1d\x7f", "\U000e0001\U0010ffff\ue000\ufffd", "\u0378\u0e5c",
    "<|endoftext|>", "a<|endoftext|>b", " <|endoftext|> ", "<|im_start|>user\nHi<|im_end|>", "<|im_start|>system",
    "<think> hm </think>", "x  <left>  y", "x  <right>  y", "x  <both>  y", "<right> <left>", "word", "words word, sword word",
    "<s>Hello</s>", "Hello <s> there</s>", "<unk>", "x<unk>y", " <unk> ", "<0x41>", "▁", "▁▁x", "a▁b", " ▁ ",
    "NOËL noël Noe\u0308l", "<|begin_of_text|><|eot_id|>", "it is universally so, universally",
    "The keys that the cache keeps are not the keys that the query wants. " * 3, "ab" * 60, "x" * 150, " " * 70 + "x",
    "Ġ", "ĠThe Ċ", "a" + "\n" * 20 + "b", "东京" * 40, "\U0001f680" * 20,
]

ALPHABET = (list("abcdeThIX  \n\r\t'’.,!?/-_#0123459") + ["\u00e9", "e\u0301", "ß", "ſ", "Ω", "ж", "Ж", "ʰ", "ª", "ǅ", "中", "の", "한", "क", "्",
            "ا", "١", "½", "Ⅷ", "²", "\u00a0", "\u0085", "\u3000", "\u2028", "\u200d", "🙂", "€", "“", "▁", "\x00", "\u0378", "'s", "'LL", " the",
            "\r\n", "<s>", "<|im_end|>", "<both>"])


def random_texts(rng, n, longest):
    return ["".join(rng.choice(ALPHABET) for _ in range(rng.randint(1, longest))) for _ in range(n)]


def decode(tokenizer, row, skip=False):
    """As the library decodes, but for its ByteLevel decoder, which takes the characters of an added "é" for bytes: of
    that one the characters count."""
    if not isinstance(tokenizer.decoder, decoders.ByteLevel):
        return tokenizer.decode(row, skip_special_tokens=skip)
    added = tokenizer.get_added_tokens_decoder()
    text = ""
    for is_added, ids in itertools.groupby(row, key=lambda token: token in added):
        if is_added:
            text += "".join(tokenizer.id_to_token(token) for token in ids if not (skip and added[token].special))
        else:
            text += tokenizer.decode(list(ids), skip_special_tokens=skip)
    return text


def golden(tokenizer, texts):
    ids = [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]
    # Only what differs: most texts come back as they were.
    decoded = {i: back for i, (row, text) in enumerate(zip(ids, texts))
               if (back := decode(tokenizer, row)) != text}
    skipped = {i: back for i, row in enumerate(ids) if (back := decode(tokenizer, row, skip=True)) != decoded.get(i, texts[i])}
    with_special = [tokenizer.encode(text).ids for text in texts[:12]]
    return {"ids": ids, "with_special": with_special, "decoded": decoded, "decoded_without_special": skipped}


def main():
    texts = HAND_MADE + random_texts(random.Random(SEED), 300, 24)
    (HERE / "texts.json").write_text(json.dumps(texts) + "\n")
    for shape in SHAPES:
        path = HERE / f"{shape.__name__}.tokenizer.json"
        if not path.exists():
            document = json.loads(shape().to_str())
            path.write_text(json.dumps(document, ensure_ascii=False, separators=(",", ":")) + "\n")
        tokenizer = Tokenizer.from_file(str(path))
        result = golden(tokenizer, texts)
        result["tokenizers"] = tokenizers.__version__
        (HERE / f"{shape.__name__}.golden.json").write_text(json.dumps(result, separators=(",", ":")) + "\n")
        print(shape.__name__, path.stat().st_size, tokenizer.get_vocab_size())
    write_sentencepiece(texts)


if __name__ == "__main__":
    main()
