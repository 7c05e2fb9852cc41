#include "tests/capture/inference/simulated_streams.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace keyscope::test {

namespace {

constexpr c10::StreamId kPool = 8;  // streams of a device besides the first

void take_later(Clock& clock, const Clock& other) {
  for (const auto& [place, time] : other) clock[place] = std::max(clock[place], time);
}

}  // namespace

Streams& Streams::all() {
  static Streams streams;
  return streams;
}

Clock Streams::now(const Place& place) {
  const std::scoped_lock lock(mutex_);
  return streams_[place].known;
}

void Streams::hold_back(const Place& place, const Clock& event) {
  const std::scoped_lock lock(mutex_);
  take_later(streams_[place].known, event);
  for (const auto& [other, time] : event) make(other, time);
}

void Streams::wait(const Clock& event) {
  const std::scoped_lock lock(mutex_);
  take_later(host_, event);
  for (const auto& [other, time] : event) make(other, time);
}

void Streams::wait(c10::DeviceIndex device) {
  for (c10::StreamId stream = 0; stream <= kPool; ++stream) wait(Place(device, stream));
}

bool Streams::known_to_host(const Clock& event) {
  const std::scoped_lock lock(mutex_);
  return std::ranges::all_of(event, [&](const auto& of) { return host_[of.first] >= of.second; });
}

void Streams::begin(const Place& place) {
  const std::scoped_lock lock(mutex_);
  Stream& stream = streams_[place];
  make(place, stream.known[place]);
  ++stream.known[place];
}

void Streams::ask(const Place& place, std::function<void()> copy) {
  const std::scoped_lock lock(mutex_);
  Stream& stream = streams_[place];
  stream.late.emplace_back(++stream.known[place], std::move(copy));
}

void Streams::read(const Place& place, const c10::StorageImpl* memory) {
  const std::scoped_lock lock(mutex_);
  Touched& touched = memory_[memory];
  check(place, touched.written, "reads what another stream writes");
  touched.read[place] = streams_[place].known[place];
}

void Streams::write(const Place& place, const c10::StorageImpl* memory) {
  const std::scoped_lock lock(mutex_);
  Touched& touched = memory_[memory];
  check(place, touched.written, "writes what another stream writes");
  check(place, touched.read, "writes what another stream reads");
  touched = {{{place, streams_[place].known[place]}}, {}};
}

void Streams::take(const Place& owner, const c10::StorageImpl* memory) {
  const std::scoped_lock lock(mutex_);
  Stream& stream = streams_[owner];
  check(owner, stream.free.written, "takes memory that another stream writes");
  check(owner, stream.free.read, "takes memory that another stream reads");
  stream.free = {};
  memory_[memory] = {{{owner, stream.known[owner]}}, {}};
}

void Streams::give_back(const Place& owner, const c10::StorageImpl* memory) {
  const std::scoped_lock lock(mutex_);
  const auto found = memory_.find(memory);
  if (found == memory_.end()) return;
  Touched& free = streams_[owner].free;
  take_later(free.written, found->second.written);
  take_later(free.read, found->second.read);
  memory_.erase(found);
}

c10::StreamId Streams::from_pool() {
  const std::scoped_lock lock(mutex_);
  return latest_ = latest_ % kPool + 1;
}

SimulatedWork Streams::work() {
  const std::scoped_lock lock(mutex_);
  return work_;
}

void Streams::make(const Place& place, std::int64_t time) {
  auto& late = streams_[place].late;
  for (; !late.empty() && late.front().first <= time; late.pop_front()) {
    late.front().second();
    ++work_.late_copies;
  }
}

void Streams::check(const Place& place, const Clock& touched, const char* what) {
  for (const auto& [other, time] : touched)
    if (other != place && streams_[place].known[other] < time && host_[other] < time)
      work_.races.insert(fmt::format("stream {} of device {} {}", place.second, place.first, what));
}

}  // namespace keyscope::test
