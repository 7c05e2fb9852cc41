#include <ctime>
#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/files.hpp"
#include "base/json.hpp"
#include "capture/jinja/syntax.hpp"
#include "capture/jinja/template.hpp"

namespace keyscope::jinja {
namespace {

using nlohmann::ordered_json;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::tm some_day() {
  std::tm day{};
  strptime("2024-07-26", "%Y-%m-%d", &day);
  return day;
}

std::string render(std::string_view source, const ordered_json& variables = ordered_json::object()) {
  return Template(source).render(variables, some_day());
}

std::string failure(std::string_view source, const ordered_json& variables = ordered_json::object()) {
  try {
    return "rendered: " + render(source, variables);
  } catch (const RenderError& error) {
    return "line " + std::to_string(error.line()) + ": " + error.what();
  } catch (const SyntaxError& error) {
    return "syntax, line " + std::to_string(error.line()) + ": " + error.what();
  }
}

// goldens/make_jinja_goldens.py, by Jinja as Transformers sets it up
TEST(Jinja, RendersAsTransformers) {
  const auto golden = parse_ordered_json(read_file(std::filesystem::path(KEYSCOPE_SOURCE_DIR) /
                                                   "tests/capture/jinja/goldens/jinja.golden.json"));
  int n_rendered = 0;
  for (const auto& expected : golden["cases"]) {
    const auto source = expected["template"].get<std::string>();
    if (expected["text"].is_null()) {
      EXPECT_THAT(failure(source, golden["variables"]), ::testing::Not(::testing::StartsWith("rendered")))
          << source;
    } else {
      const auto text = expected["text"].get<std::string>();
      EXPECT_EQ(failure(source, golden["variables"]), "rendered: " + text) << source;
      ++n_rendered;
    }
  }
  EXPECT_GE(n_rendered, 200);
}

TEST(Jinja, WhiteSpaceAroundTagsGoesAsTheSignsSay) {
  EXPECT_EQ(render("a\n  {% if true %}\n  b\n  {% endif %}\nc\n"), "a\n  b\nc");
  EXPECT_EQ(render("a\n  {%+ if true %}b{% endif +%}\nc"), "a\n  b\nc");
  EXPECT_EQ(render("a \n {%- if true -%} \n b {%- endif %} c"), "ab c");
  EXPECT_EQ(render("a {{- 'b' -}} c {{ 'd' }} e"), "abc d e");
  EXPECT_EQ(render("a\n  {# why #}\nb{#- -#} c"), "a\nbc");
  EXPECT_EQ(render("{% raw %}{{ x }}{% endraw %}"), "{{ x }}");
}

TEST(Jinja, EveryKindOfLineEndIsOne) {
  EXPECT_EQ(render("a\r\n{% if true %}\r\nb\r{% endif %}\r\n"), "a\nb\n");
  EXPECT_EQ(render("{{ 'a\r\nb' }}"), "a\nb");
}

TEST(Jinja, ABodySetsItsOwnVariables) {
  EXPECT_EQ(render("{% set x = 1 %}{% for i in [1, 2] %}{{ x }}{% set x = 5 %}{{ x }}{% endfor %}{{ x }}"),
            "15151");
  EXPECT_EQ(render("{% if true %}{% set x = 2 %}{% endif %}{{ x }}"), "2");
  EXPECT_EQ(render("{% macro f() %}{{ x }}{% endmacro %}{% set x = 3 %}{{ f() }}"), "3");
  EXPECT_EQ(
      render("{% set n = namespace(x=0) %}{% for i in [1, 2] %}{% set n.x = n.x + i %}{% endfor %}{{ n.x }}"),
      "3");
}

TEST(Jinja, TellsTheTimeThatItIsGiven) {
  EXPECT_EQ(render("{{ strftime_now('%d %b %Y, %A%z') }}"), "26 Jul 2024, Friday");
}

TEST(Jinja, RaisesWhatTheTemplateRaises) {
  try {
    render("a\n{{ raise_exception('roles ' ~ 'must alternate') }}");
    FAIL();
  } catch (const RenderError& error) {
    EXPECT_TRUE(error.is_raised());
    EXPECT_EQ(error.line(), 2);
    EXPECT_STREQ(error.what(), "roles must alternate");
  }
}

TEST(Jinja, AFailureSaysWhereAndWhat) {
  EXPECT_EQ(failure("a\n\n{{ x.y }}"), "line 3: 'x' is undefined");
  EXPECT_EQ(failure("{{ 'a' + 1 }}"), "line 1: + is not supported between str and int");
  EXPECT_EQ(failure("{{ m.role.x.y }}", {{"m", {{"role", "user"}}}}),
            "line 1: 'str object' has no attribute 'x'");
  EXPECT_THAT(failure("{{ [1] | pprint }}"), HasSubstr("'pprint' is not supported"));
  EXPECT_THAT(failure("{{ 2 ** 64 }}"), HasSubstr("64 bits"));
}

TEST(Jinja, WhatIsNoTemplateSaysWhereAndWhat) {
  EXPECT_EQ(failure("a\n{% if x %}b"),
            "syntax, line 2: found \"the end of the template\", expected the tag elif or else or endif");
  EXPECT_EQ(failure("{{ x "), "syntax, line 1: found the end of the template, expected '}}'");
  EXPECT_EQ(failure("{% frob %}"), "syntax, line 1: found the tag \"frob\", expected a tag of Jinja");
  EXPECT_THAT(failure("{% include '/etc/passwd' %}"), HasSubstr("'include' is not supported"));
  EXPECT_THAT(failure("{{ (1 }}"), HasSubstr("found '}', expected )"));
  EXPECT_THAT(failure("{% break %}"), HasSubstr("outside of a loop"));
}

TEST(Jinja, EveryBeginningOfATemplateIsRead) {
  const std::string whole =
      "{%- for x, y in z.items() if x is not in ['a'] -%}{{- 'b\\n' ~ x[1:-1] | f(a=1, *b) }}{# d #}\n{% "
      "else "
      "%}{%+ set y = (1, {'z': 2.5e3}) +%}{% endfor %}{% raw %}{% endraw %}";
  for (std::size_t n = 0; n <= whole.size(); ++n) EXPECT_NO_THROW(failure(whole.substr(0, n))) << n;
}

TEST(Jinja, NothingIsReachedOrChangedButItsOwn) {
  const ordered_json variables{{"list", {1}}, {"dict", {{"a", 1}}}};
  EXPECT_THAT(failure("{{ list.append(2) }}", variables), HasSubstr("unsafe"));
  EXPECT_THAT(failure("{{ dict.update({'b': 2}) }}", variables), HasSubstr("unsafe"));
  for (const char* source : {"{{ ''.__class__ }}", "{{ range.__globals__ }}", "{{ dict.__class__ }}"})
    EXPECT_EQ(failure(source, variables), "rendered: ") << source;
  EXPECT_THAT(failure("{{ ''.__class__.__mro__ }}"), HasSubstr("no attribute"));
  EXPECT_THAT(failure("{{ namespace(_x=1) }}"), HasSubstr("must not begin with '_'"));
  for (const char* name : {"open", "os", "environ", "lipsum", "self", "cycler"})
    EXPECT_THAT(failure("{{ " + std::string(name) + "() }}"), HasSubstr(name));
}

// Each would take hours, or all memory.
TEST(Jinja, HostileTemplatesEnd) {
  const std::string rounds = "{% for i in range(100000) %}";
  std::string dots;
  for (int i = 0; i < 100'000; ++i) dots += ".x";
  const std::vector<std::string> sources{
      rounds + rounds + "x{% endfor %}{% endfor %}",
      "{% set n = namespace(x='x') %}" + rounds + "{% set n.x = n.x + n.x %}{% endfor %}",
      "{% set n = namespace(x=[]) %}" + rounds + "{% set n.x = [n.x, n.x] %}{% endfor %}{{ n.x }}",
      "{% set n = namespace(x=[]) %}" + rounds + "{% set n.x = [n.x] %}{% endfor %}{{ n.x }}",
      "{% set n = namespace() %}{% set n.x = n %}{{ n }}",
      "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
      "{{ 'ab' * 10 ** 12 }}",
      "{{ [1, 2] * 10 ** 12 }}",
      "{{ range(10 ** 12) }}",
      "{{ '%999999999d' % 1 }}",
      "{{ '{:>99999999999}'.format(1) }}",
      "{{ 'x'.center(10 ** 12) }}",
      "{{ 'x'.zfill(10 ** 12) }}",
      "{{ [1] | batch(10 ** 12, 0) | list }}",
      "{{ [1] | slice(10 ** 12) | list }}",
      "{% set a = 'a' * 10 ** 6 %}" + rounds + "{{ a.count(a[1:]) }}{% endfor %}",
      "{% set a = 'a' * 10 ** 6 %}" + rounds + "{% set b = a.strip(a) %}{% endfor %}",
      "{% set a = range(100000) | list %}" + rounds + "{{ -1 in a }}{% endfor %}",
      "{{ " + std::string(100'000, '(') + " }}",
      "{{ " + std::string(100'000, '-') + "1 }}",
      "{{ x" + dots + " }}",
  };
  for (const std::string& source : sources)
    EXPECT_THAT(failure(source), AllOf(HasSubstr("line"), ::testing::Not(HasSubstr("rendered"))))
        << source.substr(0, 200);
}

TEST(Jinja, LongPromptsAreWithinTheLimits) {
  std::string text;
  for (int i = 0; i < 1'000'000; ++i) text += "a long prompt, é ";
  const ordered_json variables{{"messages", {{{"role", "user"}, {"content", text}}}}};
  EXPECT_EQ(render("{% for m in messages %}{{ '<' + m.role + '>' + (m.content | trim) + '\\n' }}{% endfor %}",
                   variables)
                .size(),
            text.size() + 6);
  ordered_json messages = ordered_json::array();
  for (int i = 0; i < 5'000; ++i) messages.push_back({{"role", "user"}, {"content", "turn"}});
  EXPECT_EQ(render("{% for m in messages %}{% if not loop.last %}{{ m['content'] }}{% endif %}{% endfor %}",
                   {{"messages", messages}})
                .size(),
            4U * 4'999);
}

}  // namespace
}  // namespace keyscope::jinja
