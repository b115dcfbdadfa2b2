#include "support/progress.h"

#include <unistd.h>

#include <algorithm>

#include "support/error.h"
#include "support/switches.h"

namespace braze {

namespace {

using namespace std::chrono_literals;

constexpr auto patience = 1s;     // Users wait for so long without being told why.
constexpr auto interval = 100ms;  // Between two looks of a line.
constexpr size_t bar = 20;        // Columns.

void write_to_terminal(std::string_view text) {
  // What does not fit in at once is not worth waiting for.
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
}

}  // namespace

const Progress::Output* Progress::standard() {
  static const Output terminal{write_to_terminal, Clock::now};
  // Asked each time: a process may redirect its streams, or be forked into the background.
  return isatty(STDERR_FILENO) && switches::text(switches::progress) != "0" ? &terminal : nullptr;
}

Progress::Progress(std::string_view what, size_t total, const Output* output)
    : what_(what), total_(total), output_(output), start_(output ? output->now() : Clock::time_point()) {}

Progress::~Progress() {
  if (width_ == 0) return;
  try {
    output_->write(concat("\r", std::string(width_, ' '), "\r"));
  } catch (...) {
    // The line stays: no reason to lose the work for.
  }
}

void Progress::advance(size_t count) noexcept {
  const size_t done = done_.fetch_add(count, std::memory_order_relaxed) + count;
  if (!output_) return;
  try {
    const Clock::time_point now = output_->now();
    if (now - start_ < patience) return;
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (lock && now - shown_ >= interval) show(done, now);
  } catch (...) {
    // No memory for a line: the work is worth more than it.
  }
}

void Progress::show(size_t done, Clock::time_point now) {
  const size_t filled = total_ == 0 ? bar : std::min(bar, bar * done / total_);
  const std::string line = concat("braze: ", what_, " [", std::string(filled, '#'), std::string(bar - filled, '-'),
                                  "] ", done, " of ", total_);
  std::string padded = concat("\r", line);
  if (line.size() < width_) padded.append(width_ - line.size(), ' ');
  output_->write(padded);
  width_ = std::max(width_, line.size());
  shown_ = now;
}

}  // namespace braze
