#include "app/validation/report_files.hpp"

#include <fstream>
#include <iterator>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "analysis/errors.hpp"
#include "app/figures/canvas_cairo.hpp"
#include "app/figures/nexus.hpp"
#include "app/validation/report_figures.hpp"
#include "app/validation/report_json.hpp"
#include "app/validation/report_page.hpp"
#include "capture/model/sha256.hpp"

namespace keyscope::validation {
namespace {

namespace fs = std::filesystem;

// The page shows the very files that lie beside it.
PagePicture draw(const figures::Figure& figure, const fs::path& path) {
  figures::PageOptions page;
  page.replace = true;
  figures::draw_to_file(figure, path, page);
  std::ifstream file(path, std::ios::binary);
  PagePicture picture{figure.title, {std::istreambuf_iterator<char>(file), {}}};
  if (!file) throw FileError(fmt::format("{}: cannot be read", path.string()));
  return picture;
}

// The tokens of all prompts, one prompt after another.
recording::TokenText all_tokens(std::span<const Prompt> prompts, const tokenizer::Tokenizer* tokenizer) {
  recording::TokenText all{{}, "", {0}};
  for (const Prompt& prompt : prompts) {
    recording::TokenText one{prompt.ids, "", std::vector<std::int64_t>(prompt.ids.size() + 1)};
    if (tokenizer != nullptr) one = tokenizer->token_text(prompt.ids);
    const auto before = static_cast<std::int64_t>(all.text.size());
    all.id.insert(all.id.end(), one.id.begin(), one.id.end());
    all.text += one.text;
    for (std::size_t i = 1; i < one.offset.size(); ++i) all.offset.push_back(before + one.offset[i]);
  }
  return all;
}

std::string sha256_of(const std::vector<std::int32_t>& ids) {
  capture::Sha256 hash;
  hash.add({reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(ids.front())});
  return hash.hex();
}

recording::Origin origin_of(const Report& report, const capture::Model& model,
                            std::span<const Prompt> prompts, recording::Provenance provenance) {
  recording::Origin origin;
  origin.prompt = all_tokens(prompts, model.tokenizer());
  provenance.configuration = settings_json(report.settings).dump();
  provenance.model_sha256 = report.settings.model_sha256;
  provenance.prompt_sha256 = sha256_of(origin.prompt.id);
  provenance.seed = static_cast<std::int64_t>(report.settings.seed);
  provenance.device = report.settings.device;
  provenance.schedule = "layer";
  origin.provenance = std::move(provenance);
  const capture::ModelConfig& config = model.config();
  origin.model = {config.raw_json, report.settings.model_name, config.n_layers,
                  config.n_heads,  config.n_kv_heads,          config.head_dim};
  return origin;
}

}  // namespace

void write_report(const Report& report, const capture::Model& model, std::span<const Prompt> prompts,
                  recording::Provenance provenance, const ResultFolder& folder) {
  const std::vector<figures::Figure> all = report_figures(report);
  const fs::path pictures_folder = folder.file("figures");
  std::error_code error;
  fs::create_directories(pictures_folder, error);
  if (error)
    throw FileError(
        fmt::format("{}: the folder cannot be made: {}", pictures_folder.string(), error.message()));
  std::vector<PagePicture> pictures;
  for (const figures::Figure& figure : all)
    pictures.push_back(draw(figure, pictures_folder / (figure.name + ".svg")));
  figures::write_nexus(folder.file("validation.h5"), all,
                       origin_of(report, model, prompts, std::move(provenance)), true);
  folder.write("validation.html", report_page(report, pictures));
  folder.write("validation.json", report_json(report));
}

}  // namespace keyscope::validation
