# What the program runs as `python3 -c`: reads two modules from stdin and hands over to them. The installed package is
# used where there is one, but for the policies themselves, which are of the program's version.
import importlib.util
import json
import sys
import types

policies_bytes, worker_bytes, name = json.loads(sys.stdin.buffer.readline())
policies_source = sys.stdin.buffer.read(policies_bytes)
worker_source = sys.stdin.buffer.read(worker_bytes)
try:
    policies = types.ModuleType("keyscope.policies")
    sys.modules[policies.__name__] = policies
    exec(compile(policies_source, "keyscope/policies.py", "exec"), vars(policies))
    installed = importlib.util.find_spec("keyscope")
    if installed is None or installed.origin is None:  # nothing, or a folder of that name
        package = types.ModuleType("keyscope")
        package.__path__ = []
        vars(package).update({key: value for key, value in vars(policies).items() if not key.startswith("_")})
        vars(package)["policies"] = policies
        sys.modules[package.__name__] = package
    worker = types.ModuleType("keyscope.policy_worker")
    sys.modules[worker.__name__] = worker
    exec(compile(worker_source, "keyscope/policy_worker.py", "exec"), vars(worker))
except Exception as error:
    advice = "policies need NumPy: install it, or name another Python in KEYSCOPE_PYTHON"
    said = f"{sys.executable} cannot run policies: {type(error).__name__}: {error}; {advice}"
    print(json.dumps({"error": said}), flush=True)
else:
    worker.main(name)
