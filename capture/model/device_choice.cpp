#include "capture/model/device_choice.hpp"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "base/errors.hpp"
#include "base/json.hpp"

namespace keyscope::capture {

DeviceChoice parse_device(std::string_view text) {
  using Kind = DeviceChoice::Kind;
  if (text == "auto") return {};
  if (text == "cpu") return {Kind::kCpu, {}};
  DeviceChoice choice{Kind::kCuda, {}};
  if (text == "cuda") return choice;
  const auto refuse = [&] {
    throw UsageError(fmt::format(
        "--device: {} is not one of auto, cpu, cuda, or cuda with the numbers of one or more GPUs, such as "
        "cuda:1 or cuda:0,1",
        shown(text)));
  };
  constexpr std::string_view kNumbered = "cuda:";
  if (!text.starts_with(kNumbered)) refuse();
  const char* next = text.data() + kNumbered.size();
  const char* const end = text.data() + text.size();
  for (;; ++next) {
    constexpr int kMost = 127;  // as LibTorch counts them
    int index = -1;
    const auto [stop, error] = std::from_chars(next, end, index);
    const bool known = std::ranges::find(choice.indices, index) != choice.indices.end();
    if (error != std::errc() || index < 0 || index > kMost || known) refuse();
    choice.indices.push_back(index);
    if (stop == end) return choice;
    next = stop;
    if (*next != ',') refuse();
  }
}

}  // namespace keyscope::capture
