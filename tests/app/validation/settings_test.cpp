#include "app/validation/settings.hpp"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errors.hpp"
#include "analysis/policies/registry.hpp"
#include "app/results/setting_differences.hpp"

namespace keyscope::validation {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::string> completed(const std::vector<std::string>& asked) {
  std::vector<analysis::PolicySpec> specs;
  for (const auto& text : asked) specs.push_back(analysis::parse_policy(text));
  std::vector<std::string> names;
  for (const auto& spec : complete_policies(specs)) names.push_back(spec.name);
  return names;
}

TEST(Settings, NoneAndKeydiffAlwaysRun) {
  EXPECT_THAT(completed({"sink"}), ElementsAre("none", "keydiff", "sink"));
  EXPECT_THAT(completed({"random", "keydiff", "none", "sink"}),
              ElementsAre("none", "keydiff", "random", "sink"));
  EXPECT_EQ(completed({}).size(), default_policies().size());
  EXPECT_THROW(completed({"sink", "sink:first=2"}), UsageError);
  EXPECT_THROW(completed({"keydiff", "keydiff:recent=0.1"}), UsageError);
  EXPECT_EQ(complete_policies({analysis::parse_policy("keydiff:recent=0.1")})[1].options.at("recent"), "0.1");
}

TEST(Settings, EveryOneOfThemMakesAnotherPrompt) {
  Settings settings;
  settings.policies = default_policies();
  const std::vector<std::int32_t> ids{1, 23};
  std::set<std::string> keys{prompt_key(settings_json(settings), ids)};
  const auto changed = [&](auto change) {
    Settings other = settings;
    change(other);
    keys.insert(prompt_key(settings_json(other), ids));
    EXPECT_EQ(results::setting_differences(settings_json(settings), settings_json(other)).size(), 1u);
  };
  changed([](Settings& s) { s.model.sha256 = "a"; });
  changed([](Settings& s) { s.model.dtype = "bfloat16"; });
  changed([](Settings& s) { s.policies.pop_back(); });
  changed([](Settings& s) { s.policies[1].options["recent"] = "0.5"; });
  changed([](Settings& s) { s.budget.share = 0.5; });
  changed([](Settings& s) { s.budget.rows = 64; });
  changed([](Settings& s) { s.block_size = 32; });
  changed([](Settings& s) { s.max_tokens = 100; });
  keys.insert(prompt_key(settings_json(settings), std::vector<std::int32_t>{12, 3}));
  EXPECT_EQ(keys.size(), 10u);
  EXPECT_THAT(results::setting_differences(settings_json(settings), settings_json(settings)), IsEmpty());
}

TEST(Settings, PromptsThatEvictNothingAreRefused) {
  Settings settings;
  settings.budget.rows = 20;
  settings.block_size = 8;
  std::vector<Prompt> prompts{{"a", std::vector<std::int32_t>(21, 1), "", 1}};
  EXPECT_NO_THROW(check_lengths(settings, prompts, "p.jsonl"));
  const auto error_of = [&](std::size_t n_tokens) {
    prompts.push_back({"b", std::vector<std::int32_t>(n_tokens, 1), "", 2});
    try {
      check_lengths(settings, prompts, "p.jsonl");
    } catch (const FileError& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_THAT(error_of(20), AllOf(HasSubstr("p.jsonl, line 2"), HasSubstr("budget of 20")));
  prompts.pop_back();
  settings.budget.rows = 4;
  EXPECT_THAT(error_of(8), AllOf(HasSubstr("p.jsonl, line 2"), HasSubstr("one block of 8")));
}

}  // namespace
}  // namespace keyscope::validation
