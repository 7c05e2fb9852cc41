#include "capture/recording/store_type.hpp"

namespace keyscope::recording {

std::string_view store_name(StoreType store) {
  switch (store) {
    case StoreType::kFloat16:
      return "float16";
    case StoreType::kBFloat16:
      return "bfloat16";
    case StoreType::kFloat32:
      break;
  }
  return "float32";
}

// 11 and 8 significant bits.
double store_rounding(StoreType store) {
  switch (store) {
    case StoreType::kFloat16:
      return 0x1p-11;
    case StoreType::kBFloat16:
      return 0x1p-8;
    case StoreType::kFloat32:
      break;
  }
  return 0;
}

}  // namespace keyscope::recording
