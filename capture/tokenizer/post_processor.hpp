#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/json.hpp"

namespace keyscope::tokenizer {

// What is put around the ids of a text: "begin of text" and the like.
class PostProcessor {
 public:
  PostProcessor() = default;  // adds nothing

  // The `post_processor` field: null, TemplateProcessing (its `single`), BertProcessing, RobertaProcessing,
  // ByteLevel (which only concerns offsets) and Sequence.
  //   throws FileError on another type, by name, and on templates that contradict themselves
  explicit PostProcessor(const std::optional<JsonField>& field);

  // One template: ids before and after the text's.
  PostProcessor(std::vector<std::int32_t> before, std::vector<std::int32_t> after);

  void apply(std::vector<std::int32_t>& ids) const;

 private:
  static constexpr std::int32_t kText = -1;  // the place of the text in a template
  using Template = std::vector<std::int32_t>;

  void read(const JsonField& field);
  static Template read_template(const JsonField& field);

  std::vector<Template> templates_;  // applied in this order
};

}  // namespace keyscope::tokenizer
