// Recordings of which some layers hold a statistic and others do not, as other programs may write them: what
// is absent is null, nothing else changes, and a comparison says that it is absent.

#include <filesystem>
#include <string>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hdf5.h>
#include <nlohmann/json.hpp>

#include "base/json.hpp"
#include "tests/support/captured_phonebook.hpp"

namespace keyscope::test {
namespace {

using ::testing::HasSubstr;

class PartialRecordings : public CapturedPhonebook {
 protected:
  static nlohmann::json runs_of(const std::string& recording) {
    const CliResult analyzed = run_cli({"analyze", recording, "--no-bounds", "--quiet", "--json", "-"});
    EXPECT_EQ(analyzed.status, 0) << analyzed.err;
    return parse_json(analyzed.out)["runs"];
  }

  // A copy in which layer 1 of the first run lacks the dataset.
  static std::string without(const std::string& dataset) {
    std::string copy = path("without.h5");
    std::filesystem::copy_file(path("r.h5"), copy, std::filesystem::copy_options::overwrite_existing);
    const hid_t file = H5Fopen(copy.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
    EXPECT_GE(H5Ldelete(file, ("/entry/runs/none/layer_01/" + dataset).c_str(), H5P_DEFAULT), 0) << dataset;
    EXPECT_GE(H5Fclose(file), 0);
    return copy;
  }
};

TEST_F(PartialRecordings, WhatALayerLacksIsNullAndNothingElse) {
  const nlohmann::json all = runs_of(path("r.h5"));
  for (const auto& [dataset, measure] : {std::pair{"attention_entropy", "attention_entropy_nats"},
                                         {"attention_gini", "attention_gini"},
                                         {"attention_top_share", "attention_top_share"},
                                         {"attention_window", ""}}) {
    const std::string partial = without(dataset);
    nlohmann::json expected = all;
    for (nlohmann::json& head : expected[0]["heads"])
      if (*measure != 0 && head["layer"] == 1) {
        EXPECT_FALSE(head[measure].is_null()) << measure;
        head[measure] = nullptr;
      }
    EXPECT_EQ(runs_of(partial), expected) << dataset;
    const CliResult compared = run_cli({"compare", path("r.h5"), partial});
    EXPECT_EQ(compared.status, 1) << compared.err;
    EXPECT_THAT(compared.out,
                HasSubstr("run none, layer 1: " + std::string(dataset) + " is only in " + path("r.h5")));
    EXPECT_EQ(run_cli({"export", partial, "--figure", "head-map", "--out", path("f.h5"), "--force"}).status,
              0);
  }
}

}  // namespace
}  // namespace keyscope::test
