#include "tests/support/python.hpp"

#include <cstdlib>
#include <string>

namespace keyscope::test {

bool use_python_with_numpy() {
  if (std::getenv("KEYSCOPE_PYTHON") != nullptr) return true;
  for (const std::string python : {"python3", "/usr/bin/python3"})
    if (std::system((python + " -c 'import numpy' >/dev/null 2>&1").c_str()) == 0) {
      setenv("KEYSCOPE_PYTHON", python.c_str(), 1);
      return true;
    }
  return false;
}

}  // namespace keyscope::test
