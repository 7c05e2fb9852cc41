#pragma once

#include <stdexcept>
#include <string>

namespace keyscope {

// The exception family of the project. A message names its subject, what was found and what was expected.
// Expected numerical outcomes (rank-deficient, constant input) are values in results, never exceptions.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// An argument that violates a function's documented contract: an empty or non-finite matrix, mismatched
// sizes.
class InvalidInput : public Error {
 public:
  using Error::Error;
};

// A request that cannot be understood: an unknown policy, option or value. The command line exits with 2.
class UsageError : public Error {
 public:
  using Error::Error;
};

// A file that is missing, damaged, contradicts itself, or cannot be written. Names file and field.
class FileError : public Error {
 public:
  using Error::Error;
};

// The work was cancelled by its user. The command line exits with 130.
class Cancelled : public Error {
 public:
  using Error::Error;
};

}  // namespace keyscope
