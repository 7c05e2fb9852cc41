"""GGUF files as converters write them, and what the same models and tokenizers are in Hugging Face's files.

    python make_gguf_goldens.py [FOLDER]     writes beside itself; with FOLDER, all models, into that
    made with seed 20261128, gguf 0.19.0, numpy 2.4.6, safetensors 0.8.0, sentencepiece 0.2.3, torch 2.11.0 (the
    goldens' metadata repeats seed and versions)

  blocks.gguf                one tensor of every block format, random: those that `gguf.quants` can make are made
                             of random numbers, of the others the bytes themselves are random, with finite scales
  blocks.golden.safetensors  what `gguf.quants.dequantize` makes of them, float32
  tiny_NAME.gguf             the checkpoints of ../../inference/goldens: rows of q and k put into the order of
                             interleaved rotation (llama), 1 added to norms (gemma), rotary factors as tensors
  tokenizer_NAME.gguf        a vocabulary alone: llama3, sentencepiece_bpe and sentencepiece_unigram of
                             ../../tokenizer/goldens, where NAME.golden.json has the ids

Names and layout are those of the package; what is done to the values, that of llama.cpp's converter.
"""

import json
import math
import pathlib
import sys

import gguf
import numpy as np
import safetensors
import safetensors.numpy
import sentencepiece
import torch
from safetensors.torch import load_file
from sentencepiece import sentencepiece_model_pb2

SEED = 20261128
HERE = pathlib.Path(__file__).parent
MODELS = HERE / "../../inference/goldens"
TOKENIZERS = HERE / "../../tokenizer/goldens"
VERSIONS = {"seed": str(SEED), "gguf": "0.19.0", "numpy": np.__version__, "safetensors": safetensors.__version__, "torch": torch.__version__,
            "sentencepiece": sentencepiece.__version__}

Type = gguf.GGMLQuantizationType
FORMATS = [Type.F32, Type.F16, Type.BF16, Type.Q4_0, Type.Q4_1, Type.Q5_0, Type.Q5_1, Type.Q8_0, Type.Q2_K,
           Type.Q3_K, Type.Q4_K, Type.Q5_K, Type.Q6_K]
# Where the float16 scales of a block stand, of formats that the package cannot make.
SCALES = {Type.Q2_K: [80, 82], Type.Q3_K: [108], Type.Q4_K: [0, 2], Type.Q5_K: [0, 2], Type.Q6_K: [208]}


def blocks(rng, kind, rows=2, columns=512):
    if kind not in SCALES:
        numbers = rng.standard_normal((rows, columns)).astype(np.float32)
        numbers[0, :64] = 0  # a scale of zero
        numbers[1, 3] = 1e-7  # a small one
        return gguf.quants.quantize(numbers, kind)
    n_values, n_bytes = gguf.GGML_QUANT_SIZES[kind]
    made = rng.integers(0, 256, (rows * columns // n_values, n_bytes), dtype=np.uint8)
    scales = rng.standard_normal((len(made), len(SCALES[kind]))).astype(np.float16)
    scales[0] = 6e-8  # the least that float16 holds, and none
    scales[1] = 0
    for i, at in enumerate(SCALES[kind]):
        made[:, at:at + 2] = scales[:, i:i + 1].view(np.uint8)
    return made.reshape(rows, -1)


def make_blocks(folder):
    rng = np.random.default_rng(SEED)
    writer = gguf.GGUFWriter(folder / "blocks.gguf", "llama")
    golden = {}
    for kind in FORMATS:
        data = blocks(rng, kind)
        raw = data if kind in (Type.F32, Type.F16) else data.view(np.uint8)
        writer.add_tensor(kind.name, raw, raw_dtype=kind)
        golden[kind.name] = np.ascontiguousarray(gguf.quants.dequantize(data, kind), dtype=np.float32)
    finish(writer)
    safetensors.numpy.save_file(golden, folder / "blocks.golden.safetensors",
                                   metadata={"made with": json.dumps(VERSIONS)})


def finish(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


# --- models ---

ARCHITECTURES = {"llama": "llama", "mistral": "llama", "qwen2": "qwen2", "qwen3": "qwen3", "gemma2": "gemma2",
                 "gemma3_text": "gemma3", "phi3": "phi3"}


def interleave(weight, n_heads):
    """Rows (half, pair) of a head become (pair, half)."""
    return (weight.reshape(n_heads, 2, weight.shape[0] // n_heads // 2, *weight.shape[1:]).swapaxes(1, 2)
            .reshape(weight.shape))


def llama3_factors(rope, head_dim):
    frequencies = 1.0 / rope["rope_theta"] ** (torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim)
    low, high, original = (rope[name] for name in
                           ("low_freq_factor", "high_freq_factor", "original_max_position_embeddings"))
    factors = []
    for length in 2 * math.pi / frequencies:
        ramp = (original / length - low) / (high - low)
        factors.append(1 if length < original / high else rope["factor"] if length > original / low
                       else 1 / ((1 - ramp) / rope["factor"] + ramp))
    return np.array(factors, dtype=np.float32)


def add_rope(writer, config, head_dim):
    rope = config["rope_parameters"]
    rope = rope.get("full_attention", rope)
    local = config["rope_parameters"].get("sliding_attention")
    writer.add_rope_freq_base(rope["rope_theta"])
    if local:
        writer.add_rope_freq_base_swa(local["rope_theta"])
    kind = rope["rope_type"]
    if kind in ("linear", "yarn"):
        writer.add_rope_scaling_type(gguf.RopeScalingType(kind))
        writer.add_rope_scaling_factor(rope["factor"])
    if kind == "yarn":
        writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
    if kind == "llama3":
        writer.add_tensor("rope_freqs.weight", llama3_factors(rope, head_dim))
    if config["model_type"] == "phi3":
        original = config.get("original_max_position_embeddings") or rope["original_max_position_embeddings"]
        writer.add_rope_scaling_orig_ctx_len(original)
    if kind == "longrope":
        stretch = config["max_position_embeddings"] / original
        writer.add_rope_scaling_attn_factors(math.sqrt(1 + math.log(stretch) / math.log(original)))
        for name in ("long", "short"):
            writer.add_tensor(f"rope_factors_{name}.weight", np.array(rope[f"{name}_factor"], dtype=np.float32))


def add_metadata(writer, config):
    n_heads = config["num_attention_heads"]
    head_dim = config.get("head_dim") or config["hidden_size"] // n_heads
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_head_count(n_heads)
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_dimension_count(head_dim)
    writer.add_key_length(head_dim)
    writer.add_value_length(head_dim)
    writer.add_vocab_size(config["vocab_size"])
    writer.add_file_type({"float32": 0, "float16": 1, "bfloat16": 32}[config["dtype"]])
    if config["model_type"] in ("phi3", "gemma2", "gemma3_text", "mistral"):
        writer.add_sliding_window(config["sliding_window"] or 0)
    if config["model_type"] == "gemma3_text":
        writer.add_sliding_window_pattern(config["sliding_window_pattern"])
    if config["model_type"] == "gemma2":
        writer.add_attn_logit_softcapping(config["attn_logit_softcapping"])
        writer.add_final_logit_softcapping(config["final_logit_softcapping"])
    add_rope(writer, config, head_dim)
    eos = config["eos_token_id"]
    eos = eos if isinstance(eos, list) else [eos]
    writer.add_bos_token_id(config["bos_token_id"])
    writer.add_eos_token_id(eos[0])
    if len(eos) > 1:
        writer.add_eot_token_id(eos[1])
    for key, value in VERSIONS.items():
        writer.add_string(f"keyscope.golden.{key}", value)


def make_model(folder, name):
    config = json.loads((MODELS / name / "config.json").read_text())
    architecture = ARCHITECTURES[config["model_type"]]
    writer = gguf.GGUFWriter(folder / f"{name}.gguf", architecture)
    writer.add_name(name)
    add_metadata(writer, config)
    arch = next(key for key, value in gguf.MODEL_ARCH_NAMES.items() if value == architecture)
    names = gguf.get_tensor_name_map(arch, config["num_hidden_layers"])
    for place, tensor in sorted(load_file(MODELS / name / "model.safetensors").items()):
        if architecture == "llama" and ".q_proj." in place:
            tensor = interleave(tensor, config["num_attention_heads"])
        if architecture == "llama" and ".k_proj." in place:
            tensor = interleave(tensor, config["num_key_value_heads"])
        plus_one = architecture.startswith("gemma") and place.endswith("norm.weight")
        if tensor.ndim == 1 or plus_one:
            tensor = tensor.float() + (1 if plus_one else 0)
        renamed = names.get_name(place, try_suffixes=(".weight", ".bias"))
        data = tensor.contiguous()
        if data.dtype == torch.bfloat16:
            writer.add_tensor(renamed, data.view(torch.uint8).numpy(), raw_dtype=Type.BF16)
        else:
            writer.add_tensor(renamed, data.numpy())
    finish(writer)


# --- tokenizers ---

def make_byte_level(folder):
    parsed = json.loads((TOKENIZERS / "llama3.tokenizer.json").read_text())
    tokens = {id: text for text, id in parsed["model"]["vocab"].items()}
    added = {token["id"]: token for token in parsed["added_tokens"]}
    tokens |= {id: token["content"] for id, token in added.items()}
    n_all = max(tokens) + 3  # padded, as matrices are
    writer = gguf.GGUFWriter(folder / "tokenizer_llama3.gguf", "llama")
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("llama-bpe")
    writer.add_token_list([tokens.get(id, f"[PAD{id}]") for id in range(n_all)])
    writer.add_token_types([gguf.TokenType.UNUSED if id not in tokens else gguf.TokenType.NORMAL if id not in added
                            else gguf.TokenType.CONTROL if added[id]["special"] else gguf.TokenType.USER_DEFINED
                            for id in range(n_all)])
    merges = parsed["model"]["merges"]
    writer.add_token_merges([merge if isinstance(merge, str) else " ".join(merge) for merge in merges])
    by_text = {token["content"]: id for id, token in added.items()}
    writer.add_bos_token_id(by_text["<|begin_of_text|>"])
    writer.add_eos_token_id(by_text["<|eot_id|>"])
    writer.add_chat_template("{{ bos_token }}{% for message in messages %}<|{{ message.role }}|>{{ message.content }}"
                             "{{ eos_token }}{% endfor %}")
    finish(writer)


def make_sentencepiece(folder, name):
    path = TOKENIZERS / f"{name}.model"
    model = sentencepiece_model_pb2.ModelProto()
    model.ParseFromString(path.read_bytes())
    # Of the piece types of SentencePiece and those of GGUF the numbers are the same.
    writer = gguf.GGUFWriter(folder / f"tokenizer_{name}.gguf", "llama")
    writer.add_tokenizer_model("llama")
    writer.add_tokenizer_pre("default")
    writer.add_token_list([piece.piece.encode() for piece in model.pieces])
    writer.add_token_scores([piece.score for piece in model.pieces])
    writer.add_token_types([piece.type for piece in model.pieces])
    processor = sentencepiece.SentencePieceProcessor(model_file=str(path))
    writer.add_bos_token_id(processor.bos_id())
    writer.add_eos_token_id(processor.eos_id())
    writer.add_unk_token_id(processor.unk_id())
    writer.add_remove_extra_whitespaces(model.normalizer_spec.remove_extra_whitespaces)
    finish(writer)


def main():
    names = ["tiny_llama3", "tiny_qwen3", "tiny_gemma3", "tiny_phi3_longrope"]
    folder = HERE
    if len(sys.argv) > 1:
        folder = pathlib.Path(sys.argv[1])
        names = sorted(path.parent.name for path in MODELS.glob("*/config.json") if "dynamic" not in str(path))
    make_blocks(folder)
    for name in names:
        make_model(folder, name)
    make_byte_level(folder)
    for name in ("sentencepiece_bpe", "sentencepiece_unigram"):
        make_sentencepiece(folder, name)


main()
