"""What a recording holds, as arrays, Datasets and DataFrames: against h5py, by hand, and against the program."""

from __future__ import annotations

import copy
import json
import pickle

import h5py
import handmade
import keyscope
import numpy as np
import pytest
import xarray as xr
from conftest import PROMPT
from keyscope import hdf5
from scipy.stats import spearmanr

TOKENS = [b"Ca", b"f\xc3", b"\xa9", b"\n", b"<b>", b" x"]  # the é lies in two tokens


@pytest.fixture
def small(tmp_path):
    """Six tokens in blocks of two: after block 1 rows 0 and 2 go, after block 2 rows 1 and 4."""
    evicted = np.array([[1, 2, 1, -1, 2, -1], [-1, 1, 1, 2, -1, 2]], np.int32)
    margin = np.where(evicted >= 0, 0.5, np.nan).astype(np.float32)
    kept = handmade.layer(6)
    lost = handmade.layer(6, evicted_at=evicted, evicted_margin=margin)
    path = handmade.write(tmp_path / "small.h5", TOKENS, {"none": {0: kept, 3: kept}, "made": {0: lost, 3: lost}})
    with keyscope.open(path) as recording:
        yield recording


def test_every_array_is_what_the_file_holds(needle, needle_path):
    with h5py.File(needle_path) as file:
        for run in needle:
            for layer in run:
                group = file[f"entry/runs/{run.name}/layer_{layer.index:02}"]
                assert {"keys", "queries", "values", "value_norms", "evicted_at", "attention_entropy"} < set(layer.names)
                for name in layer.names:
                    found, expected = layer.read(name), group[name][:]
                    if name == "attention_entropy":  # of the prompt's queries; those of generated tokens are not known
                        assert np.isnan(found[:, needle.n_prompt :]).all()
                        found = found[:, : needle.n_prompt]
                    np.testing.assert_array_equal(found, expected)
                    assert found.dtype == expected.dtype


@pytest.mark.parametrize(
    "at", [(1,), (1, 5), (1, slice(3, 90, 7)), (slice(None, None, -1), slice(20, 4, -3)), (-1, -2)]
)
def test_parts_of_an_array_are_those_of_the_whole(needle, at):
    layer = needle["keydiff"][2]
    for name in ("keys", "evicted_margin", "attention_entropy"):
        np.testing.assert_array_equal(layer.read(name, *at), layer.read(name)[at])


def test_tokens_are_text_with_what_is_no_utf8_replaced(small, needle):
    assert list(small.tokens.text) == ["Ca", "f\ufffd", "\ufffd", "\n", "<b>", " x"]
    assert list(small.tokens.id) == [100, 101, 102, 103, 104, 105]
    assert list(small["made"].tokens.block) == [0, 0, 1, 1, 2, 2]
    run = needle["none"]
    prompt = "".join(run.tokens.text[: needle.n_prompt])
    assert prompt == "<|begin_of_text|>" + PROMPT.read_text(encoding="utf-8")
    assert len(run.tokens) == needle.n_prompt + len(run.generated) - 1  # the last id is never fed back
    assert run.generated_text.startswith("".join(run.tokens.text[needle.n_prompt :]))


def test_a_prompt_without_a_tokenizer_shows_ids(tiny):
    with keyscope.open(tiny("gemma2", "plain")) as recording:
        assert list(recording.tokens.text[:2]) == ["⟨1⟩", "⟨8⟩"]


def test_what_was_in_the_cache_after_each_block(small):
    head = small["made"][0][0]
    assert [list(head.retained(b)) for b in range(3)] == [[0, 1], [1, 3], [3, 5]]
    assert [list(head.evicted(b)) for b in range(3)] == [[], [0, 2], [0, 1, 2, 4]]
    assert list(head.retained()) == [3, 5]
    mask = small["made"].retained(1)
    assert mask.dims == ("layer", "kv_head", "token") and mask.shape == (2, 2, 4)
    np.testing.assert_array_equal(mask.sel(layer=3, kv_head=1), [True, False, False, True])
    np.testing.assert_array_equal(small["made"].evicted(1), ~mask)


def test_the_budget_is_what_is_retained(needle, run_keyscope):
    said = json.loads(run_keyscope("analyze", needle.path, "--no-bounds", "--json", "-"))
    assert len(said["runs"]) == 4
    for of in said["runs"]:
        for head in of["heads"]:
            assert list(needle[of["run"]][head["layer"]][head["kv_head"]].retained()) == head["retained"]
    assert (needle["keydiff"].retained().sum("token") == 256).all()


def test_tables_say_of_every_token_what_became_of_it(small, needle):
    table = small["made"][0][0].table
    assert list(table.columns[:5]) == ["id", "text", "block", "evicted_at", "evicted_margin"]
    assert list(table.evicted_at) == [1, 2, 1, -1, 2, -1]
    np.testing.assert_allclose(table.attention_per_query * table.attention_queries, table.attention_received)
    generated = needle["none"][0][0].table.loc[needle.n_prompt :]
    assert generated.attention_per_query.isna().all()  # no prompt query could see them


def measured_spearman(head):
    """ρ of -cos(key, mean key) with the attention per query, of the prompt."""
    n = head.run.recording.n_prompt
    keys = head.keys[: min(n, head.run.n_tokens)].astype(np.float64)
    mean = keys.mean(axis=0)
    score = -(keys @ mean) / np.linalg.norm(keys, axis=1) / np.linalg.norm(mean)
    return spearmanr(score, head.attention_received[: len(keys)] / head.attention_queries[: len(keys)]).statistic


def test_the_programs_correlation_follows_from_what_is_read(needle):
    for row in needle.analyze(run=["none", "keydiff"], bounds=False).itertuples():
        assert measured_spearman(needle[row.run][row.layer][row.kv_head]) == pytest.approx(row.spearman, abs=1e-9)


class TestDatasets:
    def test_dimensions_have_names_and_tokens_their_text(self, needle):
        run = needle["keydiff"].dataset()
        assert dict(run.sizes) == {"layer": 4, "kv_head": 4, "query_head": 8, "token": 1023, "dim": 32}
        assert run["keys"].dims == ("layer", "kv_head", "token", "dim")
        assert run["queries"].dims == ("layer", "query_head", "token", "dim")
        assert run.text.values[3] == needle.tokens.text[3] and run.attrs["budget"] == 256
        layer = needle["keydiff"][2].dataset()
        assert layer["keys"].dims == ("kv_head", "token", "dim")
        xr.testing.assert_identical(layer.load(), run.sel(layer=2).load())

    def test_nothing_is_read_before_it_is_used(self, needle, monkeypatch):
        assert len(needle["keydiff"].tokens) == 1023  # are coordinates, and kept
        sizes, read = [], hdf5.read
        monkeypatch.setattr(hdf5, "read", lambda of, at=(): sizes.append(read(of, at).size) or read(of, at))
        part = needle["keydiff"].dataset()["queries"].sel(layer=1).isel(query_head=3, token=slice(10, 15))
        assert sizes == []
        np.testing.assert_array_equal(part, needle["keydiff"][1].read("queries", 3, slice(10, 15)))
        assert sizes == [5 * 32] * 2

    @pytest.mark.parametrize(
        "at", [{"token": [3, 900, 4]}, {"kv_head": 2}, {"layer": [2, 0]}, {"token": slice(9, 1, -2)}]
    )
    def test_selections_are_those_of_the_loaded_array(self, needle, at):
        of = needle["snapkv"].dataset()["evicted_margin"]
        np.testing.assert_array_equal(of.isel(at), of.load().isel(at))

    @pytest.mark.parametrize(
        "change",
        [
            lambda of: of.copy(deep=True),
            copy.deepcopy,
            lambda of: pickle.loads(pickle.dumps(of)),
            lambda of: of.sortby("token", ascending=False).sortby("token"),
        ],
    )
    def test_copies_are_as_lazy_and_the_same(self, needle, monkeypatch, change):
        of, n_read, read = needle["keydiff"].dataset(), [], hdf5.read
        monkeypatch.setattr(hdf5, "read", lambda of, at=(): n_read.append(of.size) or read(of, at))
        copied = change(of)
        assert max(n_read, default=0) < of["keys"][0].size and copied.attrs == of.attrs  # only the tokens of a file
        part = {"layer": 1, "token": slice(9)}
        xr.testing.assert_identical(copied.isel(part).load(), of.isel(part).load())

    def test_values_between_tokens(self, small):
        of = small["made"].dataset()
        between = of.interp(token=1.5)["keys"]
        np.testing.assert_allclose(between, of["keys"].isel(token=[1, 2]).mean("token"), rtol=1e-5)

    def test_layers_without_keys_are_left_out(self, tmp_path):
        routed = {"expert": np.zeros((6, 1), np.int32), "expert_weight": np.ones((6, 1), np.float32), "n_experts": 4}
        layers = {
            0: {"keyless": 1, **routed},
            1: handmade.layer(6),
            2: {**handmade.layer(6), **routed},
            4: {"keyless": 1},
        }
        recording = keyscope.open(handmade.write(tmp_path / "mixed.h5", TOKENS, {"none": layers}))
        run = recording["none"]
        assert recording.layers == [1, 2] and recording.keyless_layers == [0, 4]
        assert list(run.dataset().layer) == [1, 2]
        assert run[0].keyless and run[0].n_experts == 4 and run[1].n_experts is None
        np.testing.assert_array_equal(run[0].dataset()["expert"], routed["expert"])
        assert (run.dataset()["expert"].sel(layer=1) == -1).all()  # that layer has no experts
        for use in (lambda: run[4].dataset(), lambda: run[0][0], lambda: run.dataset([0]), lambda: run[0].read("keys")):
            with pytest.raises(keyscope.MissingError, match="has no keys.*layers with keys: 1, 2"):
                use()

    def test_layers_of_several_shapes_are_read_one_by_one(self, tmp_path):
        wide = handmade.layer(6, n_kv_heads=1, head_dim=8)
        layers = {0: handmade.layer(6), 1: wide, 2: handmade.layer(6)}
        with keyscope.open(handmade.write(tmp_path / "shapes.h5", TOKENS, {"none": layers})) as recording:
            run = recording["none"]
            assert [(layer.n_kv_heads, layer.n_heads, layer.head_dim) for layer in run] == [
                (2, 4, 4),
                (1, 4, 8),
                (2, 4, 4),
            ]
            np.testing.assert_array_equal(run[1][0].queries, wide["queries"])
            assert run[1].dataset()["keys"].shape == (1, 6, 8)
            assert run.dataset([0, 2])["keys"].shape == (2, 2, 6, 4)
            with pytest.raises(keyscope.RecordingError, match=r"several shapes.*choose layers of one shape.*\[0, 2\]"):
                run.dataset()
            for layer in run:  # what needs one layer works in each
                for head in layer:
                    np.testing.assert_allclose(np.nansum(head.weights(), axis=2), 1, atol=1e-6)

    def test_values_may_have_a_width_of_their_own(self, tmp_path):
        layer = {**handmade.layer(6), "values": np.zeros((2, 6, 3), np.float32)}
        run = keyscope.open(handmade.write(tmp_path / "wide.h5", TOKENS, {"none": {0: layer}}))["none"]
        assert run.dataset()["values"].dims == ("layer", "kv_head", "token", "value_dim")


def test_what_was_opened_can_be_pickled(small):
    """As processes that share the work need it; one pickle opens the file once."""
    head, run = pickle.loads(pickle.dumps((small["made"][3][1], small["none"])))
    np.testing.assert_array_equal(head.keys, small["made"][3][1].keys)
    assert head.run.recording is run.recording is not small and run.name == "none"


def test_a_recording_is_found_from_elsewhere(small, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "-x.h5").symlink_to(small.path)
    with keyscope.open("-x.h5") as recording:
        monkeypatch.chdir("/")
        assert recording.path == tmp_path / "-x.h5" and "'-x.h5'" in repr(recording)
        with pytest.raises(keyscope.MissingError, match=f"^{tmp_path}/-x.h5: there is no run 'y'"):
            recording["y"]


class TestSomeHeads:
    OPTIONS = ("--policy", "none", "--policy", "keydiff", "--budget", 64, "--block", 32, "--max-tokens", 200,
               "--record", "keys,queries,values,attention")  # fmt: skip

    @pytest.fixture
    def some(self, capture):
        path = capture("some-heads", *self.OPTIONS, "--heads", "1,3", "--layers", "0,2")
        with keyscope.open(path) as recording:
            yield recording

    def test_heads_go_by_the_models_index(self, some, capture):
        whole = keyscope.open(capture("all-heads", *self.OPTIONS))
        assert some.layers == [0, 2] and some["none"][2].recorded_heads == [1, 3]
        for run in some:
            for head in (1, 3):
                for name in ("keys", "queries", "values"):
                    np.testing.assert_array_equal(
                        getattr(run[2][head], name), getattr(whole[run.name][2][head], name), strict=True
                    )
            attention = run[2].read("attention")
            np.testing.assert_array_equal(attention[6:], whole[run.name][2].read("attention", slice(6, 8)))
            assert np.isnan(attention[:2]).all() and np.isnan(run[2].read("keys", 0)).all()

    def test_statistics_are_of_all_heads(self, some):
        head = some["keydiff"][0][2]
        assert len(head.retained()) == 64 and np.isfinite(head.attention_received).all()
        with pytest.raises(keyscope.MissingError, match="KV head 2 was not recorded; recorded are 1, 3"):
            head.keys  # noqa: B018
        with pytest.raises(keyscope.MissingError, match="no layer 1; recorded layers: 0, 2"):
            some["none"][1]


@pytest.mark.parametrize("store,dtype", [("float16", "float16"), ("bfloat16", "float32")])
def test_rows_have_the_type_that_they_are_stored_in(capture, store, dtype):
    with keyscope.open(capture(f"in-{store}", "--policy", "none", "--max-tokens", 100, "--store", store)) as recording:
        assert recording["none"][0][0].keys.dtype == dtype
        assert recording["none"].dataset()["keys"].dtype == dtype


def test_a_replayed_run_has_no_attention_of_its_own(replayed_path):
    with keyscope.open(replayed_path) as recording:
        head = recording["h2o"][1][0]
        assert head.run.replayed and head.run.generated_text == ""
        assert np.isnan(head.attention_received).all() and np.isnan(head.attention_last).all()
        assert (head.attention_queries == 0).all() and head.table.attention_per_query.isna().all()
        assert len(head.retained()) == 128
        assert recording["h2o"].top.empty and not recording["none"].replayed
        with pytest.raises(keyscope.MissingError, match="logits were not recorded"):
            recording["h2o"].logits  # noqa: B018


def test_generated_tokens_and_logits(needle, needle_path, run_keyscope):
    said = json.loads(run_keyscope("analyze", needle_path, "--no-bounds", "--json", "-"))
    for of in said["runs"]:
        run = needle[of["run"]]
        assert run.generated.tolist() == of["generated"]
        assert run.top.id.tolist() == of["top_ids"] and run.top.logit.tolist() == pytest.approx(of["top_logits"])
        assert run.logits.shape == (32, 3072) and run.logits[-1].argmax() == run.top.id[0]
        assert dict(run.parameters) == of["parameters"]
