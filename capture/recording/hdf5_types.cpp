#include "capture/recording/hdf5_types.hpp"

#include "base/errors.hpp"

namespace keyscope::recording::hdf5 {
namespace {

// The bits of an IEEE float: a type of the right size may still lay them out in its own way.
bool has_ieee_bits(hid_t type, std::size_t exponent_bits, std::size_t mantissa_bits) {
  std::size_t sign = 0, exponent = 0, exponent_size = 0, mantissa = 0, mantissa_size = 0;
  if (H5Tget_fields(type, &sign, &exponent, &exponent_size, &mantissa, &mantissa_size) < 0) return false;
  return sign == exponent_bits + mantissa_bits && exponent == mantissa_bits &&
         exponent_size == exponent_bits && mantissa == 0 && mantissa_size == mantissa_bits &&
         H5Tget_norm(type) == H5T_NORM_IMPLIED &&
         H5Tget_ebias(type) == (std::size_t{1} << (exponent_bits - 1)) - 1;
}

ElementType float_type(hid_t type) {
  switch (H5Tget_size(type)) {
    case 2:
      return has_ieee_bits(type, 5, 10) ? ElementType::kFloat16 : ElementType::kOther;
    case 4:
      return has_ieee_bits(type, 8, 23) ? ElementType::kFloat32 : ElementType::kOther;
    case 8:
      return has_ieee_bits(type, 11, 52) ? ElementType::kFloat64 : ElementType::kOther;
    default:
      return ElementType::kOther;
  }
}

ElementType integer_type(hid_t type) {
  const std::size_t size = H5Tget_size(type);
  const bool is_signed = H5Tget_sign(type) == H5T_SGN_2;
  if (H5Tget_precision(type) != 8 * size) return ElementType::kOther;
  if (size == 1 && !is_signed) return ElementType::kUInt8;
  if (size == 4 && is_signed) return ElementType::kInt32;
  if (size == 8 && is_signed) return ElementType::kInt64;
  return ElementType::kOther;
}

}  // namespace

Handle make_float16() {
  Handle type = own(H5Tcopy(H5T_IEEE_F32LE), H5Tclose, "float16", "make the type");
  // Fields first: the size cannot shrink below them.
  check(H5Tset_fields(type.id(), 15, 10, 5, 0, 10), "float16", "make the type");
  check(H5Tset_size(type.id(), 2), "float16", "make the type");
  check(H5Tset_ebias(type.id(), 15), "float16", "make the type");
  return type;
}

Handle file_type(ElementType type) {
  const auto copy = [](hid_t id) { return own(H5Tcopy(id), H5Tclose, "HDF5", "copy a type"); };
  switch (type) {
    case ElementType::kUInt8:
      return copy(H5T_STD_U8LE);
    case ElementType::kInt32:
      return copy(H5T_STD_I32LE);
    case ElementType::kInt64:
      return copy(H5T_STD_I64LE);
    case ElementType::kFloat16:
      return make_float16();
    case ElementType::kFloat32:
      return copy(H5T_IEEE_F32LE);
    case ElementType::kFloat64:
      return copy(H5T_IEEE_F64LE);
    case ElementType::kOther:
      break;
  }
  throw InvalidInput("HDF5: no such element type to create");
}

ElementType element_type(hid_t type) {
  switch (H5Tget_class(type)) {
    case H5T_INTEGER:
      return integer_type(type);
    case H5T_FLOAT:
      return float_type(type);
    default:
      return ElementType::kOther;
  }
}

}  // namespace keyscope::recording::hdf5
