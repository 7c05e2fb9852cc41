#include "capture/tokenizer/post_processor.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "capture/tokenizer/vocabulary.hpp"

namespace keyscope::tokenizer {
namespace {

std::int32_t read_id(const JsonField& field) {
  return static_cast<std::int32_t>(field.integer(0, kLargestId));
}

// ["</s>", 2]
std::int32_t read_token_and_id(const JsonField& field) {
  std::int32_t id = 0;
  int n = 0;
  field.for_each([&](const JsonField& entry) {
    if (n++ == 1) id = read_id(entry);
  });
  if (n != 2) field.fail_type("a token and its id");
  return id;
}

}  // namespace

PostProcessor::PostProcessor(const std::optional<JsonField>& field) {
  if (field) read(*field);
}

PostProcessor::PostProcessor(std::vector<std::int32_t> before, std::vector<std::int32_t> after) {
  before.push_back(kText);
  before.insert(before.end(), after.begin(), after.end());
  templates_.push_back(std::move(before));
}

void PostProcessor::read(const JsonField& field) {
  const std::string type = field.member("type").string();
  if (type == "Sequence") {
    field.member("processors").for_each([&](const JsonField& step) { read(step); });
  } else if (type == "TemplateProcessing") {
    templates_.push_back(read_template(field));
  } else if (type == "BertProcessing" || type == "RobertaProcessing") {
    templates_.push_back(
        {read_token_and_id(field.member("cls")), kText, read_token_and_id(field.member("sep"))});
  } else if (type != "ByteLevel") {
    field.member("type").fail(in_quotes(type),
                              "TemplateProcessing, BertProcessing, RobertaProcessing, ByteLevel or Sequence "
                              "(others are not supported)");
  }
}

PostProcessor::Template PostProcessor::read_template(const JsonField& field) {
  Template ids;
  const auto special_tokens = field.optional("special_tokens");
  field.member("single").for_each([&](const JsonField& part) {
    if (const auto sequence = part.optional("Sequence")) {
      const JsonField id = sequence->member("id");
      if (id.string() != "A") id.fail(in_quotes(id.string()), "\"A\", the only text of a single sequence");
      ids.push_back(kText);
      return;
    }
    const auto special = part.optional("SpecialToken");
    if (!special) part.fail("neither", "\"Sequence\" or \"SpecialToken\"");
    const JsonField name = special->member("id");
    const auto tokens = special_tokens ? special_tokens->optional(name.string()) : std::nullopt;
    if (!tokens) name.fail(in_quotes(name.string()), "a name from special_tokens");
    tokens->member("ids").for_each([&](const JsonField& id) { ids.push_back(read_id(id)); });
  });
  const auto n_texts = std::count(ids.begin(), ids.end(), kText);
  if (n_texts != 1) field.member("single").fail(std::to_string(n_texts) + " places for the text", "one");
  return ids;
}

void PostProcessor::apply(std::vector<std::int32_t>& ids) const {
  for (const Template& parts : templates_) {
    std::vector<std::int32_t> framed;
    framed.reserve(ids.size() + parts.size());
    for (const std::int32_t part : parts) {
      if (part == kText) {
        framed.insert(framed.end(), ids.begin(), ids.end());
      } else {
        framed.push_back(part);
      }
    }
    ids = std::move(framed);
  }
}

}  // namespace keyscope::tokenizer
