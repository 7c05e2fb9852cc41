#include "app/figures/png_resolution.hpp"

#include <cmath>
#include <cstdint>
#include <string_view>

namespace keyscope::figures {
namespace {

// Signature (8 bytes) and IHDR, which always comes first: length, type, 13 bytes, checksum.
constexpr std::size_t kAfterHeader = 8 + 4 + 4 + 13 + 4;
constexpr double kMetresPerInch = 0.0254;

void append_big_endian(std::string& bytes, std::uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift & 0xFF);
}

// CRC-32 of the PNG specification, annex D: polynomial 0xEDB88320, bit by bit.
std::uint32_t checksum(std::string_view bytes) {
  std::uint32_t crc = 0xFFFFFFFFU;
  for (const char byte : bytes) {
    crc ^= static_cast<unsigned char>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc & 1U) != 0 ? crc >> 1 ^ 0xEDB88320U : crc >> 1;
  }
  return crc ^ 0xFFFFFFFFU;
}

}  // namespace

std::string with_resolution(std::string png, double dpi) {
  if (png.size() < kAfterHeader || png.compare(12, 4, "IHDR") != 0) return png;
  const auto per_metre = static_cast<std::uint32_t>(std::lround(dpi / kMetresPerInch));
  std::string body = "pHYs";
  append_big_endian(body, per_metre);
  append_big_endian(body, per_metre);
  body += '\x01';  // the unit: metres
  std::string chunk;
  append_big_endian(chunk, static_cast<std::uint32_t>(body.size() - 4));
  chunk += body;
  append_big_endian(chunk, checksum(body));
  return png.insert(kAfterHeader, chunk);
}

}  // namespace keyscope::figures
