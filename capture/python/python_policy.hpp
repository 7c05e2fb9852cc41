#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "analysis/policies/policy.hpp"
#include "analysis/policies/slots.hpp"

namespace keyscope::capture {

// The sources of what runs a policy, as python/src/keyscope/ has them; embedded.
extern const char* const policies_py;
extern const char* const policy_worker_py;
extern const char* const policy_boot_py;

// The Python that is asked for: $KEYSCOPE_PYTHON, else python3.
std::string python_program();

// Whether a policy is named as `python:FILE.py:FUNCTION`.
bool is_python_policy(std::string_view text);

// A policy in Python: FUNCTION of FILE.py scores the rows of one KV head, as python/src/keyscope/policies.py
// says. It runs in processes of their own, one for each thread that scores, which stay for as long as the
// policy does; rows that lie in the policy's `row_memory` are handed over where they lie, all others are
// copied there. A score of +inf forces its row.
//   text: `python:FILE.py:FUNCTION`, and after a comma the options that every scorer takes
//   The Python is `python_program`; it must have NumPy.
//   The spec has the policy itself, the name "python", FUNCTION as its label, and as options file, function
//   and the file's sha256. throws UsageError on another text, and where Python, NumPy, file or function are
//   not there; naming the function. `score` throws Error where the function raises, or returns what no score
//   can be; Cancelled after `cancel`
analysis::PolicySpec python_policy(std::string_view text);

// What is decided beside the score of a policy that is named so, without starting anything.
//   throws UsageError as `python_policy` does on another text
analysis::Slots python_slots(std::string_view text);

}  // namespace keyscope::capture
