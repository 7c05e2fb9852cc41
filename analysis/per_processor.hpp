#pragma once

// Marks a function to be built once for each x86-64 level; the loader takes the widest that the processor
// has. Such functions fix their number of lanes in the source: every processor that fuses a product with a
// sum (x86-64-v3, all since 2015) returns the same bits; older ones round once more.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define KEYSCOPE_PER_PROCESSOR __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define KEYSCOPE_PER_PROCESSOR
#endif
