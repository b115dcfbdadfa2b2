// tests/cpp/test_files.h: the texts under tests/ that cases read, and write anew by BRAZE_WRITE_EXPECTED=1.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

namespace braze::test {

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

/// Without the lines that begin with "//".
inline std::string without_comments(const std::string& text) {
  std::istringstream lines(text);
  std::string kept;
  for (std::string line; std::getline(lines, line);)
    if (!line.starts_with("//")) kept += line + "\n";
  return kept;
}

/// tests/FOLDER/*EXTENSION, in order of their names.
inline std::set<std::filesystem::path> files_in(const std::string& folder, const std::string& extension) {
  std::set<std::filesystem::path> found;
  for (const auto& entry : std::filesystem::directory_iterator(BRAZE_TEST_DATA "/" + folder))
    if (entry.path().extension() == extension) found.insert(entry.path());
  return found;
}

/// Whether the file holds the text; written anew where that is asked for.
inline bool is_expected(const std::string& text, const std::filesystem::path& path) {
  if (std::getenv("BRAZE_WRITE_EXPECTED")) std::ofstream(path) << text;
  return text == read_file(path);
}

}  // namespace braze::test
