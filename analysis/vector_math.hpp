#pragma once

#include <span>

namespace keyscope::analysis {

// Exponentials and logarithms of many numbers at the processor's vector width, float64: relative error below
// 5e-16, and the same bits on every processor that fuses a product with a sum.

// exp(x - shift) of each number; returns their sum. Below -708 it is zero.
//   numbers: none above `shift`, no NaN; exponentials: as many, may be `numbers` themselves
double exponentials(std::span<const double> numbers, double shift, std::span<double> exponentials);

// -log(1 - w) of each number, without losing digits where w is small.
//   numbers: in [0, 1); results: as many, may be `numbers` themselves
void minus_log_of_rest(std::span<const double> numbers, std::span<double> results);

}  // namespace keyscope::analysis
