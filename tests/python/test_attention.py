"""Attention weights: those that are computed from keys and queries against those that were recorded."""

from __future__ import annotations

import shutil

import h5py
import handmade
import keyscope
import numpy as np
import pytest
from keyscope.attention import Rules, _configured_rules, find_rules, find_window

# What each tiny model is there for, and its rules in the first layer.
FAMILIES = {
    "gemma2": Rules(scale=8**-0.5, softcap=4.0, window=12),
    "gemma3": Rules(scale=8**-0.5, softcap=0.0, window=7),
    "granite": Rules(scale=0.3, softcap=0.0, window=0),
    "gpt_oss": Rules(scale=8**-0.5, softcap=0.0, window=10),
    "olmo3": Rules(scale=8**-0.5, softcap=0.0, window=9),
    "qwen3_moe": Rules(scale=8**-0.5, softcap=0.0, window=0),
    "ministral3": Rules(scale=8**-0.5, softcap=0.0, window=0),
    "phi3_longrope": Rules(scale=8**-0.5, softcap=0.0, window=0),
}


def test_only_gemma_2_caps_its_scores():
    capped = {"query_pre_attn_scalar": 16, "attn_logit_softcapping": 50.0}
    assert _configured_rules({"model_type": "gemma2"} | capped, 8)[0] == (0.25, 50.0)
    assert _configured_rules({"text_config": {"model_type": "gemma3_text"} | capped}, 8)[0] == (0.25, 0.0)
    assert _configured_rules({"model_type": "llama"}, 16) == [(0.25, 0.0), (1.0, 0.0)]


@pytest.mark.parametrize("family", FAMILIES)
def test_computed_weights_are_the_recorded_ones(tiny, family):
    with (
        keyscope.open(tiny(family, "attention", "--record", "keys,queries,attention")) as recorded,
        keyscope.open(tiny(family, "plain")) as computed,
    ):
        found = find_rules(computed["none"][0])
        assert (found.softcap, found.window) == (FAMILIES[family].softcap, FAMILIES[family].window)
        assert found.scale == pytest.approx(FAMILIES[family].scale)
        for run in recorded:  # of evicting runs as well: their queries saw fewer rows
            for layer in run:
                for head in layer:
                    weights = computed[run.name][layer.index][head.index].weights()
                    np.testing.assert_array_equal(np.isnan(weights), np.isnan(head.weights()))
                    np.testing.assert_allclose(weights, head.weights(), atol=2e-6)
                    received = np.nansum(weights, axis=1)[:, : recorded.n_prompt].mean(axis=0)
                    np.testing.assert_allclose(received, head.attention_received[: recorded.n_prompt], atol=1e-4)


def test_sums_of_weights_are_what_was_received(needle):
    for run in needle:
        head = run[1][2]
        weights = head.weights(slice(needle.n_prompt))
        assert weights.shape == (2, 1012, 1023)
        np.testing.assert_allclose(np.nansum(weights, axis=2), 1, atol=1e-5)
        received = np.nansum(weights, axis=1).mean(axis=0)
        np.testing.assert_allclose(received[:1012], head.attention_received[:1012], rtol=1e-4, atol=1e-4)
        seen = np.isfinite(weights[0]).sum(axis=0)
        np.testing.assert_array_equal(seen[:1012], head.attention_queries[:1012])
        np.testing.assert_allclose(np.nan_to_num(weights[:, -1]).mean(axis=0), head.attention_last, atol=1e-5)


def test_some_queries_are_a_part_of_all(needle):
    head = needle["keydiff"][2][0]
    # Products of other sizes are summed in another order, so not to the last bit.
    np.testing.assert_allclose(head.weights(slice(300, 341)), head.weights(slice(0, 400))[:, 300:341], atol=1e-7)
    assert head.weights(slice(5, 5)).shape == (2, 0, 1023)
    for queries in (slice(None, None, 2), 5, [1, 2]):
        with pytest.raises(ValueError, match="queries is .*; expected a slice with a step of 1"):
            head.weights(queries)


def test_learned_sinks_take_their_part(tiny):
    with keyscope.open(tiny("gpt_oss", "plain")) as recording:
        layer = recording["none"][1]
        for head in layer:
            rows = np.nansum(head.weights(), axis=2).sum(axis=1)
            sinks = layer.read("attention_sink", slice(head.query_heads.start, head.query_heads.stop)).sum(axis=1)
            assert (sinks > 0.5).all()
            np.testing.assert_allclose(rows + sinks, recording.n_prompt, rtol=1e-5)


def altered(path, tmp_path, change):
    copy = tmp_path / "altered.h5"
    shutil.copy(path, copy)
    with h5py.File(copy, "r+") as file:
        change(file)
    return keyscope.open(copy)


def test_a_model_that_attends_otherwise_is_found_out(tiny, tmp_path):
    def sharpen(file):  # as if scores had been multiplied by something that config.json does not say
        for run in file["entry/runs"].values():
            run["layer_00/queries"][...] *= 3

    with altered(tiny("granite", "plain"), tmp_path, sharpen) as recording:
        with pytest.raises(
            keyscope.MissingError, match="differ from the recorded attention_last.*record attention as well"
        ):
            recording["none"][0][0].weights()
        found = recording.difference("keydiff", "h2o", layer=0)
        assert (
            len(found) > 0
            and found.attention_after.isna().all()
            and "attention_last" in found.attrs["attention_missing"]
        )
        assert not recording.difference("keydiff", "h2o", layer=1).attention_after.isna().any()


def test_a_scale_that_the_configuration_does_not_say_is_found(tmp_path):
    """Weights without a scale, as a few architectures have them."""
    layer = handmade.layer(6)
    layer["queries"] = layer["queries"] / 2  # scores were scaled by 1 / √4
    with keyscope.open(handmade.write(tmp_path / "plain.h5", [b"a"] * 6, {"none": {0: layer}})) as recording:
        assert find_rules(recording["none"][0]).scale == 1
        received = np.nansum(recording["none"][0][1].weights(), axis=1).mean(axis=0)
        np.testing.assert_allclose(received, layer["attention_received"][1], rtol=1e-5)


def test_windows_are_told_by_what_was_dropped_where_nobody_counted(tiny, tmp_path):
    def replay(file):
        file["entry/runs/none"].attrs["replayed"] = 1

    for family in ("gemma2", "olmo3", "gpt_oss"):
        with (
            keyscope.open(tiny(family, "plain")) as measured,
            altered(tiny(family, "plain"), tmp_path, replay) as dropped,
        ):
            windows = [find_window(layer) for layer in measured["none"]]
            assert [find_window(layer) for layer in dropped["none"]] == windows and any(windows)


@pytest.fixture(scope="module")
def chunked_path(tmp_path_factory):
    """Queries that see their own chunk of the text: the last one sees all of its 16 rows, as with a window of 16."""
    pytest.importorskip("torch")
    from transformers_models import make, prompt

    path = tmp_path_factory.mktemp("chunked") / "chunked.h5"
    policies = ["none", "keydiff"]
    keyscope.record(make("Llama4Text"), None, prompt(80), policies, 24, 16, out=path, progress=False).close()
    return path


def test_chunks_of_the_text_are_no_window(chunked_path):
    with keyscope.open(chunked_path) as recording:
        assert [find_window(layer) for layer in recording["none"]] == [None, None, None, 0]
        with pytest.raises(keyscope.MissingError, match="neither all rows nor the latest ones, .*record attention"):
            recording["none"][0][0].weights()
        found = recording.difference("none", "keydiff", layer=0)
        assert "neither all rows" in found.attrs["attention_missing"] and found.attention_after.isna().all()
        assert recording.difference("none", "keydiff", layer=3).attrs["attention_missing"] == ""


def test_rows_of_other_chunks_were_ranked_too(chunked_path):
    """The lowest score that stayed, minus a row's own, is its margin."""
    with keyscope.open(chunked_path) as recording:
        for head in recording["keydiff"][0]:
            lost = recording.difference("none", "keydiff", 0, head.index).set_index("position")
            for block in range(1, recording["keydiff"].n_prompt_blocks):
                scores, gone = head.scores(block), head.evicted_at
                cut = scores[gone[scores.index] != block].min()
                evicted = np.flatnonzero(gone == block)
                np.testing.assert_allclose(cut - scores[evicted], head.evicted_margin[evicted], atol=1e-6)
                np.testing.assert_array_equal(lost.score[evicted], scores[evicted])


def test_keys_that_moved_are_refused(capture):
    options = ("--policy", "none", "--policy", "sink", "--budget", 64, "--block", 32, "--max-tokens", 200)
    with keyscope.open(capture("moved", *options, "--positions", "cache")) as recording:
        with pytest.raises(keyscope.MissingError, match="rotated by their place in the cache"):
            recording["sink"][0][0].weights()
        assert recording["none"][0][0].weights(slice(3)).shape == (2, 3, 200)  # nothing was evicted: nothing moved


def test_heads_without_rows_are_refused(tmp_path):
    layer = handmade.layer(6)
    del layer["queries"]
    with (
        keyscope.open(handmade.write(tmp_path / "keys.h5", [b"a"] * 6, {"none": {0: layer}})) as recording,
        pytest.raises(keyscope.MissingError, match="cannot be computed without queries"),
    ):
        recording["none"][0][0].weights()
