#pragma once

namespace keyscope::test {

// Names a Python that has NumPy in KEYSCOPE_PYTHON, where one is not named yet: the first of python3 and the
// system's. False where there is none.
bool use_python_with_numpy();

}  // namespace keyscope::test
