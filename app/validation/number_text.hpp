#pragma once

#include <cstdint>
#include <string>

#include "analysis/statistics.hpp"

namespace keyscope::validation {

// A number as people read it: three decimals, large ones with fewer, tiny ones as 1.2e−05, with minus signs;
// "–" for NaN.
std::string number_text(double value);

// "[0.121, 0.254]"; "–" where there is no interval.
std::string interval_text(const analysis::BootstrapMean& mean);

// "1.5 GiB", "640 KiB".
std::string bytes_text(std::int64_t bytes);

}  // namespace keyscope::validation
