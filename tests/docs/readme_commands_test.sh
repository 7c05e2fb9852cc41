#!/usr/bin/env bash
# Runs every command that README.md prints, in order, in an empty folder; the window's commands under no display
# must say so. `./run` itself is what runs this test, so its two lines are only checked to exist.
set -euo pipefail
source_dir=$1 keyscope=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
ln -s "$source_dir/assets" assets
mkdir -p build/release && ln -s "$keyscope" build/release/keyscope

# Policies in Python need NumPy, which the system's has.
python3 -c 'import numpy' 2>/dev/null || export KEYSCOPE_PYTHON=${KEYSCOPE_PYTHON:-/usr/bin/python3}

n_run=0
while IFS= read -r -d '' command; do
  case $command in
    ./run*)
      grep -q "^ *${command#./run } " <("$source_dir/run" --help) || { echo "./run has no such command: $command"; exit 1; }
      ;;
    *keyscope\ view*)
      if env -u DISPLAY bash -c "$command" 2>view.err; then echo "a window without a display: $command"; exit 1; fi
      grep -qi display view.err || { cat view.err; echo "no word of the display: $command"; exit 1; }
      ;;
    *)
      echo "+ $command"
      bash -c "$command" || { echo "failed: $command"; exit 1; }
      ;;
  esac
  n_run=$((n_run + 1))
done < <(awk '
  /^```sh$/ { inside = 1; next }
  /^```$/ { inside = 0; next }
  inside { command = command $0; if ($0 ~ /\\$/) { sub(/\\$/, "", command) } else { printf "%s%c", command, 0; command = "" } }
' "$source_dir/README.md")
[[ $n_run -ge 8 ]] || { echo "only $n_run commands found in README.md"; exit 1; }
for file in needle.h5 needle.json keyspace.png figures.h5 needle.html validation/validation.html; do
  [[ -s $file ]] || { echo "README's commands did not write $file"; exit 1; }
done
echo "$n_run commands of README.md"
