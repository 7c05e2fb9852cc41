#include "app/commands/model_choice.hpp"

#include "app/commands/option_checks.hpp"
#include "app/commands/option_words.hpp"

namespace keyscope::commands {

CLI::Option* ModelChoice::add_folder(CLI::App& command) {
  return command.add_option("--model", folder_, "A model folder in Hugging Face layout");
}

void ModelChoice::add_arithmetic(CLI::App& command) {
  command.add_option("--dtype", dtype_, "auto, float32, bfloat16 or float16")->capture_default_str();
  command.add_option("--device", device_, "auto, cpu or cuda")->capture_default_str();
  command
      .add_option("--threads", threads_, "Threads for inference (default: all cores; one for tiny models)")
      ->check(one_or_more());
}

capture::ModelOptions ModelChoice::options() const {
  using capture::DType;
  capture::ModelOptions options;
  options.dtype = choose<DType>("--dtype", dtype_,
                                {{"auto", DType::kAuto},
                                 {"float32", DType::kFloat32},
                                 {"bfloat16", DType::kBFloat16},
                                 {"float16", DType::kFloat16}});
  options.device =
      choose<std::string>("--device", device_, {{"auto", "auto"}, {"cpu", "cpu"}, {"cuda", "cuda"}});
  options.threads = threads_;
  return options;
}

}  // namespace keyscope::commands
