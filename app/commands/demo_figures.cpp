#include "app/commands/demo_figures.hpp"

#include "app/drawing/cairo_painter.hpp"
#include "app/figures/nexus.hpp"
#include "app/figures/registry.hpp"

namespace keyscope::commands {

HeadChoice most_telling_head(const std::vector<measures::RunMeasures>& runs) {
  HeadChoice best;
  double highest = -2;  // below every correlation
  if (runs.empty()) return best;
  for (const auto& head : runs.front().heads)
    if (head.spearman && *head.spearman > highest) {
      highest = *head.spearman;
      best = {head.layer, head.kv_head};
    }
  return best;
}

std::vector<std::filesystem::path> write_demo_figures(const recording::Recording& recording, HeadChoice head,
                                                      const std::filesystem::path& folder) {
  const auto info = recording.info();
  const auto nexus_path = folder / "figures.h5";
  figures::NexusWriter nexus(nexus_path, {info->provenance, info->model, info->prompt}, true);
  figures::PageOptions page;
  page.replace = true;
  std::vector<std::filesystem::path> files;
  for (const auto name : figures::figure_names()) {
    if (!figures::is_recorded(*info, name)) continue;
    figures::FigureRequest request;
    request.name = name;
    request.layer = head.layer;
    if (figures::scope_of(name) == figures::FigureScope::kQueryHead)
      request.query_head = head.kv_head * info->model.group_size();
    else
      request.kv_head = head.kv_head;
    const figures::Figure figure = figures::build_figure(recording, request);
    files.push_back(folder / (request.name + ".png"));
    figures::draw_to_file(figure, files.back(), page);
    nexus.add(figure);
  }
  nexus.finish();
  files.push_back(nexus_path);
  return files;
}

}  // namespace keyscope::commands
