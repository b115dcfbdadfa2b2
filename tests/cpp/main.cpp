// The tests' main: no case sees or fills the user's disk cache.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

int main(int argc, char** argv) {
  std::string folder = (std::filesystem::temp_directory_path() / "braze-test-XXXXXX").string();
  const bool is_made = !std::getenv("BRAZE_CACHE_DIR") && mkdtemp(folder.data()) != nullptr;
  if (is_made) setenv("BRAZE_CACHE_DIR", folder.c_str(), 1);
  const int result = doctest::Context(argc, argv).run();
  std::error_code ignored;
  if (is_made) std::filesystem::remove_all(folder, ignored);
  return result;
}
