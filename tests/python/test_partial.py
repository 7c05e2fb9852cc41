"""Recordings that were not finished: killed captures, read up to the last counted block as the program reads them."""

from __future__ import annotations

import fcntl
import io
import json
import os
import shutil
import signal
import subprocess
import time

import h5py
import keyscope
import numpy as np
import pandas as pd
import pytest
from conftest import DEMO, PROMPT
from keyscope import hdf5
from test_reading import measured_spearman

RUNS = ("--policy", "none", "--policy", "keydiff", "--policy", "sink", "--budget", "64")


def blocks_done(part) -> list[int]:
    """Of each run; none while the file is not laid out."""
    try:
        with h5py.File(part, "r", locking=False) as file:
            return [int(run["blocks_done"][()]) for run in file["entry/runs"].values()]
    except (OSError, KeyError):
        return []


def kill_when(program, folder, ready, *options) -> keyscope.Recording:
    """Kills a capture as soon as what its runs have done is enough, and opens what it left."""
    out, patience = folder / "killed.h5", time.monotonic() + 60
    command = [program, "capture", "--model", DEMO, "--prompt-file", PROMPT, *RUNS, *options, "--quiet", "--out", out]
    child = subprocess.Popen([*map(str, command)], stderr=subprocess.DEVNULL)
    part = out.with_name("killed.h5.part")
    try:
        while not ready(blocks_done(part)):
            assert child.poll() is None, "the capture ended before it could be killed"
            assert time.monotonic() < patience, "the capture did not come so far"
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()
    return keyscope.open(part)


@pytest.fixture(scope="module")
def by_blocks(program, tmp_path_factory):
    """In the middle of the first run's prompt."""
    folder = tmp_path_factory.mktemp("blocks")
    return kill_when(program, folder, lambda done: max(done, default=0) > 40, "--block", "4", "--schedule", "block")


@pytest.fixture(scope="module")
def by_layers(program, tmp_path_factory):
    """Most often in the first layer, which is then shown as far as it came."""
    folder = tmp_path_factory.mktemp("layers")
    return kill_when(program, folder, lambda done: sum(done) > 40, "--block", "4", "--schedule", "layer")


@pytest.fixture(scope="module")
def together(program, tmp_path_factory):
    """All runs have come about as far."""
    folder = tmp_path_factory.mktemp("together")
    return kill_when(program, folder, lambda done: min(done, default=0) > 20, "--block", "4", "--schedule", "together")


@pytest.fixture(scope="module")
def generating(program, tmp_path_factory):
    """Behind the prompt of every run."""
    folder = tmp_path_factory.mktemp("generating")
    options = ("--block", "256", "--generate", "400", "--ignore-eos", "--schedule", "together")
    return kill_when(program, folder, lambda done: min(done, default=0) > 20, *options)


@pytest.fixture(params=["by_blocks", "by_layers", "together", "generating"])
def killed(request):
    return request.getfixturevalue(request.param)


def test_the_blocks_that_count_are_shown(killed, run_keyscope):
    said = run_keyscope("inspect", killed.path, "--json", "-")
    inspected = {run["run"]: run for run in json.loads(said)["runs"]}
    assert not killed.complete
    for run in killed:
        assert run.n_blocks == inspected[run.name]["blocks_done"]
        assert run.tokens_seen(run.n_blocks - 1) == run.n_tokens == len(run.tokens)
        for layer in run:
            for name in layer.names:
                assert layer.read(name).shape == layer.shape(name)


def test_what_is_retained_is_what_the_program_says(killed, run_keyscope):
    said = json.loads(run_keyscope("analyze", killed.path, "--no-bounds", "--json", "-"))
    n_compared = 0
    for of in said["runs"]:
        assert of["generated"] == killed[of["run"]].generated.tolist()
        for row in of["heads"]:
            head = killed[of["run"]][row["layer"]][row["kv_head"]]
            assert list(head.retained()) == row["retained"]
            assert (head.evicted_at < killed[of["run"]].n_blocks).all()
            assert np.isnan(head.evicted_margin[head.evicted_at < 0]).all()
            if row["spearman"] is not None:  # of the sums in the journal as well
                assert measured_spearman(head) == pytest.approx(row["spearman"], abs=1e-9)
                n_compared += 1
    assert n_compared > 0


def test_what_only_a_whole_prompt_has_is_not_known(by_blocks):
    run = next(run for run in by_blocks if 0 < run.n_blocks < run.n_prompt_blocks)
    for head in run[0]:
        assert np.isnan(head.attention_last).all()
    layer = run[0]
    assert np.isnan(layer.read("attention_window")).all() and np.isnan(layer.read("attention_gini")).all()
    assert np.isfinite(layer.read("attention_entropy")).all() and layer.shape("attention_entropy")[1] == run.n_tokens
    assert run.top.empty and len(run.generated) == 0


def test_a_file_that_is_still_written_is_read(by_blocks, tmp_path):
    path = tmp_path / "locked.h5.part"
    shutil.copy(by_blocks.path, path)
    with path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # as HDF5 locks what it writes
        with keyscope.open(path) as recording:
            assert recording["none"].n_blocks == by_blocks["none"].n_blocks


def test_blocks_are_counted_before_what_they_have_is_read(by_blocks, monkeypatch):
    """A capture that goes on writes what a block has and then counts it."""
    names, read = [], hdf5.read
    monkeypatch.setattr(hdf5, "read", lambda of, at=(): names.append(of.name.rpartition("/")[2]) or read(of, at))
    keyscope.open(by_blocks.path).close()
    assert names.index("blocks_done") < names.index("block_start")


def test_runs_that_were_not_reached_are_empty(by_blocks):
    run = by_blocks["sink"]
    assert run.n_blocks == run.n_tokens == 0 and len(run.tokens) == 0
    assert run[0][0].keys.shape == (0, 32) and list(run[0][0].retained()) == []
    assert run.dataset()["keys"].shape == (4, 4, 0, 32) and run.retained().shape == (4, 4, 0)
    assert "no block was done" in run._repr_html_()
    assert by_blocks.difference("none", "sink").empty and by_blocks.difference("sink", "none").empty


def test_the_difference_is_the_programs(together, run_keyscope):
    found = together.difference("keydiff", "sink", layer=1, kv_head=2)
    said = run_keyscope("diff", together.path, "--run", "keydiff", "--run", "sink", "--layer", 1, "--kv-head", 2,
                        "--csv", "-", "--quiet")  # fmt: skip
    expected = pd.read_csv(io.StringIO(said), keep_default_na=False)
    assert len(found) == len(expected) > 0
    assert sorted(found.position) == sorted(expected.position)
    assert found.attention_after.isna().all()  # no run `none` has read the whole prompt
    assert found.attrs["attention_missing"].startswith("there is no finished run none")


def test_layers_that_all_runs_have_been_through_are_shown(needle_path, tmp_path, run_keyscope):
    path = tmp_path / "cut.h5"
    shutil.copy(needle_path, path)
    with h5py.File(path, "r+") as file:
        file["entry/provenance"].attrs["complete"] = 0
        for name, complete in (("none", [0, 1, 2]), ("keydiff", [0, 1]), ("sink", [0, 1]), ("snapkv", [0, 1])):
            run = file[f"entry/runs/{name}"]
            del run["layers_complete"]
            run["layers_complete"] = np.array(complete, np.int32)
    with keyscope.open(path) as recording:
        assert recording.layers == [0, 1]
        assert {row["layer"] for of in json.loads(run_keyscope("analyze", path, "--no-bounds", "--json", "-"))["runs"]
                for row in of["heads"]} == {0, 1}  # fmt: skip


def test_an_interrupted_capture_keeps_its_name(program, tmp_path):
    out = tmp_path / "interrupted.h5"
    command = [
        program,
        "capture",
        "--model",
        DEMO,
        "--prompt-file",
        PROMPT,
        *RUNS,
        "--block",
        "2",
        "--quiet",
        "--out",
        out,
    ]
    child = subprocess.Popen([*map(str, command)], stderr=subprocess.DEVNULL)
    while sum(blocks_done(f"{out}.part")) < 10 and child.poll() is None:
        time.sleep(0.001)
    os.kill(child.pid, signal.SIGINT)
    assert child.wait(60) in (0, 130)
    with keyscope.open(out) as recording:
        assert recording.complete == (child.returncode == 0)
        assert "not completed" in repr(recording) or recording.complete
        assert recording.runs["none"].n_blocks > 0
