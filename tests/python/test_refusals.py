"""Bad input: one sentence each, which says what was found and what there is."""

from __future__ import annotations

import re
import shutil

import h5py
import handmade
import keyscope
import numpy as np
import pytest

TOKENS = [b"a", b"b", b"c", b"d"]


@pytest.fixture
def made(tmp_path):
    layer = handmade.layer(4)
    return handmade.write(tmp_path / "made.h5", TOKENS, {"none": {0: layer, 2: layer}, "made": {0: layer, 2: layer}})


def altered(path, change):
    with h5py.File(path, "r+") as file:
        change(file)
    return path


def use_all(path):
    """Reads whatever a recording has."""
    with keyscope.open(path) as recording:
        recording.tokens  # noqa: B018
        recording.difference(*list(recording.runs)[:2])
        recording._repr_html_()
        for run in recording:
            run.tokens, run.top, run.generated_text, run.block_ms, run.budgets  # noqa: B018
            run._repr_html_()
            for layer in run:
                layer.dataset().load()
                layer[0].table  # noqa: B018
                layer[0]._repr_html_()
            run.dataset().load()


def one_sentence(error: BaseException) -> str:
    text = str(error)
    assert text and "\n" not in text and not text.endswith(".")
    return text


class TestFiles:
    def test_no_such_file(self, tmp_path, made):
        with pytest.raises(FileNotFoundError, match="none.h5: there is no such file$"):
            keyscope.open(tmp_path / "none.h5")
        with pytest.raises(FileNotFoundError, match="is a folder, not a recording"):
            keyscope.open(tmp_path)
        made.rename(tmp_path / "cut.h5.part")
        with pytest.raises(
            FileNotFoundError, match=r"cut.h5: .*there is .*cut.h5.part, of a capture that goes on or was"
        ):
            keyscope.open(tmp_path / "cut.h5")

    @pytest.mark.parametrize("content", [b"", b"not HDF5", b"\x89HDF\r\n\x1a\n" + b"\xff" * 500])
    def test_not_a_recording(self, tmp_path, content):
        path = tmp_path / "bad.h5"
        path.write_bytes(content)
        with pytest.raises(
            keyscope.RecordingError, match="bad.h5: is not a Keyscope recording, or is damaged"
        ) as caught:
            keyscope.open(path)
        one_sentence(caught.value)

    def test_other_hdf5_and_figure_files(self, tmp_path, needle, made):
        with h5py.File(tmp_path / "other.h5", "w") as file:
            file["x"] = 1
        with pytest.raises(keyscope.RecordingError, match="not a Keyscope recording"):
            keyscope.open(tmp_path / "other.h5")
        needle.figure("fig14").save(tmp_path / "figure.h5")
        with pytest.raises(keyscope.RecordingError, match="a figure file is not a recording"):
            keyscope.open(tmp_path / "figure.h5")

    def test_another_version(self, made):
        altered(made, lambda file: file.attrs.modify("keyscope_format", 2))
        with pytest.raises(keyscope.RecordingError, match="keyscope_format is 2; this version of keyscope reads 1"):
            keyscope.open(made)


class TestNames:
    @pytest.mark.parametrize(
        "use,sentence",
        [
            (lambda r: r["snap"], "there is no run 'snap'; its runs are: none, made"),
            (lambda r: r.difference("none", "x"), "there is no run 'x'; its runs are: none, made"),
            (lambda r: r["none"][1], "run none has no layer 1; recorded layers: 0, 2"),
            (lambda r: r.difference("none", "made", layer=1), "has no layer 1; recorded layers: 0, 2"),
            (lambda r: r["none"][2.0], "run none has no layer 2.0; recorded layers: 0, 2"),
            (lambda r: r["none"].dataset([7]), "has no layer 7; recorded layers: 0, 2"),
            (lambda r: r["made"][0][2], "run made, layer 0: there is no KV head 2; there are 2"),
            (lambda r: r["made"][0][1.0], "run made, layer 0: there is no KV head 1.0; there are 2"),
            (lambda r: r["made"][0]["a"], "run made, layer 0: there is no KV head a; there are 2"),
            (lambda r: r.difference("none", "made", kv_head=5), "there is no KV head 5; there are 2"),
            (lambda r: r["made"].retained(2), "run made has no block 2; it has done 2, from 0"),
            (lambda r: r["made"][0][0].evicted(-1), "run made has no block -1; it has done 2"),
            (lambda r: r["made"][0][0].retained(1.0), "run made has no block 1.0; it has done 2, from 0"),
            (lambda r: r["made"][0].read("keyss"), "there is no dataset 'keyss'; those of a layer are keys, queries"),
            (lambda r: r["made"][0].read("expert"), "expert was not recorded; recorded are keys, queries"),
            (lambda r: r["made"].logits, "run made: logits were not recorded"),
        ],
    )
    def test_what_is_not_there(self, made, use, sentence):
        with (
            keyscope.open(made) as recording,
            pytest.raises(keyscope.MissingError, match=re.escape(sentence)) as caught,
        ):
            use(recording)
        assert str(made) in one_sentence(caught.value)

    def test_other_misuse(self, made):
        with keyscope.open(made) as recording:
            with pytest.raises(keyscope.RecordingError, match="run made does not differ from itself; name two runs"):
                recording.difference("made", "made")
            for index in (9, -3, 1.0, None, [0, 1], "a"):
                sentence = f"keys: index {index} on an axis of 2; expected an integer within it, or a slice"
                with pytest.raises(IndexError, match=re.escape(sentence)):
                    recording["made"][0].read("keys", index)
            np.testing.assert_array_equal(
                recording["made"][0].read("keys", np.int64(1)), recording["made"][np.int64(0)][np.uint8(1)].keys
            )
            with pytest.raises(IndexError, match="keys has 3 axes; found 4 indices"):
                recording["made"][0].read("keys", 0, 0, 0, 0)
            with pytest.raises(keyscope.RecordingError, match="no layer was chosen"):
                recording["made"].dataset([])

    def test_a_closed_recording(self, made):
        with keyscope.open(made) as recording:
            run, head = recording["made"], recording["made"][0][0]
            lazy = run.dataset()
        for use in (
            lambda: head.keys,
            lambda: run.top,
            lambda: lazy["keys"].load(),
            lambda: recording["none"][0][0].table,
        ):
            with pytest.raises(
                keyscope.RecordingError, match="made.h5: the recording is closed; open it again"
            ) as caught:
                use()
            one_sentence(caught.value)


def link(file):
    del file["entry/runs/made/layer_02"]
    file["entry/runs/made/layer_02"] = h5py.ExternalLink("elsewhere.h5", "/x")


def set_dataset(place, values):
    def change(file):
        del file[place]
        file[place] = values

    return change


LAYER = "entry/runs/made/layer_00"


@pytest.mark.parametrize(
    "change,sentence",
    [
        (lambda f: f["entry/model"].attrs.pop("config"), "attribute 'config' is None; expected text"),
        (lambda f: f["entry/model"].attrs.modify("config", "{"), "attribute 'config' is no JSON"),
        (lambda f: f["entry/model"].attrs.modify("n_kv_heads", 3), "4 query heads do not divide over 3 KV heads"),
        (lambda f: f["entry/model"].attrs.modify("head_dim", -1), "'head_dim' is -?1?.*expected an integer from 1"),
        (lambda f: f["entry/tokens"].attrs.modify("n_prompt", 9), "expected 9"),
        (set_dataset("entry/tokens/text_offset", np.array([0, 3, 2, 3, 4])), "offsets must ascend from 0 to 4"),
        (set_dataset("entry/tokens/id", np.zeros(4)), "found float64 .*expected integers in one axis"),
        (lambda f: f["entry/runs"].pop("none") and f["entry/runs"].pop("made"), "holds no run"),
        (lambda f: f["entry/runs/made"].pop("layer_02"), "holds other layers than run none"),
        (
            lambda f: [f[f"entry/runs/none/layer_0{i}"].attrs.create("keyless", 1) for i in (0, 2)],
            "none of its layers has",
        ),
        (lambda f: f["entry/runs/made"].attrs.modify("block_size", 0), "'block_size' is .*expected an integer from 1"),
        (set_dataset("entry/runs/made/block_start", np.array([0, 0])), "block_start must ascend from 0"),
        (set_dataset("entry/runs/made/block_start", np.array([0])), "block_start has 1 blocks; there are 2"),
        (lambda f: f["entry/runs/made"].create_dataset("blocks_done", data=5), "blocks_done is 5 of 2 blocks"),
        (lambda f: f.pop(f"{LAYER}/evicted_at"), "evicted_at was not recorded"),
        (
            set_dataset(f"{LAYER}/evicted_at", np.zeros((2, 3), np.int32)),
            r"found \(2, 3\); expected more than 3 on axis 1",
        ),
        (
            set_dataset(f"{LAYER}/keys", np.zeros((2, 4), np.float32)),
            "found float32 .*expected numbers of floating point",
        ),
        (set_dataset(f"{LAYER}/keys", np.array([b"x"])), "expected numbers of floating point in 3 axes"),
        (
            lambda f: f[LAYER].create_dataset("kv_heads", data=[1, 0]),
            r"found \[1, 0\]; expected ascending indices of 2",
        ),
        (link, "'layer_02' is a link; a recording holds all of its data itself"),
        (set_dataset("entry/provenance", 3), "'provenance' is a dataset; expected a group"),
        (lambda f: f.pop(f"{LAYER}/keys") and f[LAYER].create_group("keys"), "'keys' is a group; expected a dataset"),
    ],
)
def test_what_contradicts_itself(made, change, sentence):
    altered(made, change)
    with pytest.raises(keyscope.RecordingError, match=sentence) as caught:
        use_all(made)
    assert str(made) in one_sentence(caught.value)


def refused(path) -> bool:
    """Whatever the bytes are: an answer, or a RecordingError of one sentence."""
    try:
        use_all(path)
    except keyscope.RecordingError as error:
        one_sentence(error)
        return True
    return False


def test_every_beginning_of_a_file_is_refused_or_read(needle_path, tmp_path):
    whole, path, n_refused = needle_path.read_bytes(), tmp_path / "beginning.h5", 0
    lengths = [*range(0, 4096, 512), *np.linspace(4096, len(whole) - 1, 12).astype(int)]
    for n in lengths:
        path.write_bytes(whole[:n])
        n_refused += refused(path)
    assert n_refused >= len(lengths) - 1  # its last bytes may be unused


def test_damaged_numbers_are_refused_or_read(made, tmp_path):
    """Any dataset with some of its numbers replaced by extreme ones."""
    random, path, n_refused = np.random.default_rng(handmade.SEED), tmp_path / "damaged.h5", 0
    with h5py.File(made) as file:
        places: list[str] = []
        file.visititems(
            lambda name, node: places.append(name) if isinstance(node, h5py.Dataset) and node.size else None
        )
    for place in places:
        shutil.copy(made, path)
        with h5py.File(path, "r+") as file:
            values = file[place][...]
            limits = np.iinfo(values.dtype) if values.dtype.kind in "iu" else np.finfo(values.dtype)
            extremes = [limits.min, limits.max, 0, *([np.nan, np.inf] if values.dtype.kind == "f" else [-1 % 256])]
            values.flat[random.integers(values.size, size=2)] = random.choice(extremes, 2)
            file[place][...] = values
        n_refused += refused(path)
    assert n_refused >= 2  # of blocks and offsets at least


def test_a_recording_is_not_changed_by_reading(needle_path, tmp_path):
    copy = tmp_path / "copy.h5"
    shutil.copy(needle_path, copy)
    copy.chmod(0o444)
    before = copy.read_bytes()
    use_all(copy)
    assert copy.read_bytes() == before
