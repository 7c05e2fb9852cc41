"""Seeds for fuzz_model_folder: every small file of a model's folder, behind the letter that it goes by.

    python3 fuzz_model_folder_seeds.py FOLDER
"""

import json
import pathlib
import sys

TOKEN = {"content": "<s>", "lstrip": False, "normalized": True, "rstrip": True, "single_word": False, "special": True}
CONFIG = {"bos_token": "<s>", "eos_token": TOKEN, "pad_token": None, "add_bos_token": True, "legacy": False,
          "tokenizer_class": "LlamaTokenizer", "additional_special_tokens": ["<x>", TOKEN],
          "extra_special_tokens": {"image_token": "<i>"}, "added_tokens_decoder": {"5": TOKEN, "6": TOKEN | {
              "content": "<x>"}}, "chat_template": "{{ bos_token }}{{ messages[0].content }}"}
SEEDS = {
    "i": [{"metadata": {"total_size": 2}, "weight_map": {"a": "part.safetensors"}},
          {"weight_map": {"a": "part.safetensors", "b": "part.safetensors", "c": "other.safetensors"}},
          {"weight_map": {"a": "../part.safetensors"}}, {"weight_map": {"a": "/etc/passwd"}},
          {"weight_map": {"a": "folder/./part.safetensors", "b": "a\\b", "c": ".", "d": "e\0"}}, {"weight_map": {}}],
    "g": [{"eos_token_id": 2}, {"eos_token_id": [2, 3], "temperature": 0.5}, {"eos_token_id": -1}],
    "q": [{"bits": 4, "group_size": 128, "desc_act": True, "sym": False, "checkpoint_format": "gptq_v2"},
          {"bits": 8, "group_size": -1, "is_marlin_format": False, "dynamic": {}}],
    "w": [{"w_bit": 4, "q_group_size": 64, "version": "GEMM", "zero_point": True, "modules_to_not_convert": ["lm_head"]}],
    "t": [CONFIG, CONFIG | {"tokenizer_class": "Qwen2Tokenizer", "chat_template": [
        {"name": "default", "template": "{{ 1 }}"}, {"name": "tool_use", "template": "{{ tools }}"}]}],
    "s": [{"bos_token": TOKEN, "eos_token": "<e>", "additional_special_tokens": ["<x>"]}],
    "a": [{"<s>": 4, "<new>": 5}],
}


def main() -> None:
    folder = pathlib.Path(sys.argv[1])
    for letter, seeds in SEEDS.items():
        for i, seed in enumerate(seeds):
            (folder / f"{letter}_{i}").write_text(letter + json.dumps(seed))


if __name__ == "__main__":
    main()
