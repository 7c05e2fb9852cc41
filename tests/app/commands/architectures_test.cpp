// Models whose heads have learned sinks, whose layers have experts, of whose layers some have no keys, heads
// of another shape or the keys of others, through the commands that read what was captured of them.

#include <fstream>
#include <numeric>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/json.hpp"
#include "tests/support/cli.hpp"

namespace keyscope::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Json = nlohmann::json;

struct Architecture {
  std::string model;  // of tests/capture/inference/goldens
  bool sinks = false, keyless = false, experts = false;
};

void PrintTo(const Architecture& about, std::ostream* out) { *out << about.model; }

std::string ids_text(int first) {
  Json ids = Json::array();
  for (int i = 0; i < 64; ++i) ids.push_back(4 + (first * 7 + i * i * 3 + i) % 40);
  return json_text(ids);
}

class OfArchitecture : public ::testing::TestWithParam<Architecture> {
 protected:
  void SetUp() override {
    write("ids.json", ids_text(1));
    run({"capture",      "--quiet",
         "--model",      model(),
         "--prompt-ids", path("ids.json"),
         "--policy",     "none",
         "--policy",     "keydiff",
         "--policy",     "h2o",
         "--budget",     "16",
         "--block",      "8",
         "--generate",   "3",
         "--record",     "keys,queries,values,attention,logits",
         "--out",        path("r.h5")});
  }

  static std::string model() {
    return KEYSCOPE_SOURCE_DIR "/tests/capture/inference/goldens/" + GetParam().model;
  }
  std::string path(const std::string& name) const { return folder_.file(name).string(); }
  void write(const std::string& name, const std::string& text) const { std::ofstream(path(name)) << text; }

  static std::string run(const std::vector<std::string>& arguments) {
    const CliResult result = run_cli(arguments);
    EXPECT_EQ(result.status, 0) << arguments.front() << ": " << result.err;
    return result.out;
  }

  ScratchFolder folder_;
};

TEST_P(OfArchitecture, AnalyzeSaysWhatIsSpecial) {
  const Architecture about = GetParam();
  const std::string table = run({"analyze", path("r.h5"), "--quiet"});
  EXPECT_EQ(table.find("have no keys") != std::string::npos, about.keyless) << table;
  EXPECT_EQ(table.find("learned sinks") != std::string::npos, about.sinks);
  EXPECT_EQ(table.find("load Gini") != std::string::npos, about.experts);
  const Json json = parse_json(run({"analyze", path("r.h5"), "--quiet", "--json", "-"}));
  EXPECT_EQ(json["keyless_layers"].empty(), !about.keyless);
  for (const Json& run : json["runs"]) {
    EXPECT_EQ(run["routers"].empty(), !about.experts);
    for (const Json& router : run["routers"]) {
      const auto load = router["load"].get<std::vector<double>>();
      EXPECT_NEAR(std::accumulate(load.begin(), load.end(), 0.0), 1, 1e-12);
      EXPECT_EQ(router["n_tokens"], 64);
      EXPECT_GT(router["router_entropy_nats"].get<double>(), 0);
    }
    for (const Json& head : run["heads"]) {
      for (const Json& layer : json["keyless_layers"]) EXPECT_NE(head["layer"], layer);
      EXPECT_EQ(head["learned_sink_share"].is_number(), about.sinks);
      EXPECT_EQ(head["output_error_without_sinks"].is_number(), about.sinks);
      EXPECT_EQ(head["spearman_without_sinks"].is_number(), about.sinks && run["run"] == "none");
      EXPECT_EQ(head["expert_epsilon_squared"].is_number(), about.experts);
    }
  }
}

TEST_P(OfArchitecture, InspectListsLayersWithoutKeys) {
  const Json json = parse_json(run({"inspect", path("r.h5"), "--json", "-"}));
  EXPECT_EQ(json["learned_sinks"], GetParam().sinks);
  EXPECT_EQ(json["keyless_layers"].empty(), !GetParam().keyless);
  EXPECT_EQ(json.contains("experts"), GetParam().experts);
  EXPECT_EQ(parse_json(run({"inspect", model(), "--json", "-"})).contains("keyless_layers"),
            GetParam().keyless);
  run({"inspect", path("r.h5"), "--token", "3"});
}

TEST_P(OfArchitecture, EveryFigureIsDrawn) {
  run({"export", path("r.h5"), "--quiet", "--out", path("figures.h5")});
  run({"export", path("r.h5"), "--quiet", "--html", path("page.html")});
  run({"figure", path("r.h5"), "head-map", "--out", path("map.svg")});
  run({"diff", path("r.h5"), "--run", "keydiff", "--run", "h2o", "--quiet"});
}

TEST_P(OfArchitecture, AReplayIsComparedWithItsSource) {
  run({"replay", path("r.h5"), "--policy", "keydiff", "--policy", "h2o", "--budget", "16", "--block", "8",
       "--quiet", "--out", path("again.h5")});
  EXPECT_THAT(run({"analyze", path("again.h5"), "--quiet"}),
              HasSubstr(GetParam().keyless ? "exact in layer 1" : "exact in layer 0"));
  run({"export", path("again.h5"), "--quiet", "--out", path("figures.h5")});
  EXPECT_EQ(run_cli({"compare", path("r.h5"), path("r.h5")}).status, 0);
  const CliResult compared = run_cli({"compare", path("r.h5"), path("again.h5")});
  EXPECT_THAT(compared.status, ::testing::AnyOf(0, 1)) << compared.err;
}

TEST_P(OfArchitecture, AHeadOfALayerWithoutKeysIsRefusedByName) {
  if (!GetParam().keyless) GTEST_SKIP() << "all layers have keys";
  const Json inspected = parse_json(run({"inspect", path("r.h5"), "--json", "-"}));
  const std::string layer = std::to_string(inspected["keyless_layers"][0].get<int>());
  const auto refusal = HasSubstr("layer " + layer + " has no keys: its mixer is recurrent");
  const auto refused = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--layer", layer});
    const CliResult result = run_cli(arguments);
    EXPECT_EQ(result.status, 2) << arguments.front();
    EXPECT_THAT(result.err, refusal) << arguments.front();
  };
  refused({"analyze", path("r.h5"), "--quiet"});
  refused({"figure", path("r.h5"), "attention", "--out", path("a.svg")});
  refused({"export", path("r.h5"), "--quiet", "--out", path("e.h5")});
  refused({"diff", path("r.h5"), "--run", "keydiff", "--run", "h2o"});
  refused({"inspect", path("r.h5"), "--token", "3"});
  const CliResult replayed = run_cli({"replay", path("r.h5"), "--policy", "keydiff", "--budget", "16",
                                      "--layers", layer, "--out", path("again.h5")});
  EXPECT_EQ(replayed.status, 2);
  EXPECT_THAT(replayed.err, refusal);
  const CliResult captured = run_cli({"capture", "--quiet", "--model", model(), "--prompt-ids",
                                      path("ids.json"), "--layers", layer, "--out", path("none.h5")});
  EXPECT_EQ(captured.status, 2);
  EXPECT_THAT(captured.err, HasSubstr("have no keys"));
}

TEST_P(OfArchitecture, ValidateJudgesWithAndWithoutSinks) {
  std::string prompts;
  for (int i = 0; i < 8; ++i) prompts += "{\"ids\": " + ids_text(i) + "}\n";
  write("prompts.jsonl", prompts);
  const std::string table =
      run({"validate", "--quiet", "--model", model(), "--prompts", path("prompts.jsonl"), "--block", "16",
           "--policy", "sink", "--policy", "random", "--out", path("validation")});
  EXPECT_EQ(table.find("learned sinks take") != std::string::npos, GetParam().sinks) << table;
  EXPECT_EQ(table.find("without keys") != std::string::npos, GetParam().keyless) << table;
  std::ifstream file(path("validation") + "/validation.json");
  const Json json = Json::parse(file);
  for (const Json& claim : json["claims"]) {
    const bool of_attention = claim["id"] == "attention-correlation" || claim["id"] == "given-position" ||
                              claim["id"] == "attention-kept" || claim["id"] == "output-error";
    EXPECT_EQ(claim.contains("without_sinks"), GetParam().sinks && of_attention) << claim["id"];
  }
}

INSTANTIATE_TEST_SUITE_P(Models, OfArchitecture,
                         ::testing::Values(Architecture{"tiny_gpt_oss", true, false, true},
                                           Architecture{"tiny_qwen3_next", false, true, true},
                                           Architecture{"tiny_qwen35", false, true, false},
                                           Architecture{"tiny_gemma4", false, false, false},
                                           Architecture{"tiny_gemma4_moe", false, false, true}),
                         [](const auto& test) { return test.param.model; });

}  // namespace
}  // namespace keyscope::test
