"""Block inference with eviction, once more and as plainly as possible: NumPy, float64, loops.

Written from the definitions (policies and block schedule of the documentation), not from the C++ code; shares nothing
with it. What a layer computes of a token stands in reference_models.py and reference_mixtures.py, how rows are
scored in block_scorers.py, and which of them stay by that in block_slots.py.
"""

import block_slots  # before NumPy: it pins its threads
import numpy as np

from block_scorers import (closeness, closest_within, file_of, is_newer, json_beside, newer, newer_scores,
                           scores_and_forced)
from reference_models import Llama


class Head:
    """The cache of one KV head: rows in time order."""

    def __init__(self):
        self.keys, self.values, self.positions = [], [], []  # keys as attention sees them
        self.raw = []  # keys before rotation
        self.received, self.seen_by = [], []  # attention over all queries so far, and how many could see the row
        self.rounded = []  # whether a row's key is quantised
        self.scales = {}  # of a head whose rows all have the same, by "keys" and "values"

    def lists(self):
        return self.keys, self.values, self.positions, self.received, self.seen_by, self.raw, self.rounded


GROUP = 32  # keys that share a channel's scale, and channels that share a token's
E4M3 = np.array(sorted({m * 2.0**-9 if e == 0 else (1 + m / 8) * 2.0 ** (e - 7)
                        for e in range(16) for m in range(8)} - {480.0}))


class Rounding:
    """A quantised cache; `gap` is how close any number came to the middle of two steps, as a share of the largest."""

    def __init__(self, dtype, scales):
        self.dtype, self.scales, self.gap = dtype, scales, np.inf

    def note(self, distance, x):
        self.gap = min(self.gap, float(np.min(distance)) / max(float(np.max(np.abs(x))), 1e-300))

    def integers(self, x):
        levels = 2 ** int(self.dtype[3:]) - 1
        step = (x.max() - x.min()) / levels
        code = (x - x.min()) / step
        self.note(np.abs(code % 1 - 0.5) * step, x)
        return np.round(code) * step + x.min()

    def fp8(self, x, scale):
        found = np.minimum(np.abs(x) / scale, 448)
        self.note([np.min(np.abs((E4M3[1:] + E4M3[:-1]) / 2 - a)) * scale for a in found], x)
        return np.array([E4M3[np.argmin(np.abs(E4M3 - a))] for a in found]) * np.sign(x) * scale

    def token(self, row):
        if self.dtype == "fp8":
            return self.fp8(row, np.abs(row).max() / 448)
        return np.concatenate([self.integers(row[i:i + GROUP]) for i in range(0, len(row), GROUP)])

    def new_rows(self, head, part, rows, n):
        """The last n rows, each by itself."""
        if self.scales == "head" and part not in head.scales:
            head.scales[part] = np.max(np.abs(rows[-n:])) / (224 if part == "keys" else 112)
        for i in range(len(rows) - n, len(rows)):
            rows[i] = self.fp8(rows[i], head.scales[part]) if self.scales == "head" else self.token(rows[i])

    def block_added(self, head, n, by_place):
        self.new_rows(head, "values", head.values, n)
        if self.scales != "channel":
            self.new_rows(head, "keys", head.raw if by_place else head.keys, n)
            return
        while head.rounded.count(False) >= GROUP:
            first = head.rounded.index(False)
            keys = np.array(head.keys[first:first + GROUP])
            head.keys[first:first + GROUP] = np.array([self.integers(channel) for channel in keys.T]).T
            head.rounded[first:first + GROUP] = [True] * GROUP


def gini(amounts):
    """Half the mean absolute difference of all pairs, relative to the mean."""
    return float(np.abs(np.subtract.outer(amounts, amounts)).mean() / 2 / amounts.mean())


def top_share(amounts):
    n = int(np.ceil(len(amounts) / 100))
    return float(np.sort(amounts)[-n:].sum() / amounts.sum())


def entropy(weights):
    """In nats; a sink's weight is one of them, so that they add up to 1."""
    return -(weights * np.log(weights)).sum()


class Run:
    """One policy's run; `smallest_gap` is the closest call any eviction made, relative to the scores."""

    def __init__(self, model: Llama, case: dict):
        self.m, self.case = model, case
        model.closest_choice = np.inf
        n_tokens = len(case["prompt"]) + max(case["generate"] - 1, 0)
        self.cache = [[Head() for _ in range(model.kv_heads(layer))] for layer in range(model.n_layers)]
        self.states = [None if model.attends(layer) else model.fresh_state() for layer in range(model.n_layers)]
        shape = (model.n_layers, max(map(model.kv_heads, range(model.n_layers))), n_tokens)
        self.evicted_at = np.full(shape, -1)
        self.margin = np.full(shape, np.nan)
        self.received, self.queries, self.last = np.zeros(shape), np.zeros(shape, int), np.zeros(shape)
        self.window = np.zeros(shape)  # weights of the prompt's last 32 queries, summed
        by_head = (model.n_layers, model.n_heads, len(case["prompt"]))
        self.received_by_head, self.entropy = np.zeros(by_head), np.zeros(by_head)
        self.asked = [[] for _ in range(model.n_layers)]  # every query so far before rotation, all heads
        self.position, self.block, self.smallest_gap = 0, 0, np.inf
        self.shares = None  # of the layers, as CAKE last measured them
        self.streams = file_of(case["options"]) if case["policy"] == "duo" else None
        self.filters = np.array(file_of(case["options"])) if case["policy"] == "qfilters" else None
        self.means = file_of(case["options"]) if case["policy"] == "triattention" and "file" in case["options"] else None
        self.rounding = Rounding(*case["cache"]) if "cache" in case else None
        own = [layer for layer in range(model.n_layers) if model.attends(layer) and model.lender(layer) == layer]
        self.budgets = dict(zip(own, block_slots.layer_budgets(
            case["options"], case["budget"], len(case["prompt"]), len(own))))
        if case["options"].get("split", "").startswith("file:"):
            weights = json_beside(case["options"]["split"].removeprefix("file:"))
            self.budgets = block_slots.file_budgets(case["options"], weights, case["budget"],
                                                    {layer: model.kv_heads(layer) for layer in own})

    def attend(self, layer, queries, start, prompt):
        """Every query of the block over the rows at or before it, within the layer's sliding window.

        Returns outputs, the last query's weights over all rows per query head, and per KV head the weights of the
        last `window` queries summed, mean over the group.
        """
        m, outputs, last = self.m, [], []
        cache, borrows = self.cache[m.lender(layer)], m.lender(layer) != layer
        window = min(int(self.case["options"].get("window", 32)), len(queries))
        window_sums = [np.zeros(len(head.positions)) for head in cache]
        for i, heads in enumerate(queries):
            row = []
            for h, q in enumerate(heads):
                head = cache[h // m.group(layer)]
                seen = [j for j, p in enumerate(head.positions) if 0 <= start + i - p < m.windows[layer]]
                weights, of_sink = m.weigh(layer, h, m.products(layer, h, q, [head.keys[j] for j in seen]))
                row.append(m.mix(layer, h, weights, [head.values[j] for j in seen]))
                if prompt:
                    at = [head.positions[j] for j in seen]
                    self.received[layer, h // m.group(layer), at] += weights / m.group(layer)
                    self.queries[layer, h // m.group(layer), at] += 1 if h % m.group(layer) == 0 else 0
                    self.received_by_head[layer, h, at] += weights
                    self.entropy[layer, h, start + i] = entropy(np.append(weights, of_sink or []))
                    if start + i >= len(self.case["prompt"]) - 32:
                        self.window[layer, h // m.group(layer), at] += weights / m.group(layer)
                for j, weight in [] if borrows else zip(seen, weights):  # policies see the lender's alone
                    head.received[j] += weight / m.group(layer)
                    head.seen_by[j] += 1 if h % m.group(layer) == 0 else 0
                    if i >= len(queries) - window:
                        window_sums[h // m.group(layer)][j] += weight / m.group(layer)
                if i == len(queries) - 1:
                    last.append(np.zeros(len(head.positions)))
                    last[-1][seen] = weights
            outputs.append(np.concatenate(row))
        return outputs, last, window_sums

    def drop_past_window(self, layer, last, window_sums, next_position):
        """Rows that no later query sees go first and for good, and have no margin."""
        m = self.m
        for g, head in enumerate(self.cache[layer]):
            kept = [j for j, p in enumerate(head.positions) if next_position - p < m.windows[layer]]
            self.evicted_at[layer, g, np.delete(head.positions, kept).astype(int)] = self.block
            for rows in head.lists():
                rows[:] = [rows[j] for j in kept]
            window_sums[g] = window_sums[g][kept]
            for h in range(g * m.group(layer), (g + 1) * m.group(layer)):
                last[h] = last[h][kept]

    def decide_together(self):
        """The (layer, head)s of every choice, in lists, of layers that have rows of their own to drop."""
        granularity, split = self.slots()
        heads = [[(layer, g) for g in range(len(self.cache[layer]))] for layer, *_ in self.leaving
                 if layer >= int(self.case["options"].get("skip", 0))]
        if granularity == "model":
            return [sum(heads, [])]
        return heads if granularity != "head" or split == "adakv" else [[one] for one in sum(heads, [])]

    def slots(self):
        return self.case["options"].get("granularity", "head"), self.case["options"].get("split", "uniform")

    def budget(self, layer, g):
        if self.streams and not self.streams[layer][g]:
            return np.inf
        budgets = self.case["budgets"] if "budgets" in self.case else self.budgets
        return budgets[layer][g] if isinstance(budgets[layer], list) else budgets[layer]

    def evict(self, n_new):
        m, case = self.m, self.case
        if case["policy"] == "none":
            return
        if case.get("oracle") and self.position + n_new < len(case["prompt"]):
            return
        seen = {layer: rest for layer, *rest in self.leaving}
        if self.slots()[1] == "cake" and not self.deal(seen):
            return
        for members in self.decide_together():
            heads, budget = [self.cache[layer][g] for layer, g in members], self.budget(*members[0])
            if not block_slots.exceeds([len(head.positions) for head in heads], budget, *self.slots()):
                continue
            scores, first, norms = [], [], []
            how = None if case["options"].get("critical", "off") == "off" else case["options"]["critical"]
            for (layer, g), head in zip(members, heads):
                norms.append(self.value_norms(layer, g) if how else np.ones(len(head.positions)))
                own, forced = self.score(layer, g, case | {"budget": budget}, *seen[layer])
                scores.append(own)
                first.append(block_slots.rows_ahead(case["options"], head.positions, len(case["prompt"]),
                                                    case["budget"], forced, budget))
            self.take_away(members, block_slots.choose(scores, first, budget, [head.positions for head in heads],
                                                       *self.slots(), block_slots.Critical(how, norms)))

    def deal(self, seen):
        """Deals N out to the layers that are cut, if they hold more than it together, by the shares of the block's last
        32 queries; by those of the eviction before, if it has one alone. Says whether they hold more."""
        case = self.case
        layers = [layer for layer in seen if layer >= int(case["options"].get("skip", 0))]
        held = [max(len(head.positions) for head in self.cache[layer]) for layer in layers]
        granularity = self.slots()[0]
        size = int(granularity.split(":")[1]) if granularity.startswith("page") else 1
        if sum(held) <= len(layers) * max(1, case["budget"] // size) * size:
            return False
        if len(seen[layers[0]][2]) > 1:
            attention = [[weights for g in range(len(self.cache[layer]))
                          for weights in self.attention(layer, g, seen[layer][2], 32)] for layer in layers]
            self.shares = block_slots.slots.cake_shares(attention)
        budgets, close = block_slots.cake_budgets(case["options"], self.shares or [0.0] * len(layers), case["budget"],
                                                  len(case["prompt"]), held)
        self.smallest_gap = min(self.smallest_gap, close / 100)  # rows are not as exact as scores
        self.budgets.update(zip(layers, budgets))
        return True

    def value_norms(self, layer, g):
        """‖W_O v‖₁ of a head's rows, mean over the group: what the output projection makes of a query head's output if
        one row has all the weight, less what it makes of nothing, which is its bias."""
        m, head = self.m, self.cache[layer][g]
        group = range(g * m.group(layer), (g + 1) * m.group(layer))
        x = np.zeros(m.config["hidden_size"])
        norms = np.zeros(len(head.positions))
        for j, value in enumerate(head.values):
            for h in group:
                given = m.mix(layer, h, np.ones(1), [value])
                mixed = np.zeros((m.n_heads, len(given)))
                nothing = m.attention_output(layer, x, mixed.ravel())
                mixed[h] = given
                norms[j] += np.abs(m.attention_output(layer, x, mixed.ravel()) - nothing).sum() / len(group)
        return norms

    def score(self, layer, g, case, last, window_sums, queries):
        """Scores, and the rows that the scorer keeps by itself, in the order in which they go in."""
        m, head = self.m, self.cache[layer][g]
        if is_newer(case):
            view = self.view(layer, g, queries)
            self.smallest_gap = min(self.smallest_gap, closest_within(case, view))
            return newer_scores(case, view)
        layer_mean = np.mean(last, axis=0) if len({len(w) for w in last}) == 1 else None
        group_mean = np.mean(last[g * m.group(layer):(g + 1) * m.group(layer)], axis=0)
        scores, forced = scores_and_forced(case, head, (layer, g), group_mean, layer_mean, window_sums[g])
        return scores, np.flatnonzero(forced)[::-1].tolist()

    def attention(self, layer, g, queries, w):
        """(G, w, n) weights of the last w queries, or all if they are fewer, computed once more, over the rows that are
        left: without those that the layer's window hides from the next block on, and with the sink."""
        m, head = self.m, self.cache[layer][g]
        group = range(g * m.group(layer), (g + 1) * m.group(layer))
        w = min(w, len(queries))
        attention = np.zeros((len(group), w, len(head.positions)))  # a query whose rows are all gone has no weights
        for i in range(w):
            seen = [j for j, p in enumerate(head.positions) if p <= self.position + len(queries) - w + i]
            for k, h in enumerate(group if seen else []):
                asked = queries[len(queries) - w + i][h]
                products = m.products(layer, h, asked, [head.keys[j] for j in seen])
                attention[k, i, seen] = m.weigh(layer, h, products)[0]
        return attention

    def view(self, layer, g, queries):
        """What the newer scorers may look at."""
        m, head = self.m, self.cache[layer][g]
        group = range(g * m.group(layer), (g + 1) * m.group(layer))
        w = min(int(self.case["options"].get("window", 32)), len(queries))
        window = np.array([[queries[i][h] for i in range(len(queries) - w, len(queries))] for h in group])
        attention = self.attention(layer, g, queries, w)
        asked = np.array(self.asked[layer])[:, group].swapaxes(0, 1)
        centred = asked - asked.mean(axis=1, keepdims=True)
        means, moduli = asked.mean(axis=1), np.abs(newer.as_complex(asked)).mean(axis=1)
        if self.means is not None:
            means, moduli = (np.array([query[what] for query in self.means[layer][g]]) for what in ("mean", "moduli"))
        return newer.Head(
            unrotated_keys=np.array(head.raw), keys=np.array(head.keys), values=np.array(head.values),
            positions=np.array(head.positions), inverse_frequencies=m.inverse_frequencies(layer),
            window_queries=window, attention=attention, outputs=attention @ np.array(head.values),
            query_means=means, query_covariances=np.array([c.T @ c / len(c) for c in centred]),
            query_moduli=moduli,
            query_filter=self.filters[layer][g] if self.filters is not None else None, output_weights=None, layer=layer,
            kv_head=g)

    def take_away(self, members, choice):
        for lowest, best_gone in choice.calls:
            if lowest is not None and best_gone is not None:
                gap = closeness(self.case, lowest, best_gone, choice.judged)
                self.smallest_gap = min(self.smallest_gap, gap)
        for (layer, g), kept, scores in zip(members, choice.kept, choice.judged):
            head = self.cache[layer][g]
            for j in set(range(len(head.positions))) - set(kept):
                self.evicted_at[layer, g, head.positions[j]] = self.block
                if choice.lowest is not None:
                    self.margin[layer, g, head.positions[j]] = choice.lowest - scores[j]
            for rows in head.lists():
                rows[:] = [rows[j] for j in kept]

    def rotate_queries(self, layer, queries, start):
        """By true position; or, with the keys of all rows, by their place in the cache."""
        by_place = self.case.get("positions") == "cache"
        for g, head in enumerate(self.cache[self.m.lender(layer)]):
            if by_place:
                head.keys[:] = [self.m.rotate(layer, key, place) for place, key in enumerate(head.raw)]
            first = len(head.positions) - len(queries) if by_place else start
            for i, heads in enumerate(queries):
                for h in range(g * self.m.group(layer), (g + 1) * self.m.group(layer)):
                    heads[h] = self.m.rotate_query(layer, heads[h], first + i, start + i)

    def run_attention(self, layer, hidden, prompt):
        """The new rows enter the cache, and all queries attend; rows leave it at the end of the block."""
        m, start, n = self.m, self.position, len(hidden)
        queries = []
        for i, x in enumerate(hidden):
            q, k, v = m.qkv(layer, m.attention_input(layer, x))
            queries.append(q)
            for head, key, value in zip(self.cache[layer], k, v):
                for rows, new in zip(head.lists(), (m.rotate(layer, key, start + i), value, start + i, 0.0, 0, key,
                                                   False)):
                    rows.append(new)
        if self.rounding:
            for head in self.cache[layer]:
                self.rounding.block_added(head, n, self.case.get("positions") == "cache")
        self.asked[layer] += [np.array(heads) for heads in queries]
        self.rotate_queries(layer, queries, start)
        outputs, last, window_sums = self.attend(layer, queries, start, prompt)
        if prompt and start + n == len(self.case["prompt"]):
            for g, head in enumerate(self.cache[m.lender(layer)]):
                self.last[layer, g, head.positions] = np.mean(last[g * m.group(layer):(g + 1) * m.group(layer)], axis=0)
        if m.lender(layer) == layer:
            self.leaving.append((layer, last, window_sums, queries))
        return [m.attention_output(layer, x, out) for x, out in zip(hidden, outputs)]

    def run_block(self, ids, prompt):
        m = self.m
        hidden = [m.embed(i) for i in ids]
        self.leaving = []  # of layers with a cache of their own: what decides about its rows
        for layer in range(m.n_layers):
            if m.attends(layer):
                given = self.run_attention(layer, hidden, prompt)
            else:
                given = [m.recur(layer, m.attention_input(layer, x), self.states[layer]) for x in hidden]
            hidden = [m.finish_layer(layer, x, out, token) for x, out, token in zip(hidden, given, ids)]
        for layer, last, window_sums, _ in self.leaving:
            self.drop_past_window(layer, last, window_sums, self.position + len(ids))
        self.evict(len(ids))
        self.position += len(ids)
        self.block += 1
        return hidden[-1]

    def run(self) -> dict:
        prompt, size = self.case["prompt"], self.case["block"]
        for first in range(0, len(prompt), size):
            hidden = self.run_block(prompt[first:first + size], True)
        logits = self.m.logits(hidden)
        top = np.argsort(-logits, kind="stable")[:10]
        result = {"top_ids": top.tolist(), "top_logits": logits[top].tolist()}
        generated, logit_gap = [], np.inf
        for step in range(self.case["generate"]):
            if step > 0:
                logits = self.m.logits(self.run_block(generated[-1:], False))
            first, second = np.sort(logits)[::-1][:2]
            logit_gap = min(logit_gap, (first - second) / np.abs(logits).max())
            generated.append(int(np.argmax(logits)))
        if np.isfinite(self.m.closest_choice):
            result["router_gap"] = self.m.closest_choice
        return result | {
            "generated": generated, "smallest_gap": self.smallest_gap, "logit_gap": logit_gap,
            **({"rounding_gap": self.rounding.gap} if self.rounding else {}),
            "evicted_at": self.by_layer(self.lent(self.evicted_at)), "margin": self.by_layer(self.lent(self.margin)),
            "attention_received": self.by_layer(self.received), "attention_queries": self.by_layer(self.queries),
            "attention_last": self.by_layer(self.last), "attention_window": self.by_layer(self.window),
            "attention_entropy": self.by_layer(self.entropy),
            "attention_gini": self.by_layer(self.received_by_head, gini),
            "attention_top_share": self.by_layer(self.received_by_head, top_share)}

    def lent(self, arrays):
        """By layer, those of the layer whose keys it reads."""
        return arrays[[self.m.lender(layer) for layer in range(self.m.n_layers)]]

    def by_layer(self, arrays, of_head=np.ndarray.tolist):
        """Nothing of layers without keys."""
        n_heads = lambda layer, heads: self.m.kv_heads(layer) if len(heads) != self.m.n_heads else len(heads)
        return [[of_head(head) for head in heads[:n_heads(layer, heads)]] if self.m.attends(layer) else None
                for layer, heads in enumerate(arrays)]
