#include "app/validation/html_table.hpp"

#include <fmt/format.h>

#include "app/validation/html_text.hpp"

namespace keyscope::validation {
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

}  // namespace keyscope::validation
