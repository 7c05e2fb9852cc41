#!/usr/bin/env bash
# Runs a part of the Python package's tests by $KEYSCOPE_PYTHON or .deps/python, which `./run python` makes.
set -euo pipefail
source_dir=$1 keyscope=$2 part=$3
python=${KEYSCOPE_PYTHON:-$source_dir/.deps/python/bin/python}
"$python" -c 'import pytest, xarray' 2>/dev/null ||
  { echo "skipped: $python has not what the package is tested with; make it with ./run python"; exit 77; }
cd "$source_dir/tests/python"
case $part in
  reading) files=$(ls test_*.py | grep -v -e '^test_record' -e '^test_press' -e '^test_notebooks') ;;
  recording) files=$(ls test_record*.py test_press*.py) ;;
  notebooks) files=test_notebooks.py ;;
esac
export KEYSCOPE_PROGRAM=$keyscope OMP_NUM_THREADS=1 MPLBACKEND=Agg
# shellcheck disable=SC2086  # a list of names
exec "$python" -m pytest -q -p no:cacheprovider -rs $files
