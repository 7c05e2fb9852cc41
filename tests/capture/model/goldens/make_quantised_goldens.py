"""Small packed weights in every supported format, and what other programs unpack them to.

    python make_quantised_goldens.py        writes quantised.golden.safetensors beside itself; deterministic
    made with seed 20250801, torch 2.11.0, transformers 5.24.0, compressed-tensors 0.20.1, bitsandbytes 0.50.2
    (the goldens' metadata repeats it)

Each case is one weight. Its packed tensors are called "CASE|NAME", what they unpack to "CASE|=|NAME"; the metadata
holds each case's `quantization_config`. References:
  mxfp4                  Transformers' convert_moe_packed_tensors
  fp8                    Transformers' Fp8Dequantize; where blocks are cut at the edges, which it does not take, NumPy
  compressed-tensors     the package's own compressors, which pack and unpack; with an order of columns, which it
                         no longer reads, NumPy
  awq                    compressed-tensors' AutoAWQConverter and then its compressor
  gptq                   NumPy, from AutoGPTQ's published layout: its package needs a GPU
  bitsandbytes           the package's CPU kernels
What they give is float32 but where a reference knows bfloat16 only; then the weight is rounded to it.
"""

import json
import pathlib

import bitsandbytes
import bitsandbytes.functional as bnb
import compressed_tensors
import numpy as np
import torch
import transformers
from compressed_tensors.compressors import BaseCompressor
from compressed_tensors.entrypoints.convert.converters.autoawq import AutoAWQConverter
from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
from safetensors.torch import save_file
from transformers.integrations.finegrained_fp8 import Fp8Dequantize
from transformers.integrations.mxfp4 import convert_moe_packed_tensors

SEED = 20250801
HERE = pathlib.Path(__file__).parent

torch.manual_seed(SEED)
rng = np.random.default_rng(SEED)
tensors, configs = {}, {}


def add(case, config, packed, unpacked):
    configs[case] = config
    for name, tensor in packed.items():
        tensors[f"{case}|{name}"] = tensor.detach().clone().contiguous()
    for name, tensor in unpacked.items():
        tensors[f"{case}|=|{name}"] = tensor.detach().clone().contiguous()


def random_bytes(*shape):
    return torch.from_numpy(rng.integers(0, 256, shape, dtype=np.uint8))


def random_words(*shape):
    return torch.from_numpy(rng.integers(-2**31, 2**31, shape, dtype=np.int64).astype(np.int32))


def random_float8(*shape, dtype=torch.float8_e4m3fn):
    numbers = random_bytes(*shape).view(dtype)
    return torch.where(numbers.float().isfinite(), numbers.float(), torch.tensor(1.0)).to(dtype)


def random_scales(*shape, dtype=torch.float32):
    return (torch.rand(shape) * 0.1 + 0.001).to(dtype)


# --- mxfp4 ---

blocks, exponents = random_bytes(3, 40, 2, 16), torch.from_numpy(rng.integers(100, 140, (3, 40, 2), dtype=np.uint8))
exponents[0, 0, 0] = 0  # the smallest, where products are subnormal
add("mxfp4", {"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head", "model.layers.*.self_attn"]},
    {"e.gate_up_proj_blocks": blocks, "e.gate_up_proj_scales": exponents},
    {"e.gate_up_proj": convert_moe_packed_tensors(blocks, exponents, dtype=torch.float32)})

# --- fp8 ---

unpack_fp8 = Fp8Dequantize(None)._dequantize_one


def add_fp8(case, weight, scales, block, name="weight_scale_inv", unpacked=None):
    if unpacked is None:
        unpacked = unpack_fp8(weight, scales, output_dtype=torch.float32)
    add(case, {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": block},
        {"m.weight": weight, f"m.{name}": scales}, {"m.weight": unpacked})


add_fp8("fp8_block", random_float8(16, 24), random_scales(2, 3), [8, 8])
add_fp8("fp8_block_bf16", random_float8(16, 24), random_scales(2, 3, dtype=torch.bfloat16), [8, 8])
add_fp8("fp8_e5m2", random_float8(16, 24, dtype=torch.float8_e5m2), random_scales(2, 3), [8, 8])
weight, scales = random_float8(13, 21), random_scales(2, 3)
add_fp8("fp8_ragged", weight, scales, [8, 8],
        unpacked=weight.float() * scales.repeat_interleave(8, 0)[:13].repeat_interleave(8, 1)[:, :21])
add_fp8("fp8_tensor", random_float8(8, 16), random_scales(1).reshape(()), None)
add_fp8("fp8_channel", random_float8(8, 16), random_scales(8, 1), None, name="weight_scale")
scales = torch.from_numpy(rng.integers(100, 140, (8, 1), dtype=np.uint8))
add_fp8("fp8_powers", random_float8(8, 32), scales, [1, 32])

# --- compressed-tensors ---


def add_compressed(case, form, weights, shape, dtype=torch.float32):
    args = QuantizationArgs(**weights)
    scheme = QuantizationScheme(targets=["Linear"], weights=args, format=form)
    rows, columns = shape
    blocks = weights.get("block_structure") or [1, weights.get("group_size") or columns]
    grid = {"tensor": (1,), "channel": (rows, 1)}.get(
        weights["strategy"], (-(-rows // blocks[0]), -(-columns // blocks[1])))
    state = {"weight": torch.randn(rows, columns, dtype=dtype), "weight_scale": random_scales(*grid, dtype=dtype) * 3}
    if form == "nvfp4-pack-quantized":
        state["weight_global_scale"] = torch.tensor([7.3])
        state["weight_scale"] *= 500
    if not weights.get("symmetric", True):
        bound = 2 ** (weights["num_bits"] - 1)
        state["weight_zero_point"] = torch.from_numpy(rng.integers(-bound, bound, grid, dtype=np.int8))
    compressor = BaseCompressor.get_value_from_registry(form)
    packed = compressor.compress(state, scheme)
    unpacked = compressor.decompress(dict(packed), scheme)["weight"]
    config = {"quant_method": "compressed-tensors", "format": form, "quantization_status": "compressed",
              "ignore": ["lm_head", "re:.*norm.*"],
              "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights, "input_activations": None}}}
    add(case, config, {f"m.{name}": tensor for name, tensor in packed.items()}, {"m.weight": unpacked})
    return packed, unpacked, config


def integers(bits, strategy, **more):
    return {"num_bits": bits, "type": "int", "strategy": strategy, "symmetric": True, **more}


def floats(bits, strategy, **more):
    return {"num_bits": bits, "type": "float", "strategy": strategy, "symmetric": True, **more}


packed, unpacked, config = add_compressed("ct_int4_group", "pack-quantized", integers(4, "group", group_size=16), (12, 32))
add_compressed("ct_int4_bf16", "pack-quantized", integers(4, "group", group_size=16), (12, 32), torch.bfloat16)
add_compressed("ct_int4_channel", "pack-quantized", integers(4, "channel"), (6, 27))
add_compressed("ct_int4_tensor", "pack-quantized", integers(4, "tensor"), (6, 16))
add_compressed("ct_int4_zeros", "pack-quantized", integers(4, "group", group_size=16, symmetric=False), (13, 32))
add_compressed("ct_int8_zeros", "pack-quantized", integers(8, "channel", symmetric=False), (7, 18))
add_compressed("ct_int2_group", "pack-quantized", integers(2, "group", group_size=8), (6, 24))
add_compressed("ct_int8", "int-quantized", integers(8, "channel"), (6, 16))
add_compressed("ct_int8_plain_zeros", "naive-quantized", integers(8, "channel", symmetric=False), (6, 16))
add_compressed("ct_fp8_tensor", "float-quantized", floats(8, "tensor"), (6, 16))
add_compressed("ct_fp8_channel", "float-quantized", floats(8, "channel"), (6, 16))
add_compressed("ct_fp8_block", "naive-quantized", floats(8, "block", block_structure=[8, 8]), (16, 24))
add_compressed("ct_nvfp4", "nvfp4-pack-quantized", floats(4, "tensor_group", group_size=16), (6, 32))
add_compressed("ct_mxfp4", "mxfp4-pack-quantized", floats(4, "group", group_size=32), (6, 64))
add_compressed("ct_mxfp8", "mxfp8-quantized", floats(8, "group", group_size=32), (6, 64))

# Columns in another order: the codes of ct_int4_group, with the group of every column.
order = torch.from_numpy(rng.permutation(np.repeat(np.arange(2, dtype=np.int32), 16)))
codes = unpacked / packed["weight_scale"].repeat_interleave(16, 1)
ordered = codes.round() * packed["weight_scale"][:, order.long()]
configuration = json.loads(json.dumps(config))
configuration["config_groups"]["group_0"]["weights"]["actorder"] = "group"
add("ct_int4_order", configuration, {**{f"m.{name}": tensor for name, tensor in packed.items()}, "m.weight_g_idx": order},
    {"m.weight": ordered})

# --- awq ---

awq = {"quant_method": "awq", "bits": 4, "group_size": 16, "version": "gemm", "zero_point": True}
packed = {"m.qweight": random_words(32, 3), "m.qzeros": random_words(2, 3),
          "m.scales": random_scales(2, 24, dtype=torch.float16)}
converted = AutoAWQConverter.from_autoawq_config(awq).process(
    {name: tensor.float() if name == "m.scales" else tensor for name, tensor in packed.items()})
scheme = QuantizationScheme(targets=["Linear"], weights=QuantizationArgs(
    **integers(4, "group", group_size=16, symmetric=False)), format="pack-quantized")
unpacked = BaseCompressor.get_value_from_registry("pack-quantized").decompress(
    {name.removeprefix("m."): tensor for name, tensor in converted.items()}, scheme)["weight"]
add("awq", awq, packed, {"m.weight": unpacked})

# --- gptq ---


def stream(words, bits, n):
    """Integers of so many bits, lowest first, from a stream of int32 words along the last axis."""
    numbers = np.ascontiguousarray(words.numpy()).view(np.uint32)
    single = (numbers[..., None] >> np.arange(32, dtype=np.uint32)) & 1
    ones = single.reshape(*numbers.shape[:-1], -1)[..., :n * bits].reshape(*numbers.shape[:-1], n, bits)
    return (ones.astype(np.int64) << np.arange(bits)).sum(-1)


def add_gptq(case, bits, n_in, n_out, group_size, ordered=False, form="gptq"):
    n_groups = 1 if group_size < 0 else -(-n_in // group_size)
    groups = np.arange(n_in) // (group_size if group_size > 0 else n_in)
    if ordered:
        groups = rng.permutation(groups)
    qweight, qzeros = random_words(n_in * bits // 32, n_out), random_words(n_groups, -(-n_out * bits // 32))
    scales = random_scales(n_groups, n_out, dtype=torch.float16)
    integers_in = stream(qweight.T, bits, n_in).T
    zeros = (stream(qzeros, bits, n_out) + (1 if form == "gptq" else 0)) % 2**bits
    unpacked = (integers_in - zeros[groups]).astype(np.float32) * scales.float().numpy()[groups]
    add(case, {"quant_method": "gptq", "bits": bits, "group_size": group_size, "desc_act": ordered, "sym": False,
               "checkpoint_format": form},
        {"m.qweight": qweight, "m.qzeros": qzeros, "m.scales": scales,
         "m.g_idx": torch.from_numpy(groups.astype(np.int32))},
        {"m.weight": torch.from_numpy(np.ascontiguousarray(unpacked.T))})


add_gptq("gptq4", 4, 32, 16, 16)
add_gptq("gptq4_v2", 4, 32, 16, 16, form="gptq_v2")
add_gptq("gptq4_ordered", 4, 32, 16, 8, ordered=True)
add_gptq("gptq8_one_group", 8, 16, 12, -1)
add_gptq("gptq3", 3, 32, 32, 16)
add_gptq("gptq2", 2, 32, 16, 16)

# --- bitsandbytes ---

# Blocks run on from row to row. Of rows of 32, half a block each, its CPU kernel makes other numbers than the GPU's.


def add_codes(case, code, nested, shape, storage=torch.uint8):
    weight = torch.randn(*shape)
    packed, state = bnb.quantize_4bit(weight, blocksize=64, compress_statistics=nested, quant_type=code,
                                      quant_storage=storage)
    parts = {f"m.weight.{name}": tensor for name, tensor in state.as_dict(packed=True).items()}
    add(case, {"quant_method": "bitsandbytes", "load_in_4bit": True, "load_in_8bit": False, "bnb_4bit_quant_type": code,
               "llm_int8_skip_modules": ["lm_head"]},
        {"m.weight": packed, **parts}, {"m.weight": bnb.dequantize_4bit(packed, state)})


add_codes("bnb_nf4", "nf4", False, (10, 24))
add_codes("bnb_nf4_nested", "nf4", True, (12, 64))
add_codes("bnb_nf4_as_bf16", "nf4", True, (6, 64), torch.bfloat16)
add_codes("bnb_fp4", "fp4", False, (8, 24))
weight = torch.from_numpy(rng.integers(-127, 128, (6, 16), dtype=np.int8))
scales = random_scales(6)
add("bnb_int8", {"quant_method": "bitsandbytes", "load_in_8bit": True},
    {"m.weight": weight, "m.SCB": scales, "m.weight_format": torch.tensor(0, dtype=torch.uint8)},
    {"m.weight": bnb.int8_vectorwise_dequant(weight, scales)})

# One entry, as several are written in any order.
save_file(tensors, HERE / "quantised.golden.safetensors", metadata={"goldens": json.dumps({
    "configs": configs, "seed": SEED, "torch": torch.__version__, "transformers": transformers.__version__,
    "compressed-tensors": compressed_tensors.__version__, "bitsandbytes": bitsandbytes.__version__}, sort_keys=True)})
