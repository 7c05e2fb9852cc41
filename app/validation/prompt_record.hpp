#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "app/measures/head_measures.hpp"
#include "app/validation/head_bounds.hpp"

namespace keyscope::validation {

// What one prompt came to. Of the runs' heads, the quantities of quantity.hpp are kept and nothing else.
struct PromptRecord {
  std::string key;                          // prompt_key of the settings and ids that it belongs to
  std::int64_t n_tokens = 0;                // of the prompt
  std::int64_t budget = 0;                  // N of the runs that evict
  std::vector<measures::RunMeasures> runs;  // `none` first; heads ascending by layer, KV head, as in all runs
  std::vector<HeadBounds> bounds;           // of the run `none`, likewise

  // The run of that name; null if there is none.
  const measures::RunMeasures* run(std::string_view name) const;
};

// As a file of its own. Numbers are written so that they read back to the last bit.
nlohmann::ordered_json prompt_record_json(const PromptRecord& record);

//   where: the file, for messages
//   throws FileError where a field is missing or of another kind
PromptRecord parse_prompt_record(std::string_view text, const std::string& where);

}  // namespace keyscope::validation
