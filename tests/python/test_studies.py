"""Merged studies: the table and the recordings of one, as the program made it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import keyscope
import numpy as np
import pandas as pd
import pytest
from conftest import DEMO


@pytest.fixture(scope="module")
def study(run_keyscope, tmp_path_factory):
    """The folder of a study, with merged.h5 and merged.csv in it."""
    folder = tmp_path_factory.mktemp("study")
    (folder / "prompts.jsonl").write_text('{"name": "a “quoted” one", "ids": [1, 80, 200, 31, 7, 9, 301, 44, 5, 6]}\n')
    needles = {"command": "eval niah", "policy": "keydiff", "budget": ["10%", "25%"], "block": 32, "length": 128,
               "depth": [50], "samples": 2}  # fmt: skip
    recordings = {"command": "capture", "prompts": "prompts.jsonl", "policy": ["none", "keydiff"], "budget": 4, "block": 2}
    (folder / "study.json").write_text(
        json.dumps({"models": [str(DEMO)], "seeds": [0, 1], "jobs": [needles, recordings]})
    )
    run_keyscope("sweep", "plan", folder / "study.json", "--out", folder / "study")
    run_keyscope("sweep", "run", folder / "study", "--quiet")
    run_keyscope("sweep", "merge", folder / "study", "--out", folder / "merged.h5", "--csv", folder / "merged.csv")
    return folder


def test_the_table_is_that_of_the_program(study):
    table, csv = keyscope.study_table(study / "merged.h5"), pd.read_csv(study / "merged.csv", keep_default_na=False)
    assert list(table.columns) == list(csv.columns)
    assert list(table.cell) == list(csv.cell) and (table.state == "done").all()
    assert set(table.prompt) == {"", "a “quoted” one"}
    assert np.isfinite(table.recall[table.command == "eval niah"]).all()
    assert table.recall[table.command == "capture"].isna().all()
    means = table.groupby(["policy", "budget"]).recall.mean()
    assert means["none", ""] >= means["keydiff", "10%"]


def test_parquet_holds_the_same(study):
    pytest.importorskip("pyarrow")
    command = [sys.executable, "-m", "keyscope.study", study / "merged.h5", study / "table.parquet"]
    subprocess.run(command, check=True)
    pd.testing.assert_frame_equal(pd.read_parquet(study / "table.parquet"), keyscope.study_table(study / "merged.h5"))


def test_recordings_are_those_of_the_cells(study):
    with keyscope.open(study / "merged.h5") as first, keyscope.open(study / "merged.h5::entry_2") as second:
        assert list(first.runs) == list(second.runs) == ["none", "keydiff"]
        assert (first.provenance["seed"], second.provenance["seed"]) == (0, 1)
        for path in (study / "study/results").glob("*/*.h5"):
            with keyscope.open(path) as cell:
                (run,) = cell
                joint = {0: first, 1: second}[cell.provenance["seed"]][run.name]
                np.testing.assert_array_equal(joint[2][1].keys, run[2][1].keys)
                np.testing.assert_array_equal(joint[3][0].evicted_at, run[3][0].evicted_at)


def test_what_is_gone_is_an_error_and_no_zeros(study, tmp_path):
    moved = shutil.copy(study / "merged.h5", tmp_path / "alone.h5")  # without the results beside it
    with pytest.raises(keyscope.RecordingError, match=r"results/.*there is no such file; merge the study again"):
        keyscope.open(moved)["keydiff"][0][0].keys  # noqa: B018


def test_other_files_are_refused(study):
    with pytest.raises(keyscope.RecordingError, match="no merged study"):
        keyscope.study_table(next((study / "study/results").glob("*/*.h5")))
    with pytest.raises(keyscope.RecordingError, match="is not a Keyscope recording, or is damaged"):
        keyscope.study_table(study / "merged.csv")
    with pytest.raises(FileNotFoundError, match="there is no such file"):
        keyscope.study_table(study / "absent.h5")
    with pytest.raises(keyscope.MissingError, match="entry_9"):
        keyscope.open(study / "merged.h5::entry_9")
