// `inspect` on the configuration of every family: what it is, or why it is not taken.

#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/files.hpp"
#include "base/json.hpp"
#include "capture/model/family.hpp"
#include "tests/support/cli.hpp"
#include "tests/support/random_model.hpp"

namespace keyscope::test {
namespace {

using ::testing::HasSubstr;
nlohmann::ordered_json inspected(const std::string& name) {
  const ScratchFolder folder;
  write_file(folder.file("config.json"), json_text(parse_ordered_json(read_file(family_configs())).at(name)),
             false);
  const CliResult result = run_cli({"inspect", folder.path().string(), "--json", "-"});
  EXPECT_EQ(result.status, 0) << result.err;
  return parse_ordered_json(result.out);
}

TEST(InspectFamilies, EveryConfigurationIsDescribedOrRefusedWithAReason) {
  const nlohmann::ordered_json configs = parse_ordered_json(read_file(family_configs()));
  for (const auto& [name, config] : configs.items()) {
    const ScratchFolder folder;
    write_file(folder.file("config.json"), json_text(config), false);
    const CliResult result = run_cli({"inspect", folder.path().string()});
    const std::string model_type = config.at("model_type");
    const bool taken = capture::find_family(model_type) != nullptr && name != "granite-4.0-h-small";
    EXPECT_EQ(result.status == 0, taken) << name << ": " << result.err;
    EXPECT_THAT(taken ? result.out : result.err, HasSubstr(model_type)) << name;
  }
}

TEST(InspectFamilies, SaysWhatSetsAModelApart) {
  const nlohmann::ordered_json gpt = inspected("gpt-oss-20b");
  EXPECT_EQ(gpt["experts"]["count"], 32);
  EXPECT_EQ(gpt["experts"]["per_token"], 4);
  EXPECT_EQ(gpt["attention_sinks"], true);
  const nlohmann::ordered_json next = inspected("Qwen3Next");
  EXPECT_EQ(next["layers"], 48);
  EXPECT_EQ(next["layers_with_keys"], 12);
  EXPECT_EQ(next["attention_gate"], true);
  EXPECT_EQ(next["kv_cache_bytes_per_token"], 12 * 2 * 2 * 256 * 4) << "float32, as nothing says otherwise";
  const nlohmann::ordered_json deep = inspected("deepseek-v3");
  EXPECT_EQ(deep["kv_heads"], 1);
  EXPECT_EQ(deep["latent"]["rank"], 512);
  EXPECT_EQ(deep["latent"]["rotated"], 64);
  EXPECT_FALSE(inspected("Llama").contains("experts"));
}

}  // namespace
}  // namespace keyscope::test
