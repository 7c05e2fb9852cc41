"""The machine that is checked: what it is, whether the packed programs can start on it, and where files go."""

import contextlib
import importlib.metadata
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

GOLDENS = "tests/capture/inference/goldens"


def version_of(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def lines_of(command: list[str]) -> list[str]:
    """What it prints; nothing where it fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        return done.stdout.splitlines() if done.returncode == 0 else []
    except (OSError, subprocess.TimeoutExpired):
        return []


def device_numbers(device: str) -> list[int]:
    """The GPUs that are named by number."""
    return [int(number) for number in device.partition(":")[2].split(",") if number]


def visible_to_peers(device: str) -> str | None:
    """CUDA_VISIBLE_DEVICES with which a peer's only GPU is the first one that is named; none where none is."""
    named, visible = device_numbers(device), os.environ.get("CUDA_VISIBLE_DEVICES")
    if not named:
        return None
    return visible.split(",")[named[0]] if visible else str(named[0])


def machine() -> dict:
    model = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    gpus = lines_of(["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"])
    return {"gpu": "; ".join(gpus) or None, "cpu": model[1] if model else None, "n_cores": len(os.sched_getaffinity(0)),
            "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), "kernel": os.uname().release,
            "glibc": os.confstr("CS_GNU_LIBC_VERSION").split()[-1], "python": sys.version.split()[0],
            "torch": version_of("torch"), "transformers": version_of("transformers"), "numpy": version_of("numpy")}


def numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version.split("+")[0]))


def why_not(pack: dict, here: dict, device: str, torch_lib: pathlib.Path | None) -> str:
    """Empty where the packed programs can start here."""
    if os.uname().machine != "x86_64":
        return f"this machine is {os.uname().machine}; the packed programs are for x86_64"
    if numbers(here["glibc"]) < numbers(pack["glibc"]):
        return (f"glibc here is {here['glibc']}, the packed programs need {pack['glibc']} or newer: take a newer "
                f"system, or pack a build made on one with glibc {here['glibc']} or older")
    if torch_lib is None or not (torch_lib / "libtorch_cpu.so").is_file():
        return f"{sys.executable}: its PyTorch has no lib/libtorch_cpu.so"
    if numbers(here["torch"])[:2] != numbers(pack["torch"])[:2]:
        return (f"{sys.executable} has PyTorch {here['torch']}, the packed programs are built for {pack['torch']}: "
                "name another Python with --python")
    if device != "cpu" and not (torch_lib / "libtorch_cuda.so").is_file():
        return (f"{torch_lib}: no libtorch_cuda.so, so this PyTorch is one for the CPU: name another Python with "
                "--python")
    highest = max(device_numbers(device), default=-1)
    if highest >= 0:
        counted = lines_of([sys.executable, "-c", "import torch; print(torch.cuda.device_count())"])
        if not counted or int(counted[-1]) <= highest:
            return f"--device {device}: PyTorch sees {counted[-1] if counted else 'no'} GPUs here"
    return ""


@contextlib.contextmanager
def source_link(pack: pathlib.Path, path: pathlib.Path):
    """Lets the tests find their goldens, whose absolute path in the checkout of the build is compiled in: a link at
    that path for as long as they run. Yields what is wrong, or an empty text."""
    made: list[pathlib.Path] = []
    problem = ""
    try:
        if not (path / GOLDENS).is_dir():
            missing = [folder for folder in reversed(path.parents) if not folder.exists()]
            for folder in missing:
                folder.mkdir()
                made.append(folder)
            path.symlink_to(pack, target_is_directory=True)
            made.append(path)
    except OSError as error:
        problem = f"the tests look for their goldens in {path}, and no link could be made there: {error}"
    try:
        yield problem
    finally:
        for entry in reversed(made):
            entry.unlink() if entry.is_symlink() else entry.rmdir()


def need_bytes(config: dict, arguments) -> int:
    """Of a model's file and two recordings beside it."""
    d, layers, head_dim = config["hidden_size"], config["num_hidden_layers"], config["head_dim"]
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    tables = config["vocab_size"] * d * (1 if config["tie_word_embeddings"] else 2)
    layer = 2 * d * (heads + kv_heads) * head_dim + 3 * d * config["intermediate_size"]
    recorded = 4 * arguments.capture_tokens[-1] * layers * (heads + kv_heads) * head_dim
    return (tables + layers * layer) * (4 if arguments.dtype == "float32" else 2) + 2 * recorded


def cache_bytes_per_token(config: dict, dtype: str) -> int:
    rows = 2 * config["num_hidden_layers"] * config["num_key_value_heads"]
    return rows * config["head_dim"] * (4 if dtype == "float32" else 2)


def scratch_parent(arguments, need: int) -> pathlib.Path:
    """Memory, if files of that size and as much again for whoever reads them have room in it."""
    if arguments.scratch:
        return arguments.scratch
    shm = pathlib.Path("/dev/shm")
    available = re.search(r"MemAvailable:\s*(\d+) kB", pathlib.Path("/proc/meminfo").read_text())
    if os.access(shm, os.W_OK) and shutil.disk_usage(shm).free > 1.1 * need and available \
            and 1024 * int(available[1]) > 2.5 * need:
        return shm
    return pathlib.Path(tempfile.gettempdir())
