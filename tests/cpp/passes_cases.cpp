// Runs every case of tests/passes/*.graph:
//
//   ; RUN: --pass=simplify,dead_code      (or --pipeline), once, at the top of the file
//   ; CASE: what it shows
//   graph @name(...) {...}
//   ; EXPECT:
//   graph @name(...) {...}                or "; EXPECT: same", if nothing may change
//
// The verifier runs before and after every pass. Graphs of symbols are computed at many values of them;
// those of numbers also with symbols for their sizes (symbolise.h). Where the
// interpreter knows all ops of the graph, both sides are also computed, on inputs full of special values, and
// compared (graph_interpreter.h).
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "graph_interpreter.h"
#include "ir/instantiate.h"
#include "ir/shape_env.h"
#include "ir/text.h"
#include "passes/pipeline.h"
#include "symbolise.h"

using namespace braze;
namespace fs = std::filesystem;

namespace {

struct Case {
  std::string title, input, expected;
};

struct File {
  std::vector<std::string> passes;  ///< Empty: the pipeline.
  std::vector<Case> cases;
};

std::vector<std::string> split(std::string_view names) {
  std::vector<std::string> parts;
  while (!names.empty()) {
    const size_t end = std::min(names.find(','), names.size());
    parts.emplace_back(names.substr(0, end));
    names.remove_prefix(std::min(end + 1, names.size()));
  }
  return parts;
}

File read(const fs::path& path) {
  std::ifstream stream(path);
  File file;
  std::string line;
  std::string* part = nullptr;
  while (std::getline(stream, line)) {
    const auto after = [&](std::string_view prefix) { return line.substr(std::min(prefix.size(), line.size())); };
    if (line.starts_with("; RUN: --pass=")) {
      file.passes = split(after("; RUN: --pass="));
    } else if (line.starts_with("; CASE: ")) {
      file.cases.push_back({after("; CASE: "), "", ""});
      part = &file.cases.back().input;
    } else if (line == "; EXPECT: same") {
      file.cases.back().expected = file.cases.back().input;
      part = nullptr;
    } else if (line == "; EXPECT:") {
      part = &file.cases.back().expected;
    } else if (part) {
      *part += line + "\n";
    }
  }
  return file;
}

void run(ir::Graph& graph, const std::vector<std::string>& names) {
  ir::verify(graph);
  if (names.empty()) return passes::run(graph, nullptr, true);
  for (const std::string& name : names) {
    const passes::Pass* pass = passes::find(name);
    REQUIRE_MESSAGE(pass, name);
    pass->run(graph);
    ir::verify(graph);
  }
}

/// The same graph with symbols for sizes, through the same passes.
void check_with_symbols(const ir::Graph& numbers, const std::vector<std::string>& names) {
  const auto before = test::symbolise(numbers), after = test::symbolise(numbers);
  if (!before->find_shape_env()) return;
  CHECK(ir::print(*ir::parse(ir::print(*before))) == ir::print(*before));
  const auto examples = ir::instantiate(*before, before->find_shape_env()->examples());
  const auto same = test::compare(numbers, *examples, 4);
  CHECK_MESSAGE(!same, same.value_or(""));
  run(*after, names);
  const auto difference = test::compare_at_sizes(*before, *after);
  CHECK_MESSAGE(!difference, difference.value_or(""), "\n", ir::print(*before), "became\n", ir::print(*after));
}

}  // namespace

TEST_CASE("tests/passes") {
  size_t files = 0, computed = 0;
  std::vector<fs::path> paths;
  for (const auto& entry : fs::directory_iterator(fs::path(BRAZE_TEST_DATA) / "passes"))
    paths.push_back(entry.path());
  std::ranges::sort(paths);
  for (const fs::path& path : paths) {
    if (path.extension() != ".graph") continue;
    ++files;
    const File file = read(path);
    CHECK_MESSAGE(!file.cases.empty(), path.string());
    for (const Case& each : file.cases) {
      CAPTURE(path.filename().string());
      CAPTURE(each.title);
      const auto before = ir::parse(each.input);
      const auto graph = ir::parse(each.input);
      run(*graph, file.passes);
      CHECK(ir::print(*graph) == ir::print(*ir::parse(each.expected)));
      // Printing and reading again loses nothing.
      CHECK(exact_hash(*ir::parse(ir::print(*graph))) == exact_hash(*graph));
      if (!test::can_interpret(*before) || !test::can_interpret(*graph)) continue;
      ++computed;
      const auto difference = test::compare_at_sizes(*before, *graph);
      CHECK_MESSAGE(!difference, difference.value_or(""));
      if (!before->find_shape_env()) check_with_symbols(*before, file.passes);
    }
  }
  CHECK(files > 0);
  CHECK(computed > 0);
}
