#include "app/commands/commands.hpp"

int main(int argc, char** argv) { return keyscope::commands::run_command_line(argc, argv); }
