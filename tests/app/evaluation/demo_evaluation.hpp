#pragma once

#include <memory>
#include <span>

#include "app/evaluation/evaluation.hpp"

namespace keyscope::evaluation {

inline constexpr const char* kDemoModel = KEYSCOPE_SOURCE_DIR "/assets/demo_model";

inline std::shared_ptr<const capture::Model> demo_model() {
  static const auto model = capture::Model::load(kDemoModel, {.dtype = capture::DType::kFloat32});
  return model;
}

// An evaluation in memory, with nobody watching.
inline Evaluation evaluate_demo(const Settings& settings, std::span<const Example> examples,
                                const Scorer& scorer) {
  capture::CaptureControl control;
  return evaluate(*demo_model(), settings, examples, scorer, nullptr,
                  {control, [](std::int64_t, std::int64_t, const std::string&) {}});
}

}  // namespace keyscope::evaluation
