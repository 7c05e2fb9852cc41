#include "app/drawing/cairo_painter.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include <cairo-pdf.h>
#include <cairo-svg.h>
#include <cairo.h>
#include <fmt/format.h>

#include "app/drawing/page_layout.hpp"
#include "app/drawing/page_text.hpp"
#include "app/drawing/png_chunks.hpp"
#include "app/figures/density.hpp"
#include "app/figures/figure.hpp"
#include "app/figures/scales.hpp"
#include "base/errors.hpp"
#include "base/files.hpp"
#include "base/text.hpp"

namespace keyscope::figures {

namespace {

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

// An svg with the figure's words in it: cairo writes text as outlines, which look the same everywhere but
// which neither a search nor a screen reader finds. Title, caption, labels and legend go into <title> and
// <desc>.
std::string with_description(std::string svg, const Figure& figure) {
  const std::size_t root = svg.find("<svg");
  const std::size_t end = root == std::string::npos ? root : svg.find('>', root);
  if (end == std::string::npos) return svg;
  std::string words = fmt::format("\n<title>{}</title>\n<desc>{}", xml_text(valid_utf8(figure.title)),
                                  xml_text(valid_utf8(figure.caption)));
  for (const Panel& panel : figure.panels)
    words += fmt::format("\n{}", xml_text(valid_utf8(describe(panel))));
  words += "</desc>";
  svg.insert(end + 1, words);
  return svg;
}

constexpr double kPointsPerInch = 72;
constexpr double kFullSizePlot = 200;   // points; markers shrink in narrower plots
constexpr double kBandTint = 0.14;      // several bands over each other are still to be told apart
constexpr double kMostPixels = 30'000;  // cairo's image surfaces end at 32,767

void require_success(cairo_status_t status, const std::filesystem::path& path) {
  if (status == CAIRO_STATUS_SUCCESS) return;
  throw FileError(fmt::format("{}: could not be drawn: {}", path.string(), cairo_status_to_string(status)));
}

cairo_status_t append_bytes(void* bytes, const unsigned char* data, unsigned int length) {
  static_cast<std::string*>(bytes)->append(reinterpret_cast<const char*>(data), length);
  return CAIRO_STATUS_SUCCESS;
}

PageLayout lay_out(const Figure& figure, double width_points) {
  const CairoSurface surface(cairo_image_surface_create(CAIRO_FORMAT_A8, 1, 1));
  const CairoContext cairo(cairo_create(surface.get()));
  return lay_out_page(cairo.get(), figure, width_points);
}

void draw_bands(const Page& page, const Panel& panel, const PanelLayout& place) {
  const PlotScale scale{place.ranges.x, place.ranges.y, place.plot};
  cairo_save(page.cairo);
  cairo_rectangle(page.cairo, place.plot.x, place.plot.y, place.plot.width, place.plot.height);
  cairo_clip(page.cairo);
  for (const BandSeries& band : panel.bands) {
    for (std::size_t i = 0; i < band.x.size(); ++i)
      cairo_line_to(page.cairo, scale.page_x(band.x[i]), scale.page_y(band.low.at(i)));
    for (std::size_t i = band.x.size(); i-- > 0;)
      cairo_line_to(page.cairo, scale.page_x(band.x[i]), scale.page_y(band.high.at(i)));
    cairo_close_path(page.cairo);
    page.set_colour(page.theme.of_series(band.colour), kBandTint);
    cairo_fill(page.cairo);
  }
  cairo_restore(page.cairo);
}

void draw_lines(const Page& page, const Panel& panel, const PanelLayout& place) {
  const PlotScale scale{place.ranges.x, place.ranges.y, place.plot};
  const std::array dash{3.0, 2.0};
  cairo_save(page.cairo);
  cairo_rectangle(page.cairo, place.plot.x, place.plot.y, place.plot.width, place.plot.height);
  cairo_clip(page.cairo);
  for (const LineSeries& series : panel.lines) {
    cairo_set_line_width(page.cairo, 1);
    page.set_colour(page.theme.of_series(series.colour));
    cairo_set_dash(page.cairo, dash.data(), series.dashed ? 2 : 0, 0);
    for (std::size_t i = 0; i < std::min(series.x.size(), series.y.size()); ++i) {
      const bool there = std::isfinite(series.x[i]) && std::isfinite(series.y[i]);
      if (there)
        cairo_line_to(page.cairo, scale.page_x(series.x[i]) + series.dodge_pt, scale.page_y(series.y[i]));
      else
        cairo_new_sub_path(page.cairo);
    }
    cairo_stroke(page.cairo);
    if (!series.marker) continue;
    cairo_set_dash(page.cairo, nullptr, 0, 0);
    const PointSeries look = marker_look(series.colour, *series.marker);
    for (std::size_t i = 0; i < std::min(series.x.size(), series.y.size()); ++i)
      if (std::isfinite(series.x[i]) && std::isfinite(series.y[i]))
        draw_marker(page, look, scale.page_x(series.x[i]) + series.dodge_pt, scale.page_y(series.y[i]));
  }
  cairo_restore(page.cairo);
}

std::vector<PlacedPoint> place_in_plane(const Panel& panel, const PanelLayout& place) {
  const PlotScale scale{place.ranges.x, place.ranges.y, place.plot};
  std::vector<PlacedPoint> points;
  for (std::size_t s = 0; s < panel.points.size(); ++s) {
    const PointSeries& series = panel.points[s];
    for (std::size_t i = 0; i < std::min(series.x.size(), series.y.size()); ++i)
      if (std::isfinite(series.x[i]) && std::isfinite(series.y[i]))
        points.push_back({scale.page_x(series.x[i]) + series.dodge_pt, scale.page_y(series.y[i]), s, i, 0});
  }
  return points;
}

bool is_empty(const Panel& panel) {
  const auto none = [](const auto& series) { return series.x.empty(); };
  return std::ranges::all_of(panel.points, none) && std::ranges::all_of(panel.lines, none) &&
         std::ranges::all_of(panel.bands, none) && (!panel.heatmap || panel.heatmap->values.size() == 0);
}

void draw_heading(const Page& page, const Panel& panel, const PanelLayout& place) {
  page.set_colour(page.theme.ink);
  draw_text(page.cairo, panel.title, {kPanelTitleSize, true, place.cell.width}, place.cell.x, place.title_y);
  page.set_colour(page.theme.muted);
  draw_text(page.cairo, panel.note, {kNoteSize, false, place.cell.width}, place.cell.x, place.note_y);
}

// most_points: that may stay vectors
void draw_panel(const Page& page, const Panel& panel, const PanelLayout& place, std::size_t most_points) {
  if (!place.bare) draw_heading(page, panel, place);
  Page data = page;
  data.marker_scale = std::clamp(place.plot.width / kFullSizePlot, place.bare ? 0.3 : 0.6, 1.0);
  if (panel.is_3d()) {
    draw_space_frame(page, panel, place);
    draw_points(data, panel, place_in_space(panel, place), place.plot, most_points);
  } else {
    draw_grid(page, panel, place);
    if (panel.heatmap) {
      const Box cells = cells_box(*panel.heatmap, place.ranges, place.plot);
      cairo_save(page.cairo);
      cairo_rectangle(page.cairo, place.plot.x, place.plot.y, place.plot.width, place.plot.height);
      cairo_clip(page.cairo);
      draw_heatmap(page, *panel.heatmap, cells);
      draw_cell_numbers(page, *panel.heatmap, cells);
      cairo_restore(page.cairo);
      if (!panel.part) draw_order(page, panel, place);  // which is of all rows
    }
    draw_bands(page, panel, place);
    draw_lines(page, panel, place);
    if (panel.density) {
      draw_density(data, panel, place);
      const Panel others = without_keys(panel);
      draw_points(data, others, place_in_plane(others, place), place.plot, most_points);
    } else {
      draw_points(data, panel, place_in_plane(panel, place), place.plot, most_points);
    }
    draw_axes(page, panel, place);
  }
  if (place.colour_bar.width > 0) draw_colour_bar(page, *colour_scale_of(panel), place.colour_bar);
  draw_legend(page, place.legend);
  if (!is_empty(panel)) return;
  page.set_colour(page.theme.muted);
  draw_text(page.cairo, "nothing to show", {place.bare ? kBriefNoteSize : kLabelSize},
            place.plot.x + place.plot.width / 2, place.plot.y + place.plot.height / 2, {0.5, 0.5});
}

void draw_page(const Page& page, const Figure& figure, const PageLayout& layout) {
  page.set_colour(page.theme.background);
  cairo_paint(page.cairo);
  page.set_colour(page.theme.ink);
  draw_text(page.cairo, figure.title, {kTitleSize, true, layout.text_width}, kPageMargin, layout.title_y);
  const std::size_t most_points =
      figure.multiples ? kMaxVectorPoints / std::max<std::size_t>(1, figure.panels.size()) : kMaxVectorPoints;
  for (std::size_t i = 0; i < figure.panels.size(); ++i)
    draw_panel(page, figure.panels[i], layout.panels[i], most_points);
  for (const PlacedText& text : layout.texts) {
    page.set_colour(text.muted ? page.theme.muted : page.theme.ink);
    draw_text(page.cairo, text.text, text.style, text.x, text.y, text.anchor, text.angle);
  }
  draw_legend(page, layout.legend);
  page.set_colour(page.theme.muted);
  draw_text(page.cairo, figure.caption, {kNoteSize, false, layout.text_width}, kPageMargin, layout.caption_y);
}

Page make_page(cairo_t* cairo, const PageOptions& options, bool raster) {
  return {cairo, options.dark ? kDarkTheme : kLightTheme, options.dpi / kPointsPerInch, raster};
}

// The page as pixels.
//   where: what the figure is drawn for, for messages
CairoSurface draw_raster(const Figure& figure, const PageLayout& layout, const PageOptions& options,
                         const std::string& where) {
  const double scale = options.dpi / kPointsPerInch;
  const double width = std::round(layout.width * scale), height = std::ceil(layout.height * scale);
  if (width > kMostPixels || height > kMostPixels)
    throw UsageError(
        fmt::format("{}: {:.0f} x {:.0f} pixels are asked for; at most {:.0f} each way: choose a smaller "
                    "--dpi or --width",
                    where, width, height, kMostPixels));
  CairoSurface surface(
      cairo_image_surface_create(CAIRO_FORMAT_RGB24, static_cast<int>(width), static_cast<int>(height)));
  const CairoContext cairo(cairo_create(surface.get()));
  cairo_scale(cairo.get(), scale, scale);
  draw_page(make_page(cairo.get(), options, true), figure, layout);
  require_success(cairo_status(cairo.get()), where);
  return surface;
}

std::string draw_png(const Figure& figure, const PageLayout& layout, const PageOptions& options,
                     const std::filesystem::path& path) {
  const CairoSurface surface = draw_raster(figure, layout, options, path.string());
  std::string bytes;
  require_success(cairo_surface_write_to_png_stream(surface.get(), append_bytes, &bytes), path);
  return bytes.insert(kPngHeader, png_resolution(options.dpi));
}

void describe_pdf(cairo_surface_t* surface, const Figure& figure) {
  cairo_pdf_surface_set_metadata(surface, CAIRO_PDF_METADATA_TITLE, valid_utf8(figure.title).c_str());
  cairo_pdf_surface_set_metadata(surface, CAIRO_PDF_METADATA_SUBJECT, valid_utf8(figure.caption).c_str());
  cairo_pdf_surface_set_metadata(surface, CAIRO_PDF_METADATA_CREATOR, "Keyscope");
  // The same figure is the same file, whenever it is drawn: cairo would put in the time.
  cairo_pdf_surface_set_metadata(surface, CAIRO_PDF_METADATA_CREATE_DATE, "");
}

std::string draw_vectors(const Figure& figure, const PageLayout& layout, const PageOptions& options,
                         FileFormat format, const std::filesystem::path& path) {
  std::string bytes;
  {
    const auto create = format == FileFormat::kSvg ? cairo_svg_surface_create_for_stream
                                                   : cairo_pdf_surface_create_for_stream;
    const CairoSurface surface(create(append_bytes, &bytes, layout.width, layout.height));
    if (format == FileFormat::kPdf) describe_pdf(surface.get(), figure);
    const CairoContext cairo(cairo_create(surface.get()));
    draw_page(make_page(cairo.get(), options, false), figure, layout);
    require_success(cairo_status(cairo.get()), path);
    cairo_surface_finish(surface.get());
    require_success(cairo_surface_status(surface.get()), path);
  }
  return format == FileFormat::kSvg ? with_description(std::move(bytes), figure) : bytes;
}

Image image_of(const CairoSurface& surface) {
  cairo_surface_flush(surface.get());
  Image image{
      cairo_image_surface_get_width(surface.get()), cairo_image_surface_get_height(surface.get()), {}};
  const unsigned char* data = cairo_image_surface_get_data(surface.get());
  const auto row_bytes = static_cast<std::ptrdiff_t>(image.width) * 4;
  for (int row = 0; row < image.height; ++row) {
    const unsigned char* from = data + std::ptrdiff_t{row} * cairo_image_surface_get_stride(surface.get());
    image.bgrx.insert(image.bgrx.end(), from, from + row_bytes);
  }
  return image;
}

void require_size(const PageOptions& options) {
  if (!(options.width_inches >= kLeastInches && options.width_inches <= kMostInches))
    throw UsageError(fmt::format("a width of {} in is asked for; expected {} to {}", options.width_inches,
                                 kLeastInches, kMostInches));
  if (!(options.dpi >= 36 && options.dpi <= 1200))
    throw UsageError(fmt::format("{} dpi are asked for; expected 36 to 1200", options.dpi));
}

}  // namespace

FileFormat format_of(const std::filesystem::path& path) {
  const std::string extension = lower_case(path.extension().string());
  if (extension == ".png") return FileFormat::kPng;
  if (extension == ".svg") return FileFormat::kSvg;
  if (extension == ".pdf") return FileFormat::kPdf;
  throw UsageError(fmt::format("{}: {} is no picture format; expected .png, .svg, .pdf or .h5", path.string(),
                               extension.empty() ? "a name without extension" : "'" + extension + "'"));
}

Image draw_to_image(const Figure& figure, int width, int height, double dpi, bool dark) {
  PageOptions options;
  options.dpi = dpi;
  options.dark = dark;
  // The height follows from the width: narrower until it fits, but never so narrow that text would suffer.
  double points = width * kPointsPerInch / dpi;
  PageLayout layout = lay_out(figure, points);
  while (layout.height > height * kPointsPerInch / dpi && points > kSingleColumnInches * kPointsPerInch) {
    points *= 0.95;
    layout = lay_out(figure, points);
  }
  return image_of(draw_raster(figure, layout, options, figure.name));
}

Image draw_page_to_image(const Figure& figure, int width, int height, const PageOptions& page) {
  require_size(page);
  const PageLayout layout = lay_out(figure, page.width_inches * kPointsPerInch);
  PageOptions options = page;
  options.dpi = kPointsPerInch * std::min(width / layout.width, height / layout.height);
  return image_of(draw_raster(figure, layout, options, figure.name));
}

Image draw_page(const Figure& figure, const PageOptions& options) {
  require_size(options);
  return image_of(
      draw_raster(figure, lay_out(figure, options.width_inches * kPointsPerInch), options, figure.name));
}

std::string draw_bytes(const Figure& figure, const std::filesystem::path& path, const PageOptions& options) {
  const FileFormat format = format_of(path);
  require_size(options);
  const PageLayout layout = lay_out(figure, options.width_inches * kPointsPerInch);
  return format == FileFormat::kPng ? draw_png(figure, layout, options, path)
                                    : draw_vectors(figure, layout, options, format, path);
}

void draw_to_file(const Figure& figure, const std::filesystem::path& path, const PageOptions& options) {
  write_file(path, draw_bytes(figure, path, options), options.replace);
}

}  // namespace keyscope::figures
