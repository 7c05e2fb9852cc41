// How much a device is asked for by a block in one layer. Where blocks are short, a GPU's time goes into
// starting operations, and into waiting for the host between them.

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <ATen/record_function.h>
#include <c10/core/InferenceMode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "analysis/policies/registry.hpp"
#include "capture/inference/layer_run.hpp"
#include "capture/model/policy_file.hpp"
#include "tests/capture/inference/arithmetics.hpp"
#include "tests/support/captured.hpp"

namespace keyscope::capture {
namespace {

// Operations of LibTorch that do something themselves, by name: those that look at a tensor otherwise, or
// call others, do not count.
class Operations {
 public:
  Operations() {
    open() = {};
    counts() = {};
    handle_ =
        at::addThreadLocalCallback(at::RecordFunctionCallback(
                                       [](const at::RecordFunction&) -> std::unique_ptr<at::ObserverContext> {
                                         open().push_back(false);
                                         return nullptr;
                                       },
                                       [](const at::RecordFunction& function, at::ObserverContext*) {
                                         const bool others_did_it = open().back(),
                                                    counts_here = !others_did_it && !is_view(function.name());
                                         open().pop_back();
                                         if (counts_here) ++counts()[function.name()];
                                         if (!open().empty() && (others_did_it || counts_here))
                                           open().back() = true;
                                       })
                                       .scopes({at::RecordScope::FUNCTION}));
  }
  ~Operations() { at::removeCallback(handle_); }
  Operations(const Operations&) = delete;
  Operations& operator=(const Operations&) = delete;

  static std::map<std::string, std::int64_t>& counts() {
    thread_local std::map<std::string, std::int64_t> by_name;
    return by_name;
  }

 private:
  static std::vector<bool>& open() {
    thread_local std::vector<bool> functions;
    return functions;
  }
  static bool is_view(const std::string& name) {
    static const std::set<std::string> kViews{
        "aten::view",           "aten::as_strided",   "aten::slice",         "aten::select",
        "aten::narrow",         "aten::transpose",    "aten::unsqueeze",     "aten::squeeze",
        "aten::expand",         "aten::_unsafe_view", "aten::alias",         "aten::t",
        "aten::_reshape_alias", "aten::empty",        "aten::empty_strided", "aten::detach",
        "aten::unflatten",      "aten::result_type",  "aten::resize_",       "aten::is_nonzero",
        "aten::permute",        "aten::reshape",      "aten::contiguous",    "aten::to",
        "aten::as_strided_",    "aten::flatten",      "aten::_conj",         "aten::lift",
        "aten::transpose_",     "aten::movedim",      "aten::lift_fresh",    "aten::item",
        "aten::set_",           "aten::unbind",       "aten::resolve_conj",  "aten::resolve_neg"};
    return kViews.contains(name);
  }
  at::CallbackHandle handle_;
};

std::map<std::string, std::int64_t> operations(const Model& model, const CaptureOptions& options,
                                               bool recorded) {
  const Operations counted;
  if (recorded) {
    test::run_in_memory(model, options);
  } else {
    CaptureControl control;
    run_capture(model, options, {}, control);
  }
  return Operations::counts();
}

// What a block asks of each layer under a policy, and if it is recorded, beyond what fewer blocks ask.
double operations_of_a_block(const Model& model, const std::string& policy, bool recorded) {
  CaptureOptions options;
  options.policies = test::policies({policy});
  options.budget = 16;
  options.block_size = 8;
  options.schedule = Schedule::kBlock;
  const auto of_tokens = [&](std::int64_t n) {
    options.prompt_ids = test::random_ids(n, model.config().vocab_size);
    return operations(model, options, recorded);
  };
  of_tokens(56);  // tables are made once
  std::int64_t more = 0;
  for (const auto& [name, n] : of_tokens(56)) more += n;
  for (const auto& [name, n] : of_tokens(48)) more -= n;
  return static_cast<double>(more) / model.config().n_layers;
}

// On the CPU, where conversions and norms take several; on a GPU they are fewer.
TEST(DeviceOperations, ABlockTakesFew) {
  struct Case {
    std::string policy;
    bool recorded;
    double most;
  };
  const auto model = Model::load(test::inference_golden("tiny_llama"),
                                 test::model_options(Arithmetic::kAten, DType::kBFloat16));
  for (const auto& [policy, recorded, most] : std::vector<Case>{{"none", false, 88},
                                                                {"none", true, 116},
                                                                {"keydiff", false, 115},
                                                                {"keydiff", true, 152},
                                                                {"snapkv", false, 135},
                                                                {"snapkv", true, 150},
                                                                {"h2o", false, 128},
                                                                {"h2o", true, 140}}) {
    const double n = operations_of_a_block(*model, policy, recorded);
    EXPECT_LE(n, most) << policy << (recorded ? ", recorded" : "");
    EXPECT_GE(n, 20) << "not all operations were seen";
  }
}

// What blocks of a prompt of three have come to, in a layer that is recorded.
std::vector<std::string> moments_of(Arithmetic arithmetic, const std::string& policy) {
  const c10::InferenceMode inference;
  const auto model =
      Model::load(test::inference_golden("tiny_llama"), test::model_options(arithmetic, DType::kFloat32));
  const Transformer& transformer = model->transformer();
  const std::vector<std::int32_t> ids = test::random_ids(24, model->config().vocab_size);
  const auto evicts = policy_for(analysis::parse_policy(policy), 0, model->config());
  const auto n_heads = static_cast<std::size_t>(model->config().heads(0).n_kv_heads);
  LayerPlan plan;
  plan.n_prompt = std::ssize(ids);
  plan.block_size = 8;
  plan.eviction = {evicts.get(), std::vector<std::int64_t>(n_heads, 12), 0, 12, plan.n_prompt};
  plan.capacities.assign(n_heads, plan.n_prompt);
  plan.recording = {.layer = true, .keys = true, .queries = true};
  LayerRun run(transformer, plan);
  std::vector<std::string> moments;
  at::Tensor hidden = transformer.embed(ids);
  run.run(
      *transformer.weights().layer(0), hidden, {ids, 0}, [&] { moments.emplace_back("asked"); },
      [&](std::int64_t, const recording::LayerBlock& record) {
        moments.push_back("told of " + std::to_string(record.attention.front().position.size()));
      });
  moments.emplace_back("returned");
  run.finish_records();
  return moments;
}

// A device computes the next block while the host comes to what it recorded of the one before; what policies
// look at on the host cannot wait.
TEST(DeviceOperations, RecordsWaitUntilTheNextBlockWasAskedFor) {
  using ::testing::ElementsAre;
  for (const char* policy : {"none", "keydiff"}) {
    const bool all = policy == std::string("none");
    const std::string second = "told of 16", third = all ? "told of 24" : "told of 20";
    EXPECT_THAT(moments_of(Arithmetic::kKernels, policy),
                ElementsAre("asked", "told of 8", "asked", second, "asked", third, "returned"));
    EXPECT_THAT(moments_of(Arithmetic::kAten, policy),
                ElementsAre("asked", "asked", "told of 8", "asked", second, "returned", third));
  }
  EXPECT_THAT(moments_of(Arithmetic::kAten, "h2o"),
              ElementsAre("asked", "told of 8", "asked", "told of 16", "asked", "told of 20", "returned"));
}

}  // namespace
}  // namespace keyscope::capture
