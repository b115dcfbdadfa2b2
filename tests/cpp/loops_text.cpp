// Kernels as text: every example in tests/loops prints as it is written, reads back, verifies and keeps its hash.
#include <doctest/doctest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "loops/kernel.h"
#include "support/error.h"
#include "test_files.h"

using namespace braze;
using namespace braze::loops;

namespace {

std::set<std::filesystem::path> examples() {
  return test::files_in("loops", ".kernel");
}

/// The text with its values called %0, %1, ... in order of appearance, as the printer calls them.
std::string renumbered(const std::string& text, const Kernel& kernel) {
  std::set<std::string> buffers;
  for (const Buffer& buffer : kernel.buffers) buffers.insert(buffer.name);
  std::map<std::string, std::string> numbers;
  std::string result;
  for (size_t i = 0; i < text.size();) {
    if (text[i] != '%') {
      result += text[i++];
      continue;
    }
    size_t end = i + 1;
    while (std::isalnum(static_cast<unsigned char>(text[end])) || text[end] == '_') ++end;
    const std::string name = text.substr(i + 1, end - i - 1);
    if (!buffers.count(name)) numbers.emplace(name, std::to_string(numbers.size()));
    result += "%" + (buffers.count(name) ? name : numbers.at(name));
    i = end;
  }
  return result;
}

std::string message_of(const std::string& text) {
  try {
    parse_kernel(text);
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("every example prints as it is written and reads back") {
  CHECK(examples().size() >= 15);
  for (const auto& path : examples()) {
    CAPTURE(path.filename().string());
    const std::string file = test::read_file(path);
    CHECK(file.starts_with("// "));
    const auto kernel = parse_kernel(file);
    CHECK_NOTHROW(verify(*kernel));
    const std::string text = print(*kernel);
    CHECK(text == renumbered(test::without_comments(file), *kernel));

    const auto again = parse_kernel(text);
    CHECK_NOTHROW(verify(*again));
    CHECK(print(*again) == text);
    CHECK(structural_hash(*again) == structural_hash(*kernel));
  }
}

TEST_CASE("no two examples hash alike") {
  std::set<std::string> hashes;
  for (const auto& path : examples()) hashes.insert(structural_hash(*parse_kernel(test::read_file(path))).hex());
  CHECK(hashes.size() == examples().size());
}

TEST_CASE("a value defined inside a block is not known after it") {
  const std::string message = message_of(
      "kernel @k(%x: f32 out) {\n"
      "  for %i in 0..4 {\n"
      "    %a = constant 1.0 : f32\n"
      "  }\n"
      "  for %j in 0..4 {\n"
      "    store %x[%j], %a\n"
      "  }\n"
      "}\n");
  CHECK(contains(message, "line 6, column 19"));
  CHECK(contains(message, "%a is not defined here"));
}

TEST_CASE("bad text is refused with line, column and reason") {
  const struct {
    const char* body;
    const char* reason;
  } cases[] = {
      {"store %x[0], %a", "%a is not defined here"},
      {"store %q[0], %i", "no buffer is called %q"},
      {"%a = frobnicate %i : i64", "'frobnicate' is neither a statement nor an elementwise op"},
      {"%a = sum %i : i64", "'sum' is neither"},
      {"%a = add %i, %i : f31", "'f31' is not a type"},
      {"%a = add %i, %i : i64 %a = neg %i : i64", "%a is defined twice"},
      {"%x = add %i, %i : i64", "%x is defined twice"},
      {"%a = symbol #m", "'m' is not in the kernel's parameters"},
      {"%a = scalar $m", "'m' is not in the kernel's parameters"},
      {"%a = affine %i*%i", "a product of two values"},
      {"%a = affine #n*#n", "a product of two symbols"},
      {"%a = affine #n + #k", "one symbol only"},
      {"%a = checked %i, %i", "numbers and symbols, not of values"},
      {"%a, %b = add %i, %i : i64", "defines one value, 2 are named"},
      {"%a = barrier", "defines nothing, 1 are named"},
      {"add %i, %i : i64", "defines one value, 0 are named"},
      {"yield %i", "nothing is yielded from this block"},
      {"%a = constant 99999999999999999999 : i64", "does not fit 64 bits"},
      {"%a = for %j in 0..4 reduce max { yield %j, %j }", "want 1 values, its body yields 2"},
      {"%a, %b = for %j in 0..4 reduce max { yield %j }", "give 1 values, 2 are named"},
      {"%a = for %j in 0..4 reduce median { yield %j }", "expected one of sum, prod"},
      {"for %j in 0..4 { ", "expected"},
  };
  for (const auto& [body, reason] : cases) {
    CAPTURE(std::string(body));
    const std::string text =
        concat("kernel @k(%x: f32 out, #n, #k) {\n  for %i in 0..4 {\n    ", body, "\n  }\n}\n");
    const std::string message = message_of(text);
    CAPTURE(message);
    CHECK(contains(message, "line "));
    CHECK(contains(message, reason));
  }
}

TEST_CASE("names that are no identifiers, or not distinct, still print to text that reads back") {
  Kernel kernel;
  kernel.name = "soft max";
  for (const char* name : {"x", "x", "0.weight", ""}) {
    Buffer buffer;
    buffer.name = name;
    buffer.access = Access::inout;
    kernel.buffers.push_back(std::move(buffer));
  }
  Builder top(kernel, kernel.body);
  Loop& loop = top.loop(0, 8);
  Builder body(kernel, loop.body);
  Affine index;
  index.add(1, loop.var);
  body.store(3, index, body.load(2, index));
  verify(kernel);
  const std::string text = print(kernel);
  const auto again = parse_kernel(text);
  CHECK(print(*again) == text);
  CHECK(structural_hash(*again) == structural_hash(kernel));
}
