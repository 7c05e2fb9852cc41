#pragma once

#include <cstddef>
#include <cstdint>

// Marks a function to be built once for each x86-64 level; the loader takes the widest that the processor
// has. Such functions fix their number of lanes in the source: every processor that fuses a product with a
// sum (x86-64-v3, all since 2015) returns the same bits; older ones round once more. A vector wider than the
// registers of a level is kept in memory and slow by an order of magnitude: vectors have at most 32 bytes, or
// their size comes from KEYSCOPE_BY_WIDTH.
//
// KEYSCOPE_BY_WIDTH(name, (parameters), (arguments)) defines `void name(parameters)`, for each level the
// template `name_by<bytes of its widest vector>(arguments)`, which must be inlined.

namespace keyscope::analysis {

// Four lanes, fixed in the source, so that every vector width gives the same bits.
inline constexpr std::ptrdiff_t kFour = 4;
using FourDoubles = double __attribute__((vector_size(kFour * sizeof(double))));
using FourIntegers = std::int64_t __attribute__((vector_size(kFour * sizeof(std::int64_t))));

// A member of a class, because elsewhere in a template the attribute is ignored.
template <int kBytes>
struct VectorOf {
  using Doubles [[gnu::vector_size(kBytes)]] = double;
  using Integers [[gnu::vector_size(kBytes)]] = std::int64_t;
};

}  // namespace keyscope::analysis

// The arguments are a name and lists in parentheses of their own. NOLINTBEGIN(bugprone-macro-parentheses)
// Under the thread sanitizer there is one of each: what chooses among them runs before it is there.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_THREAD__)
#define KEYSCOPE_PER_PROCESSOR __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#define KEYSCOPE_BY_WIDTH(name, parameters, arguments)                                        \
  __attribute__((target("arch=x86-64-v4"))) void name parameters { name##_by<64> arguments; } \
  __attribute__((target("arch=x86-64-v3"))) void name parameters { name##_by<32> arguments; } \
  __attribute__((target("default"))) void name parameters { name##_by<16> arguments; }
#else
#define KEYSCOPE_PER_PROCESSOR
#define KEYSCOPE_BY_WIDTH(name, parameters, arguments) \
  void name parameters { name##_by<16> arguments; }
#endif
// NOLINTEND(bugprone-macro-parentheses)
