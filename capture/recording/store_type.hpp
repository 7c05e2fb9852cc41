#pragma once

#include <string_view>

namespace keyscope::recording {

// How keys, queries and values lie in the file. HDF5 has no bfloat16 that other tools read: such rows are
// float32 whose lower 16 bits are zero, which compress to about half.
enum class StoreType { kFloat32, kFloat16, kBFloat16 };

// "float32", "float16", "bfloat16": what `--store` takes.
std::string_view store_name(StoreType store);

// The largest error of a stored number relative to what was computed: half a unit in the last place, 0 for
// float32.
double store_rounding(StoreType store);

}  // namespace keyscope::recording
