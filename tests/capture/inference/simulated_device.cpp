#include "tests/capture/inference/simulated_device.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <initializer_list>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/Allocator.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/Stream.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

namespace keyscope::test {

namespace {

constexpr c10::DeviceType kSimulated = c10::DeviceType::PrivateUse1;
constexpr c10::DeviceIndex kDevices = 2;
constexpr int kNaN = 0xFF;  // every byte of a NaN of any width

struct Current {
  c10::DeviceIndex device = 0;
  std::array<c10::StreamId, kDevices> streams{};
};
thread_local Current current;

Place current_place(c10::DeviceIndex device) { return {device, current.streams.at(device)}; }
Place place_of(const c10::Stream& stream) { return {stream.device_index(), stream.id()}; }

struct SimulatedEvent {
  Clock known;
  bool timed = false;
  std::chrono::steady_clock::time_point time;
};

struct SimulatedGuard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return kSimulated; }
  c10::Device exchangeDevice(c10::Device device) const override {
    return {kSimulated, std::exchange(current.device, device.index())};
  }
  c10::Device getDevice() const override { return {kSimulated, current.device}; }
  void setDevice(c10::Device device) const override { current.device = device.index(); }
  void uncheckedSetDevice(c10::Device device) const noexcept override { current.device = device.index(); }
  c10::Stream getStream(c10::Device device) const override {
    return named(device, current.streams.at(device.index()));
  }
  c10::Stream getDefaultStream(c10::Device device) const override { return named(device, 0); }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool /*high*/) const override {
    return named(device, Streams::all().fresh());
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    c10::StreamId& now = current.streams.at(stream.device_index());
    return named(stream.device(), std::exchange(now, stream.id()));
  }
  c10::DeviceIndex deviceCount() const noexcept override { return kDevices; }

  void record(void** event, const c10::Stream& stream, c10::DeviceIndex /*device*/,
              c10::EventFlag flag) const override {
    if (*event == nullptr) *event = new SimulatedEvent;
    *static_cast<SimulatedEvent*>(*event) = {Streams::all().now(place_of(stream)),
                                             flag == c10::EventFlag::BACKEND_DEFAULT,
                                             std::chrono::steady_clock::now()};
  }
  void block(void* event, const c10::Stream& stream) const override {
    Streams::all().hold_back(place_of(stream), static_cast<SimulatedEvent*>(event)->known);
  }
  void synchronizeEvent(void* event) const override {
    Streams::all().wait(static_cast<SimulatedEvent*>(event)->known);
  }
  // Past only where the thread has waited for it: nobody may rely on luck.
  bool queryEvent(void* event) const override {
    return Streams::all().waited_for(static_cast<SimulatedEvent*>(event)->known);
  }
  void destroyEvent(void* event, c10::DeviceIndex /*device*/) const noexcept override {
    delete static_cast<SimulatedEvent*>(event);
  }
  double elapsedTime(void* from, void* to, c10::DeviceIndex /*device*/) const override {
    const auto& a = *static_cast<SimulatedEvent*>(from);
    const auto& b = *static_cast<SimulatedEvent*>(to);
    TORCH_CHECK(a.timed && b.timed, "an event without its time");
    return std::chrono::duration<double, std::milli>(b.time - a.time).count();
  }
  void synchronizeStream(const c10::Stream& stream) const override { Streams::all().wait(place_of(stream)); }
  void synchronizeDevice(c10::DeviceIndex device) const override { Streams::all().wait(device); }

 private:
  static c10::Stream named(c10::Device device, c10::StreamId id) {
    return c10::Stream(c10::Stream::UNSAFE, device, id);
  }
};

// The host's memory that a device could copy from and to by itself.
class PinnedMemory final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t n) override {
    auto* memory = new Block{{}, n};
    memory->bytes = std::make_unique<std::byte[]>(std::max<std::size_t>(n, 1));
    std::memset(memory->bytes.get(), kNaN, n);
    const std::scoped_lock lock(mutex_);
    blocks_[memory->bytes.get()] = n;
    return {memory->bytes.get(), memory, give_back, c10::kCPU};
  }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void* to, const void* from, std::size_t n) const override { std::memcpy(to, from, n); }

  bool holds(const void* data) {
    const std::scoped_lock lock(mutex_);
    const auto after = blocks_.upper_bound(static_cast<const std::byte*>(data));
    if (after == blocks_.begin()) return false;
    const auto& [begin, n] = *std::prev(after);
    return static_cast<const std::byte*>(data) < begin + n;
  }

  static PinnedMemory& all() {
    static PinnedMemory memory;
    return memory;
  }

 private:
  struct Block {
    std::unique_ptr<std::byte[]> bytes;
    std::size_t n;
  };
  static void give_back(void* block) {
    const std::unique_ptr<Block> memory(static_cast<Block*>(block));
    std::memset(memory->bytes.get(), kNaN, memory->n);
    const std::scoped_lock lock(all().mutex_);
    all().blocks_.erase(memory->bytes.get());
  }

  std::mutex mutex_;
  std::map<const std::byte*, std::size_t> blocks_;
};

struct SimulatedHooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex /*device*/) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return kDevices; }
  bool isPinnedPtr(const void* data) const override { return PinnedMemory::all().holds(data); }
  c10::Allocator* getPinnedMemoryAllocator() const override { return &PinnedMemory::all(); }
};

// Tensors of the devices, and the host's view of them.

const c10::StorageImpl* memory_of(const at::Tensor& tensor) {
  return tensor.storage().unsafeGetStorageImpl();
}

// What a device's memory is made of.
struct HostMemory {
  at::Tensor host;
  Place owner;
  const c10::StorageImpl* memory = nullptr;

  static void give_back(void* context) {
    const std::unique_ptr<HostMemory> held(static_cast<HostMemory*>(context));
    Streams::all().give_back(held->owner, held->memory);
    if (held->host.storage().use_count() == 1)
      std::memset(held->host.storage().mutable_data(), kNaN, held->host.storage().nbytes());
  }
};

// What the host has computed, as the device's own.
at::Tensor on_device(const at::Tensor& host, c10::DeviceIndex device) {
  auto* held = new HostMemory{host, current_place(device)};
  c10::DataPtr data(host.storage().mutable_data(), held, HostMemory::give_back, {kSimulated, device});
  c10::Storage storage(c10::Storage::use_byte_size_t{}, host.storage().nbytes(), std::move(data), nullptr,
                       false);
  held->memory = storage.unsafeGetStorageImpl();
  Streams::all().take(held->owner, held->memory);
  at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), host.dtype());
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(host.sizes(), host.strides(), host.storage_offset());
  return tensor;
}

at::Tensor on_host(const at::Tensor& tensor) {
  const auto options = at::TensorOptions().dtype(tensor.dtype());
  if (tensor.numel() == 0) return at::empty(tensor.sizes(), options);  // which may grow
  return at::from_blob(tensor.mutable_data_ptr(), tensor.sizes(), tensor.strides(), options);
}

bool is_ours(const at::Tensor& tensor) { return tensor.defined() && tensor.device().type() == kSimulated; }

void become(const at::Tensor& tensor, const at::Tensor& other) {
  auto* impl = tensor.unsafeGetTensorImpl();
  impl->set_storage_keep_dtype(other.storage());
  impl->set_sizes_and_strides(other.sizes(), other.strides(), other.storage_offset());
}

// One operation, done by the host on tensors of one device.
class HostCall {
 public:
  HostCall(const c10::OperatorHandle& operation, torch::jit::Stack& stack)
      : operation_(operation),
        stack_(stack),
        given_(stack.end() - static_cast<std::ptrdiff_t>(operation.schema().arguments().size()),
               stack.end()) {}

  void run() {
    stack_.erase(stack_.end() - std::ssize(given_), stack_.end());
    for (const c10::IValue& value : given_) stack_.push_back(for_host(value));
    if (device_) Streams::all().begin(current_place(*device_), operation_.schema().name(), touched());
    const std::vector<c10::IValue> passed(stack_.end() - std::ssize(given_), stack_.end());
    operation_.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), &stack_);
    for (std::size_t i = 0; i < given_.size(); ++i)
      if (is_written(operation_.schema().arguments()[i]) && given_[i].isTensor())
        take_size(given_[i].toTensor(), passed[i].toTensor());
    const std::size_t n = operation_.schema().returns().size(), first = stack_.size() - n;
    for (std::size_t i = 0; i < n; ++i) stack_[first + i] = returned(i, stack_[first + i]);
  }

 private:
  static bool is_written(const c10::Argument& argument) {
    return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
  }

  std::vector<Touch> touched() const {
    std::vector<Touch> all;
    for (std::size_t i = 0; i < given_.size(); ++i) {
      const bool writes = is_written(operation_.schema().arguments()[i]);
      const auto add = [&](const at::Tensor& tensor) {
        if (is_ours(tensor)) all.push_back({memory_of(tensor), writes});
      };
      const c10::IValue& value = given_[i];
      if (value.isTensor()) add(value.toTensor());
      if (value.isTensorList()) std::ranges::for_each(value.toTensorVector(), add);
      if (value.isOptionalTensorList())
        for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector())
          if (tensor) add(*tensor);
    }
    return all;
  }

  at::Tensor for_host(const at::Tensor& tensor) {
    if (!tensor.defined()) return tensor;
    if (!is_ours(tensor)) {
      TORCH_CHECK(tensor.dim() == 0, operation_.schema().name(),
                  ": a tensor of the host among those of a device");
      return tensor;
    }
    be_on(tensor.device());
    return on_host(tensor);
  }

  void be_on(at::Device device) {
    TORCH_CHECK(!device_ || *device_ == device.index(), operation_.schema().name(),
                ": tensors of two devices");
    device_ = device.index();
  }

  c10::IValue for_host(const c10::IValue& value) {
    if (value.isTensor()) return for_host(value.toTensor());
    if (value.isTensorList()) {
      std::vector<at::Tensor> tensors;
      for (const at::Tensor& tensor : value.toTensorVector()) tensors.push_back(for_host(tensor));
      return tensors;
    }
    if (value.isOptionalTensorList()) {
      c10::List<std::optional<at::Tensor>> tensors;
      for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector())
        tensors.push_back(tensor ? std::optional(for_host(*tensor)) : std::nullopt);
      return tensors;
    }
    if (value.isDevice() && value.toDevice().type() == kSimulated) {
      be_on(value.toDevice());
      return c10::Device(c10::kCPU);
    }
    return value;
  }

  // What an operation has made larger.
  static void take_size(const at::Tensor& given, const at::Tensor& host) {
    if (!is_ours(given) || given.sizes() == host.sizes()) return;
    become(given, on_device(host, given.device().index()));
  }

  c10::IValue returned(std::size_t index, const c10::IValue& value) const {
    const auto* alias = operation_.schema().returns()[index].alias_info();
    if (alias != nullptr) {
      TORCH_CHECK(alias->isWrite(), operation_.schema().name(), ": a view, which is not simulated");
      for (std::size_t i = 0; i < given_.size(); ++i) {
        const c10::Argument& argument = operation_.schema().arguments()[i];
        if (is_written(argument) && argument.alias_info()->beforeSets() == alias->beforeSets())
          return given_[i];
      }
    }
    if (value.isTensor() && value.toTensor().defined()) return on_device(value.toTensor(), device_.value());
    if (!value.isTensorList()) return value;
    std::vector<at::Tensor> tensors;
    for (const at::Tensor& tensor : value.toTensorVector())
      tensors.push_back(on_device(tensor, device_.value()));
    return tensors;
  }

  const c10::OperatorHandle& operation_;
  torch::jit::Stack& stack_;
  std::vector<c10::IValue> given_;
  std::optional<c10::DeviceIndex> device_;
};

void run_on_host(const c10::OperatorHandle& operation, c10::DispatchKeySet /*keys*/,
                 torch::jit::Stack* stack) {
  HostCall(operation, *stack).run();
}

at::Tensor fresh(const at::Tensor& host, std::optional<c10::Device> device) {
  std::memset(host.storage().mutable_data(), kNaN, host.storage().nbytes());
  return on_device(host, device && device->has_index() ? device->index() : current.device);
}

at::Tensor make_empty(at::IntArrayRef size, std::optional<at::ScalarType> dtype,
                      std::optional<at::Layout> /*layout*/, std::optional<at::Device> device,
                      std::optional<bool> /*pinned*/, std::optional<at::MemoryFormat> format) {
  const auto host = at::TensorOptions().dtype(dtype).device(c10::kCPU);
  return fresh(at::empty(size, host, format), device);
}

at::Tensor make_empty_strided(at::IntArrayRef size, at::IntArrayRef stride,
                              std::optional<at::ScalarType> dtype, std::optional<at::Layout> /*layout*/,
                              std::optional<at::Device> device, std::optional<bool> /*pinned*/) {
  const auto host = at::TensorOptions().dtype(dtype).device(c10::kCPU);
  return fresh(at::empty_strided(size, stride, host), device);
}

const at::Tensor& resized(const at::Tensor& tensor, at::IntArrayRef size,
                          std::optional<at::MemoryFormat> /*format*/) {
  if (tensor.sizes() == size) return tensor;
  TORCH_CHECK(tensor.numel() == 0, "only empty tensors become larger here");
  become(tensor, make_empty(size, tensor.scalar_type(), {}, tensor.device(), {}, {}));
  return tensor;
}

// A part of somebody's memory, which may be gone by the time that it is looked at.
class LaterView {
 public:
  explicit LaterView(const at::Tensor& tensor)
      : storage_(tensor.storage().getWeakStorageImpl()), host_(on_host(tensor)) {}
  bool there() const { return !storage_.expired(); }
  const at::Tensor& host() const { return host_; }

 private:
  c10::weak_intrusive_ptr<c10::StorageImpl> storage_;
  at::Tensor host_;
};

std::vector<Touch> touched_by_copy(const at::Tensor& to, const at::Tensor& from) {
  std::vector<Touch> touched;
  if (is_ours(from)) touched.push_back({memory_of(from), false});
  if (is_ours(to)) touched.push_back({memory_of(to), true});
  return touched;
}

at::Tensor& copy(at::Tensor& to, const at::Tensor& from, bool need_not_wait) {
  if (to.numel() == 0) return to;
  Streams& streams = Streams::all();
  const Place place = current_place((is_ours(from) ? from : to).device().index());
  const at::Tensor& other = is_ours(from) ? to : from;
  if (need_not_wait && other.is_cpu() && PinnedMemory::all().holds(other.const_data_ptr())) {
    streams.ask(place, touched_by_copy(to, from), [there = LaterView(to), here = LaterView(from)] {
      TORCH_CHECK(there.there() && here.there(), "memory was given back before it was copied");
      there.host().copy_(here.host());
    });
    return to;
  }
  // Between devices the streams of both wait for one another; with the host, the host waits.
  const Place end = other.is_cpu() ? place : current_place(other.device().index());
  if (end != place) streams.hold_back(place, streams.now(end));
  streams.begin(place, "a copy", touched_by_copy(to, from));
  const at::Tensor there = is_ours(to) ? on_host(to) : to;
  there.copy_(is_ours(from) ? on_host(from) : from);
  if (end != place) streams.hold_back(end, streams.now(place));
  if (other.is_cpu()) streams.wait(place);
  return to;
}

at::Scalar value_of(const at::Tensor& tensor) {
  const Place place = current_place(tensor.device().index());
  Streams::all().begin(place, "a value", {{memory_of(tensor), false}});
  Streams::all().wait(place);
  return on_host(tensor).item();
}

// What CUDA has and the CPU has not.

void begin(const char* operation, c10::DeviceIndex device, std::initializer_list<at::Tensor> read) {
  std::vector<Touch> touched;
  for (const at::Tensor& tensor : read) {
    if (!tensor.defined()) continue;
    TORCH_CHECK(is_ours(tensor) && tensor.device().index() == device, operation, ": a tensor lies elsewhere");
    touched.push_back({memory_of(tensor), false});
  }
  Streams::all().begin(current_place(device), operation, touched);
}

at::Tensor bmm_with_dtype(const at::Tensor& a, const at::Tensor& b, at::ScalarType dtype) {
  const auto device = a.device().index();
  begin("bmm.dtype", device, {a, b});
  return on_device(at::bmm(on_host(a).to(dtype), on_host(b).to(dtype)), device);
}

using Attention = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

Attention efficient_attention(const at::Tensor& queries, const at::Tensor& keys, const at::Tensor& values,
                              const std::optional<at::Tensor>& mask, bool /*log_sum_exp*/, double dropout,
                              bool causal, std::optional<double> scale) {
  const auto device = queries.device().index();
  begin("attention", device, {queries, keys, values, mask.value_or(at::Tensor())});
  const std::optional<at::Tensor> of_host = mask ? std::optional(on_host(*mask)) : std::nullopt;
  const auto [mixed, log_sum_exp] = at::_scaled_dot_product_flash_attention_for_cpu(
      on_host(queries), on_host(keys), on_host(values), dropout, causal, of_host, scale);
  return {on_device(mixed, device), on_device(log_sum_exp, device), at::Tensor(), at::Tensor()};
}

}  // namespace

const std::vector<at::Device>& simulated_devices() {
  static const std::vector<at::Device> kAll = [] {
    static SimulatedHooks hooks;
    at::RegisterPrivateUse1HooksInterface(&hooks);
    c10::register_privateuse1_backend("simulated");
    return std::vector<at::Device>{{kSimulated, 0}, {kSimulated, 1}};
  }();
  return kAll;
}

C10_REGISTER_GUARD_IMPL(PrivateUse1, SimulatedGuard)

TORCH_LIBRARY_IMPL(_, PrivateUse1, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&run_on_host>());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("empty.memory_format", make_empty);
  library.impl("empty_strided", make_empty_strided);
  library.impl("resize_", resized);
  library.impl("as_strided", at::native::as_strided_tensorimpl);
  library.impl("view", at::native::view);
  library.impl("_reshape_alias", at::native::_reshape_alias);
  library.impl("unfold", at::native::unfold);
  library.impl("copy_", copy);
  library.impl("_local_scalar_dense", value_of);
  library.impl("bmm.dtype", bmm_with_dtype);
  library.impl("_scaled_dot_product_efficient_attention", efficient_attention);
}

}  // namespace keyscope::test
