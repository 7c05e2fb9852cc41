#!/usr/bin/env bash
# Checks Keyscope on a GPU machine: unpacks what pack.sh packed, unless it lies in it, finds a Python whose PyTorch is
# the LibTorch to load, and runs check.py.
#   check.sh [--python PYTHON] [--archive FILE] [OPTION…]      options: check.sh --help
set -euo pipefail
readonly kTop="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"

die() { printf 'check.sh: %s\n' "$*" >&2; exit 2; }

python='' archive='' options=()
while (($#)); do
  case $1 in
    --python | --archive) (($# > 1)) || die "$1 needs a value" ;;&
    --python) python=$2; shift 2 ;;
    --archive) archive=$2; shift 2 ;;
    *) options+=("$1"); shift ;;
  esac
done

# The version of a Python's PyTorch, without importing it; empty where there is none.
torch_of() {
  "$1" -c 'import importlib.metadata as m, importlib.util as u; print(u.find_spec("torch") and m.version("torch") or "")' \
    2>/dev/null || true
}

# The first Python with PyTorch; check.py says whether its version is the right one.
find_python() {
  local candidate
  for candidate in python3 python /opt/*/bin/python3 /opt/*/.venv/bin/python3 /opt/*/envs/*/bin/python3 \
    "$HOME"/*/bin/python3 "$HOME"/.venv/bin/python3 /usr/bin/python3 /usr/local/bin/python3; do
    command -v "$candidate" >/dev/null || continue
    [[ -z $(torch_of "$candidate") ]] || { echo "$candidate"; return; }
  done
}

[[ -n $python ]] || python=$(find_python)
[[ -n $python ]] || die "no Python with PyTorch was found; name one with --python"
[[ -n $(torch_of "$python") ]] || die "$python has no PyTorch"

scratch=''
trap '[[ -z $scratch ]] || rm -rf "$scratch"' EXIT
pack=$kTop
if [[ ! -f $pack/pack.json || -n $archive ]]; then
  for candidate in ./gpu-check.tar.?z "$kTop"/gpu-check.tar.?z "$kTop"/build/gpu-check.tar.?z \
    "$(dirname "${BASH_SOURCE[0]}")"/gpu-check.tar.?z; do
    if [[ -z $archive && -f $candidate ]]; then archive=$candidate; fi
  done
  [[ -f $archive ]] || die "no archive: name what pack.sh wrote with --archive"
  scratch=$(mktemp -d)
  pack=$scratch/gpu-check
  "$python" -W ignore::DeprecationWarning -m tarfile -e "$archive" "$scratch"
fi

# check.py ends in time by itself; whoever stops this stops it.
"$python" -u "$pack/tools/gpu/check.py" --pack "$pack" "${options[@]}" &
child=$!
trap 'kill -TERM "$child" 2>/dev/null || true' INT TERM
status=0
wait "$child" || status=$?
if kill -0 "$child" 2>/dev/null; then wait "$child" || status=$?; fi
exit "$status"
