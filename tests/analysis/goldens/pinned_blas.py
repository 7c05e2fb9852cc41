"""Imported before NumPy: goldens come out with the same bytes wherever they are made.

OpenBLAS takes the kernel that suits the processor and deals work out to its cores, and both decide the order in
which products are summed. Kernels for AVX-512 move the goldens by some 1e-15 of the largest entry, the axes of PCA
by 6e-15, far inside the tests' 1e-12; here it is the AVX2 kernel everywhere, on one core. The versions of
requirements.txt do the rest.
"""

import os
import sys

if "numpy" in sys.modules:
    raise ImportError("pinned_blas: NumPy is loaded already, and OpenBLAS with it; import this module first")
os.environ["OPENBLAS_CORETYPE"] = "Haswell"
os.environ["OPENBLAS_NUM_THREADS"] = "1"
