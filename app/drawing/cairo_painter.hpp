#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "app/figures/figure.hpp"

namespace keyscope::figures {

inline constexpr double kSingleColumnInches = 3.4;
inline constexpr double kDoubleColumnInches = 7.0;
inline constexpr double kLeastInches = 2.5, kMostInches = 30;  // narrower, labels would not fit their plots

// A scatter with more points than this becomes an image inside an svg or pdf: text and axes stay vectors, the
// file stays small.
inline constexpr std::size_t kMaxVectorPoints = 8'000;

enum class FileFormat { kPng, kSvg, kPdf };

struct PageOptions {
  double width_inches = kDoubleColumnInches;
  double dpi = 300;  // of png files, and of images inside svg and pdf
  bool dark = false;
  bool replace = false;  // whether an existing file may be replaced
  bool operator==(const PageOptions&) const = default;
};

// The format that a path's extension asks for.
//   throws UsageError on any other extension, naming those there are
FileFormat format_of(const std::filesystem::path& path);

// Draws a figure into a png, svg or pdf file. The file appears under its name when it is complete, not
// before.
//   throws UsageError on an unknown extension or a width outside 2.5 to 30 inches; FileError where the file
//   exists and may not be replaced, or cannot be written
void draw_to_file(const Figure& figure, const std::filesystem::path& path, const PageOptions& options = {});

// The bytes of that file.
//   throws UsageError as draw_to_file does
std::string draw_bytes(const Figure& figure, const std::filesystem::path& path,
                       const PageOptions& options = {});

// Pixels, rows from the top, four bytes each: blue, green, red, one that means nothing.
struct Image {
  int width = 0, height = 0;
  std::vector<std::uint8_t> bgrx;
};

// Draws a figure for the screen, into a place of at most `width` pixels; it is narrower where it would be
// higher than `height`, and higher only where it would have to be narrower than a single column.
//   dpi: pixels per inch of its text
Image draw_to_image(const Figure& figure, int width, int height, double dpi, bool dark);

// The page that draw_to_file would draw, as pixels.
//   throws UsageError as draw_to_file does
Image draw_page(const Figure& figure, const PageOptions& options);

// The same in at most `width` x `height` pixels.
Image draw_page_to_image(const Figure& figure, int width, int height, const PageOptions& page);

}  // namespace keyscope::figures
