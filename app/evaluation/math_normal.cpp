#include "app/evaluation/math_normal.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/errors.hpp"
#include "base/text.hpp"

namespace keyscope::evaluation {

namespace {

using Literals = std::vector<std::pair<std::string_view, std::string_view>>;

std::string replace_all_of(std::string text, const Literals& literals) {
  for (const auto& [from, to] : literals) text = replace_all(std::move(text), from, to);
  return text;
}

std::string apply_all(std::string text, const std::vector<Substitution>& steps) {
  for (const Substitution& step : steps) text = step.apply(text);
  return text;
}

bool matches(const Substitution& expression, const std::string& text) {
  return expression.apply(text) != text;
}

std::size_t count(std::string_view text, std::string_view part) {
  std::size_t n = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != text.npos; at += part.size()) ++n;
  return n;
}

// Units stand at the end: "5 \text{ cm}". None where they stand twice.
std::optional<std::string> without_units(std::string_view text) {
  constexpr std::string_view kUnits = "\\text{ ";
  if (count(text, kUnits) > 1) return std::nullopt;
  return std::string(text.substr(0, text.find(kUnits)));
}

std::optional<std::string> with_braced_roots(const std::string& text) {
  static const Substitution kBare(R"(\\sqrt(?:$|(?=\\sqrt)))", "");
  static const Substitution kRoot(R"(\\sqrt([^{]))", R"(\sqrt{$1})");
  if (matches(kBare, text)) return std::nullopt;
  return kRoot.apply(text);
}

// One character each for numerator and denominator: \frac12. Where one \frac has but one character, all are
// left as they are.
std::optional<std::string> with_braced_fractions(const std::string& text) {
  static const Substitution kBare(R"(\\frac(?:$|(?=\\frac)))", "");
  static const Substitution kHalf(R"(\\frac[^{](?:$|(?=\\frac)))", "");
  static const std::vector<Substitution> kSteps = [] {
    std::vector<Substitution> steps;
    steps.emplace_back(R"(\\frac([^{])\{)", R"(\frac{$1}{)");
    steps.emplace_back(R"(\\frac([^{])([^{]))", R"(\frac{$1}{$2})");
    return steps;
  }();
  if (matches(kBare, text)) return std::nullopt;
  return matches(kHalf, text) ? text : apply_all(text, kSteps);
}

// a/b of whole numbers. None where there is one slash between other things.
std::optional<std::string> with_fraction_for_slash(const std::string& text) {
  static const Substitution kWhole(R"(\A[+-]?\d+(?:_\d+)*/[+-]?\d+(?:_\d+)*\Z)", "");
  static const Substitution kSlash(R"(\A(0|-?[1-9][0-9]*)/(0|-?[1-9][0-9]*)\Z)", R"(\frac{$1}{$2})");
  if (std::ranges::count(text, '/') != 1) return text;
  if (!matches(kWhole, text)) return std::nullopt;
  return kSlash.apply(text);
}

// Minerva's list, in its order, in which "\ldots" goes before "sue".
constexpr std::array<std::string_view, 10> kFirstUnits{"square", "ways", "integers", "dollars", "mph",
                                                       "inches", "ft",   "hours",    "km",      "units"};
constexpr std::array<std::string_view, 16> kLaterUnits{
    "sue", "points", "feet",   "minutes", "digits", "cents",    "degrees",         "cm",
    "gm",  "pounds", "meters", "meals",   "edges",  "students", "childrentickets", "multiples"};

// Units as words of their own, while there are spaces yet to part them: "2\pi cm" and not "\picm".
const Substitution& unit_words() {
  static const Substitution kWords(
      fmt::format(R"((?<!\\)\b(?:{}|{})\b)", fmt::join(kFirstUnits, "|"), fmt::join(kLaterUnits, "|")), "");
  return kWords;
}

// Units wherever they stand, but for inside the name of a command.
std::vector<Substitution> glued(std::span<const std::string_view> units) {
  std::vector<Substitution> steps;
  for (const std::string_view unit : units)
    steps.emplace_back(fmt::format(R"((\\[a-zA-Z]+)|{})", unit), "$1");
  return steps;
}

std::string without_unit_words(std::string text) {
  static const std::vector<Substitution> kFirst = glued(kFirstUnits), kLater = glued(kLaterUnits);
  static const Literals kMarks{
      {"\\text{s}", ""},  {"\\text{.}", ""}, {"\\text{\ns}", ""},  {"\\text{}^2", ""}, {"\\text{}^3", ""},
      {"\\text{\n}", ""}, {"\\text{}", ""},  {"\\mathrm{th}", ""}, {"^\\circ", ""},    {"^{\\circ}", ""},
      {"\\;", ""},        {",\\!", ""},      {"{,}", ""},          {"\"", ""},         {"\\dots", ""}};
  text = replace_all(apply_all(std::move(text), kFirst), "\\ldots", "");
  return replace_all_of(apply_all(std::move(text), kLater), kMarks);
}

// What is in dollar signs, set as text or in bold, overlined, or in a box.
std::string unwrapped(std::string text) {
  static const std::vector<Substitution> kSteps = [] {
    std::vector<Substitution> steps;
    steps.emplace_back(R"(.*?\$(.*?)\$.*)", "$$$1$$");
    for (const char* command : {"text", "textbf", "overline"})
      steps.emplace_back(fmt::format(R"(\\{}\{{(.*?)\}})", command), "$1");
    steps.emplace_back(R"(\\boxed\{(.*)\})", "$1");
    return steps;
  }();
  return apply_all(std::move(text), kSteps);
}

std::string with_braces(std::string text) {
  static const std::vector<Substitution> kSteps = [] {
    std::vector<Substitution> steps;
    steps.emplace_back("frac([^{])(.)", "frac{$1}{$2}");
    steps.emplace_back(R"((sqrt\[[^\]]*\])(\w))", "$1{$2}");
    steps.emplace_back(R"(sqrt(?!\[)([^{]))", "sqrt{$1}");
    return steps;
  }();
  return apply_all(std::move(text), kSteps);
}

std::string without_thousands_commas(std::string text) {
  static const Substitution kGrouped(R"(\A-?\d{1,3}(?:,\d{3})+\Z)", "");
  return matches(kGrouped, text) ? replace_all(std::move(text), ",", "") : text;
}

}  // namespace

std::optional<std::string> hendrycks_normal(std::string_view answer) {
  static const Literals kPlain{{"\n", ""},        {"\\!", ""},    {"\\\\", "\\"},  {"tfrac", "frac"},
                               {"dfrac", "frac"}, {"\\left", ""}, {"\\right", ""}, {"^{\\circ}", ""},
                               {"^\\circ", ""},   {"\\$", ""}};
  static const Literals kDecimals{{"\\%", ""}, {" .", " 0."}, {"{.", "{0."}};
  static const Substitution kName(R"(\A[^=]{0,2}=([^=]*)\Z)", "$1");
  auto text = without_units(replace_all_of(std::string(answer), kPlain));
  if (!text) return std::nullopt;
  std::string plain = replace_all_of(*text, kDecimals);
  if (plain.starts_with('.')) plain.insert(0, 1, '0');
  text = with_braced_roots(kName.apply(plain));
  if (text) text = with_braced_fractions(replace_all(*std::move(text), " ", ""));
  if (!text) return std::nullopt;
  if (*text == "0.5") *text = "\\frac{1}{2}";
  return with_fraction_for_slash(*text);
}

std::string minerva_normal(std::string_view answer) {
  static const Literals kPlain{
      {"an ", ""}, {"a ", ""},       {".$", "$"},           {"\\$", ""},          {"\\ ", ""},
      {" ", ""},   {"mbox", "text"}, {",\\text{and}", ","}, {"\\text{and}", ","}, {"\\text{m}", "\\text{}"}};
  const std::size_t equals = answer.rfind('=');
  std::string text = unit_words().apply(equals == answer.npos ? answer : answer.substr(equals + 1));
  text = without_unit_words(replace_all_of(std::move(text), kPlain));
  text = replace_all(with_braces(unwrapped(std::move(text))), "$", "");
  return without_thousands_commas(std::move(text));
}

std::string Substitution::apply(std::string_view text) const {
  std::string buffer, result;
  const std::string_view valid = replace_invalid_utf8(text, buffer);
  std::size_t done = 0;
  expression_.for_each_match(valid, [&](std::span<const Regex::Range> groups) {
    result.append(valid, done, groups[0].begin - done);
    done = groups[0].end;
    for (std::size_t i = 0; i < replacement_.size(); ++i) {
      if (replacement_[i] != '$' || replacement_.compare(i, 2, "$$") == 0) {
        i += replacement_[i] == '$' ? 1 : 0;
        result.push_back(replacement_[i]);
      } else if (const std::size_t n = replacement_[++i] - '0'; n < groups.size() && groups[n].found()) {
        result.append(valid, groups[n].begin, groups[n].end - groups[n].begin);
      }
    }
  });
  return result.append(valid, done);
}

std::string replace_all(std::string text, std::string_view from, std::string_view to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

}  // namespace keyscope::evaluation
