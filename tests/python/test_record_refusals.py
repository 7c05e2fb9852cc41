"""What `keyscope.record` refuses, in one sentence each, and what is left as it was."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="recordings are written with PyTorch")
transformers = pytest.importorskip("transformers", minversion="5", reason="and Transformers 5")

from transformers_models import SMALL, make, prompt  # noqa: E402

import keyscope  # noqa: E402
from keyscope.policies import PolicyError  # noqa: E402
from keyscope.record import RecordError, hooks, record, writer  # noqa: E402


@pytest.fixture(scope="module")
def model() -> Any:
    return make("Llama")


def sentence_of(error: BaseException) -> str:
    text = str(error)
    assert text and "\n" not in text and not text.endswith(".")
    return text


def exits(head: keyscope.PolicyInput) -> Any:
    sys.exit(0)


def speaks_in_lines(head: keyscope.PolicyInput) -> Any:
    raise RuntimeError("one\ntwo")


def writes(head: keyscope.PolicyInput) -> Any:
    head.keys[:] = 0


def complex_scores(head: keyscope.PolicyInput) -> Any:
    return np.ones(head.n_rows) * 1j


def texts(head: keyscope.PolicyInput) -> Any:
    return ["1"] * head.n_rows


def masked(head: keyscope.PolicyInput) -> Any:
    return np.ma.array(np.ones(head.n_rows), mask=head.positions % 2 == 0)


@pytest.mark.parametrize(
    "function,found",
    [
        (exits, "policy exits, layer 0, KV head 0: raised SystemExit: 0"),
        (speaks_in_lines, "raised RuntimeError: one two"),
        (writes, "policy writes, .*: raised ValueError: .*read-only"),
        (complex_scores, "returned ndarray; expected 32 numbers"),
        (texts, "returned list; expected 32 numbers"),
        (masked, "returned MaskedArray; expected 32 numbers"),
    ],
)
def test_policies_that_fail(
    function: Callable[..., Any], found: str, model: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(PolicyError, match=found) as caught:
        record(model, None, prompt(), [function], 24, 16, out=tmp_path / "r.h5")
    sentence_of(caught.value)
    assert f"what was recorded by then is kept in {tmp_path / 'r.h5'}" in capsys.readouterr().err


def test_scores_may_be_tensors_of_any_type(model: Any, tmp_path: Path) -> None:
    def norms(head: keyscope.PolicyInput) -> Any:
        return torch.from_numpy(head.keys.copy()).norm(dim=1).bfloat16().requires_grad_()

    def same(head: keyscope.PolicyInput) -> Any:
        return norms(head).detach().float().numpy()

    with record(model, None, prompt(), [norms, same], 24, 16, out=tmp_path / "r.h5", progress=False) as recording:
        assert np.array_equal(recording["norms"][1][0].evicted_at, recording["same"][1][0].evicted_at)


ARGUMENTS: list[tuple[dict[str, Any], str]] = [
    ({"layers": "0,1"}, "layers is '0,1'; expected a list"),
    ({"layers": 1}, "layers is 1; expected a list"),
    ({"layers": [0.7]}, "layers is 0.7; expected a whole number"),
    ({"layers": [7]}, "layers holds 7; the model has layers 0 to 2"),
    ({"policies": None}, "policies is None; expected"),
    ({"policies": "keydiff,sink"}, "'keydiff,sink' is not known.*several are a list"),
    ({"prompt": [[1, 2], [3]]}, "lists of different lengths"),
    ({"tokenizer": "gpt2", "prompt": "text"}, "tokenizer is str; expected a tokenizer"),
    ({"out": ""}, "out is ''; expected a file's name"),
    ({"seed": 2**63}, "seed is .*; expected at most"),
    ({"budget": "many"}, "budget is 'many'; expected 1 or more rows"),
    ({"budget": True}, "budget is True"),
    ({"budget": np.float64(1.5)}, "budget is 1.5"),
]


@pytest.mark.parametrize("given,found", ARGUMENTS, ids=[found for _, found in ARGUMENTS])
def test_arguments_that_cannot_be(given: dict[str, Any], found: str, model: Any, tmp_path: Path) -> None:
    asked = {"prompt": prompt(), "tokenizer": None, "policies": ["keydiff"], "budget": 24, "out": tmp_path / "r.h5"}
    with pytest.raises((RecordError, PolicyError), match=found) as caught:
        record(model, **{**asked, **given}, block=16, progress=False)
    sentence_of(caught.value)
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("budget", [np.int64(24), np.float32(0.3), np.int32(24)])
def test_budgets_of_numpy(budget: Any, model: Any, tmp_path: Path) -> None:
    with record(model, None, prompt(), ["sink"], budget, 16, out=tmp_path / "r.h5", progress=False) as recording:
        assert recording["sink"].budget in (24, 25)


def test_nothing_but_a_regular_file_is_replaced(model: Any, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FileExistsError, match="pipe: is no regular file"):
        record(model, None, prompt(), out=tmp_path / "pipe", force=True, progress=False)
    assert (tmp_path / "pipe").is_fifo()


def test_models_without_a_head_over_the_vocabulary(tmp_path: Path) -> None:
    for kind in ("SequenceClassification", "TokenClassification"):
        config = transformers.LlamaConfig(**SMALL)
        classifier = getattr(transformers, f"AutoModelFor{kind}").from_config(config)
        with record(classifier, None, prompt(), ["keydiff"], 24, 16, out=tmp_path / kind, progress=False) as recording:
            assert len(recording["none"].top) == 0
        with pytest.raises(RecordError, match="has no head"):
            record(classifier, None, prompt(), generate=3, out=tmp_path / "r.h5", progress=False)


def test_models_that_cannot_run(model: Any, tmp_path: Path) -> None:
    with torch.device("meta"):
        empty = transformers.AutoModelForCausalLM.from_config(transformers.LlamaConfig(**SMALL))
    for one, found in ((empty, "meta device"), (torch.compile(model), "is compiled")):
        with pytest.raises(RecordError, match=found) as caught:
            record(one, None, prompt(), out=tmp_path / "r.h5", progress=False)
        sentence_of(caught.value)


def test_a_configuration_that_asks_for_tuples(tmp_path: Path) -> None:
    tuples = make("Llama")
    tuples.config.return_dict = False
    record(tuples, None, prompt(), out=tmp_path / "r.h5", progress=False).close()


def test_parts_of_a_model_stay_in_their_modes(tmp_path: Path) -> None:
    partly = make("Llama").train()
    partly.model.layers[0].eval()
    record(partly, None, prompt(), out=tmp_path / "r.h5", progress=False).close()
    assert [layer.training for layer in partly.model.layers] == [False, True, True] and partly.training


def test_another_thread_is_told_that_the_model_is_being_recorded(model: Any, tmp_path: Path) -> None:
    said: list[str] = []

    def use() -> None:
        try:
            with torch.inference_mode():
                model(torch.tensor([prompt()]))
        except RecordError as error:
            said.append(sentence_of(error))

    def uses(head: keyscope.PolicyInput) -> Any:
        if not said:
            other = threading.Thread(target=use)
            other.start()
            other.join()
        return head.positions

    record(model, None, prompt(), [uses], 24, 16, out=tmp_path / "r.h5", progress=False).close()
    assert said and "by another thread" in said[0]


def test_float16_ends(tmp_path: Path) -> None:
    large = make("Llama")
    with torch.no_grad():
        large.model.layers[1].self_attn.k_proj.weight.mul_(1e6)
    with pytest.raises(RecordError, match="layer 1: keys are as large as .*float16 ends at 65504"):
        record(large, None, prompt(), store="float16", out=tmp_path / "r.h5", progress=False)


def test_names_of_runs_are_names_in_a_file(model: Any, tmp_path: Path) -> None:
    functions: list[Any] = []
    for name in ("a/b", ".", "a/b"):
        functions.append(lambda head: head.positions)
        functions[-1].__name__ = name
    with record(model, None, prompt(), functions, 24, 16, out=tmp_path / "r.h5", progress=False) as recording:
        assert list(recording.runs) == ["none", "a_b", "policy", "a_b-2"]


def test_an_interrupt_while_generating_leaves_what_can_be_read(
    model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_keyscope: Callable[..., str]
) -> None:
    """At each moment at which blocks are counted: the prompt's one and four of generated tokens, in two runs."""
    count, counted = writer.RunWriter.count_blocks, 0
    for last in range(1, 11):
        counted = 0

        def interrupted(self: Any) -> None:
            nonlocal counted
            count(self)
            counted += 1
            if counted == last:
                raise KeyboardInterrupt

        monkeypatch.setattr(writer.RunWriter, "count_blocks", interrupted)
        out = tmp_path / f"{last}.h5"
        with pytest.raises(KeyboardInterrupt):
            record(model, None, prompt(), ["sink"], 24, 96, generate=5, ignore_eos=True, out=out, progress=False)
        monkeypatch.setattr(writer.RunWriter, "count_blocks", count)
        with keyscope.open(out) as recording:
            assert not recording.complete
        run_keyscope("inspect", out)


def test_a_full_disk_leaves_nothing(model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(OSError, match=r"r.h5.part: cannot be laid out: .*No space left.* bytes are free") as caught:
        record(model, None, prompt(), out=tmp_path / "r.h5", progress=False)
    sentence_of(caught.value)
    assert not any(tmp_path.iterdir())


def test_what_attention_is_given_and_nobody_knows(model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    attend = hooks.Watch.attend

    def with_more(self: Any, *args: Any) -> Any:
        return attend(self, *args[:-1], {**args[-1], "block_indices": torch.ones(3)})

    monkeypatch.setattr(hooks.Watch, "attend", with_more)
    with pytest.raises(RecordError, match="gives attention 'block_indices'"):
        record(model, None, prompt(), out=tmp_path / "r.h5", progress=False)
