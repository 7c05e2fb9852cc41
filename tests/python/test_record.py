"""What `keyscope.record` writes and refuses, and what is left of it after Ctrl-C and after a kill."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="recordings are written with PyTorch")
transformers = pytest.importorskip("transformers", minversion="5", reason="and Transformers 5")

from conftest import DEMO, PROMPT, TOP  # noqa: E402
from transformers_models import N_PROMPT, make, prompt  # noqa: E402

import keyscope  # noqa: E402
from keyscope.policies import PolicyError  # noqa: E402
from keyscope.record import RecordError, hooks, record, recorder, writer  # noqa: E402
from keyscope.record.layout import round_to_bfloat16  # noqa: E402
from keyscope.record.origin import token_text  # noqa: E402


@pytest.fixture(scope="module")
def model() -> Any:
    return make("Llama")


@pytest.fixture(scope="module")
def demo() -> tuple[Any, Any]:
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(DEMO / "tokenizer.json"))
    return transformers.AutoModelForCausalLM.from_pretrained(DEMO, dtype=torch.float32), tokenizer


def test_it_returns_the_recording_opened(model: Any, tmp_path: Path) -> None:
    with record(
        model, None, prompt(), ["keydiff"], 24, 16, generate=3, out=tmp_path / "r.h5", progress=False
    ) as recording:
        assert isinstance(recording, keyscope.Recording)
        assert list(recording.runs) == ["none", "keydiff"]
        assert recording.complete and recording.n_prompt == N_PROMPT
        assert recording["keydiff"][1][0].keys.shape == (N_PROMPT + 2, 16)
    assert [path.name for path in tmp_path.iterdir()] == ["r.h5"]


def test_the_package_has_the_name_of_its_function(model: Any, tmp_path: Path) -> None:
    package = sys.modules["keyscope.record"]
    package(model, None, prompt(5), out=tmp_path / "r.h5", progress=False).close()
    assert (tmp_path / "r.h5").exists()


def test_the_demo_model_is_recorded_as_the_program_captures_it(
    demo: tuple[Any, Any], capture: Any, run_keyscope: Callable[..., str], tmp_path: Path
) -> None:
    """From a text, with a tokenizer: the same ids, texts, generated tokens and rows; and one hash of the model."""
    options = ("--policy", "none", "--policy", "keydiff", "--budget", 200, "--block", 64, "--max-tokens", 400)
    by_program = capture(
        "as_record", *options, "--dtype", "float32", "--generate", 8, "--record", "keys,queries,values,logits"
    )
    model, tokenizer = demo
    out = tmp_path / "r.h5"
    record(
        model, tokenizer, PROMPT.read_text(), ["keydiff"], 200, 64, generate=8, out=out, max_tokens=400, progress=False,
        record=("keys", "queries", "values", "logits"),
    ).close()  # fmt: skip
    run_keyscope("compare", by_program, out, "--tolerance", 3e-5)
    with h5py.File(by_program) as a, h5py.File(out) as b:
        for name in ("tokens/id", "tokens/text", "tokens/text_offset", "runs/keydiff/generated_text",
                     "runs/keydiff/generated_text_offset", "runs/none/block_start"):  # fmt: skip
            assert np.array_equal(a["entry"][name][:], b["entry"][name][:]), name
        for name in ("model_sha256", "prompt_sha256"):
            assert a["entry/provenance"].attrs[name] == b["entry/provenance"].attrs[name]
        assert a["entry/model"].attrs["config"] == b["entry/model"].attrs["config"]
        same_layout(a["entry/runs/keydiff"], b["entry/runs/keydiff"])


def same_layout(a: h5py.Group, b: h5py.Group) -> None:
    """The program's datasets are all there, of the same types and shapes, with the same attributes."""
    journal = {"blocks_done_by_layer", "layers_complete"}  # of another schedule
    for name, node in a.items():
        if name in journal or name.startswith("partial_"):
            continue
        assert name in b, name
        if isinstance(node, h5py.Dataset):
            assert (node.dtype, node.shape) == (b[name].dtype, b[name].shape), name
        else:
            same_layout(node, b[name])
    assert {name: str(type(value)) for name, value in a.attrs.items()}.items() <= {
        name: str(type(value)) for name, value in b.attrs.items()
    }.items()


def test_a_prompt_is_text_ids_a_tensor_or_messages(demo: tuple[Any, Any], tmp_path: Path) -> None:
    model, tokenizer = demo
    tokenizer.chat_template = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}assistant:"
    text = "user: The key is 12345.\nassistant:"
    plain = tokenizer(text, add_special_tokens=False)["input_ids"]
    ids = tokenizer(text)["input_ids"]
    assert ids[1:] == plain
    messages = [{"role": "user", "content": "The key is 12345."}]
    prompts = [(text, ids), (ids, ids), (torch.tensor([ids]), ids), (np.array(ids), ids), (messages, plain)]
    for index, (given, expected) in enumerate(prompts):
        with record(model, tokenizer, given, out=tmp_path / f"{index}.h5", progress=False) as recording:
            assert recording.tokens["id"].tolist() == expected
            assert "".join(recording.tokens["text"]).removeprefix("<|begin_of_text|>") == text
    tokenizer.chat_template = None


def test_text_of_tokens_without_bytes_of_their_own() -> None:
    """Where a token's text depends on those before it, a character of several tokens is the last one's."""

    class Tokenizer:
        pieces = {1: b"a", 2: b" \xe2\x82", 3: b"\xac", 4: b"z"}

        def decode(self, ids: list[int], **_: Any) -> str:
            return b"".join(self.pieces[id_] for id_ in ids).decode("utf-8", "replace")

    text = token_text(Tokenizer(), [1, 2, 3, 4])
    assert text.text == "a €z".encode()
    assert text.offset.tolist() == [0, 1, 2, 5, 6]
    assert token_text(None, [5, 6]).offset.tolist() == [0, 0, 0]


@pytest.mark.parametrize("chunk", [16, 32, 2048])
def test_how_many_blocks_go_through_the_model_at_once_changes_nothing(
    model: Any, chunk: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_keyscope: Callable[..., str]
) -> None:
    windowed = make("Gemma3Text")
    for index, one in enumerate((model, windowed)):
        whole, out = tmp_path / f"whole{index}.h5", tmp_path / f"{index}.h5"
        for path, tokens in ((whole, 1 << 20), (out, chunk)):
            monkeypatch.setattr(recorder, "_CHUNK_TOKENS", tokens)
            policies = ["keydiff", "h2o", "snapkv:recent=4"]
            record(one, None, prompt(), policies, 20, 16, generate=3, out=path, progress=False, ignore_eos=True).close()
        run_keyscope("compare", whole, out)
        with h5py.File(whole) as a, h5py.File(out) as b:
            for run in a["entry/runs"]:
                for layer in ("layer_00", "layer_02"):
                    x, y = (f["entry/runs"][run][layer] for f in (a, b))
                    assert np.array_equal(x["evicted_at"][:], y["evicted_at"][:])
                    assert np.allclose(x["attention_entropy"][:], y["attention_entropy"][:], atol=1e-5)
                    assert np.allclose(x["attention_window"][:], y["attention_window"][:], atol=1e-5)


def test_small_tiles_give_what_large_ones_give(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from keyscope.record import attention

    model = make("GptOss")
    for path, tile in ((tmp_path / "a.h5", 1 << 21), (tmp_path / "b.h5", 64)):
        monkeypatch.setitem(attention._TILE_WEIGHTS, "cpu", tile)
        record(model, None, prompt(), ["h2o"], 24, 40, out=path, record="keys,attention", progress=False).close()
    with h5py.File(tmp_path / "a.h5") as a, h5py.File(tmp_path / "b.h5") as b:
        for run in ("none", "h2o"):
            for layer in ("layer_00", "layer_01"):
                for name, dataset in a[f"entry/runs/{run}/{layer}"].items():
                    assert np.allclose(
                        dataset[...], b[f"entry/runs/{run}/{layer}/{name}"][...], atol=2e-5, equal_nan=True
                    )


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float64"])
def test_models_of_any_dtype(dtype: str, tmp_path: Path) -> None:
    model = make("Llama", getattr(torch, dtype))
    narrow = record(model, None, prompt(), ["h2o"], 24, 16, generate=2, out=tmp_path / "n.h5", progress=False)
    wide = record(make("Llama"), None, prompt(), out=tmp_path / "w.h5", progress=False)
    with narrow, wide, h5py.File(tmp_path / "n.h5") as a, h5py.File(tmp_path / "w.h5") as b:
        for layer in range(3):
            place = f"entry/runs/none/layer_{layer:02}"
            keys, exact = a[f"{place}/keys"][:, :N_PROMPT], b[f"{place}/keys"][:]
            assert np.linalg.norm(keys - exact) <= 0.05 * np.linalg.norm(exact)
            assert np.allclose(a[f"{place}/attention_received"][:, :N_PROMPT].sum(axis=1), N_PROMPT, rtol=1e-5)


def test_rows_are_stored_as_asked(model: Any, tmp_path: Path) -> None:
    found = {}
    for store in ("float32", "float16", "bfloat16"):
        record(model, None, prompt(20), out=tmp_path / f"{store}.h5", store=store, progress=False).close()
        with h5py.File(tmp_path / f"{store}.h5") as file:
            keys = file["entry/runs/none/layer_00/keys"]
            found[store] = keys[:]
            assert keys.dtype == ("float16" if store == "float16" else "float32")
            assert keys.attrs.get("rounded_to") == ("bfloat16" if store == "bfloat16" else None)
    assert np.array_equal(found["float16"], found["float32"].astype(np.float16))
    assert np.array_equal(found["bfloat16"], torch.from_numpy(found["float32"]).bfloat16().float().numpy())
    assert np.isnan(round_to_bfloat16(np.array([np.nan, 1], np.float32))).tolist() == [True, False]


def test_chosen_layers_and_datasets_only(model: Any, tmp_path: Path) -> None:
    record(
        model, None, prompt(), "sink", 24, 16, out=tmp_path / "r.h5", layers=[2, 0], record="values", progress=False
    ).close()
    with h5py.File(tmp_path / "r.h5") as file:
        run = file["entry/runs/sink"]
        assert [name for name in run if name.startswith("layer_")] == ["layer_00", "layer_02"]
        assert not {"keys", "queries", "attention"} & set(run["layer_02"])
        assert (run["layer_02/evicted_at"][:] >= 0).any()


def test_generation_stops_behind_an_end(model: Any, tmp_path: Path) -> None:
    longest = {"generate": 6, "block": 16, "progress": False}
    record(model, None, prompt(), out=tmp_path / "a.h5", ignore_eos=True, **longest).close()
    with h5py.File(tmp_path / "a.h5") as file:
        ids = file["entry/runs/none/generated"][:].tolist()
    before, model.generation_config.eos_token_id = model.generation_config.eos_token_id, [ids[0], 1]
    try:
        record(model, None, prompt(), ["keydiff"], 80, out=tmp_path / "b.h5", **longest).close()
    finally:
        model.generation_config.eos_token_id = before
    with h5py.File(tmp_path / "a.h5") as whole, h5py.File(tmp_path / "b.h5") as cut:
        for file, n_fed in ((whole, 5), (cut, 0)):
            run = file["entry/runs/none"]
            assert run["generated"][:].tolist() == ids[: n_fed + 1]
            assert run["generated_text_offset"].shape == (n_fed + 2,)
            assert run["layer_00/keys"].shape[1] == run["layer_00/evicted_at"].shape[1] == N_PROMPT + n_fed
            assert len(run["block_start"]) == run["blocks_done"][()] == 6 + n_fed


def test_the_model_is_left_as_it_was(model: Any, tmp_path: Path) -> None:
    model.train()
    before = model.config._attn_implementation
    record(model, None, prompt(9), out=tmp_path / "a.h5", progress=False).close()
    assert model.training and model.config._attn_implementation == before
    with pytest.raises(PolicyError):
        record(model, None, prompt(), lambda head: 1 / 0, 24, 16, out=tmp_path / "b.h5", progress=False)
    assert model.training and model.config._attn_implementation == before
    model.eval()
    assert model(torch.tensor([prompt(9)])).logits.shape == (1, 9, 64)


def test_it_shows_how_far_it_is_only_if_asked(model: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    record(model, None, prompt(), out=tmp_path / "a.h5", progress=False).close()
    assert capfd.readouterr() == ("", "")
    record(model, None, prompt(), out=tmp_path / "b.h5").close()
    assert "none: 0 of 83 tokens" in capfd.readouterr().err


# What is refused.


@pytest.mark.parametrize(
    ("options", "kind", "sentence"),
    [
        ({"policies": ["keydiff"]}, PolicyError, "policy keydiff needs a budget"),
        (
            {"policies": ["snapkv"], "budget": 16},
            PolicyError,
            "keeps the 32 most recent rows .* the budget is 16; take",
        ),
        ({"policies": ["nothing"]}, PolicyError, "'nothing' is not known; there are none, keydiff"),
        ({"policies": [3]}, PolicyError, "policies holds 3; expected a policy's name or a function"),
        ({"budget": "lots", "policies": "sink"}, ValueError, "budget is 'lots'; expected 1 or more rows"),
        ({"block": 0}, RecordError, "block is 0; expected a whole number from 1 on"),
        ({"generate": -1}, RecordError, "generate is -1"),
        ({"store": "int8"}, RecordError, "store is 'int8'; expected one of float32, float16, bfloat16"),
        (
            {"record": "keys,kv"},
            RecordError,
            "record is 'kv'; expected one of keys, queries, values, attention, logits",
        ),
        ({"layers": [7]}, RecordError, "layers holds 7; the model has layers 0 to 2"),
        ({"prompt": "text"}, RecordError, "a prompt of text needs a tokenizer, and None was given"),
        ({"prompt": []}, RecordError, "expected text, ids or messages"),
        ({"prompt": [1, 99]}, RecordError, "prompt token 1 is id 99, and the model's vocabulary has ids 0 to 63"),
        ({"prompt": list(range(3, 63)) * 9}, RecordError, "the prompt has 540 tokens, .* context is 512; shorten"),
        ({"out": "nowhere/r.h5"}, FileNotFoundError, "expected a file's name in a folder that exists"),
    ],
)
def test_a_request_that_cannot_be_met(
    model: Any, options: dict[str, Any], kind: type[Exception], sentence: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    given = {"prompt": prompt(), "out": "r.h5", "progress": False, **options}
    with pytest.raises(kind, match=sentence) as caught:
        record(model, None, given.pop("prompt"), **given)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def bidirectional() -> Any:
    model = make("Llama")
    for layer in model.model.layers:
        layer.self_attn.is_causal = False
    return model


def quantised() -> Any:
    model = make("Llama")
    model.generation_config.cache_implementation = "quantized"
    return model


def of(name: str, **config: Any) -> Any:
    return transformers.AutoModelForCausalLM.from_config(getattr(transformers, name + "Config")(**config))


SMALL = {"vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}


@pytest.mark.parametrize(
    ("make_model", "sentence"),
    [
        (lambda: of("Bloom", vocab_size=64, hidden_size=32, n_layer=2, n_head=4),
         "BloomForCausalLM: its attention is not called through Transformers' AttentionInterface"),
        (lambda: of("Mamba", vocab_size=64, hidden_size=32, num_hidden_layers=2),
         "MambaForCausalLM: none of its layers attends .*; a model without keys has nothing to evict"),
        (lambda: of("DiffLlama", **SMALL, intermediate_size=48),
         "layer 0 attends more than once"),
        (lambda: transformers.T5ForConditionalGeneration(transformers.T5Config(
            vocab_size=64, d_model=32, d_kv=8, d_ff=48, num_layers=1, num_heads=4)),
         "reads its prompt with an encoder"),
        (quantised, "its generation_config asks for a quantised cache"),
        (bidirectional, "its tokens also see what comes after them"),
        (lambda: make("Llama").model, "LlamaModel: has no head, so that there are no next tokens"),
        (lambda: make("MiniMax"), "MiniMaxForCausalLM: goes on from a cache of its own, .* leave generate out"),
        (lambda: "meta-llama/Llama-3.2-1B", "model is str; expected a model of Transformers 5"),
    ],
    ids=["interface", "attention", "twice", "encoder", "quantised", "bidirectional", "head", "own cache", "name"],
)  # fmt: skip
def test_a_model_that_cannot_be_recorded(make_model: Callable[[], Any], sentence: str, tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=sentence) as caught:
        record(make_model(), None, prompt(20), generate=2, out=tmp_path / "r.h5", progress=False)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_what_is_there_is_not_replaced_unasked(model: Any, tmp_path: Path) -> None:
    out, part = tmp_path / "r.h5", tmp_path / "r.h5.part"
    out.write_text("mine")
    with pytest.raises(FileExistsError, match="exists; choose another name, or give force=True"):
        record(model, None, prompt(9), out=out, progress=False)
    out.unlink()
    part.write_text("mine")
    with pytest.raises(FileExistsError, match="a recording in progress, or left by one that was killed"):
        record(model, None, prompt(9), out=out, progress=False)
    assert part.read_text() == "mine"
    record(model, None, prompt(9), out=out, force=True, progress=False).close()
    record(model, None, prompt(7), out=out, force=True, progress=False).close()
    with keyscope.open(out) as recording:
        assert recording.n_prompt == 7 and not part.exists()


def test_attention_outside_of_a_recording_is_refused(model: Any, tmp_path: Path) -> None:
    record(model, None, prompt(9), out=tmp_path / "r.h5", progress=False).close()
    before = model.config._attn_implementation
    model.set_attn_implementation(hooks.IMPLEMENTATION)
    try:
        with pytest.raises(RecordError, match="works while keyscope records only"):
            model(torch.tensor([prompt(9)]))
    finally:
        model.set_attn_implementation(before)


# What is left when it does not come to its end.


class StopError(Exception):
    pass


def stop_after(model: Any, n_passes: int, error: BaseException) -> Any:
    """Makes the model's (n_passes + 1)-th forward pass fail in its last layer; two passes are made to look at it."""
    passes = [0]

    def hook(*_: Any) -> None:
        passes[0] += 1
        if passes[0] > n_passes + 2:
            raise error

    return model.model.layers[-1].mlp.register_forward_hook(hook)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), StopError()])
def test_what_was_read_before_an_interrupt_is_kept(
    model: Any, error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_keyscope: Callable[..., str]
) -> None:
    monkeypatch.setattr(recorder, "_CHUNK_TOKENS", 32)
    whole, out = tmp_path / "whole.h5", tmp_path / "r.h5"
    arguments = (model, None, prompt(), ["keydiff", "h2o"], 20, 16)
    record(*arguments, out=whole, progress=False).close()
    hook = stop_after(model, 3 + 2, error)  # in the last third of the second run
    try:
        with pytest.raises(type(error)):
            record(*arguments, out=out, progress=False)
    finally:
        hook.remove()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["r.h5", "whole.h5"]
    run_keyscope("analyze", out, "--no-bounds")
    with h5py.File(out) as file:
        runs = file["entry/runs"]
        assert file["entry/provenance"].attrs["complete"] == 0
        assert [runs[name]["blocks_done"][()] for name in ("none", "keydiff", "h2o")] == [6, 4, 0]
    with keyscope.open(out) as cut, keyscope.open(whole) as full:
        assert cut["keydiff"].n_tokens == 64
        for head, other in ((cut["keydiff"][1][0], full["keydiff"][1][0]), (cut["none"][1][0], full["none"][1][0])):
            assert np.array_equal(head.keys, other.keys[: len(head.keys)])
            seen = np.asarray(head.attention_queries) > 0
            assert seen.any()


def test_an_interrupted_recording_replaces_nothing(model: Any, tmp_path: Path) -> None:
    out = tmp_path / "r.h5"
    record(model, None, prompt(9), out=out, progress=False).close()
    hook = stop_after(model, 1, KeyboardInterrupt())
    try:
        with pytest.raises(KeyboardInterrupt):
            record(model, None, prompt(), "sink", 20, 16, out=out, force=True, progress=False)
    finally:
        hook.remove()
    assert keyscope.open(out).n_prompt == 9
    assert keyscope.open(tmp_path / "r.h5.part").n_prompt == N_PROMPT
    hook = stop_after(model, 0, KeyboardInterrupt())
    try:
        with pytest.raises(KeyboardInterrupt):
            record(model, None, prompt(), out=tmp_path / "n.h5", progress=False)
    finally:
        hook.remove()
    assert not list(tmp_path.glob("n.h5*"))


def test_nobody_takes_a_closed_part_before_it_has_its_name(
    model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish = writer.RecordingWriter._publish
    tried: list[Path] = []

    def look_and_publish(recording: writer.RecordingWriter) -> Path:
        with pytest.raises(FileExistsError, match="is being written to by another recording"):
            writer.check_output(recording.out, force=True)
        tried.append(recording.part)
        return publish(recording)

    monkeypatch.setattr(writer.RecordingWriter, "_publish", look_and_publish)
    out = tmp_path / "r.h5"
    record(model, None, prompt(9), out=out, progress=False).close()
    assert tried == [tmp_path / "r.h5.part"]
    writer.check_output(out, force=True)


def test_a_kill_leaves_a_part_that_opens(tmp_path: Path, run_keyscope: Callable[..., str]) -> None:
    """Killed while it generates: the prompt and the counted tokens are there, for the package and the program."""
    script = textwrap.dedent("""
        import sys, time
        sys.path[:0] = sys.argv[1:3]
        from keyscope.record import record
        from transformers_models import make, prompt
        model = make("Llama")
        model.model.layers[0].mlp.register_forward_hook(lambda *_: time.sleep(0.02))
        record(
            model, None, prompt(), ["keydiff"], 24, 16, generate=400, out=sys.argv[3], ignore_eos=True, progress=False
        )
    """)
    out = tmp_path / "r.h5"
    command = [sys.executable, "-c", script, str(TOP / "python/src"), str(TOP / "tests/python"), str(out)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE)
    part = tmp_path / "r.h5.part"
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.5)
        if part.exists() and counted(part) > 9:
            break
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert not out.exists() and part.exists(), process.stderr.read() if process.stderr else ""
    n_blocks = counted(part)
    assert n_blocks > 9
    with keyscope.open(part) as recording:
        assert not recording.complete
        assert recording["none"].n_tokens == N_PROMPT + n_blocks - 6
    analysis = tmp_path / "a.json"
    run_keyscope("analyze", part, "--no-bounds", "--json", analysis)
    assert json.loads(analysis.read_text())["n_prompt"] == N_PROMPT


def counted(part: Path) -> int:
    try:
        with h5py.File(part, "r", locking=False) as file:
            return int(file["entry/runs/none/blocks_done"][()])
    except (OSError, KeyError):
        return 0
