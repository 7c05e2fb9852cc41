#pragma once

#include <memory>
#include <type_traits>
#include <utility>

namespace keyscope {

// A borrowed callable, two pointers wide: splitting a text calls one per piece, hundreds of thousands of
// times, where std::function would allocate. Lives no longer than what it was made from.
template <typename Signature>
class CallbackRef;

template <typename... Arguments>
class CallbackRef<void(Arguments...)> {
 public:
  // Implicit, as it stands in for a plain reference; that it hides no copy, `requires` sees to.
  template <typename Callable>
    requires(!std::is_same_v<std::remove_cvref_t<Callable>, CallbackRef>)
  CallbackRef(Callable&& callable)  // NOLINT(bugprone-forwarding-reference-overload)
      : callable_(const_cast<void*>(static_cast<const void*>(std::addressof(callable)))),
        call_([](void* target, Arguments... arguments) {
          (*static_cast<std::remove_reference_t<Callable>*>(target))(std::forward<Arguments>(arguments)...);
        }) {}

  void operator()(Arguments... arguments) const { call_(callable_, std::forward<Arguments>(arguments)...); }

 private:
  void* callable_;
  void (*call_)(void*, Arguments...);
};

}  // namespace keyscope
