"""GGUF files of the models in ../../inference/goldens, as llama.cpp's own converter writes them.

    python make_gguf_models.py LLAMA_CPP [FOLDER]     writes beside itself, or into FOLDER
    made with the converter that llama-cpp-python 0.3.36 (PyPI, the sdist: vendor/llama.cpp) brings, torch 2.11.0,
    transformers 5.24.0, numpy 2.4.6

  tiny_NAME.gguf   the checkpoint of that name: of float32 as F32, of bfloat16 as BF16

The models have no tokenizer, which converters want to write as well: its part is left out, but for the ids of
"begin" and "end" that config.json has.
"""

import importlib
import inspect
import json
import pathlib
import re
import shutil
import sys
import tempfile

from safetensors.torch import load_file, save_file

HERE = pathlib.Path(__file__).parent
MODELS = HERE / "../../inference/goldens"
NAMES = ["llama3", "mixtral", "ministral3", "smollm3", "granite", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "gemma2",
         "gemma3", "phi3_longrope", "olmo2", "olmo3", "glm", "glm4", "gpt_oss"]


def prepare(name, folder):
    """A copy that the converter takes."""
    shutil.copytree(MODELS / name, folder)
    config = json.loads((folder / "config.json").read_text())
    if config["model_type"] == "gemma3_text":  # of which it only counts the tokens
        tokens = {f"t{id}": id for id in range(config["vocab_size"])}
        (folder / "tokenizer.json").write_text(json.dumps({"model": {"vocab": tokens}, "added_tokens": []}))
    if config.get("mlp_only_layers"):  # which GGUF does not know: the layers before them are a model as well
        n_layers = min(config["mlp_only_layers"])
        config |= {"num_hidden_layers": n_layers, "mlp_only_layers": []}
        tensors = {place: tensor for place, tensor in load_file(folder / "model.safetensors").items()
                   if not (layer := re.search(r"\.layers\.(\d+)\.", place)) or int(layer[1]) < n_layers}
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
        (folder / "config.json").write_text(json.dumps(config))
    return config


def ids_only(model):
    begin, end = model.hparams["bos_token_id"], model.hparams["eos_token_id"]
    model.gguf_writer.add_bos_token_id(begin)
    model.gguf_writer.add_eos_token_id(end[0] if isinstance(end, list) else end)


def without_vocabulary(converter, set_vocab):
    """Some converters choose among classes of their own."""
    nested = [value for base in converter.__mro__ for value in vars(base).values() if inspect.isclass(value)]
    for each in [converter, *nested]:
        for base in each.__mro__:
            if "set_vocab" in vars(base):
                base.set_vocab = set_vocab
    return converter


def main():
    llama_cpp = pathlib.Path(sys.argv[1])
    folder = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else HERE
    sys.path[:0] = [str(llama_cpp / "gguf-py"), str(llama_cpp)]
    gguf, conversion = importlib.import_module("gguf"), importlib.import_module("conversion")
    types = {"float32": gguf.LlamaFileType.ALL_F32, "bfloat16": gguf.LlamaFileType.MOSTLY_BF16,
             "float16": gguf.LlamaFileType.MOSTLY_F16}
    for name in (f"tiny_{name}" for name in NAMES):
        with tempfile.TemporaryDirectory() as place:
            model = pathlib.Path(place) / name
            config = prepare(name, model)
            converter = without_vocabulary(conversion.get_model_class(config["architectures"][0]), ids_only)
            converter(model, types[config["dtype"]], folder / f"{name}.gguf", eager=True, model_name=name).write()


main()
