#include "app/evaluation/row_fields.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errors.hpp"

namespace keyscope::evaluation {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;

TEST(RowFields, AreReadWhereTheyAreTexts) {
  const json row{{"one", "a"}, {"several", {"b", "c"}}, {"none", json::array()}};
  EXPECT_EQ(text_field(row, "one", ""), "a");
  EXPECT_THAT(texts_field(row, "several", ""), ElementsAre("b", "c"));
  EXPECT_TRUE(texts_field(row, "none", "").empty());
}

TEST(RowFields, OthersAreNamedWithWhatWasFound) {
  const json row{{"count", 3}, {"mixed", {"b", 3}}, {"null", nullptr}};
  const auto refusal = [&](const char* field, bool several) -> std::string {
    try {
      several ? static_cast<void>(texts_field(row, field, "f, line 1"))
              : static_cast<void>(text_field(row, field, "f, line 1"));
    } catch (const FileError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refusal("count", false), "f, line 1: \"count\" is \"3\"; expected a text");
  EXPECT_EQ(refusal("null", false), "f, line 1: \"null\" is \"null\"; expected a text");
  EXPECT_EQ(refusal("absent", false), "f, line 1: \"absent\" is not there; expected a text");
  EXPECT_EQ(refusal("mixed", true), "f, line 1: \"mixed\" is \"[\\\"b\\\",3]\"; expected an array of texts");
  EXPECT_EQ(refusal("count", true), "f, line 1: \"count\" is \"3\"; expected an array of texts");
}

}  // namespace
}  // namespace keyscope::evaluation
