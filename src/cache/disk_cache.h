// cache/disk_cache.h: machine code on disk, shared by processes.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "support/hash.h"

namespace braze::cache {

/// A directory of content-addressed blobs. Every process may read and write at any time: files appear whole
/// (written aside, then renamed) and carry a checksum. A file that fails it, is cut short or is not ours is deleted
/// and counts as absent. When the blobs outgrow the bound, the least recently used go. No error of the disk is ever
/// raised, nor lack of memory, and nothing waits for others: a cache that cannot be used is a cache that is empty.
///
/// Blobs are code that will be run, so a file is only read if it belongs to this user (or root), and files are
/// created for this user alone. Cost of a get: about 15 us.
class DiskCache {
 public:
  /// `directory` is created when first written to; empty: the cache is switched off. `limit_bytes` bounds the sum
  /// of all files.
  DiskCache(std::string directory, int64_t limit_bytes);

  /// BRAZE_CACHE_DIR, else XDG_CACHE_HOME/braze, else ~/.cache/braze; BRAZE_CACHE_LIMIT_MB (256). Null-like (always
  /// empty) if BRAZE_CACHE=0.
  static DiskCache& standard();

  /// The blob stored under `key`, or nothing. Marks it as used.
  std::optional<std::vector<char>> get(const Hash128& key);
  void put(const Hash128& key, std::string_view blob);

  bool enabled() const { return enabled_; }
  const std::string& directory() const { return directory_; }
  /// Where the blob of `key` lies, or would.
  std::string path_of(const Hash128& key) const;

 private:
  void account(int64_t written);
  int64_t trim();  ///< Returns the bytes that remain.
  std::string directory_;
  int64_t limit_bytes_;
  bool enabled_ = true;
  std::atomic<int64_t> unaccounted_{0};  ///< Bytes written and deleted that the size file does not know of yet.
};

}  // namespace braze::cache
