#include "cache/disk_cache.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <new>
#include <tuple>

#include "support/error.h"
#include "support/files.h"
#include "support/switches.h"

namespace braze::cache {

namespace {

constexpr char kMagic[8] = {'B', 'R', 'A', 'Z', 'E', 'D', 'C', '1'};
constexpr std::string_view kSuffix = ".braze";
constexpr const char* kSizeFile = "/size";  // the sum of all files, so that a put need not look at them all
constexpr time_t kStaleSeconds = 3600;      // a file being written is left alone for so long
constexpr int kLockAttempts = 5;            // one a millisecond: who holds the lock for longer may never let go
// Kernels take kilobytes. What claims more is damaged, and would cost memory and time to find out about.
constexpr uint64_t kLargestBlob = 64 << 20;
// Nothing that lies in the directory may make a call wait: a FIFO opens at once and is then refused.
constexpr int kOpenFlags = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;

struct Header {
  char magic[8];
  uint64_t size;  // of the blob behind the header
  Hash128 key, checksum;
};

class File {
 public:
  explicit File(int fd) : fd_(fd) {}
  ~File() {
    if (fd_ >= 0) close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  operator int() const { return fd_; }  // NOLINT: a file descriptor with an owner
  bool ok() const { return fd_ >= 0; }

 private:
  int fd_;
};

bool lock(int fd, int attempts) {
  while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if ((errno != EWOULDBLOCK && errno != EINTR) || --attempts <= 0) return false;
    usleep(1000);
  }
  return true;
}

bool make_directories(const std::string& path) {
  if (mkdir(path.c_str(), 0700) == 0 || errno == EEXIST) return true;
  const size_t slash = path.rfind('/');
  if (errno != ENOENT || slash == std::string::npos || slash == 0) return false;
  return make_directories(path.substr(0, slash)) && (mkdir(path.c_str(), 0700) == 0 || errno == EEXIST);
}

/// Ours to run: a plain file of this user that nobody else may write.
bool trusted(const struct stat& facts) {
  return S_ISREG(facts.st_mode) && (facts.st_uid == geteuid() || facts.st_uid == 0) &&
         (facts.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

std::string standard_directory() {
  if (switches::text(switches::cache) == "0") return "";
  if (const std::string_view named = switches::text(switches::cache_dir); !named.empty()) return std::string(named);
  if (std::string xdg = environment("XDG_CACHE_HOME"); !xdg.empty()) return xdg + "/braze";
  const std::string home = environment("HOME");
  return home.empty() ? "" : home + "/.cache/braze";
}

int64_t standard_limit() {
  const std::string text(switches::text(switches::cache_limit_mb));
  char* end = nullptr;
  const long long megabytes = std::strtoll(text.c_str(), &end, 10);
  const bool valid = !text.empty() && *end == 0 && megabytes >= 0 && megabytes < (1 << 30);
  return (valid ? megabytes : 256) << 20;
}

}  // namespace

DiskCache::DiskCache(std::string directory, int64_t limit_bytes)
    : directory_(std::move(directory)),
      limit_bytes_(limit_bytes),
      enabled_(!directory_.empty() && limit_bytes > 0) {}

DiskCache& DiskCache::standard() {
  static DiskCache cache(standard_directory(), standard_limit());
  return cache;
}

std::string DiskCache::path_of(const Hash128& key) const {
  return concat(directory_, "/", key.hex(), kSuffix);
}

std::optional<std::vector<char>> DiskCache::get(const Hash128& key) try {
  if (!enabled_) return std::nullopt;
  const std::string path = path_of(key);
  const File file(open(path.c_str(), O_RDONLY | kOpenFlags));
  struct stat facts;
  if (!file.ok() || fstat(file, &facts) != 0 || !trusted(facts)) return std::nullopt;

  Header header;
  std::vector<char> blob;
  const auto intact = [&] {
    if (!read_all(file, &header, sizeof header) || std::memcmp(header.magic, kMagic, sizeof kMagic) != 0)
      return false;
    if (header.key != key || header.size != static_cast<uint64_t>(facts.st_size) - sizeof header) return false;
    if (header.size > kLargestBlob || facts.st_size > limit_bytes_) return false;
    blob.resize(header.size);
    return read_all(file, blob.data(), blob.size()) && hash_bytes(blob.data(), blob.size()) == header.checksum;
  };
  if (!intact()) {
    if (unlink(path.c_str()) == 0) account(-facts.st_size);
    return std::nullopt;
  }
  futimens(file, nullptr);  // recently used; a read-only cache just cannot say so
  return blob;
} catch (const std::bad_alloc&) {
  return std::nullopt;
}

void DiskCache::put(const Hash128& key, std::string_view blob) try {
  const int64_t bytes = static_cast<int64_t>(sizeof(Header) + blob.size());
  if (!enabled_ || bytes > limit_bytes_ || blob.size() > kLargestBlob) return;

  // Aside under a name that no other process or thread uses, then renamed: readers see all of it or nothing.
  static std::atomic<uint32_t> counter{0};
  const std::string path = path_of(key);
  const std::string aside = concat(path, ".", getpid(), ".", counter.fetch_add(1));
  const int flags = O_WRONLY | O_CREAT | O_EXCL | kOpenFlags;
  int fd = open(aside.c_str(), flags, 0600);
  if (fd < 0 && errno == ENOENT && make_directories(directory_)) fd = open(aside.c_str(), flags, 0600);
  const File file(fd);
  if (!file.ok()) return;

  Header header{};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.size = blob.size();
  header.key = key;
  header.checksum = hash_bytes(blob.data(), blob.size());
  struct stat previous;
  const int64_t replaced = stat(path.c_str(), &previous) == 0 ? previous.st_size : 0;
  const bool written = write_all(file, &header, sizeof header) && write_all(file, blob.data(), blob.size()) &&
                       rename(aside.c_str(), path.c_str()) == 0;
  if (!written) {
    unlink(aside.c_str());
    return;
  }
  account(bytes - replaced);
} catch (const std::bad_alloc&) {
  // Nothing is kept; a file left aside goes with a later trim.
}

/// Adds to the sum kept in the size file and trims the directory when it passes the bound. The sum may drift when a
/// process dies in between; every trim sets it right. What cannot be added now, because another process has the
/// file, is added next time.
void DiskCache::account(int64_t written) {
  const int64_t pending = unaccounted_.fetch_add(written, std::memory_order_relaxed);
  const File file(open((directory_ + kSizeFile).c_str(), O_RDWR | O_CREAT | kOpenFlags, 0600));
  struct stat facts;
  if (!file.ok() || fstat(file, &facts) != 0 || !trusted(facts) || !lock(file, pending == 0 ? kLockAttempts : 1)) {
    // Without the sum the bound is still kept, if later.
    if (pending + written > limit_bytes_ / 2) trim(), unaccounted_ = 0;
    return;
  }
  int64_t total = 0;
  const bool known = pread(file, &total, sizeof total, 0) == sizeof total && total >= 0 && total <= INT64_MAX / 2;
  total += unaccounted_.exchange(0, std::memory_order_relaxed);
  if (!known || total > limit_bytes_) total = trim();
  if (lseek(file, 0, SEEK_SET) != 0 || !write_all(file, &total, sizeof total))
    unlink((directory_ + kSizeFile).c_str());
}

int64_t DiskCache::trim() {
  struct Entry {
    timespec used;
    int64_t size;
    std::string name;
  };
  const auto close_directory = [](DIR* d) { closedir(d); };
  const std::unique_ptr<DIR, decltype(close_directory)> listing(opendir(directory_.c_str()), close_directory);
  if (!listing) return 0;

  std::vector<Entry> entries;
  int64_t total = 0;
  const time_t now = time(nullptr);
  while (const dirent* item = readdir(listing.get())) {
    const std::string_view name = item->d_name;
    const size_t suffix = name.find(kSuffix);
    struct stat facts;
    if (suffix == std::string_view::npos) continue;
    if (fstatat(dirfd(listing.get()), item->d_name, &facts, AT_SYMLINK_NOFOLLOW) != 0) continue;
    if (!S_ISREG(facts.st_mode)) continue;
    const bool aside = suffix + kSuffix.size() != name.size();
    if (aside && now - facts.st_mtim.tv_sec > kStaleSeconds) {  // its writer has died
      unlinkat(dirfd(listing.get()), item->d_name, 0);
      continue;
    }
    if (aside) continue;
    entries.push_back({facts.st_mtim, facts.st_size, std::string(name)});
    total += facts.st_size;
  }
  if (total <= limit_bytes_) return total;

  // Down to 90 %, so that not every put from now on has to trim.
  const int64_t goal = limit_bytes_ / 10 * 9;
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.used.tv_sec, a.used.tv_nsec, a.name) < std::tie(b.used.tv_sec, b.used.tv_nsec, b.name);
  });
  for (const Entry& entry : entries) {
    if (total <= goal) break;
    if (unlinkat(dirfd(listing.get()), entry.name.c_str(), 0) == 0) total -= entry.size;
  }
  return total;
}

}  // namespace braze::cache
