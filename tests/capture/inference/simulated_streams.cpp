#include <algorithm>

#include <fmt/format.h>

#include "tests/capture/inference/simulated_device.hpp"

namespace keyscope::test {

namespace {

void take_later(Clock& clock, const Clock& other) {
  for (const auto& [place, time] : other) clock[place] = std::max(clock[place], time);
}

std::string name_of(const Place& place) {
  return fmt::format("stream {} of device {}", place.second, place.first);
}

}  // namespace

Streams& Streams::all() {
  static Streams streams;
  return streams;
}

// What this thread has waited for.
Clock& Streams::host() {
  thread_local std::int64_t epoch = -1;
  thread_local Clock clock;
  if (std::exchange(epoch, epoch_) != epoch_) clock.clear();
  return clock;
}

Clock Streams::now(const Place& place) {
  const std::scoped_lock lock(mutex_);
  return streams_[place].known;
}

void Streams::hold_back(const Place& place, const Clock& event) {
  const std::scoped_lock lock(mutex_);
  take_later(streams_[place].known, event);
}

void Streams::wait(const Clock& event) {
  const std::scoped_lock lock(mutex_);
  take_later(host(), event);
  make(event);
}

void Streams::wait(c10::DeviceIndex device) {
  const std::scoped_lock lock(mutex_);
  Clock all;
  for (const auto& [place, stream] : streams_)
    if (place.first == device) take_later(all, stream.known);
  wait(all);
}

bool Streams::waited_for(const Clock& event) {
  const std::scoped_lock lock(mutex_);
  return std::ranges::all_of(event, [&](const auto& of) { return host()[of.first] >= of.second; });
}

void Streams::begin(const Place& place, const std::string& operation, const std::vector<Touch>& touched) {
  const std::scoped_lock lock(mutex_);
  go_on(place);
  make(streams_[place].known);
  touch(place, operation, touched);
}

void Streams::ask(const Place& place, const std::vector<Touch>& touched, std::function<void()> copy) {
  const std::scoped_lock lock(mutex_);
  go_on(place);
  touch(place, "a copy", touched);
  Stream& stream = streams_[place];
  stream.late[stream.known[place]] = {stream.known, std::move(copy)};
}

void Streams::take(const Place& owner, const c10::StorageImpl* memory) {
  const std::scoped_lock lock(mutex_);
  go_on(owner);
  Stream& stream = streams_[owner];
  check(owner, stream.free.written, "takes memory that is written");
  check(owner, stream.free.read, "takes memory that is read");
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

c10::StreamId Streams::fresh() {
  const std::scoped_lock lock(mutex_);
  return ++latest_;
}

SimulatedWork Streams::finish() {
  const std::scoped_lock lock(mutex_);
  Clock all;
  for (const auto& [place, stream] : streams_) take_later(all, stream.known);
  make(all);
  streams_.clear();
  for (auto& [memory, touched] : memory_) touched = {};
  ++epoch_;
  return std::exchange(work_, {});
}

// A stream's next moment, which comes after all that the thread has waited for.
void Streams::go_on(const Place& place) {
  Clock& known = streams_[place].known;
  take_later(known, host());
  ++known[place];
}

void Streams::touch(const Place& place, const std::string& operation, const std::vector<Touch>& touched) {
  for (const auto& [memory, writes] : touched) {
    Touched& last = memory_[memory];
    check(place, last.written, operation + (writes ? " writes what is written" : " reads what is written"));
    if (writes) check(place, last.read, operation + " writes what is read");
    if (writes)
      last = {{{place, streams_[place].known[place]}}, {}};
    else
      last.read[place] = streams_[place].known[place];
  }
}

// Each after those that it had to wait for.
void Streams::make(const Clock& event) {
  for (const auto& [place, time] : event) {
    auto& late = streams_[place].late;
    while (!late.empty() && late.begin()->first <= time) {
      const Late next = std::move(late.extract(late.begin()).mapped());
      make(next.known);
      next.copy();
      ++work_.late_copies;
    }
  }
}

void Streams::check(const Place& place, const Clock& touched, const std::string& what) {
  Clock& known = streams_[place].known;
  for (const auto& [other, time] : touched)
    if (other != place && known[other] < time)
      work_.races.insert(fmt::format("{}: {} by {}", name_of(place), what, name_of(other)));
}

}  // namespace keyscope::test
