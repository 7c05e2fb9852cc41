#!/usr/bin/env bash
# Packs what checks Keyscope on a GPU machine that has nothing of it installed: programs, the libraries that they need
# besides LibTorch and glibc, what the engine's tests read, and the scripts that run there.
#   tools/gpu/pack.sh [--build-dir DIR] [--wheel FILE]… [--out FILE]
set -euo pipefail
readonly kTop="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
readonly kMostBytes=$((40 << 20))
readonly kTests=tests/capture/inference
# What glibc brings, and what comes with the LibTorch of the machine.
readonly kNotCarried='^(ld-linux|linux-vdso|lib(c|m|dl|rt|pthread|util|resolv|nsl|anl|mvec)\.so)'
readonly kLibTorch='^lib(torch|c10|shm|gomp|caffe2|cu(dart|pti|blas|fft|rand|sparse|dnn|solver))'

usage() {
  cat <<'TEXT'
usage: tools/gpu/pack.sh [OPTION…]

  --build-dir DIR  a finished build with keyscope and inference_test, taken as it is; without it both are built by
                   ./run build release
  --wheel FILE     a Python wheel to carry, for kvpress and what it needs and the machine lacks (repeatable)
  --out FILE       the archive to write: .tar.xz or .tar.gz (default build/gpu-check.tar.xz)
TEXT
}

die() { printf 'pack.sh: %s\n' "$*" >&2; exit 1; }

build_dir='' out=$kTop/build/gpu-check.tar.xz wheels=()
while (($#)); do
  case $1 in
    --build-dir | --wheel | --out) (($# > 1)) || die "$1 needs a value" ;;&
    --build-dir) build_dir=$2; shift 2 ;;
    --wheel) wheels+=("$2"); shift 2 ;;
    --out) out=$2; shift 2 ;;
    -h | --help) usage; exit ;;
    *) usage >&2; exit 2 ;;
  esac
done
case $out in
  *.tar.xz) compress=(xz -6 -T0) ;;
  *.tar.gz) compress=(gzip -9) ;;
  *) die "--out $out: expected a name that ends in .tar.xz or .tar.gz" ;;
esac
for wheel in "${wheels[@]}"; do [[ $wheel == *.whl && -f $wheel ]] || die "--wheel $wheel: no such wheel"; done

if [[ -z $build_dir ]]; then
  "$kTop/run" build release keyscope
  "$kTop/run" build release inference_test
  build_dir=$kTop/build/release
fi
[[ -f $build_dir/CMakeCache.txt ]] || die "$build_dir: no CMakeCache.txt, so this is no build folder"
cached() { sed -n "s/^$1:[A-Z]*=//p" "$build_dir/CMakeCache.txt"; }
source_dir=$(cached CMAKE_HOME_DIRECTORY)
torch_dir=$(cached LIBTORCH_ROOT)
readonly build_dir source_dir torch_dir

stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
pack=$stage/gpu-check
mkdir -p "$pack"/{bin,lib,site,bench,tools}

# --- programs and their libraries
# keyscope opens its engine, which lies beside it.
programs=("$build_dir"/{keyscope,libkeyscope_engine.so,inference_test})
for program in "${programs[@]}"; do
  [[ -x $program ]] || die "$program: not built"
  missing=$(ldd "$program" | grep 'not found' || true)
  [[ -z $missing ]] || die "$program: $missing"
  strip -o "$pack/bin/${program##*/}" "$program"
done
ldd "${programs[@]}" | awk '$2 == "=>" && $3 ~ /^\// { print $1, $3 }' | sort -u | while read -r name path; do
  [[ ! $name =~ $kNotCarried && ! $name =~ $kLibTorch ]] || continue
  cp -L "$path" "$pack/lib/$name"
  strip --strip-unneeded "$pack/lib/$name"
done

# The programs look beside themselves, and no longer where they were linked: the path is overwritten in its place.
python3 - "$pack"/bin/* <<'PY'
import pathlib
import re
import subprocess
import sys

for program in map(pathlib.Path, sys.argv[1:]):
    dynamic = subprocess.run(["readelf", "--wide", "--dynamic", program], check=True, capture_output=True, text=True)
    found = re.search(r"\((?:RPATH|RUNPATH)\).*\[(.*)\]", dynamic.stdout)
    if found:
        old, new = found[1].encode() + b"\0", b"$ORIGIN/../lib\0"
        text = program.read_bytes()
        if text.count(old) != 1 or len(old) < len(new):
            sys.exit(f"pack.sh: {program.name}: its path to libraries cannot be overwritten: {found[1]}")
        program.write_bytes(text.replace(old, new.ljust(len(old), b"\0")))
PY

# --- what the tests read, below a folder that stands for the checkout; scripts
mkdir -p "$pack/$kTests" "$pack/assets/demo_model"
cp -r "$source_dir/$kTests/goldens" "$pack/$kTests/"
cp -r "$source_dir"/assets/demo_model/{config.json,generation_config.json,model.safetensors,prompts} \
  "$source_dir"/assets/demo_model/{special_tokens_map,tokenizer,tokenizer_config}.json "$pack/assets/demo_model/"
cp "$kTop"/bench/{make_random_model,transformers_peer,prefill_peer,capture_peer}.py "$pack/bench/"
cp -r "$kTop/tools/gpu" "$pack/tools/"
find "$pack" -name __pycache__ -prune -exec rm -rf {} +
for wheel in "${wheels[@]}"; do python3 -m zipfile -e "$wheel" "$pack/site"; done

# --- what it is, and what it needs there
glibc=$(objdump -T "$pack"/bin/* "$pack"/lib/* 2>/dev/null | grep -o 'GLIBC_[0-9.]*' | sed 's/GLIBC_//' | sort -Vu | tail -1)
torch=$(sed -n "s/^__version__ = '\([0-9.]*\).*/\1/p" "$torch_dir/version.py")
[[ -n $torch ]] || die "$torch_dir/version.py: no version of LibTorch found"
commit=$(git -C "$source_dir" describe --always --dirty --abbrev=12 --exclude='*' 2>/dev/null || echo unknown)
version=$("$build_dir/keyscope" --version)
python3 - "$pack" "$version" "$commit" "$torch" "$glibc" "$source_dir" "${wheels[@]##*/}" <<'PY'
import json
import pathlib
import sys

pack = pathlib.Path(sys.argv[1])
facts = dict(zip(("version", "commit", "torch", "glibc", "source_dir"), sys.argv[2:7]), wheels=sys.argv[7:])
for folder in ("bin", "lib"):
    facts[folder] = sorted(path.name for path in (pack / folder).iterdir())
(pack / "pack.json").write_text(json.dumps(facts, indent=1) + "\n")
PY

mkdir -p "$(dirname "$out")"
tar -C "$stage" --owner=0 --group=0 --numeric-owner --sort=name -c gpu-check | "${compress[@]}" >"$out.part"
size=$(stat -c %s "$out.part")
if ((size > kMostBytes)); then
  rm -f "$out.part"
  die "the archive has $((size >> 20)) MiB; at most $((kMostBytes >> 20)) are allowed"
fi
mv "$out.part" "$out"
printf '%s: %d.%d MiB; %s (%s); needs PyTorch %s and glibc %s there\n' "$out" $((size >> 20)) \
  $(((size >> 10) % 1024 * 10 / 1024)) "$version" "$commit" "$torch" "$glibc"
