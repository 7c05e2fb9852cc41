#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace keyscope {

// SHA-256 of bytes that arrive in pieces.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void add(std::string_view bytes);
  std::string hex();  // 64 digits; nothing may be added after

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

}  // namespace keyscope
