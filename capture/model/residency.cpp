#include "capture/model/memory.hpp"

#include <string>

#include <fmt/format.h>

#include "base/errors.hpp"

namespace keyscope::capture {
namespace {

std::string gib(std::int64_t bytes) {
  return fmt::format("{:.1f} GiB", static_cast<double>(bytes) / (1 << 30));
}

}  // namespace

Residency choose_residency(const WeightBytes& needed, bool may_stream, std::int64_t available) {
  // Room for what works on the weights, where there is another way.
  const std::int64_t spare = may_stream ? available / 5 : 0;
  if (needed.all <= available - spare) return Residency::kWhole;
  if (may_stream && needed.streamed() <= available) return Residency::kStreamed;
  const std::string advice =
      !may_stream && needed.streamed() <= available
          ? fmt::format("the layer schedule (capture --schedule layer) would need {}", gib(needed.streamed()))
          : std::string("choose a smaller model or a narrower --dtype");
  throw Error(fmt::format("the weights need {} of memory under the {} schedule, and {} are available; {}",
                          gib(may_stream ? needed.streamed() : needed.all), may_stream ? "layer" : "block",
                          gib(available), advice));
}

}  // namespace keyscope::capture
