#include "app/commands/provenance_now.hpp"

#include <ctime>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "app/commands/capture.hpp"

namespace keyscope::commands {

recording::Provenance provenance_now() {
  recording::Provenance made;
  made.command = command_line();
  made.versions = "keyscope " KEYSCOPE_VERSION;
  made.started = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
  return made;
}

}  // namespace keyscope::commands
