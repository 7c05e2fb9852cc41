#!/usr/bin/env bash
# Runs demo_model_test.py by $KEYSCOPE_TOOLS_PYTHON or the checkout's .venv, a Python with what
# tools/demo_model/requirements.txt names.
set -euo pipefail
source_dir=$1 keyscope=$2
for python in "${KEYSCOPE_TOOLS_PYTHON:-}" "$source_dir/.venv/bin/python" python3; do
  if "$python" -c 'import torch, transformers, tokenizers, safetensors, numpy' 2>/dev/null; then
    exec "$python" "$source_dir/tests/tools/demo_model_test.py" --keyscope "$keyscope"
  fi
done
echo "skipped: no Python with PyTorch and Transformers; name one in KEYSCOPE_TOOLS_PYTHON"
exit 77
