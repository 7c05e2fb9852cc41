#include "capture/tokenizer/post_processor.hpp"

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errors.hpp"

namespace keyscope::tokenizer {
namespace {

using nlohmann::json;
using testing::ElementsAre;

std::vector<std::int32_t> apply(const json& description, std::vector<std::int32_t> ids) {
  PostProcessor(JsonField(description, "tokenizer.json", "post_processor")).apply(ids);
  return ids;
}

const json kText{{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
json special(const char* name) { return {{"SpecialToken", {{"id", name}, {"type_id", 0}}}}; }
json make_template(const json& single) {
  return {{"type", "TemplateProcessing"},
          {"single", single},
          {"special_tokens",
           {{"<s>", {{"id", "<s>"}, {"ids", {1}}}}, {"</s>", {{"id", "</s>"}, {"ids", {2, 3}}}}}}};
}

TEST(PostProcessor, Templates) {
  EXPECT_THAT(apply(make_template({special("<s>"), kText}), {7, 8}), ElementsAre(1, 7, 8));
  EXPECT_THAT(apply(make_template({special("<s>"), kText, special("</s>")}), {}), ElementsAre(1, 2, 3));
  EXPECT_THAT(apply(make_template(json::array({kText})), {7}), ElementsAre(7));
}

TEST(PostProcessor, OthersAndSequences) {
  std::vector<std::int32_t> ids{7};
  PostProcessor().apply(ids);
  EXPECT_THAT(ids, ElementsAre(7));
  EXPECT_THAT(apply({{"type", "ByteLevel"}}, {7}), ElementsAre(7));
  EXPECT_THAT(apply({{"type", "RobertaProcessing"}, {"sep", {"</s>", 2}}, {"cls", {"<s>", 0}}}, {7}),
              ElementsAre(0, 7, 2));
  EXPECT_THAT(apply({{"type", "Sequence"},
                     {"processors", {{{"type", "ByteLevel"}}, make_template({special("<s>"), kText})}}},
                    {7}),
              ElementsAre(1, 7));
}

TEST(PostProcessor, SaysWhatIsWrong) {
  EXPECT_THROW(apply({{"type", "Unknown"}}, {}), FileError);
  EXPECT_THROW(apply(make_template({special("<x>"), kText}), {}), FileError);        // not in special_tokens
  EXPECT_THROW(apply(make_template(json::array({special("<s>")})), {}), FileError);  // no place for the text
  EXPECT_THROW(apply(make_template({kText, kText}), {}), FileError);                 // two
  EXPECT_THROW(apply(make_template(json::array({json::object()})), {}), FileError);
  EXPECT_THROW(apply({{"type", "BertProcessing"}, {"sep", {"</s>"}}, {"cls", {"<s>", 0}}}, {}), FileError);
  EXPECT_THROW(apply({{"type", "BertProcessing"}, {"sep", {"</s>", -1}}, {"cls", {"<s>", 0}}}, {}),
               FileError);
}

}  // namespace
}  // namespace keyscope::tokenizer
