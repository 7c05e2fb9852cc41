#include "app/commands/eval.hpp"

#include "app/commands/commands.hpp"

namespace keyscope::commands {

void add_eval(CLI::App& app) {
  CLI::App* eval =
      app.add_subcommand("eval", "What a policy costs in answers: tasks, scored against the full cache");
  add_eval_niah(*eval);
  add_eval_phonebook(*eval);
  add_eval_longbench(*eval);
  add_eval_math500(*eval);
  add_eval_perplexity(*eval);
  eval->require_subcommand(1);
}

}  // namespace keyscope::commands
