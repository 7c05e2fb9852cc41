#pragma once

#include <exception>
#include <new>
#include <string>

namespace keyscope::session {

// What a job may throw becomes a result, so that no worker ends the process.
template <typename Work, typename Fail>
void guarded(const Work& work, const Fail& fail) {
  try {
    work();
  } catch (const std::bad_alloc&) {
    fail(std::string("memory ran out"));
  } catch (const std::exception& error) {
    fail(std::string(error.what()));
  }
}

}  // namespace keyscope::session
