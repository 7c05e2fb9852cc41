"""The program behind `analyze` and `figure`: how it is found, what its errors become, and how it is ended."""

from __future__ import annotations

import json
import os
import re
import signal
import threading
import time
from pathlib import Path

import keyscope
import numpy as np
import pytest
from keyscope import program as programs
from keyscope.program import find_program, run_program


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)
    return path


class TestFinding:
    @pytest.fixture(autouse=True)
    def _nothing_set(self, monkeypatch, tmp_path):
        monkeypatch.delenv("KEYSCOPE_PROGRAM", raising=False)
        monkeypatch.setenv("PATH", str(tmp_path / "bin"))

    def test_argument_variable_path_checkout(self, monkeypatch, tmp_path):
        argument, variable = script(tmp_path / "a", ""), script(tmp_path / "b", "")
        on_path = script(tmp_path / "bin/keyscope", "")
        package = tmp_path / "checkout/python/src/keyscope"
        built = script(tmp_path / "checkout/build/release/keyscope", "")
        (tmp_path / "checkout/CMakePresets.json").write_text("{}")
        monkeypatch.setattr(programs, "__file__", str(package / "program.py"))
        assert find_program() == on_path
        on_path.unlink()
        assert find_program() == built
        monkeypatch.setenv("KEYSCOPE_PROGRAM", str(variable))
        assert find_program() == variable
        assert find_program(argument) == argument

    def test_one_sentence_where_there_is_none(self, monkeypatch, tmp_path):
        monkeypatch.setattr(programs, "__file__", str(tmp_path / "a/b/c/d/e"))
        with pytest.raises(keyscope.ProgramError, match="was not found: build it with ./run build, then"):
            find_program()
        with pytest.raises(keyscope.ProgramError, match="program=nowhere: is no program that can be run"):
            find_program("nowhere")
        monkeypatch.setenv("KEYSCOPE_PROGRAM", str(tmp_path))
        with pytest.raises(keyscope.ProgramError, match="KEYSCOPE_PROGRAM=.*is no program"):
            find_program()

    def test_what_is_no_program_says_so(self, tmp_path):
        broken = script(tmp_path / "broken", "")
        broken.write_bytes(b"\x7fELF nothing")
        with pytest.raises(keyscope.ProgramError, match="broken: cannot be run"):
            run_program(["--version"], broken)


class TestAnalyze:
    def test_a_row_is_what_the_program_says_of_a_head(self, needle, run_keyscope):
        frame = needle.analyze()
        said = json.loads(run_keyscope("analyze", needle.path, "--json", "-"))
        heads = [(of, head) for of in said["runs"] for head in of["heads"]]
        assert len(frame) == len(heads) == 64
        for row, (of, head) in zip(frame.to_dict("records"), heads):
            assert (row["run"], row["budget"]) == (of["run"], of["budget"])
            assert row["kl_nats"] == pytest.approx(of["kl_nats"])
            for name, value in head.items():
                if name == "retained":
                    assert list(row[name]) == value
                elif value is None:
                    assert np.isnan(row[name]), name
                else:
                    assert row[name] == value, name

    def test_a_part_of_it(self, needle):
        frame = needle.analyze(run="sink", layers=[0, 2], kv_heads="1-2", bounds=False)
        assert set(zip(frame.run, frame.layer, frame.kv_head)) == {("sink", at, h) for at in (0, 2) for h in (1, 2)}
        assert frame.bound_pairs.isna().all() and frame.bound_pairs.dtype == float
        assert set(needle.analyze(run=["none", "sink"], layers=[1], bounds=False).run) == {"none", "sink"}

    def test_runs_may_be_given_themselves(self, needle):
        for run in (needle["sink"], [needle["sink"]], ["sink"]):
            assert set(needle.analyze(run=run, layers=[0], bounds=False).run) == {"sink"}

    @pytest.mark.parametrize("choice", [{"layers": []}, {"kv_heads": ""}, {"run": []}])
    def test_a_choice_of_nothing_is_refused(self, needle, choice):
        (option,) = choice
        for use in (needle.analyze, lambda **given: needle.figure("keyspace", **given)):
            with pytest.raises(ValueError, match=f"^{option} is .*, which chooses nothing; name one, or leave it out$"):
                use(**choice)

    @pytest.mark.parametrize("answer", ["", "keyscope", "[]", "{}"])
    def test_another_program_is_found_out(self, needle, tmp_path, answer):
        other = script(tmp_path / "other", f"echo '{answer}'")
        with pytest.raises(keyscope.ProgramError, match="other: is not keyscope: its answer to analyze holds no runs$"):
            needle.analyze(program=other)
        with pytest.raises(keyscope.ProgramError, match="other: drew nothing; 'fig14' names no figure, or this is not"):
            needle.figure("fig14", program=other)

    def test_routers_stand_beside_it(self, tiny):
        with keyscope.open(tiny("qwen3_moe", "plain")) as recording:
            frame = recording.analyze(bounds=False)
            assert set(frame.attrs["routers"]) == {"none", "keydiff", "h2o"}
            assert frame.attrs["routers"]["none"][0]["n_experts"] == recording["none"][0].n_experts

    def test_the_programs_words_are_the_exception(self, needle):
        with pytest.raises(keyscope.ProgramError, match="^there is no run 'x' in .*; its runs are: none, keydiff"):
            needle.analyze(run="x")
        with pytest.raises(keyscope.ProgramError, match="^layer 9 is not in the recording; it has 0, 1, 2, 3$"):
            needle.analyze(layers=[9])


class TestFigure:
    def test_it_is_drawn_inline(self, needle):
        figure = needle.figure("keyspace", run="keydiff", layer=1, kv_head=0, queries=True)
        assert figure._repr_svg_().startswith("<svg") and figure.svg.rstrip().endswith("</svg>")
        assert "Key space of layer 1, KV head 0" in figure.svg and "mean query" in figure.svg

    def test_identifiers_of_two_figures_do_not_meet(self, needle):
        figures = [needle.figure("keyspace", run="keydiff", layer=1, kv_head=head, width=3.4) for head in (0, 1)]
        ids = [set(re.findall(r'\bid="([^"]+)"', figure.svg)) for figure in figures]
        assert ids[0] and ids[1] and not ids[0] & ids[1]
        for figure, own in zip(figures, ids):
            assert set(re.findall(r'(?:href="|url\()#([^")]+)', figure.svg)) <= own

    def test_several_runs_lists_and_flags(self, needle):
        figure = needle.figure("keyspace", run=["keydiff", "sink"], layer=0, dark=True)
        assert "keydiff" in figure.svg and "sink" in figure.svg
        assert needle.figure("keyspace", layers=[0, 1], kv_heads=[0], dark=False, block=None).svg

    def test_saving_keeps_what_is_there(self, needle, tmp_path):
        figure = needle.figure("fig14")
        for name, magic in (("a.svg", b"<?xml"), ("a.png", b"\x89PNG"), ("a.pdf", b"%PDF"), ("a.h5", b"\x89HDF")):
            figure.save(tmp_path / name)
            assert (tmp_path / name).read_bytes().startswith(magic)
        with pytest.raises(keyscope.ProgramError, match="exists already"):
            figure.save(tmp_path / "a.png")
        figure.save(tmp_path / "a.png", force=True, dpi=50)

    def test_runs_may_be_given_themselves(self, needle):
        runs = [needle["keydiff"], needle["sink"]]
        figures = [needle.figure("keyspace", run=run, layer=0, kv_head=0) for run in (*runs, runs, ["keydiff", "sink"])]
        assert len({figure.svg for figure in figures}) == 3 and figures[2].svg == figures[3].svg
        options = {"measure": "attention_mass_kept", "run": runs[0]}
        by_name = needle.figure("head-map", **options, reference="sink")
        assert needle.figure("head-map", **options, reference=runs[1]).svg == by_name.svg

    def test_a_folder_that_was_left_changes_nothing(self, needle_path, program, tmp_path, monkeypatch):
        (tmp_path / "-x.h5").symlink_to(needle_path)
        (tmp_path / "keyscope").symlink_to(program)
        monkeypatch.chdir(tmp_path)
        with keyscope.open("-x.h5") as recording:
            drawn = recording.figure("fig14", program="keyscope")
            monkeypatch.chdir("/")
            assert len(recording.analyze(run="sink", layers=[0], bounds=False)) == 4
            drawn.save(tmp_path / "a.svg")
            assert repr(drawn) == "<keyscope.Figure: figure -x.h5 fig14>"

    def test_errors_are_the_programs(self, needle):
        with pytest.raises(keyscope.ProgramError, match="keyscope: drew nothing; '--help' names no figure"):
            needle.figure("--help")
        with pytest.raises(keyscope.ProgramError, match="there is no figure 'fig99'; figures: keyspace"):
            needle.figure("fig99")
        with pytest.raises(keyscope.ProgramError, match="not expected: .*--colourful"):
            needle.figure("keyspace", colourful=1)
        with pytest.raises(keyscope.RecordingError, match="out is of the command line only"):
            needle.figure("keyspace", out="x.svg")


def test_a_program_that_fails_without_a_word(tmp_path):
    with pytest.raises(keyscope.ProgramError, match="analyze x: ended with status 3 and said nothing"):
        run_program(["analyze", "x"], script(tmp_path / "mute", "exit 3"))


def test_much_output_on_both_sides_does_not_block(tmp_path):
    loud = script(tmp_path / "loud", "i=0; while [ $i -lt 3000 ]; do echo out $i; echo err $i >&2; i=$((i+1)); done")
    assert run_program([], loud).splitlines()[-1] == "out 2999"


PROGRESS = r"""[ -t 2 ] || exit 9
printf '\r\033[K50 %%' >&2; sleep 0.2; printf '\r\033[K90 %%' >&2; sleep 0.1; printf '\r\033[K' >&2
echo 'keyscope: note: a remark' >&2
"""


def test_progress_is_passed_on_when_it_takes_long(tmp_path, capsys, monkeypatch):
    slow = script(tmp_path / "slow", PROGRESS + "echo done")
    assert run_program([], slow) == "done\n"
    assert capsys.readouterr().err == "keyscope: note: a remark\n"
    monkeypatch.setattr(programs, "_PATIENCE_S", 0.1)
    run_program([], slow)
    shown = capsys.readouterr().err
    assert "90 %" in shown and shown.endswith("keyscope: note: a remark\n")


def test_progress_is_no_part_of_an_error(tmp_path):
    failing = script(tmp_path / "failing", PROGRESS + "echo 'keyscope: disk is full' >&2; exit 1")
    with pytest.raises(keyscope.ProgramError, match="^disk is full$"):
        run_program([], failing)


@pytest.mark.parametrize("heeds", ["", "trap '' INT\n"])
def test_an_interrupt_ends_the_program(tmp_path, monkeypatch, heeds):
    monkeypatch.setattr(programs, "_GRACE_S", 0.3)
    pid = tmp_path / "pid"
    endless = script(
        tmp_path / "endless", f"{heeds}echo $$ > {pid}.new; mv {pid}.new {pid}\nwhile :; do sleep 0.05; done"
    )

    def interrupt():
        while not pid.exists():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        run_program([], endless)
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)
