// braze-opt: runs passes on graphs in text, or reads kernels and prints them again.
//
//   braze-opt FILE --pass=cse,dead_code    those passes, in that order
//   braze-opt FILE --pipeline              all of them, as compilation does
//   --plan          lowers what comes out and prints kernels, calls and memory instead of the graph
//   --target=NAME   lowers for that target (target/target.h) instead of this machine
//   --verify        checks the graph before, between and after
//   --print-before  prints each graph as it was read, too
// FILE is '-' for standard input. Without a pass the text is only read and printed. A text that begins with the
// word `kernel` is loop IR (loops/kernel.h): it is read, verified and printed.
#include <fstream>
#include <iostream>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/text.h"
#include "loops/kernel.h"
#include "loops/plan.h"
#include "passes/pipeline.h"
#include "support/error.h"
#include "support/lexer.h"
#include "target/target.h"

namespace {

using namespace braze;

constexpr std::string_view usage =
    "usage: braze-opt FILE|- [--pass=NAME,...|--pipeline] [--plan] [--target=NAME] [--verify] [--print-before]";

struct Options {
  std::string file;
  std::vector<const passes::Pass*> passes;
  std::optional<Target> target;
  bool pipeline = false, plan = false, verify = false, print_before = false;
};

std::vector<const passes::Pass*> find_passes(std::string_view names) {
  std::vector<const passes::Pass*> found;
  while (!names.empty()) {
    const size_t end = std::min(names.find(','), names.size());
    const passes::Pass* pass = passes::find(names.substr(0, end));
    if (!pass) throw UserError(concat("no pass is called '", names.substr(0, end), "'"));
    found.push_back(pass);
    names.remove_prefix(std::min(end + 1, names.size()));
  }
  return found;
}

Options parse_options(const std::vector<std::string_view>& arguments) {
  constexpr std::string_view pass_prefix = "--pass=", target_prefix = "--target=";
  Options options;
  for (const std::string_view argument : arguments) {
    if (argument.starts_with(pass_prefix))
      options.passes = find_passes(argument.substr(pass_prefix.size()));
    else if (argument.starts_with(target_prefix))
      options.target = Target::named(argument.substr(target_prefix.size()));
    else if (argument == "--pipeline")
      options.pipeline = true;
    else if (argument == "--plan")
      options.plan = true;
    else if (argument == "--verify")
      options.verify = true;
    else if (argument == "--print-before")
      options.print_before = true;
    else if (options.file.empty() && (argument == "-" || !argument.starts_with("-")))
      options.file = argument;
    else
      throw UserError(concat("unknown argument '", argument, "'\n", usage));
  }
  if (options.file.empty()) throw UserError(std::string(usage));
  return options;
}

std::string read(const std::string& file) {
  if (file == "-") return {std::istreambuf_iterator<char>(std::cin), {}};
  std::ifstream stream(file, std::ios::binary);
  if (!stream) throw UserError(concat("cannot read ", file));
  return {std::istreambuf_iterator<char>(stream), {}};
}

void run(const std::shared_ptr<ir::Graph>& shared, const Options& options) {
  ir::Graph& graph = *shared;
  if (options.print_before) std::cout << "; before\n" << ir::print(graph) << "\n; after\n";
  if (options.verify) ir::verify(graph);
  for (const passes::Pass* pass : options.passes) {
    pass->run(graph);
    if (options.verify) ir::verify(graph);
  }
  if (options.pipeline) passes::run(graph, nullptr, options.verify);
  if (options.plan)
    std::cout << loops::print(
        loops::lower(graph, {.target = options.target ? &*options.target : &Target::host()}));
  else
    std::cout << ir::print(graph);
}

void run(const Options& options) {
  const std::string text = read(options.file);
  if (Lexer(text, "text").peek().is("kernel")) {
    const auto kernel = loops::parse_kernel(text);
    loops::verify(*kernel);
    std::cout << loops::print(*kernel);
    return;
  }
  bool first = true;
  for (auto& parsed : ir::parse_all(text)) {
    if (!first) std::cout << '\n';
    first = false;
    run(std::shared_ptr<ir::Graph>(std::move(parsed)), options);
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run(parse_options({argv + 1, argv + argc}));
  } catch (const std::exception& error) {
    std::cerr << "braze-opt: " << error.what() << '\n';
    return 1;
  }
}
