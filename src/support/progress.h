// support/progress.h: how far work that takes longer than a second has come, as a line on the user's terminal.
//
//   Progress progress("compiling kernels", kernels.size());
//   ... progress.advance();                     braze: compiling kernels [#######-------------] 105 of 300
//
// Nothing is written where stderr is no terminal, where the work is done within a second, and with
// BRAZE_PROGRESS=0. The line is wiped when the work ends, so that it never stands between lines of the program.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>

namespace braze {

class Progress {
 public:
  using Clock = std::chrono::steady_clock;
  struct Output {
    std::function<void(std::string_view)> write;
    std::function<Clock::time_point()> now;
  };
  /// The terminal, or null.
  static const Output* standard();

  /// \param total   how often advance() will be called, or the sum of what it is given.
  /// \param output  outlives this; null: nothing is written.
  Progress(std::string_view what, size_t total, const Output* output = standard());
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// So many more are done. Of any thread.
  void advance(size_t count = 1) noexcept;

 private:
  void show(size_t done, Clock::time_point now);

  const std::string what_;
  const size_t total_;
  const Output* const output_;
  const Clock::time_point start_;
  std::atomic<size_t> done_{0};
  std::mutex mutex_;  ///< Protects the rest.
  Clock::time_point shown_;
  size_t width_ = 0;  ///< Of the line that stands on the terminal.
};

}  // namespace braze
