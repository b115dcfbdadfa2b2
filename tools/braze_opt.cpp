// braze-opt: runs the compiler on text, as far as one likes, and prints what comes out.
//
//   braze-opt FILE                         the graphs, read and printed again
//   braze-opt FILE --pass=cse,dead_code    those passes, in that order
//   braze-opt FILE --stop-after=STAGE      as compilation does (compile/driver.h), up to
//       passes   the graph rewritten           loops   kernels
//       plan     kernels, calls and memory     llvm    their LLVM IR
//       code     their machine code
// With both, the graphs go on from the given passes instead of all of them.
// Graphs of symbols become one plan for all sizes.
//   --symbols=3,5   the plan of numbers for these values, in order of declaration
//   --instantiate   makes graphs of numbers of them before they are lowered: for --symbols, else for their examples
//   --target=NAME   for that target (target/target.h) instead of this machine
//   --tuning=NAME=VALUE,...   kernels of a GPU with these figures (loops/schedule/gpu/tuning.h)
//   --verify        checks the graph before, between and after, and what it is lowered to
//   --print-before  prints each graph as it was read, too
//   --output=FILE   writes the artifact (compile/artifact_bytes.h) of the only graph there instead of printing
// FILE is '-' for standard input. A text may also be a kernel (loops/kernel.h), which is read, verified and
// printed, or a plan (loops/plan.h, loops/symbolic_plan.h), which goes on from there, as an artifact does.
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compile/artifact_bytes.h"
#include "compile/driver.h"
#include "ir/instantiate.h"
#include "ir/shape_env.h"
#include "ir/text.h"
#include "loops/kernel.h"
#include "loops/plan.h"
#include "loops/schedule/gpu/tuning.h"
#include "loops/symbolic_plan.h"
#include "passes/pipeline.h"
#include "support/error.h"
#include "support/lexer.h"
#include "target/target.h"

namespace {

using namespace braze;

constexpr std::string_view usage =
    "usage: braze-opt FILE|- [--pass=NAME,...] [--stop-after=passes|loops|plan|llvm|code] [--symbols=NUMBER,...] "
    "[--instantiate] "
    "[--target=NAME] [--tuning=NAME=VALUE,...] [--output=FILE] [--verify] [--print-before]";

std::string kernels(const loops::Plan& plan) {
  std::string text;
  for (const auto& kernel : plan.kernels) text += (text.empty() ? "" : "\n") + loops::print(*kernel);
  return text;
}

/// What --stop-after=NAME prints.
struct Stop {
  std::string_view name;
  driver::Stage last;
  std::string (*print)(const loops::Plan& plan, const Target& target);  ///< Null: the graph.
};
const Stop stops[] = {
    {"passes", driver::Stage::passes, nullptr},
    {"loops", driver::Stage::plan, [](const loops::Plan& plan, const Target&) { return kernels(plan); }},
    {"plan", driver::Stage::plan, [](const loops::Plan& plan, const Target&) { return loops::print(plan); }},
    {"llvm", driver::Stage::plan,
     [](const loops::Plan& plan, const Target& target) {
       std::string text;
       for (const auto& kernel : plan.kernels) text += codegen::llvm_ir(*kernel, target);
       return text;
     }},
    {"code", driver::Stage::plan,
     [](const loops::Plan& plan, const Target& target) {
       std::string text;
       for (const auto& kernel : plan.kernels) text += codegen::assembly(*kernel, target);
       return text;
     }},
};

struct Options {
  std::string file, output;
  std::vector<const passes::Pass*> passes;
  std::vector<int64_t> symbols;
  const Stop* stop = nullptr;
  Target target = Target::host();
  bool verify = false, print_before = false, instantiate = false;
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

std::vector<int64_t> parse_numbers(std::string_view text) {
  std::vector<int64_t> numbers;
  Lexer lexer(text, "--symbols");
  do numbers.push_back(lexer.expect_integer());
  while (lexer.take(","));
  if (!lexer.at_end()) lexer.fail("expected a comma");
  return numbers;
}

const Stop* find_stop(std::string_view name) {
  for (const Stop& stop : stops)
    if (stop.name == name) return &stop;
  throw UserError(concat("no stage is called '", name, "'\n", usage));
}

Options parse_options(const std::vector<std::string_view>& arguments) {
  Options options;
  std::string_view tuning;
  for (const std::string_view argument : arguments) {
    const size_t equals = std::min(argument.find('='), argument.size() - 1);
    const std::string_view name = argument.substr(0, equals + 1), value = argument.substr(equals + 1);
    if (name == "--pass=")
      options.passes = find_passes(value);
    else if (name == "--stop-after=")
      options.stop = find_stop(value);
    else if (name == "--symbols=")
      options.symbols = parse_numbers(value);
    else if (name == "--target=")
      options.target = Target::named(value);
    else if (name == "--tuning=")
      tuning = value;
    else if (name == "--output=")
      options.output = value;
    else if (argument == "--verify")
      options.verify = true;
    else if (argument == "--instantiate")
      options.instantiate = true;
    else if (argument == "--print-before")
      options.print_before = true;
    else if (options.file.empty() && (argument == "-" || !argument.starts_with("-")))
      options.file = argument;
    else
      throw UserError(concat("unknown argument '", argument, "'\n", usage));
  }
  if (!tuning.empty()) {
    const auto base = loops::gpu::Tuning::of(options.target);
    options.target = loops::gpu::tuned(options.target, loops::gpu::parse_tuning(tuning, base));
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

/// The artifact of a plan of numbers or of symbols.
void write_artifact(const auto& plan, std::span<const std::shared_ptr<loops::Kernel>> all, const Options& options) {
  std::vector<const loops::Kernel*> kernels;
  for (const auto& kernel : all) kernels.push_back(kernel.get());
  codegen::CompileOptions code;
  code.target = options.target;
  std::ofstream stream(options.output, std::ios::binary);
  stream << driver::write_artifact(plan, codegen::make_blobs(kernels, code), options.target.isa);
  if (!stream.flush()) throw UserError(concat("cannot write ", options.output));
}

void put(const loops::Plan& plan, const Options& options) {
  if (!options.output.empty()) return write_artifact(plan, plan.kernels, options);
  const Stop* stop = options.stop ? options.stop : find_stop("plan");
  std::cout << stop->print(plan, options.target);
}

/// For all sizes, or for those that are wanted.
void put(const loops::SymbolicPlan& family, const Options& options) {
  if (options.verify) loops::verify(family);
  if (!options.symbols.empty()) {
    if (options.symbols.size() != family.symbol_count())
      throw UserError(concat("--symbols wants ", family.symbol_count(), " numbers"));
    if (const auto guard = family.refuses(options.symbols)) throw UserError(concat(*guard, " is broken"));
    const loops::Plan plan = family.at(options.symbols);
    if (options.verify) loops::verify(plan);
    return put(plan, options);
  }
  if (!options.output.empty()) return write_artifact(family, family.kernels(), options);
  if (!options.stop || options.stop->name == "plan") {
    std::cout << loops::print(family);
    return;
  }
  loops::Plan kernels_alone;
  kernels_alone.kernels = family.kernels();
  put(kernels_alone, options);
}

void run(ir::Graph& graph, const Options& options) {
  if (options.print_before) std::cout << "; before\n" << ir::print(graph) << "\n; after\n";
  if (options.verify) ir::verify(graph);
  for (const passes::Pass* pass : options.passes) {
    pass->run(graph);
    if (options.verify) ir::verify(graph);
  }
  const bool lowers = !options.output.empty() || (options.stop && options.stop->print);
  const ir::ShapeEnv* env = graph.find_shape_env();
  std::unique_ptr<ir::Graph> instance;
  if (env && lowers && !options.instantiate) {
    if (options.passes.empty()) passes::run(graph, nullptr, options.verify);
    return put(loops::lower_symbolic(graph, {.targets = {.cpu = &options.target}}), options);
  }
  if (env && (lowers || options.instantiate || !options.symbols.empty())) {
    if (options.passes.empty() && (options.stop || lowers)) passes::run(graph, nullptr, options.verify);
    const std::span<const int64_t> examples = env->examples(), given = options.symbols;
    instance = ir::instantiate(graph, given.empty() ? examples : given);
  }
  const bool rewritten = instance || !options.passes.empty();
  ir::Graph& left = instance ? *instance : graph;
  driver::Options wanted;
  wanted.verify = options.verify;
  wanted.code.target = options.target;
  wanted.last = options.output.empty() && options.stop ? options.stop->last : driver::Stage::plan;
  driver::Artifact artifact;
  if (options.stop || !options.output.empty())
    artifact = rewritten ? driver::compile_rewritten(left, wanted) : driver::compile(left, wanted);
  if (lowers)
    put(artifact.plan, options);
  else
    std::cout << ir::print(left);
}

/// From a plan of numbers or of symbols.
void go_on(const auto& plan, const Options& options) {
  const bool goes_back = !options.passes.empty() || (options.stop && !options.stop->print);
  if (goes_back) throw UserError("a plan is past the passes");
  put(plan, options);
}

void run(const Options& options) {
  const std::string text = read(options.file);
  if (driver::is_artifact(text)) {
    if (const auto stored = driver::read_artifact(text)) return go_on(stored->plan, options);
    if (const auto stored = driver::read_symbolic_artifact(text)) return go_on(stored->plan, options);
    throw UserError(concat(options.file, " is damaged, or of another version"));
  }
  const bool is_kernel = Lexer(text, "text").peek().is("kernel");
  const auto has_plan = [&](std::string_view head) {
    return text.starts_with(head) || text.find(concat("\n", head)) != std::string::npos;
  };
  if (has_plan("plan {")) {
    const loops::Plan plan = loops::parse_plan(text);
    loops::verify(plan);
    return go_on(plan, options);
  }
  if (has_plan("plan[")) {
    const loops::SymbolicPlan family = loops::parse_symbolic_plan(text);
    loops::verify(family);
    return go_on(family, options);
  }
  if (is_kernel) {
    const auto kernel = loops::parse_kernel(text);
    loops::verify(*kernel);
    std::cout << loops::print(*kernel);
    return;
  }
  const auto graphs = ir::parse_all(text);
  if (!options.output.empty() && graphs.size() != 1) throw UserError("an artifact is of one graph");
  bool first = true;
  for (const auto& graph : graphs) {
    if (!first) std::cout << '\n';
    first = false;
    run(*graph, options);
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
