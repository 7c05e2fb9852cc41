#include "app/drawing/page_text.hpp"

#include <cstdio>
#include <cstdlib>
#include <memory>

#include <fmt/format.h>
#include <pango/pangocairo.h>

#include "base/errors.hpp"
#include "base/text.hpp"

namespace keyscope::figures {
namespace {

// DejaVu Sans first: it is a dependency of the build's packages, and has the minus and the dashes used here.
constexpr const char* kFamilies = "DejaVu Sans, Liberation Sans, Arial, sans-serif";

struct Unref {
  void operator()(PangoLayout* layout) const { g_object_unref(layout); }
};
using Layout = std::unique_ptr<PangoLayout, Unref>;

using FontDescription = std::unique_ptr<PangoFontDescription, void (*)(PangoFontDescription*)>;

// GLib aborts where what it needs is not to be had, such as the threads in which Pango looks for fonts. The
// process ends all the same, with a sentence.
void end_with_a_sentence(const char* domain, GLogLevelFlags level, const char* message, void* /*unused*/) {
  if ((level & G_LOG_LEVEL_ERROR) == 0) return g_log_default_handler(domain, level, message, nullptr);
  fmt::print(stderr, "keyscope: {}\n", terminal_text(message));
  std::_Exit(1);
}

// Without any font, Pango measures with what happens to lie in memory: pages of a million points' height.
//   throws Error where there is none
void require_fonts(PangoContext* context, const PangoFontDescription* wanted) {
  static const bool kThere = [&] {
    PangoFont* font = pango_font_map_load_font(pango_context_get_font_map(context), context, wanted);
    if (font == nullptr) return false;
    g_object_unref(font);
    return true;
  }();
  if (!kThere)
    throw Error(
        "no font was found, so figures cannot be drawn; install one, such as Debian's fonts-dejavu-core, or "
        "let fontconfig know where yours are (FONTCONFIG_FILE, FONTCONFIG_PATH)");
}

// No page has room for more, and the time that Pango takes grows with every letter.
std::string shown_part(const std::string& text) {
  constexpr std::size_t kMostBytes = 4096;
  if (text.size() <= kMostBytes) return text;
  std::size_t end = kMostBytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80) --end;
  return text.substr(0, end) + "…";
}

Layout make_layout(cairo_t* cairo, const std::string& text, const TextStyle& style) {
  static const GLogFunc before = g_log_set_default_handler(end_with_a_sentence, nullptr);
  static_cast<void>(before);
  Layout layout(pango_cairo_create_layout(cairo));
  PangoContext* context = pango_layout_get_context(layout.get());
  // One user unit is one point, and glyphs keep their ideal widths at every resolution.
  pango_cairo_context_set_resolution(context, 72);
  cairo_font_options_t* options = cairo_font_options_create();
  cairo_font_options_set_hint_metrics(options, CAIRO_HINT_METRICS_OFF);
  cairo_font_options_set_hint_style(options, CAIRO_HINT_STYLE_NONE);
  cairo_font_options_set_antialias(options, CAIRO_ANTIALIAS_GRAY);
  pango_cairo_context_set_font_options(context, options);
  cairo_font_options_destroy(options);
  pango_context_set_round_glyph_positions(context, false);
  pango_layout_set_auto_dir(layout.get(), false);  // a token in Hebrew before its position stays before it

  const FontDescription font(pango_font_description_new(), pango_font_description_free);
  pango_font_description_set_family_static(font.get(), kFamilies);
  pango_font_description_set_absolute_size(font.get(), style.size_pt * PANGO_SCALE);
  if (style.bold) pango_font_description_set_weight(font.get(), PANGO_WEIGHT_BOLD);
  require_fonts(context, font.get());
  pango_layout_set_font_description(layout.get(), font.get());

  const std::string valid = valid_utf8(shown_part(text));
  pango_layout_set_text(layout.get(), valid.data(), static_cast<int>(valid.size()));
  if (style.wrap_width > 0) {
    pango_layout_set_width(layout.get(), static_cast<int>(style.wrap_width * PANGO_SCALE));
    pango_layout_set_wrap(layout.get(), PANGO_WRAP_WORD_CHAR);
    if (style.max_lines > 0) {
      pango_layout_set_height(layout.get(), -style.max_lines);
      pango_layout_set_ellipsize(layout.get(), PANGO_ELLIPSIZE_END);
    }
    if (style.alignment == Alignment::kCentre) pango_layout_set_alignment(layout.get(), PANGO_ALIGN_CENTER);
    if (style.alignment == Alignment::kRight) pango_layout_set_alignment(layout.get(), PANGO_ALIGN_RIGHT);
  } else {
    pango_layout_set_single_paragraph_mode(layout.get(), true);
  }
  return layout;
}

TextSize size_of(PangoLayout* layout) {
  int width = 0, height = 0;
  pango_layout_get_size(layout, &width, &height);
  return {static_cast<double>(width) / PANGO_SCALE, static_cast<double>(height) / PANGO_SCALE};
}

}  // namespace

std::string valid_utf8(const std::string& text) {
  const std::unique_ptr<char, void (*)(void*)> valid(
      g_utf8_make_valid(text.data(), static_cast<gssize>(text.size())), g_free);
  return valid.get();
}

TextSize measure_text(cairo_t* cairo, const std::string& text, const TextStyle& style) {
  if (text.empty()) return {};
  return size_of(make_layout(cairo, text, style).get());
}

TextStyle fit_label(cairo_t* cairo, const std::string& text, double room) {
  for (const double size : {kLabelSize, kLeastLabelSize})
    if (measure_text(cairo, text, {size}).width <= room) return {size};
  for (const double size : {kLabelSize, kLeastLabelSize}) {
    const TextStyle wrapped{size, false, room, 0, Alignment::kCentre};
    const double two_lines = 2 * measure_text(cairo, "0", {size}).height + 0.1;
    if (measure_text(cairo, text, wrapped).height <= two_lines) return wrapped;
  }
  return {kLeastLabelSize, false, room, 2, Alignment::kCentre};
}

void draw_text(cairo_t* cairo, const std::string& text, const TextStyle& style, double x, double y,
               TextAnchor anchor, double angle) {
  if (text.empty()) return;
  const Layout layout = make_layout(cairo, text, style);
  TextSize size = size_of(layout.get());
  if (style.alignment != Alignment::kLeft) size.width = style.wrap_width;
  cairo_save(cairo);
  cairo_translate(cairo, x, y);
  cairo_rotate(cairo, angle);
  cairo_move_to(cairo, -anchor.x * size.width, -anchor.y * size.height);
  pango_cairo_show_layout(cairo, layout.get());
  cairo_restore(cairo);
}

}  // namespace keyscope::figures
