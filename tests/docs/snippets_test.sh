#!/usr/bin/env bash
# Runs every Python snippet of docs/ as printed, on a recording that the README's first command makes,
# on its replay, and on an evaluation.
set -euo pipefail
source_dir=$1 keyscope=$2
/usr/bin/python3 -c 'import h5py' 2>/dev/null || { echo "skipped: python3-h5py is not installed"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
"$keyscope" capture --model "$source_dir/assets/demo_model" \
  --prompt-file "$source_dir/assets/demo_model/prompts/needle.txt" \
  --policy none --policy keydiff --budget 256 --block 64 --generate 12 --quiet --out needle.h5
"$keyscope" replay needle.h5 --policy keydiff --policy h2o --budget 256 --block 64 --quiet --out replayed.h5
"$keyscope" eval perplexity --model "$source_dir/assets/demo_model" \
  --text "$source_dir/assets/demo_model/prompts/needle_2048.txt" --length 256 --policy keydiff --budget 25% --block 32 \
  --quiet --json perplexity.json
"$keyscope" eval niah --model "$source_dir/assets/demo_model" --policy keydiff --budget 25% --length 200,300 \
  --depth 0,50,100 --quiet --out needles
"$keyscope" eval niah --model "$source_dir/assets/demo_model" --policy keydiff --policy snapkv \
  --policy keydiff:protect=recent:0.3 --budget 25% --block 32 --length 200 --depth 10,90 --samples 2 --record 1 \
  --quiet --out why

n_run=0
for page in "$source_dir"/docs/*.md; do
  awk -v stem="$(basename "$page" .md)" '
    /^```python$/ { inside = 1; n++; next }
    /^```$/ { inside = 0 }
    inside { print > (stem "-" n ".py") }' "$page"
done
for snippet in *.py; do
  echo "+ $snippet"
  /usr/bin/python3 "$snippet"
  n_run=$((n_run + 1))
done
[[ $n_run -ge 1 ]] || { echo "no snippet found in docs/"; exit 1; }
