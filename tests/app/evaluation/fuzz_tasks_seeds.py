"""Seeds for fuzz_tasks: rows of each task, results and answers, behind the letter that each goes by.

    python3 fuzz_tasks_seeds.py FOLDER
"""

import json
import pathlib
import sys

TASKS = ["narrativeqa", "qasper_e", "gov_report", "trec", "samsum", "passage_count", "passage_retrieval_en", "lcc",
         "repobench-p"]
NEEDLE = ("Some special magic numbers are hidden within the following text. Make sure to memorize it. I will quiz you about "
          "the numbers afterwards.\nOne of the special magic numbers for long-tea is: 8090293.\nWhat are all the special "
          "magic numbers for long-tea mentioned in the provided text? The special magic numbers for long-tea mentioned in "
          "the provided text are")
RULER = [{"input": NEEDLE, "outputs": ["8090293"], "length": 4096, "index": 0},
         {"input": "Memorize and track the chain(s) of variable assignment hidden in the following text.\n\nVAR A = 1", "outputs":
          ["A", "B"], "answer_prefix": " Answer:"},
         {"input": "Below is a numbered list of words. 1. a 2. b", "outputs": ["a"], "length": 1 << 62, "index": 1 << 63}]
MATH = [{"problem": "1+1?", "answer": "2", "subject": "Algebra", "level": 5, "unique_id": "a"},
        {"problem": "x?", "solution": "\\boxed{\\frac{1}{2}}", "type": "Number Theory", "level": "Level 3"}]
ANSWERS = [["\\boxed{\\frac12}", "0.5"], ["The answer is $x+1$.", "1+x"], ["$$\\sqrt{2}$$", "\\sqrt2"], ["(1, 2)", "(1,2)"],
           ["\\{3, 1\\}", "\\{1,3\\}"], ["10^{-3}", "\\frac{1}{1000}"], ["1,000,000", "10^6"], ["\\text{(C)}", "C"],
           ["\\boxed{5\\%}", "5"], ["-2^2", "-4"], ["2 \\cdot 3 - -(4)", "10"], ["\\frac{\\frac{1}{2}}{3}", "1/6"],
           ["\\left[0, \\infty\\right)", "[0,\\infty)"], ["9999999999999999999999", "1e22"], ["0^0", "1/0"], ["45^\\circ", "45"]]
RESULT = {"id": "a", "policy": "keydiff", "budget_text": "25%", "budget": 16, "block": 64, "n_prompt": 64, "rows_kept": 16.5,
          "n_generated": 3, "text": "t", "answers": ["t"], "scores": {"b": 1, "a": 0.5}, "anatomy": {
              "empty": False, "question": {"rows": 3, "rows_kept": 0.5}, "evidence": {
                  "places": 1, "rows": 2, "answer_rows": 1, "global_eviction_ratio": 0.5,
                  "global_eviction_ratio_at_end": None, "first": {
                      "layer": 0, "kv_head": 1, "position": 3, "block": 0, "rank": 9, "rows": 64, "margin": 0.5},
                  "layers": [{"layer": 0, "kept": 1, "torn": 0, "lost": 1, "rows_kept": 0.5, "rank_share": 0.25,
                              "margin": None, "first": None}]}, "cache": {
                                  "read": [64, 65], "rows": [16, 16.5], "bytes": [1024, 1056]}}}
SQUAD = {"version": "v2.0", "data": [{"title": "T", "paragraphs": [{"context": "C one.", "qas": [
    {"question": "Q?", "id": "1", "is_impossible": False, "answers": [{"text": "one", "answer_start": 2}]}]}, {
        "context": "C two.", "qas": []}]}]}
HOTPOT = [{"_id": "1", "question": "Q?", "answer": "yes", "context": [["T", ["One.", " Two."]], ["U", ["Three."]]]}]
PROMPTS = [{"prompt": "Hello there", "name": "greeting"}, {"ids": [1, 80, 147]}]


def main() -> None:
    folder = pathlib.Path(sys.argv[1])

    def write(name: str, *rows: object) -> None:
        (folder / name).write_text(name[0] + "\n".join(json.dumps(row) for row in rows))

    longbench = [{"dataset": task, "context": "Passage 1: text.\nQuestion: b?", "input": "Question: a?\nAnswer:", "answers": [
        "Passage 1"], "all_classes": ["Passage 1", "b"], "length": 12, "_id": str(i), "language": "en"}
                 for i, task in enumerate(TASKS)]
    for i, row in enumerate(longbench):
        write(f"l_{i}", row)
    write("l_all", *longbench)
    for i, row in enumerate(RULER):
        write(f"r_{i}", row)
    write("r_all", *RULER)
    write("m_all", *MATH)
    for i, (solution, answer) in enumerate(ANSWERS):
        (folder / f"a_{i}").write_text(f"a{solution}\n{answer}")
    write("e_result", RESULT)
    write("e_least", RESULT | {"anatomy": {"empty": True, "cache": {"read": [], "rows": [], "bytes": []}}})
    write("e_nan", RESULT | {"rows_kept": float("nan"), "budget": 1e300})
    write("e_not_asked", RESULT | {"seconds": float("nan")})
    write("s_squad", SQUAD)
    write("h_hotpotqa", HOTPOT)
    write("p_prompts", *PROMPTS)
    write("i_ids", [1, 80, 147])


if __name__ == "__main__":
    main()
