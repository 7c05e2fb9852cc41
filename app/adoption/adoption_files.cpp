#include "app/adoption/adoption_files.hpp"

#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "app/adoption/adoption_figures.hpp"
#include "app/adoption/adoption_json.hpp"
#include "app/adoption/adoption_page.hpp"
#include "app/figures/nexus.hpp"
#include "app/figures/output_file.hpp"
#include "app/validation/page_pictures.hpp"
#include "app/validation/prompts_origin.hpp"

namespace keyscope::adoption {

void write_adoption(const Adoption& adoption, const capture::Model& model,
                    std::span<const validation::Prompt> prompts, recording::Provenance provenance,
                    const std::filesystem::path& out) {
  const std::vector<figures::Figure> all = adoption_figures(adoption);
  const auto pictures = validation::draw_pictures(all, out / "figures");
  const nlohmann::ordered_json json = adoption_json(adoption);
  constexpr auto kReplace = nlohmann::ordered_json::error_handler_t::replace;  // skipped rows may be no UTF-8
  provenance.configuration = json.dump(-1, ' ', false, kReplace);
  provenance.model_sha256 = adoption.model.sha256;
  provenance.seed = static_cast<std::int64_t>(adoption.seed);
  provenance.device = adoption.model.device;
  provenance.schedule = "block";
  figures::write_nexus(out / "report.h5", all,
                       validation::prompts_origin(model, adoption.model.name, prompts, std::move(provenance)),
                       true);
  figures::write_file(out / "report.html", adoption_page(adoption, pictures), true);
  figures::write_file(out / "report.json", json.dump(2, ' ', false, kReplace) + "\n", true);
}

}  // namespace keyscope::adoption
