"""What a notebook shows: well-formed, escaped, small, and there whatever the recording lacks."""

from __future__ import annotations

import base64
import re
import zlib
from html.parser import HTMLParser

import handmade
import keyscope
import numpy as np
import pytest
from keyscope import display


class Structure(HTMLParser):
    """Fails on tags that do not close in order; collects the text."""

    def __init__(self) -> None:
        super().__init__()
        self.open_tags, self.text = [], ""

    def handle_starttag(self, tag, attrs):
        if tag != "img":
            self.open_tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open_tags.pop() == tag

    def handle_data(self, data):
        if self.open_tags[-1] != "style":
            self.text += data + " "


def shown(html: str) -> str:
    structure = Structure()
    structure.feed(html)
    assert structure.open_tags == []
    assert len(html) < 20_000
    return structure.text


def pixels(html: str) -> np.ndarray:
    """The strip's image, (height, width, 4)."""
    data = base64.b64decode(re.search(r"base64,([^']+)'", html)[1])
    width, height = (int.from_bytes(data[at : at + 4], "big") for at in (16, 20))
    body = data[data.index(b"IDAT") + 4 : data.index(b"IEND") - 8]
    rows = np.frombuffer(zlib.decompress(body), np.uint8).reshape(height, 1 + 4 * width)
    return rows[:, 1:].reshape(height, width, 4)


def test_a_recording_lists_its_runs(needle):
    text = shown(needle._repr_html_())
    for part in (
        "needle.h5",
        "demo_model",
        "1,012 prompt tokens",
        "8 query / 4 KV heads of 32",
        "keys, queries, values",
    ):
        assert part in text
    for run in needle:
        assert run.name in text
    assert "25%" in text and "9123490" in text and "↵" in text


def test_a_run_shows_where_its_rows_are(needle):
    html = needle["sink"]._repr_html_()
    assert "budget 256" in shown(html) and "each line a layer, 0 to 3" in shown(html)
    strip = pixels(html)
    assert strip.shape[1] == 360
    kept = strip[0, :, 3] > 127
    assert kept[0] and kept[-80:].all() and not kept[5:-100].any()  # the first tokens and the latest


def test_a_layer_shows_where_each_heads_rows_are(needle):
    layer = needle["sink"][2]
    html = layer._repr_html_()
    text = shown(html)
    for part in ("Layer 2", "sink", "8 query / 4 KV heads of 32", "keys, queries, val", "each line a KV head, 0 to 3"):
        assert part in text
    strip = pixels(html)
    assert strip.shape[:2] == (4 * 12, 360)
    for head in range(4):
        np.testing.assert_array_equal(strip[12 * head, :, 3], pixels(needle["sink"]._repr_html_())[0, :, 3])


def test_a_head_shows_tokens_and_their_fate(needle):
    head = needle["keydiff"][1][0]
    html = head._repr_html_()
    text = shown(html)
    assert "256 rows kept" in text and "756 evicted" in text and "query heads 0–1" in text
    best = head.table.nlargest(1, "attention_per_query")
    assert display.token_label(best.text.iloc[0]) in text and f"{best.index[0]:,}" in text
    strip = pixels(html)
    kept, gone = strip[0, :, 3].astype(float), strip[14, :, 3].astype(float)
    np.testing.assert_allclose(kept + gone, 255, atol=1.5)
    assert kept.mean() / 255 == pytest.approx(256 / 1012, abs=0.01)


def test_text_from_the_file_is_escaped(tmp_path):
    layer = handmade.layer(3)
    tokens = [b"<script>alert(1)</script>", b"&amp;\x00", b"<i>"]
    path = handmade.write(tmp_path / "<b>&.h5", tokens, {"none": {0: layer}, "<u>": {0: layer}})
    with keyscope.open(path) as recording:
        whole = recording._repr_html_() + recording["<u>"]._repr_html_() + recording["<u>"][0][0]._repr_html_()
    assert not re.search("<script|<u>|<b>&.h5", whole)
    assert "&lt;b&gt;&amp;.h5" in whole and "&lt;u&gt;" in whole
    assert "<script>alert(1)</script>" in shown(whole) and "&amp;<00>" in shown(whole)


def test_what_is_missing_is_left_out(tmp_path, replayed_path):
    with keyscope.open(replayed_path) as recording:
        assert "replayed" in shown(recording._repr_html_())
        assert "attention" not in shown(recording["h2o"][0][0]._repr_html_())
    bare = {"evicted_at": np.full((2, 3), -1, np.int32)}
    with keyscope.open(handmade.write(tmp_path / "bare.h5", [b"a"] * 3, {"none": {0: bare}})) as recording:
        assert "statistics" in shown(recording._repr_html_())
        assert "3 rows kept" in shown(recording["none"][0][1]._repr_html_())
    layers = {0: handmade.layer(3), 1: {"keyless": 1, "n_experts": 4, "expert": np.zeros((3, 1), np.int32)}}
    with keyscope.open(handmade.write(tmp_path / "mixed.h5", [b"a"] * 3, {"none": layers})) as recording:
        text = shown(recording["none"][1]._repr_html_())
        assert "no keys · 4 experts · expert" in text and "each line" not in text


def test_a_closed_recording_still_shows_something(needle_path):
    recording = keyscope.open(needle_path)
    run, layer, head = recording["sink"], recording["sink"][0], recording["sink"][0][0]
    recording.close()
    assert "the recording is closed" in shown(layer._repr_html_())
    assert "needle.h5" in shown(recording._repr_html_())
    assert "the recording is closed" in shown(run._repr_html_())
    assert "the recording is closed" in shown(head._repr_html_())
    assert "needle.h5" in repr(recording) and "sink" in repr(run) and "sink" in repr(head)


@pytest.mark.parametrize(
    "text,label",
    [(" that", "·that"), ("\n\n", "↵↵"), ("a b", "a b"), ("\t", "⇥"), ("\x07", "<07>"), ("é😀", "é😀"), ("", "")],
)
def test_labels_are_one_readable_line(text, label):
    assert keyscope.token_label(text) == label
