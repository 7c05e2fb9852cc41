"""The words that `eval ruler` counts (assets/eval/words.txt), from a text: every word of 4 to 12 letters that stands
there twice or more in small letters, and more often so than with a capital, in alphabetical order.

    python3 tools/ruler_words.py war-and-peace.txt > assets/eval/words.txt

The list was made from Project Gutenberg's War and Peace (number 2600), which is in the public domain.
"""

import collections
import re
import sys

WHOLE_WORD = r"(?<![A-Za-z’'\-À-ÿ])[A-Za-z]{4,12}(?![A-Za-z’'\-À-ÿ])"

counts = collections.Counter(re.findall(WHOLE_WORD, open(sys.argv[1], encoding="utf-8").read()))
for word in sorted(counts):
    if word.islower() and counts[word] >= max(2, counts[word.capitalize()] + 1):
        print(word)
