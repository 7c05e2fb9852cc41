#pragma once

#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "analysis/policies/policy.hpp"

namespace keyscope::analysis {

// Reading the values of a policy's options: the whole text must be the value, with nothing before or after
// it. `key` is one of `spec.options`. All
//   throw UsageError naming policy, key, the value found and what is accepted

// Which of `accepted` the value is, as an index.
std::size_t read_choice(const PolicySpec& spec, std::string_view key,
                        std::initializer_list<std::string_view> accepted);

// A whole number within [least, most], in decimal digits.
std::uint64_t read_whole_number(const PolicySpec& spec, std::string_view key, std::uint64_t least,
                                std::uint64_t most);

// A decimal fraction within [0, 1].
double read_fraction(const PolicySpec& spec, std::string_view key);

// A number that is finite and more than 0.
double read_positive(const PolicySpec& spec, std::string_view key);

// `fraction` of `whole`, halves rounded up. Exact for fractions of up to nine decimals, although 0.29 · 50 is
// less than 14.5 in binary.
std::int64_t round_half_up(double fraction, std::int64_t whole);

}  // namespace keyscope::analysis
