#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace keyscope::validation {

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

}  // namespace keyscope::validation
