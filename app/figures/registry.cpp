#include "app/figures/registry.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/errors.hpp"
#include "app/figures/head_selection.hpp"
#include "app/figures/small_multiples.hpp"

namespace keyscope::figures {
namespace {

using recording::Recording;
using recording::RecordingInfo;

constexpr std::array kAliases{
    FigureAlias{"fig2", "cosine-and-attention"},
    FigureAlias{"fig4", "keyspace"},
    FigureAlias{"fig5", "keyspace"},
    FigureAlias{"fig8", "keyspace"},
    FigureAlias{"fig9", "keyspace"},
    FigureAlias{"fig10", "keyspace"},
    FigureAlias{"fig11", "keyspace"},
    FigureAlias{"fig12", "log-volume"},
    FigureAlias{"fig13", "mean-cosines"},
    FigureAlias{"fig14", "mean-key-query-cosine"},
    FigureAlias{"fig15", "key-norms"},
    FigureAlias{"fig16", "top-key-query-cosine"},
    FigureAlias{"table3", "rank-correlation"},
    FigureAlias{"table15", "ablation"},
    FigureAlias{"table16", "ablation"},
};

// The paper's figures that are not made of a recording.
constexpr std::array kMadeElsewhere{
    FigureAlias{"fig7", "bench prefill"},  FigureAlias{"fig17", "bench prefill"},
    FigureAlias{"table8", "prompts"},      FigureAlias{"table9", "prompts"},
    FigureAlias{"table19", "bench score"},
};

const Builder& find_builder(std::string_view name) {
  const auto alias = std::ranges::find(kAliases, name, &FigureAlias::paper);
  if (alias != kAliases.end()) name = alias->name;
  const auto found = std::ranges::find(builders(), name, &Builder::name);
  if (found != builders().end()) return *found;
  const auto elsewhere = std::ranges::find(kMadeElsewhere, name, &FigureAlias::paper);
  if (elsewhere != kMadeElsewhere.end())
    throw UsageError(
        fmt::format("figure '{}' is not made of a recording; `keyscope {}` makes it", name, elsewhere->name));
  throw UsageError(
      fmt::format("there is no figure '{}'; figures: {}", name, fmt::join(figure_names(), ", ")));
}

}  // namespace

const std::vector<std::string_view>& figure_names() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> all;
    all.reserve(builders().size());
    for (const Builder& builder : builders()) all.push_back(builder.name);
    return all;
  }();
  return names;
}

std::span<const FigureAlias> figure_aliases() { return kAliases; }

std::string_view figure_name(std::string_view name_or_alias) { return find_builder(name_or_alias).name; }

FigureScope scope_of(std::string_view name) { return find_builder(name).scope; }

bool shows_several_runs(std::string_view name) { return find_builder(name).several_runs; }

bool understands(std::string_view figure, std::string_view option) {
  return find_builder(figure).options.find(fmt::format(" {} ", option)) != std::string_view::npos;
}

bool is_recorded(const RecordingInfo& info, std::string_view name) {
  return find_builder(name).is_recorded(info);
}

void check_request(const RecordingInfo& info, const FigureRequest& request) {
  const Builder& builder = find_builder(request.name);
  if (request.grid) {
    check_small_multiples(info, builder, request);
  } else if (builder.scope != FigureScope::kRecording) {
    require_layer(info, chosen_layer(info, request));
    require_kv_head(info, chosen_kv_head(info, request));
  }
  if (!builder.several_runs)
    check_block(info, only_run(info, request), request);
  else if (request.runs.empty())
    check_block(info, 0, request);
  for (const std::string& name : request.runs) check_block(info, find_run(info, name), request);
}

Figure build_figure(const Recording& recording, const FigureRequest& request) {
  const Builder& builder = find_builder(request.name);
  FigureRequest named = request;
  named.name = builder.name;
  if (request.grid) return small_multiples_figure(recording, builder, named);
  return builder.build(recording, *recording.info(), named);
}

}  // namespace keyscope::figures
