#include "app/results/html_page.hpp"

#include <system_error>

#include <fmt/format.h>

#include "app/drawing/cairo_painter.hpp"
#include "base/errors.hpp"
#include "base/files.hpp"
#include "base/text.hpp"

namespace keyscope::results {

namespace {

std::string class_of(const std::string& look, bool word) {
  if (look.empty() && !word) return "";
  return fmt::format(" class=\"{}{}{}\"", word ? "text" : "", word && !look.empty() ? " " : "",
                     html_text(look));
}

}  // namespace

std::string html_table(const std::vector<std::string>& head, const std::vector<std::vector<HtmlCell>>& rows,
                       std::size_t left) {
  const auto word = [&](std::size_t i) { return i > 0 && i <= left; };
  std::string html = "<div class=\"wide\"><table><thead><tr>";
  for (std::size_t i = 0; i < head.size(); ++i)
    html += fmt::format("<th scope=\"col\"{}>{}</th>", class_of("", word(i)), html_text(head[i]));
  html += "</tr></thead><tbody>\n";
  for (const auto& row : rows) {
    html += "<tr>";
    for (std::size_t i = 0; i < row.size(); ++i)
      html += fmt::format("<td{}>{}</td>", class_of(row[i].look, word(i)), html_text(row[i].text));
    html += "</tr>\n";
  }
  return html + "</tbody></table></div>\n";
}

std::string data_url(std::string_view media_type, std::string_view bytes) {
  return fmt::format("data:{};base64,{}", media_type, base64_text(bytes));
}

namespace {

namespace fs = std::filesystem;

PagePicture draw(const figures::Figure& figure, const fs::path& path) {
  PagePicture picture{figure.title, figures::draw_bytes(figure, path)};
  write_file(path, picture.svg, true);
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

}  // namespace keyscope::results
