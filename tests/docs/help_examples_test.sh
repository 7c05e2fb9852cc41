#!/usr/bin/env bash
# Runs the example that every subcommand's --help prints, as printed, in one folder, in an order that lets later
# ones read what earlier ones wrote.
set -euo pipefail
source_dir=$1 keyscope=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
ln -s "$source_dir/assets" "$source_dir/experiments" .
mkdir bin && ln -s "$keyscope" bin/keyscope
export PATH=$work/bin:$PATH
unset DISPLAY

for subcommand in capture "calibrate qfilters" "calibrate triattention" replay analyze figure export inspect prompts tokenize demo bench "bench prefill" "bench score" \
  "bench capture" "bench memory" validate "eval niah" "eval phonebook" "eval longbench" "eval math500" \
  "eval perplexity" "eval ruler" report grid reproduce "sweep plan" "sweep submit" "sweep run" "sweep status" "sweep merge" \
  view; do
  read -ra words <<<"$subcommand"
  example=$(keyscope "${words[@]}" --help | sed -n '/^Example/,$p' | tail -n +2 | sed 's/^ *//')
  [[ $example == keyscope* ]] || { echo "$subcommand --help has no example"; exit 1; }
  echo "+ $example"
  if [[ $subcommand == view ]]; then
    if bash -c "$example" 2>view.err; then echo "a window without a display"; exit 1; fi
    grep -qi display view.err || { cat view.err; exit 1; }
  else
    bash -c "$example" || { echo "failed: $example"; exit 1; }
  fi
done
