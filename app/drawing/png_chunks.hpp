#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace keyscope::figures {

// PNG's signature (8 bytes) and IHDR, which always comes first: length, type, 13 bytes, checksum.
inline constexpr std::size_t kPngSignature = 8, kPngHeader = kPngSignature + 4 + 4 + 13 + 4;

void append_big_endian(std::string& bytes, std::uint32_t value);
std::uint32_t read_big_endian(std::string_view bytes);  // of the first four

// A whole chunk: length, type, data, checksum.
//   type: four letters
std::string png_chunk(std::string_view type, std::string_view data);

// What a png says of its size on paper, so that LaTeX and word processors place it at the width it was drawn
// for (chunk pHYs, PNG 3rd edition, 11.3.4.3). cairo leaves that out.
std::string png_resolution(double dpi);

}  // namespace keyscope::figures
