#include "app/figures/svg_description.hpp"

#include <fmt/format.h>

#include "app/drawing/page_text.hpp"

namespace keyscope::figures {
namespace {

// Text as XML content; control characters that XML forbids are left out.
std::string escape(const std::string& text) {
  std::string escaped;
  for (const char c : valid_utf8(text)) {
    if (c == '&')
      escaped += "&amp;";
    else if (c == '<')
      escaped += "&lt;";
    else if (c == '>')
      escaped += "&gt;";
    else if (static_cast<unsigned char>(c) >= 0x20 || c == '\n' || c == '\t')
      escaped += c;
  }
  return escaped;
}

std::string describe(const Panel& panel) {
  std::string text;
  const auto add = [&](const std::string& part) {
    if (part.empty()) return;
    if (!text.empty()) text += "; ";
    text += part;
  };
  add(panel.title), add(panel.note), add(panel.x.label), add(panel.y.label), add(panel.z.label);
  if (panel.heatmap) add(panel.heatmap->long_name);
  for (const PointSeries& series : panel.points) add(series.label);
  for (const LineSeries& series : panel.lines) add(series.label);
  return text;
}

}  // namespace

std::string with_description(std::string svg, const Figure& figure) {
  const std::size_t root = svg.find("<svg");
  const std::size_t end = root == std::string::npos ? root : svg.find('>', root);
  if (end == std::string::npos) return svg;
  std::string words =
      fmt::format("\n<title>{}</title>\n<desc>{}", escape(figure.title), escape(figure.caption));
  for (const Panel& panel : figure.panels) words += fmt::format("\n{}", escape(describe(panel)));
  words += "</desc>";
  svg.insert(end + 1, words);
  return svg;
}

}  // namespace keyscope::figures
