"""GGUF files of blocks and of vocabularies; make_gguf_models.py makes those of models.

    python make_gguf_goldens.py     writes beside itself
    made with seed 20261128, gguf 0.19.0, numpy 2.4.6, safetensors 0.8.0, sentencepiece 0.2.3 (the
    goldens' metadata repeats seed and versions)

  blocks.gguf                one tensor of every block format, random: those that `gguf.quants` can make are made
                             of random numbers, of the others the bytes themselves are random, with finite scales
  blocks.golden.safetensors  what `gguf.quants.dequantize` makes of them, float32
  tokenizer_NAME.gguf        a vocabulary alone: llama3, sentencepiece_bpe and sentencepiece_unigram of
                             ../../tokenizer/goldens, where NAME.golden.json has the ids

Names and layout are those of the package; what a vocabulary holds, that of llama.cpp's converter.
"""

import json
import pathlib

import gguf
import numpy as np
import safetensors
import safetensors.numpy
import sentencepiece
from sentencepiece import sentencepiece_model_pb2

SEED = 20261128
HERE = pathlib.Path(__file__).parent
TOKENIZERS = HERE / "../../tokenizer/goldens"
VERSIONS = {"seed": str(SEED), "gguf": "0.19.0", "numpy": np.__version__, "safetensors": safetensors.__version__,
            "sentencepiece": sentencepiece.__version__}

Type = gguf.GGMLQuantizationType
FORMATS = [Type.F32, Type.F16, Type.BF16, Type.Q4_0, Type.Q4_1, Type.Q5_0, Type.Q5_1, Type.Q8_0, Type.Q2_K,
           Type.Q3_K, Type.Q4_K, Type.Q5_K, Type.Q6_K, Type.MXFP4]
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
    make_blocks(HERE)
    make_byte_level(HERE)
    for name in ("sentencepiece_bpe", "sentencepiece_unigram"):
        make_sentencepiece(HERE, name)


main()
