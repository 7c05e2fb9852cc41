#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json_fwd.hpp>

#include "base/errors.hpp"
#include "capture/tokenizer/chat_template.hpp"
#include "capture/tokenizer/tokenizer.hpp"

namespace keyscope::evaluation {

// Files whose rows are read one after another.
using Paths = std::span<const std::filesystem::path>;

// Takes a row; of lines it says whether they are rows.
//   where: file and line, for its messages
//   throws FileError or InvalidInput where it cannot use it
using TakeLine = std::function<bool(const std::string& line, const std::string& where)>;
using TakeJson = std::function<void(const nlohmann::json& row, const std::string& where)>;

// What became of the rows.
struct ReadRows {
  std::int64_t n_rows = 0;            // that were taken
  std::vector<std::string> bad = {};  // what was wrong with the others, each naming file and line
};

// Hands JSON objects, one a line, to `take`; empty and blank lines are no rows.
//   skip_bad: go on without rows that are no JSON object or cannot be used
//   throws FileError where a file cannot be read or has no row, where none of all can be used, and, unless
//   they are skipped, for bad rows: it names the first in full and says how many there are in all files and
//   on which lines
ReadRows read_json_rows(Paths paths, bool skip_bad, const TakeJson& take);

// The same of lines as they are, but for empty ones.
ReadRows read_lines(Paths paths, bool skip_bad, const TakeLine& take);

// Files as they are given, and the *.jsonl of folders among them, in order of name.
//   below: also those of folders in these
//   throws FileError where one is not there, or a folder has none
std::vector<std::filesystem::path> data_files(std::span<const std::filesystem::path> given,
                                              bool below = false);

// Fields of a row of JSON lines, checked.
//   where: file and line, for messages
//   throws FileError naming them, the field and what was found, where it is not there or no text
std::string text_field(const nlohmann::json& row, const char* field, const std::string& where);

// The same for an array of texts, which may be empty.
std::vector<std::string> texts_field(const nlohmann::json& row, const char* field, const std::string& where);

// A list of an option's values; `shown` is what of a value is compared and named.
//   throws UsageError where one is given twice
template <typename Range, typename Shown = std::identity>
void check_given_once(const Range& values, const char* option, Shown shown = {}) {
  for (auto value = values.begin(); value != values.end(); ++value)
    if (std::ranges::find(values.begin(), value, shown(*value), shown) != value)
      throw UsageError(
          fmt::format("{}: {} is given twice; its examples would count twice", option, shown(*value)));
}

// Whether prompts become a user's turn.
enum class ChatUse {
  kIfThere,  // where the model has a chat template
  kAlways,   // a model without one is refused
  kNever,
};

// "if there", "always", "never".
const char* chat_word(ChatUse use);

// How texts become prompts of a model.
class PromptEncoder {
 public:
  //   model_folder: where the chat template is looked for, unless none is used
  //   throws FileError on a template that is of no known kind or damaged, and where one is missing that is
  //   always to be used
  PromptEncoder(const tokenizer::Tokenizer& tokenizer, const std::filesystem::path& model_folder,
                ChatUse use);

  bool has_chat() const { return template_.has_value(); }

  // As text, with the post-processor's special tokens.
  std::vector<std::int32_t> plain(const std::string& text) const;
  // As the user's turn, where there is a template. Templates that tell the date get 26 July 2024, their own
  // where there is no clock: prompts that are scored must not depend on the day.
  //   answer_begin: what stands where the model is to answer, for it to go on from
  std::vector<std::int32_t> turn(const std::string& text, const std::string& answer_begin = "") const;

 private:
  const tokenizer::Tokenizer& tokenizer_;
  std::optional<tokenizer::ChatTemplate> template_;
};

}  // namespace keyscope::evaluation
