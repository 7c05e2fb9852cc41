#include "app/validation/page_pictures.hpp"

#include <fstream>
#include <iterator>
#include <system_error>

#include <fmt/format.h>

#include "base/errors.hpp"
#include "app/drawing/cairo_painter.hpp"

namespace keyscope::validation {
namespace {

namespace fs = std::filesystem;

PagePicture draw(const figures::Figure& figure, const fs::path& path) {
  figures::PageOptions page;
  page.replace = true;
  figures::draw_to_file(figure, path, page);
  std::ifstream file(path, std::ios::binary);
  PagePicture picture{figure.title, {std::istreambuf_iterator<char>(file), {}}};
  if (!file) throw FileError(fmt::format("{}: cannot be read", path.string()));
  return picture;
}

}  // namespace

std::vector<PagePicture> draw_pictures(std::span<const figures::Figure> figures, const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error)
    throw FileError(fmt::format("{}: the folder cannot be made: {}", folder.string(), error.message()));
  std::vector<PagePicture> pictures;
  for (const figures::Figure& figure : figures)
    pictures.push_back(draw(figure, folder / (figure.name + ".svg")));
  return pictures;
}

}  // namespace keyscope::validation
