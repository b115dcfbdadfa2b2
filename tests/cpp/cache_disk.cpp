#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "cache/disk_cache.h"

using braze::Hash128;
using braze::cache::DiskCache;
namespace fs = std::filesystem;

namespace {

/// A directory of the test's own, gone at its end.
struct Scratch {
  fs::path path;
  Scratch() {
    std::string name = (fs::temp_directory_path() / "braze-cache-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()));
    path = name;
  }
  ~Scratch() {
    fs::permissions(path, fs::perms::owner_all);
    fs::remove_all(path);
  }
};

std::string text_of(const std::optional<std::vector<char>>& blob) {
  return blob ? std::string(blob->begin(), blob->end()) : "(absent)";
}

Hash128 key(uint64_t i) {
  return {i, ~i};
}

int64_t bytes_of_blobs(const fs::path& directory) {
  int64_t total = 0;
  for (const auto& item : fs::directory_iterator(directory))
    if (item.path().extension() == ".braze") total += static_cast<int64_t>(item.file_size());
  return total;
}

}  // namespace

TEST_CASE("what was put comes back, in this cache and in another on the same directory") {
  Scratch scratch;
  DiskCache cache((scratch.path / "a" / "b").string(), 1 << 20);
  CHECK(text_of(cache.get(key(1))) == "(absent)");
  CHECK_FALSE(fs::exists(scratch.path / "a"));  // reading creates nothing
  cache.put(key(1), "one");
  cache.put(key(2), "");
  CHECK(text_of(cache.get(key(1))) == "one");
  CHECK(text_of(cache.get(key(2))) == "");
  CHECK(text_of(cache.get(key(3))) == "(absent)");
  cache.put(key(1), "another");
  CHECK(text_of(DiskCache(cache.directory(), 1 << 20).get(key(1))) == "another");
}

TEST_CASE("a damaged, shortened or foreign file counts as absent and is deleted") {
  Scratch scratch;
  DiskCache cache(scratch.path.string(), 1 << 20);
  const std::string path = cache.path_of(key(7));
  const auto rewrite = [&](auto change) {
    cache.put(key(7), "machine code");
    REQUIRE(text_of(cache.get(key(7))) == "machine code");
    std::ifstream in(path, std::ios::binary);
    std::string bytes((std::istreambuf_iterator<char>(in)), {});
    in.close();
    change(bytes);
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
    CHECK(text_of(cache.get(key(7))) == "(absent)");
    CHECK_FALSE(fs::exists(path));
  };
  SUBCASE("each byte flipped") {
    cache.put(key(7), "machine code");
    const size_t size = fs::file_size(path);
    for (size_t i = 0; i < size; ++i) rewrite([i](std::string& bytes) { bytes[i] ^= 1; });
  }
  SUBCASE("cut short at every length") {
    cache.put(key(7), "machine code");
    const size_t size = fs::file_size(path);
    for (size_t i = 0; i < size; ++i) rewrite([i](std::string& bytes) { bytes.resize(i); });
  }
  SUBCASE("too long") {
    rewrite([](std::string& bytes) { bytes += "x"; });
  }
  SUBCASE("another key's file") {
    cache.put(key(8), "other");
    fs::copy_file(cache.path_of(key(8)), path);
    CHECK(text_of(cache.get(key(7))) == "(absent)");
    CHECK(text_of(cache.get(key(8))) == "other");
  }
}

TEST_CASE("whatever lies in an entry's place counts as absent, at once") {
  Scratch scratch;
  DiskCache cache(scratch.path.string(), 1 << 20);
  const std::string path = cache.path_of(key(7));
  SUBCASE("a FIFO that nobody writes to") {
    REQUIRE(mkfifo(path.c_str(), 0600) == 0);
    CHECK(text_of(cache.get(key(7))) == "(absent)");
    cache.put(key(7), "code");
    CHECK(text_of(cache.get(key(7))) == "code");
  }
  SUBCASE("a directory") {
    fs::create_directory(path);
    cache.put(key(7), "code");
    CHECK(text_of(cache.get(key(7))) == "(absent)");
  }
  SUBCASE("a symbolic link") {
    cache.put(key(8), "code");
    fs::create_symlink(cache.path_of(key(8)), path);
    CHECK(text_of(cache.get(key(7))) == "(absent)");
  }
  SUBCASE("a device") {
    fs::create_symlink("/dev/zero", path);
    CHECK(text_of(cache.get(key(7))) == "(absent)");
  }
}

TEST_CASE("a file that claims to be enormous costs no memory, and goes") {
  Scratch scratch;
  DiskCache cache(scratch.path.string(), 1 << 20);
  const std::string path = cache.path_of(key(7));
  for (const uint64_t claimed : {uint64_t{2} << 20, uint64_t{3} << 30, uint64_t{1} << 40}) {
    cache.put(key(7), "machine code");
    std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
    const uint64_t blob = claimed - 48;
    file.seekp(8).write(reinterpret_cast<const char*>(&blob), sizeof blob);
    file.close();
    fs::resize_file(path, claimed);
    CHECK(text_of(cache.get(key(7))) == "(absent)");
    CHECK_FALSE(fs::exists(path));
  }
}

TEST_CASE("nobody waits for the lock of the sum, and the bound holds without it") {
  Scratch scratch;
  DiskCache cache(scratch.path.string(), 20000);
  const auto fill = [&] {
    const auto start = std::chrono::steady_clock::now();
    for (uint64_t i = 0; i < 100; ++i) cache.put(key(i), std::string(1000, 'x'));
    CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(2));
    CHECK(bytes_of_blobs(scratch.path) <= 20000 + 10000);
    CHECK(text_of(cache.get(key(99))) != "(absent)");
  };
  SUBCASE("held by another process") {
    cache.put(key(0), "code");
    const int fd = open((scratch.path / "size").c_str(), O_RDWR);
    REQUIRE(flock(fd, LOCK_EX) == 0);
    fill();
    close(fd);
    cache.put(key(100), "code");
    CHECK(bytes_of_blobs(scratch.path) <= 20000);
  }
  SUBCASE("a FIFO") {
    REQUIRE(mkfifo((scratch.path / "size").c_str(), 0600) == 0);
    fill();
  }
  SUBCASE("a directory") {
    fs::create_directory(scratch.path / "size");
    fill();
  }
  SUBCASE("nonsense in it") {
    std::ofstream(scratch.path / "size", std::ios::binary) << std::string(8, '\x7f');
    fill();
  }
}

TEST_CASE("a directory that is taken away is made anew") {
  Scratch scratch;
  DiskCache cache((scratch.path / "cache").string(), 1 << 20);
  cache.put(key(1), "one");
  fs::remove_all(scratch.path / "cache");
  CHECK(text_of(cache.get(key(1))) == "(absent)");
  cache.put(key(1), "two");
  CHECK(text_of(cache.get(key(1))) == "two");
}

TEST_CASE("a file that others may write is not trusted") {
  Scratch scratch;
  DiskCache cache(scratch.path.string(), 1 << 20);
  cache.put(key(1), "code");
  chmod(cache.path_of(key(1)).c_str(), 0666);
  CHECK(text_of(cache.get(key(1))) == "(absent)");
  CHECK(fs::exists(cache.path_of(key(1))));
}

TEST_CASE("the bound holds and the least recently used go first") {
  Scratch scratch;
  DiskCache cache(scratch.path.string(), 20000);
  const std::string kilobyte(1000, 'x');
  for (uint64_t i = 0; i < 12; ++i) cache.put(key(i), kilobyte);
  for (int repeat = 0; repeat < 3; ++repeat)
    usleep(12000), cache.get(key(0));  // clocks of files tick in 4 or 10 ms
  usleep(12000);
  for (uint64_t i = 12; i < 24; ++i) {
    cache.put(key(i), kilobyte);
    CHECK(bytes_of_blobs(scratch.path) <= 20000);
  }
  CHECK(text_of(cache.get(key(0))) == kilobyte);
  int old_ones = 0;
  for (uint64_t i = 1; i < 12; ++i) old_ones += cache.get(key(i)).has_value();
  CHECK(old_ones < 8);
  for (uint64_t i = 12; i < 24; ++i) CHECK(cache.get(key(i)).has_value());
  cache.put(key(99), std::string(30000, 'y'));  // larger than the whole cache
  CHECK(text_of(cache.get(key(99))) == "(absent)");
}

TEST_CASE("a lost or wrong sum is found again") {
  Scratch scratch;
  DiskCache cache(scratch.path.string(), 5000);
  for (uint64_t i = 0; i < 4; ++i) cache.put(key(i), std::string(1000, 'x'));
  fs::remove(scratch.path / "size");
  for (uint64_t i = 4; i < 9; ++i) cache.put(key(i), std::string(1000, 'x'));
  CHECK(bytes_of_blobs(scratch.path) <= 5000);
  CHECK(text_of(cache.get(key(8))) != "(absent)");
}

TEST_CASE("a directory that cannot be written, or is a file, is an empty cache") {
  Scratch scratch;
  std::ofstream(scratch.path / "file") << "not a directory";
  DiskCache under_file((scratch.path / "file").string(), 1 << 20);
  under_file.put(key(1), "one");
  CHECK(text_of(under_file.get(key(1))) == "(absent)");
  DiskCache off("", 1 << 20);
  CHECK_FALSE(off.enabled());
  off.put(key(1), "one");
  CHECK(text_of(off.get(key(1))) == "(absent)");
  if (geteuid() != 0) {
    DiskCache read_only(scratch.path.string(), 1 << 20);
    read_only.put(key(1), "one");
    fs::permissions(scratch.path, fs::perms::owner_read | fs::perms::owner_exec);
    read_only.put(key(2), "two");
    CHECK(text_of(read_only.get(key(1))) == "one");
    CHECK(text_of(read_only.get(key(2))) == "(absent)");
  }
}

TEST_CASE("processes and threads may write and read the same keys at once") {
  Scratch scratch;
  const auto blob_of = [](uint64_t i) { return std::string(500 + 37 * i, static_cast<char>('a' + i % 26)); };
  const auto work = [&](DiskCache& cache) {
    bool good = true;
    for (int round = 0; round < 40; ++round)
      for (uint64_t i = 0; i < 16; ++i) {
        if ((round + i) % 3 == 0) cache.put(key(i), blob_of(i));
        const auto blob = cache.get(key(i));
        good = good && (!blob || text_of(blob) == blob_of(i));
      }
    return good;
  };
  std::vector<pid_t> children;
  for (int child = 0; child < 3; ++child) {
    const pid_t pid = fork();
    if (pid == 0) {
      DiskCache cache(scratch.path.string(), 8000);
      _exit(work(cache) ? 0 : 1);
    }
    children.push_back(pid);
  }
  DiskCache cache(scratch.path.string(), 8000);
  bool good[2] = {};
  std::thread other([&] { good[1] = work(cache); });
  good[0] = work(cache);
  other.join();
  CHECK(good[0]);
  CHECK(good[1]);
  for (const pid_t pid : children) {
    int status = 1;
    waitpid(pid, &status, 0);
    CHECK(status == 0);
  }
  for (const auto& item : fs::directory_iterator(scratch.path)) {
    const std::string extension = item.path().extension().string();
    CHECK((extension == ".braze" || item.path().filename() == "size"));
  }
}
