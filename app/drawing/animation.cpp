#include "app/drawing/animation.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cairo.h>
#include <fmt/format.h>

#include "app/drawing/png_chunks.hpp"
#include "app/figures/scales.hpp"
#include "base/errors.hpp"
#include "base/files.hpp"
#include "base/text.hpp"

namespace keyscope::figures {

void append_big_endian(std::string& bytes, std::uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift & 0xFF);
}

std::uint32_t read_big_endian(std::string_view bytes) {
  std::uint32_t value = 0;
  for (const char byte : bytes.substr(0, 4)) value = value << 8 | static_cast<unsigned char>(byte);
  return value;
}

namespace {

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

std::string png_chunk(std::string_view type, std::string_view data) {
  std::string chunk;
  append_big_endian(chunk, static_cast<std::uint32_t>(data.size()));
  chunk.append(type).append(data);
  append_big_endian(chunk, checksum(std::string_view(chunk).substr(4)));
  return chunk;
}

std::string png_resolution(double dpi) {
  constexpr double kMetresPerInch = 0.0254;
  std::string data;
  for (int axis = 0; axis < 2; ++axis)
    append_big_endian(data, static_cast<std::uint32_t>(std::lround(dpi / kMetresPerInch)));
  return png_chunk("pHYs", data + '\x01');  // the unit: metres
}

namespace {

constexpr std::size_t kBytesPerPixel = 4;
constexpr std::int64_t kMostFrames = 10'000;

// Part of an image, in pixels.
struct PixelBox {
  int left = 0, top = 0, right = 0, bottom = 0;
  int width() const { return right - left; }
  int height() const { return bottom - top; }
};

const std::uint8_t* pixel(const Image& image, int x, int y) {
  return image.bgrx.data() + (static_cast<std::size_t>(y) * image.width + x) * kBytesPerPixel;
}

// In the size of the first frame, on the ground that the picture itself has at its corner.
Image on_canvas(const Image& image, int width, int height) {
  if (image.width == width && image.height == height) return image;
  Image canvas{width, height, {}};
  canvas.bgrx.resize(static_cast<std::size_t>(width) * height * kBytesPerPixel);
  for (std::size_t i = 0; i < canvas.bgrx.size(); ++i) canvas.bgrx[i] = image.bgrx[i % kBytesPerPixel];
  for (int y = 0; y < std::min(height, image.height); ++y)
    std::memcpy(canvas.bgrx.data() + static_cast<std::size_t>(y) * width * kBytesPerPixel, pixel(image, 0, y),
                std::min(width, image.width) * kBytesPerPixel);
  return canvas;
}

// Around all pixels that differ; at least one, as a frame cannot be empty.
PixelBox changed(const Image& before, const Image& now) {
  PixelBox box{now.width, now.height, 0, 0};
  for (int y = 0; y < now.height; ++y) {
    const std::uint8_t *a = pixel(before, 0, y), *b = pixel(now, 0, y);
    if (std::memcmp(a, b, now.width * kBytesPerPixel) == 0) continue;
    int left = 0, right = now.width;
    while (std::memcmp(a + left * kBytesPerPixel, b + left * kBytesPerPixel, kBytesPerPixel) == 0) ++left;
    while (std::memcmp(a + (right - 1) * kBytesPerPixel, b + (right - 1) * kBytesPerPixel, kBytesPerPixel) ==
           0)
      --right;
    box = {std::min(box.left, left), std::min(box.top, y), std::max(box.right, right), y + 1};
  }
  return box.right > box.left ? box : PixelBox{0, 0, 1, 1};
}

cairo_status_t append_png(void* bytes, const unsigned char* data, unsigned int length) {
  static_cast<std::string*>(bytes)->append(reinterpret_cast<const char*>(data), length);
  return CAIRO_STATUS_SUCCESS;
}

// A whole png of a part of an image.
std::string png_of(const Image& image, const PixelBox& box) {
  auto* first = const_cast<std::uint8_t*>(pixel(image, box.left, box.top));  // cairo reads it only
  const std::unique_ptr<cairo_surface_t, decltype(&cairo_surface_destroy)> surface(
      cairo_image_surface_create_for_data(first, CAIRO_FORMAT_RGB24, box.width(), box.height(),
                                          image.width * static_cast<int>(kBytesPerPixel)),
      cairo_surface_destroy);
  std::string bytes;
  if (const auto status = cairo_surface_write_to_png_stream(surface.get(), append_png, &bytes);
      status != CAIRO_STATUS_SUCCESS)
    throw FileError(fmt::format("a frame could not be encoded: {}", cairo_status_to_string(status)));
  return bytes;
}

// The compressed pixels of a png, whose chunks they may be in several of.
std::string pixel_data(std::string_view png) {
  std::string data;
  for (std::size_t at = kPngSignature; at + 12 <= png.size();) {
    const std::size_t n = read_big_endian(png.substr(at));
    if (png.substr(at + 4, 4) == "IDAT") data += png.substr(at + 8, n);
    at += n + 12;
  }
  return data;
}

// The file's chunks, frame by frame.
class Frames {
 public:
  // poster: what is shown where nothing plays
  Frames(const Image& poster, std::int64_t n_frames, double dpi) {
    const std::string png = png_of(poster, {0, 0, poster.width, poster.height});
    bytes_ = png.substr(0, kPngHeader) + png_resolution(dpi);
    std::string control;
    append_big_endian(control, static_cast<std::uint32_t>(n_frames));
    append_big_endian(control, 0);  // over and over
    bytes_ += png_chunk("acTL", control) + png_chunk("IDAT", pixel_data(png));
  }

  void add(Image image, double seconds) {
    const PixelBox box = before_ ? changed(*before_, image) : PixelBox{0, 0, image.width, image.height};
    std::string control;
    append_big_endian(control, n_chunks_++);
    for (const int number : {box.width(), box.height(), box.left, box.top})
      append_big_endian(control, static_cast<std::uint32_t>(number));
    constexpr int kPerSecond = 1000;
    const auto delay = static_cast<std::uint32_t>(std::clamp(std::lround(seconds * kPerSecond), 1L, 65'535L));
    append_big_endian(control, delay << 16 | kPerSecond);
    control += std::string(2, '\0');  // stays where it is, and replaces what was there
    std::string data;
    append_big_endian(data, n_chunks_++);
    data += pixel_data(png_of(image, box));
    bytes_ += png_chunk("fcTL", control) + png_chunk("fdAT", data);
    before_ = std::move(image);
  }

  std::string take() { return std::move(bytes_) + png_chunk("IEND", {}); }

 private:
  std::string bytes_;
  std::uint32_t n_chunks_ = 0;
  std::optional<Image> before_;
};

Extent extent_of(const PanelRanges& ranges) {
  return {ranges.x.low, ranges.x.high, ranges.y.low, ranges.y.high};
}

// Axes and colours as the last frame has them.
void keep_scales(const Figure& last, Figure& frame) {
  const PanelRanges shared = shared_data_ranges(last.panels);
  for (std::size_t i = 0; i < std::min(last.panels.size(), frame.panels.size()); ++i) {
    Panel& panel = frame.panels[i];
    const Panel& kept = last.panels[i];
    if (kept.scale && panel.scale) panel.scale = kept.scale;
    if (kept.heatmap && panel.heatmap) {
      panel.heatmap->low = kept.heatmap->low;
      panel.heatmap->high = kept.heatmap->high;
    }
    if (panel.part || panel.is_3d() || panel.heatmap || frame.multiples) continue;
    panel.part = kept.part ? *kept.part : extent_of(last.shared_ranges ? shared : data_ranges(kept));
  }
}

}  // namespace

bool is_animation_path(const std::filesystem::path& path) {
  return lower_case(path.extension().string()) == ".apng";
}

void draw_animation(const Animation& animation, const std::filesystem::path& path, const PageOptions& options,
                    const std::function<void(std::int64_t, std::int64_t)>& progress) {
  if (animation.n_frames < 1 || animation.n_frames > kMostFrames)
    throw UsageError(fmt::format("{}: {} frames are asked for; expected 1 to {}", path.string(),
                                 animation.n_frames, kMostFrames));
  output_path(path, options.replace);
  const Figure last = animation.frame(animation.n_frames - 1);
  const Image poster = draw_page(last, options);
  Frames frames(poster, animation.n_frames, options.dpi);
  for (std::int64_t i = 0; i < animation.n_frames; ++i) {
    if (progress) progress(i, animation.n_frames);
    const bool is_last = i + 1 == animation.n_frames;
    Figure figure = is_last ? last : animation.frame(i);
    keep_scales(last, figure);
    frames.add(on_canvas(draw_page(figure, options), poster.width, poster.height),
               animation.seconds * (is_last ? 5 : 1));
  }
  write_file(path, frames.take(), options.replace);
}

}  // namespace keyscope::figures
