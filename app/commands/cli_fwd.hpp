#pragma once

// What headers name of CLI11, which has no header of its own for it.
namespace CLI {
class App;
class Option;
class Validator;
}  // namespace CLI
