"""Seeds for fuzz_tokenizer: every golden tokenizer.json behind a text, and each kind of part by itself.

    python3 fuzz_tokenizer_seeds.py FOLDER
"""

import json
import pathlib
import sys

TEXT = "Hello  wörld's 123 <s>中 \t"
BPE = {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2, "▁": 3, "<0x0A>": 4, "Ġ": 5}, "merges": ["a b"],
       "unk_token": "b", "byte_fallback": True, "fuse_unk": True, "dropout": None, "ignore_merges": False}
UNIGRAM = {"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0.0], ["a", -1.0], ["▁", -2.5], ["ab", -1.5]],
           "byte_fallback": False}
TOKEN = {"id": 6, "content": "<s>", "single_word": False, "lstrip": True, "rstrip": True, "normalized": False,
         "special": True}
SPLIT = {"type": "Split", "pattern": {"Regex": "\\p{L}+|(?!\\s)\\S|\\s+$"}, "behavior": "Isolated", "invert": False}
PARTS = {
    "normalizer": [{"type": "NFC"}, {"type": "NFKD"}, {"type": "Lowercase"}, {"type": "StripAccents"},
                   {"type": "Strip", "strip_left": True, "strip_right": True}, {"type": "Prepend", "prepend": "▁"},
                   {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
                   {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": "▁"},
                   {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None,
                    "lowercase": True}, {"type": "Precompiled", "precompiled_charsmap": ""},
                   {"type": "Sequence", "normalizers": [{"type": "NFD"}]}],
    "pre_tokenizer": [{"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
                      {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": True},
                      {"type": "Digits", "individual_digits": True}, {"type": "Punctuation", "behavior": "Contiguous"},
                      {"type": "Whitespace"}, {"type": "WhitespaceSplit"}, {"type": "BertPreTokenizer"}, SPLIT,
                      SPLIT | {"behavior": "Removed", "invert": True}, SPLIT | {"behavior": "MergedWithNext"},
                      {"type": "Sequence", "pretokenizers": [SPLIT]}],
    "post_processor": [{"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {
        "Sequence": {"id": "A", "type_id": 0}}], "pair": [], "special_tokens": {
            "<s>": {"id": "<s>", "ids": [6], "tokens": ["<s>"]}}}, {"type": "BertProcessing", "sep": ["<s>", 6], "cls": [
                "<s>", 6]}, {"type": "ByteLevel"}, {"type": "Sequence", "processors": []}],
    "decoder": [{"type": "ByteLevel"}, {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"},
                {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
                {"type": "Strip", "content": " ", "start": 1, "stop": 0},
                {"type": "BPEDecoder", "suffix": "</w>"}, {"type": "WordPiece", "prefix": "##", "cleanup": True},
                {"type": "Sequence", "decoders": [{"type": "Fuse"}]}],
}


def main() -> None:
    folder = pathlib.Path(sys.argv[1])
    goldens = pathlib.Path(__file__).parent / "goldens"

    def write(name: str, tokenizer: str) -> None:
        (folder / name).write_text(f"{TEXT}\n{tokenizer}")

    for file in goldens.glob("*.tokenizer.json"):
        write(file.name, file.read_text())
    plain = {"added_tokens": [TOKEN]} | dict.fromkeys(PARTS)
    for model in BPE, UNIGRAM:
        write(model["type"], json.dumps(plain | {"model": model}))
    for part, choices in PARTS.items():
        for i, choice in enumerate(choices):
            write(f"{part}_{i}", json.dumps(plain | {"model": BPE, part: choice}))


if __name__ == "__main__":
    main()
