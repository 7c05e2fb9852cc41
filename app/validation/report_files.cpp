#include "app/validation/report_files.hpp"

#include <utility>
#include <vector>

#include "app/figures/nexus.hpp"
#include "app/validation/page_pictures.hpp"
#include "app/validation/prompts_origin.hpp"
#include "app/validation/report_figures.hpp"
#include "app/validation/report_json.hpp"
#include "app/validation/report_page.hpp"

namespace keyscope::validation {

void write_report(const Report& report, const capture::Model& model, std::span<const Prompt> prompts,
                  recording::Provenance provenance, const ResultFolder& folder) {
  const std::vector<figures::Figure> all = report_figures(report);
  const std::vector<PagePicture> pictures = draw_pictures(all, folder.file("figures"));
  provenance.configuration = settings_json(report.settings).dump();
  provenance.model_sha256 = report.settings.model.sha256;
  provenance.seed = static_cast<std::int64_t>(report.settings.seed);
  provenance.device = report.settings.model.device;
  provenance.schedule = "layer";
  figures::write_nexus(folder.file("validation.h5"), all,
                       prompts_origin(model, report.settings.model.name, prompts, std::move(provenance)),
                       true);
  folder.write("validation.html", report_page(report, pictures));
  folder.write("validation.json", report_json(report));
}

}  // namespace keyscope::validation
