#include "base/json.hpp"

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/errors.hpp"
#include "base/text.hpp"

namespace keyscope {

namespace {

TEST(ParseJson, GivesADiscardedValueForWhatIsNone) {
  for (const char* text : {"", "[1", "[1] 2", "nan", "{\"a\": \"\xff\"}"}) {
    EXPECT_TRUE(parse_json(text).is_discarded()) << text;
    EXPECT_TRUE(parse_json(text, 1).is_discarded()) << text;
    EXPECT_TRUE(parse_ordered_json(text).is_discarded()) << text;
  }
}

TEST(ParseJson, GoesNoDeeperThanItIsAsked) {
  EXPECT_EQ(parse_json("[1, 2]", 1), (nlohmann::json{1, 2}));
  EXPECT_EQ(parse_json("7", 0), 7);
  EXPECT_EQ(parse_json(R"([[], {"a": 1}])", 2).size(), 2U);
  for (const char* text : {"[[]]", "[1, {}]", "[1, [2], 3]", R"({"a": {"b": 1}})"})
    EXPECT_TRUE(parse_json(text, 1).is_discarded()) << text;
  EXPECT_TRUE(parse_json(std::string(1 << 20, '['), 2).is_discarded());
}

TEST(ParseJson, GoesNoDeeperThanWhatReadsItCan) {
  const auto nested = [](int depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_TRUE(parse_json(nested(kDeepestJson)).is_array());
  EXPECT_TRUE(parse_json(nested(kDeepestJson + 1)).is_discarded());
  EXPECT_TRUE(parse_ordered_json(nested(kDeepestJson)).is_array());
  EXPECT_TRUE(parse_ordered_json(nested(1 << 20)).is_discarded());
}

TEST(ParseOrderedJsonObject, KeepsTheOrderAndReadsWhatPythonWrites) {
  const auto json = parse_ordered_json_object(R"({"b": NaN, "a": -Infinity})", "a file");
  EXPECT_EQ(json_text(json), R"({"b":"NaN","a":"-Infinity"})");
  EXPECT_THROW(parse_ordered_json_object(R"({"b": 1, "b": 2})", "a file"), FileError);
  EXPECT_THROW(parse_ordered_json_object("[]", "a file"), FileError);
}

TEST(JsonInteger, IsNoneOfWhatDoesNotFit) {
  const auto read = [](const char* text) { return json_integer<int>(parse_json(text)); };
  EXPECT_EQ(read("7"), 7);
  EXPECT_EQ(read("-2147483648"), std::numeric_limits<int>::min());
  for (const char* text : {"2147483648", "18446744073709551615", "7.0", "1e300", "true", "\"7\"", "null"})
    EXPECT_EQ(read(text), std::nullopt) << text;
  EXPECT_EQ(json_integer(parse_json("3"), 4, 5), std::nullopt);
}

TEST(JsonText, IsReadBackAndReplacesWhatIsNoUtf8) {
  EXPECT_EQ(json_text(parse_ordered_json(R"({"b": 1, "a": [null, 0.5]})")), R"({"b":1,"a":[null,0.5]})");
  EXPECT_EQ(json_text(parse_json(R"({"b": 1, "a": 2})"), 2), "{\n  \"a\": 2,\n  \"b\": 1\n}");
  EXPECT_EQ(json_text(nlohmann::json("a\xff")), "\"a\uFFFD\"");
}

TEST(JsonScript, CannotEndItsElementAndReadsBackAsItWas) {
  const std::string hostile = "</script><!-- & \u2028 \u2029 \" \\ é";
  nlohmann::ordered_json value;
  value[hostile] = {hostile, 1};
  const std::string text = json_script(value);
  for (const char* part : {"<", ">", "&", "\u2028", "\u2029"}) EXPECT_EQ(text.find(part), text.npos) << part;
  EXPECT_EQ(parse_ordered_json(text), value);
  EXPECT_EQ(json_script({{"a", "\xFF"}}), "{\"a\":\"\uFFFD\"}");
}

TEST(ShownValue, IsALineThatCutsNoCharacter) {
  EXPECT_EQ(shown_value(parse_json("[1, {\"a\": null}]")), "[1,{\"a\":null}]");
  EXPECT_EQ(shown_value("two\nlines"), "\"two\\nlines\"");
  std::string text;
  for (int i = 0; i < 60; ++i) text += "é";
  EXPECT_EQ(shown_value("a" + text), "\"a" + text.substr(0, 78) + "\"…") << "80 bytes end within a character";
  EXPECT_EQ(shown_value(nlohmann::json::array({text})), "[\"" + text.substr(0, 78) + "…");
  EXPECT_TRUE(is_utf8(shown_value(std::string(100, '\x80'))));
}

TEST(JsonNumber, IsNullForWhatJsonHasNoNumberFor) {
  using Limits = std::numeric_limits<double>;
  EXPECT_EQ(json_text(json_number(0.25)), "0.25");
  EXPECT_TRUE(json_number(Limits::quiet_NaN()).is_null());
  EXPECT_TRUE(json_number(-Limits::infinity()).is_null());
  EXPECT_TRUE(json_number(std::optional<double>()).is_null());
  EXPECT_TRUE(json_number(std::optional(Limits::quiet_NaN())).is_null());
  EXPECT_EQ(json_number(std::optional(1e-300)), 1e-300);
}

TEST(JsonNumber, CountsStayWhole) {
  EXPECT_EQ(json_text(json_number(std::optional<std::int64_t>(12))), "12");
  EXPECT_TRUE(json_number(std::optional<std::int64_t>()).is_null());
}

}  // namespace

}  // namespace keyscope
