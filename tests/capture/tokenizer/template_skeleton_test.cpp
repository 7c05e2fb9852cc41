#include "capture/tokenizer/template_skeleton.hpp"

#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/errors.hpp"

namespace keyscope::tokenizer {
namespace {

std::optional<std::string> skeleton(const std::string& source) {
  static const KnownConditions kKnown{{condition_text("yes"), true}, {condition_text("no"), false}};
  return template_skeleton(source, kKnown);
}

void expect_same(const std::string& a, const std::string& b) {
  ASSERT_TRUE(skeleton(a)) << a;
  EXPECT_EQ(skeleton(a), skeleton(b)) << a << "\n" << b;
}

TEST(TemplateSkeleton, SpellingMakesNoDifference) {
  expect_same("{{ m['role'] }}", "{{m.role}}");
  expect_same("{{ 'a' + x + \"b\" }}", "a{{ x }}b");
  expect_same("{{ '<|x|>' + '\\n' + (x | trim) + 'b' + 'c' }}", "{{'<|x|>\n'}}{{ x|trim }}bc");
  expect_same("{% if (x == 'a') %}b{% endif %}", "{%- if x == \"a\" -%}{#- why -#} b {%- endif %}");
  expect_same("{{ raise_exception('this') }}", "{{ raise_exception(\"that\") }}");
}

TEST(TemplateSkeleton, MeaningMakesADifference) {
  EXPECT_NE(skeleton("{{ x }}"), skeleton("x"));
  EXPECT_NE(skeleton("{{ 'x' }}"), skeleton("{{ x }}"));
  EXPECT_NE(skeleton("{{ 'a' if x + y }}"), skeleton("{{ 'a' if x }}{{ y }}"));
  EXPECT_NE(skeleton("{{ a ~ b + c }}"), skeleton("{{ a ~ b }}{{ c }}"));
  EXPECT_NE(skeleton("{{ f('a', b) }}"), skeleton("{{ f('a, b') }}"));
  EXPECT_NE(skeleton("{{ f('\\' , \\'') }}"), skeleton("{{ f('', '') }}"));
  EXPECT_NE(skeleton("{% if (a) or (b) %}x{% endif %}"), skeleton("{% if a) or (b %}x{% endif %}"));
  EXPECT_NE(skeleton("{% if x in ['a'] %}x{% endif %}"), skeleton("{% if x in.a %}x{% endif %}"));
}

TEST(TemplateSkeleton, KnownConditionsLeaveWhatIsReached) {
  expect_same("{% if yes %}a{% else %}b{% endif %}", "a");
  expect_same("{% if (no) %}a{% else %}b{% endif %}", "b");
  expect_same("{% if no %}a{% elif x %}b{% elif yes %}c{% elif y %}d{% endif %}",
              "{% if x %}b{% else %}c{% endif %}");
  expect_same("{% if x %}a{% elif no %}{% for y in z %}{{ y }}{% endfor %}{% endif %}",
              "{% if x %}a{% endif %}");
  expect_same("{% for x in y %}{% if no %}a{% endif %}{% endfor %}b", "b");
  expect_same("{% if x %}{% else %}{% endif %}", "");
  EXPECT_NE(skeleton("{% if yes or x %}a{% endif %}"), skeleton("a"));
}

TEST(TemplateSkeleton, WhatIsNotFollowedHasNone) {
  for (const std::string source :
       {"{{ x", "{% if x %}", "{% endif %}", "{% for x in y %}{% endif %}", "{% if x %}a{% endfor %}",
        "{% if x %}a{% else %}b{% else %}c{% endif %}", "{% for x in y %}a{% else %}b{% endfor %}",
        "{% if %}a{% endif %}", "{% raw %}{% endraw %}", "{{ 'x }}", "{{ '\\x41' }}", "{{ (x }}", "{{ }}",
        "{% %}", "a\x02x\x03", "{#", "{{-", "{%"})
    EXPECT_FALSE(skeleton(source)) << source;
  std::string deep;
  for (int i = 0; i < 100'000; ++i) deep += "{% if x %}";
  EXPECT_FALSE(skeleton(deep));
}

TEST(TemplateSkeleton, EveryBeginningOfATemplateIsRead) {
  const std::string whole =
      "{%- if x['a'] -%} {{- 'b\\n' + \"c\" }}{# d #}\n{% else %}{%+ set y = (1, 'z') +%}{% endif %}";
  for (std::size_t n = 0; n < whole.size(); ++n) EXPECT_NO_THROW(skeleton(whole.substr(0, n))) << n;
}

// goldens/make_chat_goldens.py, by Jinja
TEST(TemplateSkeleton, PrintsWhiteSpaceAsJinja) {
  std::ifstream file(std::filesystem::path(KEYSCOPE_SOURCE_DIR) /
                     "tests/capture/tokenizer/goldens/chat.golden.json");
  const auto golden = nlohmann::json::parse(file);
  const KnownConditions known{{condition_text("1"), true}};
  ASSERT_GE(golden["white_space"].size(), 80U);
  for (const auto& expected : golden["white_space"])
    EXPECT_EQ(template_skeleton(expected["template"].get<std::string>(), known),
              expected["printed"].get<std::string>())
        << expected;
}

TEST(TemplateSkeleton, AConditionIsAnExpression) { EXPECT_THROW(condition_text("'x"), InvalidInput); }

}  // namespace
}  // namespace keyscope::tokenizer
