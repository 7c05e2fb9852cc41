"""The trainer of the demo models: what its attentions compute, what it stores, and what a few steps do.

    python tests/tools/demo_model_test.py --keyscope build/release/keyscope

The arbiter is Transformers; of what was stored, Keyscope must compute the same.
"""

import argparse
import json
import math
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

TOP = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "tools/demo_model"))

import average
import checkpoint
import curriculum
import heads
import model as models
import torch
import train
import train_models
from mimetic import mimetic_init
from safetensors import safe_open
from transformers import AutoModelForCausalLM, AutoTokenizer

DEMO = TOP / "assets/demo_model"
SEED = 20251128
TINY = {"vocab_size": 50, "hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 3,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16}
TOLERANCE = 1e-4
keyscope = None  # the program, if one was named


def tiny(attention: str) -> models.Llama:
    """Random weights, wide enough that attention is far from uniform."""
    model = models.Llama(models.Config(**TINY, **models.ATTENTIONS[attention]))
    generator = torch.Generator().manual_seed(SEED)
    with torch.no_grad():
        for name, p in model.named_parameters():
            noise = torch.randn(p.shape, generator=generator)
            p.copy_(1 + 0.2 * noise if "norm" in name else noise if "sinks" in name else 0.3 * noise)
    return model


def some_ids(vocabulary: int, rows: int, tokens: int) -> torch.Tensor:
    return torch.randint(3, vocabulary, (rows, tokens), generator=torch.Generator().manual_seed(SEED))


@torch.no_grad()
def logits(model: models.Llama, ids: torch.Tensor) -> torch.Tensor:
    return model(ids) @ model.model.embed_tokens.weight.T


@torch.no_grad()
def logits_of_transformers(folder: Path, ids: torch.Tensor) -> torch.Tensor:
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()(ids).logits


def json_lines(path: Path) -> list:
    return [json.loads(row) for row in path.read_text(encoding="utf-8").splitlines()]


def run_keyscope(*arguments) -> str:
    command = [keyscope, *map(str, arguments)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


class WithFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def stored(self, model: models.Llama, name: str) -> Path:
        folder = self.folder / name
        folder.mkdir()
        checkpoint.save_config(model.cfg, 1, 2, folder)
        checkpoint.save_weights(model.state_dict(), model.cfg, folder)
        return folder


class Attention(unittest.TestCase):
    def test_a_sink_is_one_more_column_that_is_dropped(self):
        generator = torch.Generator().manual_seed(SEED)
        q, k, v = (torch.randn(2, 4, 9, 16, generator=generator) for _ in range(3))
        sinks = torch.tensor([-2.0, 0.0, 1.5, 4.0])
        found = models.attend_with_sinks(q, k, v, sinks)
        for row in range(2):
            weights = heads.attention(q[row:row + 1], k[row:row + 1], sinks)
            torch.testing.assert_close(found[row], weights @ v[row], rtol=0, atol=1e-5)

    def test_attention_and_sink_add_up_to_one(self):
        zero = torch.zeros(1, 1, 3, 16)  # all scores are 0, as the sink's logit: 1 of 2, of 3, of 4
        weights = heads.attention(zero, zero, torch.zeros(1))
        torch.testing.assert_close(weights.sum(dim=2), torch.tensor([[1 / 2, 2 / 3, 3 / 4]]))

    def test_a_sink_far_below_takes_nothing(self):
        q, k, v = torch.randn(3, 1, 2, 7, 16, generator=torch.Generator().manual_seed(SEED))
        without = models.attend(q, k, v)
        found = models.attend_with_sinks(q, k, v, torch.full((2,), -60.0))
        torch.testing.assert_close(found, without, rtol=0, atol=1e-5)

    def test_gradients_reach_sinks_and_gates(self):
        for attention, name in (("learned-sinks", "sinks"), ("gated", "gate_proj.weight")):
            model = tiny(attention)
            model(some_ids(50, 2, 20)).sum().backward()
            for layer in model.model.layers:
                self.assertGreater(float(layer.self_attn.get_parameter(name).grad.abs().sum()), 0)

    def test_what_every_model_begins_with(self):
        ids, found = some_ids(3072, 1, 64), {}
        for attention in models.ATTENTIONS:
            model = models.Llama(models.Config(**models.ATTENTIONS[attention]))
            mimetic_init(model, SEED)
            found[attention] = logits(model, ids)
            if attention == "learned-sinks":
                for layer in model.model.layers:
                    layer.self_attn.sinks.data.fill_(-60)
                found["without sinks"] = logits(model, ids)
        for name in ("gated", "without sinks"):
            torch.testing.assert_close(found[name], found["plain"], rtol=0, atol=1e-4)
        self.assertGreater(float((found["learned-sinks"] - found["plain"]).abs().max()), 1e-4)


class Checkpoint(WithFolder):
    def test_transformers_computes_the_same(self):
        ids = some_ids(50, 2, 40)
        for attention in models.ATTENTIONS:
            with self.subTest(attention):
                folder = self.stored(tiny(attention), attention)
                found = logits(checkpoint.load_model(folder), ids)
                self.assertGreater(float(found.std()), 0.3)
                torch.testing.assert_close(logits_of_transformers(folder, ids), found, rtol=0,
                                           atol=TOLERANCE)

    def test_what_is_read_is_what_was_stored_but_for_rounding(self):
        for attention in models.ATTENTIONS:
            with self.subTest(attention):
                model = tiny(attention)
                read = checkpoint.load_model(self.stored(model, attention))
                self.assertEqual(read.cfg, model.cfg)
                for name, weight in model.state_dict().items():
                    # bfloat16 has eight bits; a norm is stored as what it is more than one.
                    torch.testing.assert_close(read.state_dict()[name], weight, rtol=2**-8, atol=2**-9)

    def test_the_demo_model_is_stored_as_before(self):
        checkpoint.save_config(models.Config(), 3070, 3071, self.folder)
        for name in ("config.json", "generation_config.json"):
            self.assertEqual((self.folder / name).read_text(), (DEMO / name).read_text())
        checkpoint.save_weights(checkpoint.load_model(DEMO).state_dict(), models.Config(), self.folder)
        with safe_open(self.folder / "model.safetensors", "pt") as new, \
             safe_open(DEMO / "model.safetensors", "pt") as old:
            self.assertEqual(set(new.keys()), set(old.keys()))
            for name in old.keys():
                self.assertTrue(torch.equal(new.get_tensor(name), old.get_tensor(name)), name)

    def test_an_unknown_layout_is_named(self):
        (self.folder / "config.json").write_text('{"model_type": "bloom"}')
        with self.assertRaisesRegex(ValueError, "bloom; expected one of llama, gpt_oss, qwen3_5_text"):
            checkpoint.load_config(self.folder)


@mock.patch.object(train, "STEP_TOKENS", 512)
@mock.patch.object(curriculum, "STEP_TOKENS", 512)
class FewSteps(unittest.TestCase):
    """The trainer itself with its own shape, some steps of four short rows. A base is trained once."""

    STEPS = 12

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder, cls.bases = Path(folder.name), {}
        cls.text = cls.folder / "novel.txt"
        passages = [row["prompt"] for row in json_lines(DEMO / "prompts/passages.jsonl")]
        chapters = (f"CHAPTER I\n\n{passages[i % len(passages)]}\n\n" for i in range(26))
        cls.text.write_text("".join(chapters), encoding="utf-8")

    def trained(self, name: str, *options) -> Path:
        mix = {"phonebook": 5, "needle": 4, "repeat": 0.5}
        plan = [(128, self.STEPS * 512 / 1e6, mix)]
        out = self.folder / name
        command = ["train.py", "--text", self.text, "--out", out, "--work", self.folder / f"{name}.state",
                   "--seed", 5, "--device", "cpu", "--processes", 1, "--no-compile", "--no-bf16",
                   "--log-every", 1, *options]
        with mock.patch.object(train, "chosen_curriculum", lambda _: (plan, 1.0)), \
             mock.patch.object(sys, "argv", [str(word) for word in command]), \
             mock.patch("builtins.print"):
            train.main()
        return out

    def begun(self, attention: str, name: str) -> Path:
        return self.trained(f"{attention}_{name}", "--attention", attention, "--tokenizer", DEMO)

    def base(self, attention: str) -> Path:
        if attention not in self.bases:
            self.bases[attention] = self.begun(attention, "base")
        return self.bases[attention]

    def check_stored(self, folder: Path, model_type: str) -> None:
        """Of what was trained: this model, Transformers and Keyscope agree."""
        prompt = "Phone book:\nMira Tolen: 4711\nLook up:\nMira Tolen:"
        ids = AutoTokenizer.from_pretrained(folder)(prompt, return_tensors="pt").input_ids
        found = logits(checkpoint.load_model(folder), ids)
        torch.testing.assert_close(logits_of_transformers(folder, ids), found, rtol=0, atol=TOLERANCE)
        if keyscope is None:
            return
        self.assertIn(model_type, run_keyscope("inspect", folder))
        recording = folder / "prompt.h5"
        run_keyscope("capture", "--model", folder, "--prompt", prompt, "--policy", "none", "--dtype", "float32",
                     "--record", "keys,queries,attention,logits", "--score-last", 1000, "--device", "cpu",
                     "--out", recording, "--quiet")
        run_keyscope("analyze", recording, "--quiet")
        try:
            import h5py
        except ImportError:
            return
        with h5py.File(recording) as file:
            recorded = torch.tensor(file["entry/runs/none/logits"][()])
        torch.testing.assert_close(recorded, found[0], rtol=0, atol=TOLERANCE)

    def test_a_base_of_every_attention(self):
        for attention, model_type in (("plain", "llama"), ("learned-sinks", "gpt_oss"),
                                      ("gated", "qwen3_5_text")):
            with self.subTest(attention):
                folder = self.base(attention)
                losses = [row["answer"] for row in json_lines(folder / "training_log.jsonl")]
                self.assertEqual(len(losses), self.STEPS)
                self.assertLess(sum(losses[-3:]), 0.9 * sum(losses[:3]))
                self.check_stored(folder, model_type)

    def test_a_seed_makes_one_model(self):
        first, again = self.base("learned-sinks"), self.begun("learned-sinks", "again")
        self.assertEqual(*((folder / "model.safetensors").read_bytes() for folder in (first, again)))

    def test_a_refinement_keeps_the_attention(self):
        for attention in ("learned-sinks", "gated"):
            with self.subTest(attention):
                base = self.base(attention)
                refined = self.trained(f"{attention}_refined", "--refine", base, "--kept", 0.4)
                self.assertEqual(checkpoint.load_config(refined), checkpoint.load_config(base))
                out = self.folder / f"{attention}_average"
                with mock.patch.object(sys, "argv", ["average.py", str(base), str(refined), "--out", str(out)]):
                    average.main()
                one, other, mean = (checkpoint.load_model(f).state_dict() for f in (base, refined, out))
                for name, weight in mean.items():
                    torch.testing.assert_close(weight, one[name].lerp(other[name], 0.5), rtol=2**-7, atol=2**-9)

    def test_learned_sinks_move(self):
        sinks = checkpoint.load_model(self.base("learned-sinks")).state_dict()
        moved = [float(sinks[name].abs().max()) for name in sinks if name.endswith("sinks")]
        self.assertEqual(len(moved), 4)
        self.assertGreater(max(moved), 0.01)

    def test_what_excludes_itself(self):
        base = self.base("learned-sinks")
        for options in (("--refine", base, "--attention", "gated"), ("--refine", base, "--sinks", "find")):
            with mock.patch("sys.stderr"), self.assertRaises(SystemExit):
                self.trained("unused", *options)


class Heads(unittest.TestCase):
    def test_of_a_model_that_attends_to_nothing(self):
        model = tiny("learned-sinks")
        for layer in model.model.layers:
            layer.self_attn.sinks.data.fill_(60)
        found = heads.measured(model, some_ids(50, 1, 12))
        self.assertEqual(len(found), 12)
        self.assertEqual({row["nothing"] for row in found}, {1.0})
        self.assertEqual(heads.means(found)["gate"], None)

    def test_of_gates_that_are_half_open(self):
        model = tiny("gated")
        for layer in model.model.layers:
            layer.self_attn.gate_proj.weight.data.zero_()
        means = heads.means(heads.measured(model, some_ids(50, 1, 12)))
        self.assertEqual(means["gate"], 0.5)
        self.assertEqual(means["nothing"], None)

    def test_the_first_token_of_a_sink_variant(self):
        prompt = (DEMO / "prompts/phonebook.txt").read_text(encoding="utf-8")
        ids = AutoTokenizer.from_pretrained(DEMO)(prompt, return_tensors="pt").input_ids[:, :512]
        for name, least, most in (("demo_model", 0, 0.1), ("demo_model_sinks", 0.6, 1)):
            means = heads.means(heads.measured(checkpoint.load_model(TOP / "assets" / name), ids))
            self.assertTrue(least <= means["bos"] <= most, means)
            self.assertTrue(math.copysign(1, means["opposition"]) == (1 if name == "demo_model" else -1))


class Stages(unittest.TestCase):
    def commands(self, models_: list[str], out: str) -> list[list[str]]:
        asked = []
        with mock.patch.object(train_models, "run", lambda *words: asked.append([str(w) for w in words])), \
             mock.patch("builtins.print"):
            train_models.Recipe(argparse.Namespace(text=Path("t"), out=Path(out), work=Path("w"), seed=2,
                                                   device="cpu", tokenizer=None)).models(models_)
        return asked

    def test_the_demo_model_and_one_of_another_attention_differ_by_nothing_else(self):
        demo = self.commands(["demo"], "nowhere")
        gated = self.commands(["gated"], "nowhere")
        self.assertEqual(len(demo), 12)
        as_demo = [[word.replace("demo_model_gated", "demo_model").replace("gated_", "") for word in stage
                    if word not in ("--attention", "gated")] for stage in gated]
        self.assertEqual(as_demo, demo)

    def test_a_tokenizer_that_is_there_is_taken(self):
        base = self.commands(["learned-sinks"], str(TOP / "assets"))[0]
        self.assertEqual(base[base.index("--tokenizer") + 1], str(DEMO))
        self.assertEqual(base[base.index("--attention") + 1], "learned-sinks")

    def test_no_two_stages_share_a_folder(self):
        stages = self.commands(list(train_models.FOLDERS), "nowhere")
        folders = [stage[stage.index("--out") + 1] for stage in stages]
        self.assertEqual(len(folders), len(set(folders)))


def main() -> None:
    global keyscope
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0], allow_abbrev=False)
    parser.add_argument("--keyscope", help="the program; without it only Transformers is compared with")
    args, others = parser.parse_known_args()
    keyscope = args.keyscope
    torch.set_num_threads(1)
    unittest.main(argv=[sys.argv[0], *others], verbosity=2)


if __name__ == "__main__":
    main()
