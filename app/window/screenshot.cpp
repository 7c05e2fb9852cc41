#include "app/window/screenshot.hpp"

#include <cstring>
#include <vector>

#include <cairo.h>
#include <epoxy/gl.h>
#include <fmt/format.h>

#include "base/errors.hpp"
#include "app/figures/output_file.hpp"

namespace keyscope::window {

void save_screenshot(const std::filesystem::path& path, int width, int height, bool replace) {
  std::vector<unsigned char> pixels(static_cast<std::size_t>(width) * static_cast<std::size_t>(height) * 4);
  glPixelStorei(GL_PACK_ALIGNMENT, 4);
  // BGRA in memory is cairo's RGB24 on little-endian machines.
  glReadPixels(0, 0, width, height, GL_BGRA, GL_UNSIGNED_BYTE, pixels.data());
  cairo_surface_t* surface = cairo_image_surface_create(CAIRO_FORMAT_RGB24, width, height);
  cairo_surface_flush(surface);
  unsigned char* data = cairo_image_surface_get_data(surface);
  const int stride = cairo_image_surface_get_stride(surface);
  for (int row = 0; data != nullptr && row < height; ++row)  // OpenGL's rows go upwards
    std::memcpy(data + static_cast<std::ptrdiff_t>(stride) * row,
                pixels.data() + static_cast<std::ptrdiff_t>(width) * 4 * (height - 1 - row),
                static_cast<std::size_t>(width) * 4);
  cairo_surface_mark_dirty(surface);
  figures::OutputFile output(path, replace);
  const cairo_status_t status = cairo_surface_write_to_png(surface, output.part().c_str());
  cairo_surface_destroy(surface);
  if (status != CAIRO_STATUS_SUCCESS)
    throw FileError(
        fmt::format("{}: the picture cannot be written ({})", path.string(), cairo_status_to_string(status)));
  output.commit();
}

}  // namespace keyscope::window
