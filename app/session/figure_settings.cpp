#include "app/session/figure_settings.hpp"

#include "app/figures/registry.hpp"

namespace keyscope::session {

FigureSettings settings_of(std::string_view figure, const FigureSettings& settings) {
  FigureSettings understood;
  if (figures::understands(figure, "ranks")) understood.ranks = settings.ranks;
  if (figures::understands(figure, "linear")) understood.linear = settings.linear;
  if (figures::understands(figure, "retained")) understood.retained_only = settings.retained_only;
  if (figures::understands(figure, "order")) understood.order = settings.order;
  if (figures::understands(figure, "reduce")) understood.reduction = settings.reduction;
  return understood;
}

void apply(const FigureSettings& settings, figures::FigureRequest& request) {
  request.ranks = settings.ranks;
  request.logarithmic = !settings.linear;
  request.retained_only = settings.retained_only;
  request.order = settings.order;
  request.reduction = settings.reduction;
  request.most_ordered = kMostOrdered;
}

std::string settings_options(const FigureSettings& settings) {
  std::string options;
  if (settings.ranks) options += " --ranks";
  if (settings.linear) options += " --linear";
  if (settings.retained_only) options += " --retained";
  if (settings.order != figures::MatrixOrder::kPosition)
    options += " --order " + std::string(figures::order_name(settings.order));
  if (settings.reduction) options += " --reduce " + std::string(figures::reduction_name(*settings.reduction));
  return options;
}

}  // namespace keyscope::session
