#!/usr/bin/env bash
# Whether anything was lost between two commits: test cases, the text of --help, figures, exports, recordings and the
# numbers that every command prints; and how the tree was and is.
#   tools/compare_commits.sh OLD NEW [--old-program PATH] [--new-program PATH] [--out DIR] [--parts LIST]
# Exits with 1 where something was lost. All options: tools/compare_commits.sh --help
set -euo pipefail
# Debian's python3, whatever else is on PATH: it is the one that has python3-h5py.
exec /usr/bin/python3 "$(dirname "${BASH_SOURCE[0]}")/compare_commits.py" "$@"
