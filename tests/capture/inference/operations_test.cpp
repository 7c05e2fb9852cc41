// How much a device is asked for by a block in one layer. Where blocks are short, a GPU's time goes into
// starting operations, and into waiting for the host between them.

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <ATen/record_function.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
    handle_ = at::addThreadLocalCallback(
        at::RecordFunctionCallback(
            [](const at::RecordFunction&) -> std::unique_ptr<at::ObserverContext> {
              open().push_back(false);
              return nullptr;
            },
            [](const at::RecordFunction& function, at::ObserverContext*) {
              const bool others_did_it = open().back(), counts_here = !others_did_it && !is_view(function.name());
              open().pop_back();
              if (counts_here) ++counts()[function.name()];
              if (!open().empty() && (others_did_it || counts_here)) open().back() = true;
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
        "aten::view", "aten::as_strided", "aten::slice", "aten::select", "aten::narrow", "aten::transpose",
        "aten::unsqueeze", "aten::squeeze", "aten::expand", "aten::_unsafe_view", "aten::alias", "aten::t",
        "aten::_reshape_alias", "aten::empty", "aten::empty_strided", "aten::detach", "aten::unflatten",
        "aten::result_type", "aten::resize_", "aten::is_nonzero", "aten::permute", "aten::reshape",
        "aten::contiguous", "aten::to", "aten::as_strided_", "aten::flatten", "aten::_conj", "aten::lift", "aten::transpose_", "aten::movedim", "aten::lift_fresh", "aten::item", "aten::set_", "aten::unbind", "aten::resolve_conj", "aten::resolve_neg"};
    return kViews.contains(name);
  }
  at::CallbackHandle handle_;
};

std::map<std::string, std::int64_t> operations(const Model& model, const CaptureOptions& options, bool recorded) {
  const Operations counted;
  if (recorded) {
    test::run_in_memory(model, options);
  } else {
    CaptureControl control;
    run_capture(model, options, {}, control);
  }
  return Operations::counts();
}

TEST(DeviceOperations, ABlockTakesFew) {
  const auto model = Model::load(test::inference_golden("tiny_llama"),
                                 test::model_options(Arithmetic::kAten, DType::kBFloat16));
  for (const char* policy : {"none", "keydiff", "snapkv", "h2o"})
    for (const bool recorded : {false, true}) {
      CaptureOptions options;
      options.policies = test::policies({policy});
      options.budget = 16;
      options.block_size = 8;
      options.schedule = Schedule::kBlock;
      options.prompt_ids = test::random_ids(48, model->config().vocab_size);
      operations(*model, options, recorded);  // tables are made once
      const auto before = operations(*model, options, recorded);
      options.prompt_ids = test::random_ids(56, model->config().vocab_size);
      auto after = operations(*model, options, recorded);
      std::int64_t all = 0;
      std::string text;
      for (const auto& [name, n] : after) {
        const auto was = before.find(name);
        const std::int64_t more = n - (was == before.end() ? 0 : was->second);
        all += more;
        if (more != 0) text += fmt::format("  {} {}\n", name, static_cast<double>(more) / model->config().n_layers);
      }
      fmt::print("{} {}: {}\n{}", policy, recorded, static_cast<double>(all) / model->config().n_layers, text);
    }
}

}  // namespace
}  // namespace keyscope::capture
