#include "app/figures/token_order.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "app/figures/labels.hpp"
#include "base/errors.hpp"
#include "base/text.hpp"

namespace keyscope::figures {
namespace {

constexpr std::size_t kMostCharacters = 12;  // of a token's text beside an axis

// A label is well-formed UTF-8.
std::string shortened(const std::string& label) {
  std::size_t n_characters = 0;
  for (std::size_t at = 0; at < label.size(); ++at)
    if (!continues_character(label[at]) && ++n_characters > kMostCharacters) return label.substr(0, at) + "…";
  return label;
}

std::string position_text(const TokenOrder& order, std::int64_t place) {
  return format_count(order.token[place]);
}

}  // namespace

std::string_view order_name(MatrixOrder order) {
  switch (order) {
    case MatrixOrder::kDendrogram:
      return "dendrogram";
    case MatrixOrder::kLoss:
      return "loss";
    case MatrixOrder::kPosition:
      break;
  }
  return "position";
}

std::span<const MatrixOrder> orders_of(std::string_view figure) {
  static constexpr std::array kOfKeys{MatrixOrder::kPosition, MatrixOrder::kDendrogram};
  static constexpr std::array kOfLives{MatrixOrder::kPosition, MatrixOrder::kLoss};
  return figure == "token-lives" ? std::span<const MatrixOrder>(kOfLives) : kOfKeys;
}

MatrixOrder parse_order(std::string_view name) {
  for (const MatrixOrder order : {MatrixOrder::kPosition, MatrixOrder::kDendrogram, MatrixOrder::kLoss})
    if (name == order_name(order)) return order;
  throw UsageError(fmt::format("'{}' is no order of a matrix; there are: position, dendrogram, loss", name));
}

std::int32_t TokenOrder::token_at(double coordinate) const {
  if (!(coordinate >= 0) || coordinate >= static_cast<double>(size())) return -1;
  return token[static_cast<std::size_t>(coordinate)];
}

std::int64_t TokenOrder::place_of(std::int64_t token_position) const {
  const auto found = std::ranges::find(token, static_cast<std::int32_t>(token_position));
  return found == token.end() ? -1 : found - token.begin();
}

std::vector<Bracket> brackets_of(const TokenOrder& order) {
  struct Cluster {
    double middle = 0, height = 0;
  };
  std::vector<Cluster> clusters;
  clusters.reserve(order.token.size() + order.merges.size());
  for (std::size_t place = 0; place < order.token.size(); ++place)
    clusters.push_back({static_cast<double>(place) + 0.5, 0});
  std::vector<Bracket> brackets;
  brackets.reserve(order.merges.size());
  for (const analysis::Merge& merge : order.merges) {
    Cluster left = clusters.at(merge.first), right = clusters.at(merge.second);
    if (left.middle > right.middle) std::swap(left, right);
    brackets.push_back({left.middle, right.middle, left.height, right.height, merge.height});
    clusters.push_back({(left.middle + right.middle) / 2, merge.height});
  }
  return brackets;
}

std::vector<RetentionRun> retention_runs(const TokenOrder& order) {
  std::vector<RetentionRun> runs;
  for (std::size_t place = 0; place < order.retained.size(); ++place) {
    const bool retained = order.retained[place] != 0;
    const auto at = static_cast<std::int64_t>(place);
    if (runs.empty() || runs.back().retained != retained) runs.push_back({at, at, retained});
    runs.back().last = at + 1;
  }
  return runs;
}

std::vector<Tick> place_ticks(const TokenOrder& order, double low, double high, int n_wanted) {
  std::vector<Tick> ticks;
  for (const Tick& tick : linear_ticks(low, high, n_wanted, true)) {
    const auto place = static_cast<std::int64_t>(std::floor(tick.value));
    const double middle = static_cast<double>(place) + 0.5;
    if (place >= 0 && place < order.size() && middle <= high)
      ticks.push_back({middle, position_text(order, place)});
  }
  return ticks;
}

std::vector<Tick> named_places(const TokenOrder& order, double low, double high) {
  std::vector<Tick> ticks;
  const auto first = std::max<std::int64_t>(0, static_cast<std::int64_t>(std::ceil(low - 0.5)));
  for (std::int64_t place = first; place < order.size() && static_cast<double>(place) + 0.5 <= high;
       ++place) {
    std::string label = position_text(order, place);
    if (const auto at = static_cast<std::size_t>(place); at < order.text.size() && !order.text[at].empty())
      label = fmt::format("{}  {}", shortened(token_label(order.text[at])), label);
    ticks.push_back({static_cast<double>(place) + 0.5, std::move(label)});
  }
  return ticks;
}

}  // namespace keyscope::figures
