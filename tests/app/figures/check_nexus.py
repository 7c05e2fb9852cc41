"""Checks by hand that a figure file opens as plots: every NXdata group is valid for silx, and a default is found.

    python3 check_nexus.py FIGURES.h5        (needs h5py and silx; tried with h5py 3.16, silx 3.1.3)
"""
import sys

import h5py
from silx.io import nxdata


def main(path):
    n_bad = n_good = 0
    with h5py.File(path, "r") as file:
        default = nxdata.get_default(file)
        print("default:", default and default.group.name)
        n_bad += default is None

        def visit(name, node):
            nonlocal n_good, n_bad
            if not isinstance(node, h5py.Group) or node.attrs.get("NX_class") != "NXdata":
                return
            data = nxdata.NXdata(node)
            kind = next((k for k in ("is_scatter", "is_image", "is_curve") if getattr(data, k)), "?")
            scales = [[scale.name for scale in dim.values()] for dim in data.signal.dims]
            print(f"{name}: valid={data.is_valid} {kind} shape={data.signal.shape} title={data.title!r} scales={scales}")
            for issue in data.issues:
                print("   ", issue)
            bare = [name for name, child in node.items() if isinstance(child, h5py.Dataset)
                    and child.dtype.kind in "biuf" and not {"long_name", "units"} <= set(child.attrs)]
            if bare:
                print("    without long_name or units:", ", ".join(bare))
            good = data.is_valid and kind != "?" and not bare
            n_good += good
            n_bad += not good

        file.visititems(visit)
    print(f"{n_good} valid, {n_bad} not")
    return 1 if n_bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
