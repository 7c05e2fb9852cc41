#include "app/results/model_identity.hpp"

#include <gtest/gtest.h>

#include "capture/model/model.hpp"

namespace keyscope::results {
namespace {

TEST(ModelIdentity, IsOfFolderFilesAndArithmetic) {
  const auto model = capture::Model::load(KEYSCOPE_SOURCE_DIR "/assets/demo_model/../demo_model/",
                                          {.dtype = capture::DType::kFloat32, .device = "cpu"});
  const ModelIdentity identity = identity_of(*model);
  EXPECT_EQ(identity.name, "demo_model");
  EXPECT_EQ(identity.sha256, model->model_sha256());
  EXPECT_EQ(identity.sha256.size(), 64U);
  EXPECT_EQ(identity.dtype, "float32");
  EXPECT_EQ(identity.device, "cpu");
}

TEST(ModelIdentity, StandsBesideOtherSettings) {
  nlohmann::ordered_json settings{{"format", 1}};
  add_identity(settings, {"tiny", "ab12", "bfloat16", "cuda"});
  EXPECT_EQ(settings.dump(),
            R"({"format":1,"model":"tiny","model_sha256":"ab12","dtype":"bfloat16","device":"cuda"})");
}

}  // namespace
}  // namespace keyscope::results
