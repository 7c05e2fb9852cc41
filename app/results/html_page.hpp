#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "app/figures/figure.hpp"

namespace keyscope::results {

// Text, with the class of the style sheet that it has, if any.
struct HtmlCell {
  std::string text;
  std::string look;

  HtmlCell(std::string words, std::string class_name = "")
      : text(std::move(words)), look(std::move(class_name)) {}
  HtmlCell(const char* words) : text(words) {}
};

// A table that scrolls where it is too wide. The first column and the `left` ones after it are words.
std::string html_table(const std::vector<std::string>& head, const std::vector<std::vector<HtmlCell>>& rows,
                       std::size_t left = 0);

// Bytes as a URL that holds them, for a page that refers to nothing outside it.
//   media_type: "image/svg+xml"
std::string data_url(std::string_view media_type, std::string_view bytes);

// The style sheet of the page: light, system fonts, nothing to fetch; verdicts differ by word and mark as
// well as by colour, which are Okabe and Ito's. In a narrow window pictures and tables scroll by themselves,
// at a size at which their words can be read.
inline constexpr std::string_view kPageStyle = R"css(
:root { color-scheme: light; --ink: #1b1f24; --soft: #57606a; --line: #d8dee4; --ground: #f6f8fa; }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 2rem 1.5rem 4rem; max-width: 66rem; background: #fff; color: var(--ink);
  font: 16px/1.5 system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
h1 { font-size: 1.7rem; margin: 0 0 .25rem; }
h2 { font-size: 1.2rem; margin: 2.5rem 0 .75rem; padding-top: 1rem; border-top: 1px solid var(--line); }
h3 { font-size: 1rem; margin: 0; }
p { margin: .35rem 0; }
.soft, .rule, figcaption { color: var(--soft); font-size: .875rem; }
.advice { font-size: 1.05rem; border: 1px solid var(--line); border-left: 5px solid #0072b2; border-radius: 6px;
  padding: .8rem 1rem; margin: 1.25rem 0 .5rem; }
.claim { border: 1px solid var(--line); border-left-width: 5px; border-radius: 6px; padding: .8rem 1rem;
  margin: .8rem 0; break-inside: avoid; }
.claim header { display: flex; gap: 1rem; justify-content: space-between; align-items: baseline; }
.verdict { white-space: nowrap; font-weight: 600; }
.supported { border-left-color: #009e73; } .supported .verdict { color: #00694d; }
.refuted { border-left-color: #d55e00; } .refuted .verdict { color: #9c4500; }
.open { border-left-color: #808080; } .open .verdict { color: #505050; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .875rem; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .6rem; text-align: right; vertical-align: top; border-bottom: 1px solid var(--line); }
th { background: var(--ground); font-weight: 600; }
th:first-child, td:first-child, .text { text-align: left; }
td:not(:first-child) { white-space: nowrap; }
td.text { white-space: normal; overflow-wrap: anywhere; min-width: 6rem; }
.overview { list-style: none; margin: 1.25rem 0; padding: 0; }
.overview li { display: flex; gap: .75rem; padding: .15rem .6rem; margin: .2rem 0; border-left-width: 5px;
  border-left-style: solid; }
.overview .verdict { flex: 0 0 20rem; white-space: normal; } .overview a { color: inherit; }
figure { margin: 1.5rem 0; overflow-x: auto; } figure img { width: 100%; min-width: 50rem; height: auto; }
@media print { figure img { min-width: 0; } }
details { margin: .5rem 0; } summary { cursor: pointer; color: var(--soft); font-size: .875rem; }
)css";

// A picture of a page.
struct PagePicture {
  std::string title;  // also what a screen reader says
  std::string svg;
};

// Draws every figure as NAME.svg into a folder, made if it is not there, over earlier ones; a page shows the
// very files that lie beside it.
//   throws FileError where one cannot be written
std::vector<PagePicture> draw_pictures(std::span<const figures::Figure> figures,
                                       const std::filesystem::path& folder);

}  // namespace keyscope::results
