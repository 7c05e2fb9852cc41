#pragma once

#include <optional>
#include <span>
#include <string>

namespace keyscope::commands {

// One block character per value, its height the value's place between low and high: "▁▄█". Values outside
// take the nearest end; one that does not exist is a middle dot.
std::string sparkline(std::span<const std::optional<double>> values, double low, double high);

}  // namespace keyscope::commands
