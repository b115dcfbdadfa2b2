#include "support/files.h"

#include <unistd.h>

#include <cerrno>
#include <csignal>

namespace braze {

namespace {

/// \param move  of (address, bytes): as read(2) and write(2).
template <typename Byte, typename Move>
bool move_all(Byte* at, size_t size, Move move) {
  while (size > 0) {
    const ssize_t moved = move(at, size);
    if (moved < 0 && errno == EINTR) continue;
    if (moved <= 0) return false;
    at += moved, size -= static_cast<size_t>(moved);
  }
  return true;
}

/// A file beyond the process's limit is an error of the call, and no signal that ends the process.
class NoSignal {
 public:
  NoSignal() {
    sigset_t pending;
    sigemptyset(&signal_);
    sigaddset(&signal_, SIGXFSZ);
    was_pending_ = sigpending(&pending) == 0 && sigismember(&pending, SIGXFSZ) == 1;
    pthread_sigmask(SIG_BLOCK, &signal_, &before_);
  }
  ~NoSignal() {
    constexpr timespec now{};
    const int error = errno;
    if (!was_pending_) sigtimedwait(&signal_, nullptr, &now);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    errno = error;
  }
  NoSignal(const NoSignal&) = delete;
  NoSignal& operator=(const NoSignal&) = delete;

 private:
  sigset_t signal_, before_;
  bool was_pending_;
};

}  // namespace

bool read_all(int descriptor, void* to, size_t size) {
  return move_all(static_cast<char*>(to), size, [&](char* at, size_t left) { return read(descriptor, at, left); });
}

bool write_all(int descriptor, const void* from, size_t size) {
  const NoSignal quiet;
  return move_all(static_cast<const char*>(from), size,
                  [&](const char* at, size_t left) { return write(descriptor, at, left); });
}

}  // namespace braze
