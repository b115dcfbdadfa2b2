// python/trace_function.cpp
#include "python/trace_function.h"

#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/csrc/utils/python_symnode.h>

#include <memory>
#include <optional>
#include <unordered_map>

#include "capture/placeholders.h"
#include "capture/size_node.h"
#include "capture/trace.h"
#include "capture/tracer_tensor.h"
#include "python/errors.h"
#include "python/guards/torch_values.h"
#include "python/program_object.h"
#include "python/program_options.h"
#include "python/tree.h"
#include "python/user_line.h"
#include "runtime/packed_weights.h"
#include "runtime/program.h"
#include "runtime/sized_program.h"
#include "support/error.h"
#include "support/names.h"

namespace braze::python {

namespace {

py::object wrap(const at::Tensor& tensor) {
  PyObject* wrapped = THPVariable_Wrap(tensor);
  if (!wrapped) throw_python_error();
  return py::reinterpret_steal<py::object>(wrapped);
}

/// The dimensions that `dynamic=` names, by the path of the argument.
class VaryingSizes {
 public:
  /// \param rows  {path: [(dim, name, min, max), ...]}
  explicit VaryingSizes(const py::dict& rows) : rows_(rows) {}

  bool any() const { return !rows_.empty(); }

  void vary(capture::Tracer& tracer, const at::Tensor& tensor, const std::string& path) {
    seen_ += (seen_.empty() ? "" : ", ") + path;
    if (!rows_.contains(path.c_str())) return;
    ++used_;
    const auto rank = static_cast<size_t>(tensor.dim());
    std::vector<capture::Varying> sizes(rank);
    for (py::handle row : rows_[path.c_str()]) {
      const auto [given, name, low, high] = row.cast<std::tuple<int64_t, std::string, int64_t, int64_t>>();
      const int64_t dim = given < 0 ? given + tensor.dim() : given;
      if (dim < 0 || dim >= tensor.dim())
        throw UserError(concat("dynamic: `", path, "` has ", rank, " dimensions, and none of number ", given),
                        UserError::Kind::value);
      if (tensor.size(dim) < low || tensor.size(dim) > high)
        throw UserError(concat("dynamic: size ", dim, " of `", path, "` is ", tensor.size(dim),
                               " in the example; it may vary from ", low, " up",
                               high == ir::SizeRange::infinity ? "" : concat(" to ", high)),
                        UserError::Kind::value);
      if (sizes[static_cast<size_t>(dim)].varies)
        throw UserError(concat("dynamic: size ", dim, " of `", path, "` is named twice"), UserError::Kind::value);
      sizes[static_cast<size_t>(dim)] = {true, {low, high}, name};
    }
    const std::unique_ptr<bool[]> strides(new bool[rank]());
    tracer.vary(tensor, words_of(path, '.'), sizes, {strides.get(), rank});
  }

  void check_all_used() const {
    if (used_ == rows_.size()) return;
    std::string names;
    for (const auto& [path, dims] : rows_) names += (names.empty() ? "" : ", ") + path.cast<std::string>();
    throw UserError(concat("dynamic names ", names, "; tensors are passed as ", seen_), UserError::Kind::value);
  }

 private:
  const py::dict rows_;
  size_t used_ = 0;
  std::string seen_;
};

/// Gives every distinct tensor of the arguments a tracer.
class ArgumentVisitor : public LeafVisitor {
 public:
  ArgumentVisitor(capture::Tracer& tracer, VaryingSizes& varying) : tracer_(tracer), varying_(varying) {}

  uint32_t leaf(const at::Tensor& tensor, const std::string& path, bool& repeated) override {
    if (capture::is_tracer(tensor))
      throw UserError(path + " is a tensor of another trace; give braze.trace real tensors", UserError::Kind::type);
    const auto [at, added] = numbers_.try_emplace(tensor.unsafeGetTensorImpl(), reals.size());
    repeated = !added;
    if (added) {
      varying_.vary(tracer_, tensor, path);
      tracers_.push_back(wrap(tracer_.add_argument(tensor, words_of(path, '.'))));
      reals.push_back(tensor);
      labels.push_back(concat(label, " (`", path, "`)"));
    }
    return at->second;
  }
  py::object replacement(uint32_t index) override { return tracers_[index]; }

  std::vector<at::Tensor> reals;    ///< By argument of the graph.
  std::vector<std::string> labels;  ///< Likewise.
  std::string label;                ///< Of the slot that is being looked at.

 private:
  capture::Tracer& tracer_;
  VaryingSizes& varying_;
  std::vector<py::object> tracers_;
  std::unordered_map<const c10::TensorImpl*, uint32_t> numbers_;
};

/// Collects the tensors of a result, each object once.
class ResultVisitor : public LeafVisitor {
 public:
  uint32_t leaf(const at::Tensor& tensor, const std::string&, bool& repeated) override {
    const auto [at, added] = numbers_.try_emplace(tensor.unsafeGetTensorImpl(), tensors.size());
    repeated = !added;
    if (added) tensors.push_back(tensor);
    return at->second;
  }
  py::object replacement(uint32_t index) override { return wrap(tensors[index]); }

  std::vector<at::Tensor> tensors;

 private:
  std::unordered_map<const c10::TensorImpl*, uint32_t> numbers_;
};

/// The slots, and the example call with tracers in it.
struct ExampleCall {
  std::vector<Slot> slots;
  py::list positional;
  py::dict keywords;
};

/// Messages name "argument 1 (`batch['ids']`)".
void label_paths(Tree& tree, const std::string& label) {
  tree.path = concat(label, " (`", tree.path, "`)");
  for (Tree& child : tree.children) label_paths(child, label);
}

ExampleCall read_parameters(const py::list& parameters, ArgumentVisitor& visitor) {
  ExampleCall call;
  for (py::handle row : parameters) {
    const auto [label, name, position, has_default, fallback, passed, value] =
        row.cast<std::tuple<std::string, py::object, int, bool, py::object, int, py::object>>();
    Slot slot;
    // The word for messages, and the word for paths: a parameter without a name is called by its number.
    const std::string path = name.is_none() ? concat("args[", position, "]") : name.cast<std::string>();
    slot.label = concat(label, " (`", path, "`)");
    if (!name.is_none()) {
      PyObject* interned = name.inc_ref().ptr();
      PyUnicode_InternInPlace(&interned);
      slot.name = py::reinterpret_steal<py::object>(interned);
    }
    slot.position = position;
    if (has_default) slot.fallback = fallback;
    py::object replaced;
    if (static_cast<Passed>(passed) == Passed::no) {
      // The function fills in its own default; a tensor there is one that it closes over.
      slot.tree.value = value;
      slot.tree.type = py::type::of(value);
      slot.tree.path = path;
    } else {
      visitor.label = label;
      slot.tree = make_argument_tree(value, path, visitor, replaced);
      if (static_cast<Passed>(passed) == Passed::by_position)
        call.positional.append(replaced);
      else
        call.keywords[name] = replaced;
    }
    label_paths(slot.tree, label);
    call.slots.push_back(std::move(slot));
  }
  return call;
}

void name_parameters(capture::Tracer& tracer, const py::iterable& named) {
  for (py::handle pair : named) {
    const auto both = py::reinterpret_borrow<py::tuple>(pair);
    if (guards::is_tensor(both[1].ptr()))
      tracer.name_parameter(THPVariable_Unpack(both[1].ptr()), both[0].cast<std::string>());
  }
}

}  // namespace

py::tuple trace(py::object function, std::string name, py::list parameters, py::iterable named, py::dict settings,
                py::dict dynamic) {
  if (capture::Tracer::current()) throw UserError("braze.trace was called while another function is being traced");
  PhaseTimes times;
  {
    PhaseTimer timer(&times, "install");
    capture::install();
  }
  CallPlan plan;
  plan.name = name;
  std::optional<capture::Trace> traced;
  runtime::ProgramOptions options = program_options(settings);
  {
    PhaseTimer timer(&times, "capture");
    capture::Tracer tracer(words_of(name, '.'), &times);
    VaryingSizes varying(dynamic);
    if (varying.any()) tracer.prepare_symbols();
    ArgumentVisitor arguments(tracer, varying);
    ExampleCall call = read_parameters(parameters, arguments);
    varying.check_all_used();
    name_parameters(tracer, named);
    UserLineScope lines;
    capture::Tracer::Scope scope(tracer);
    const py::object result = function(*call.positional, **call.keywords);
    ResultVisitor results;
    plan.result = make_result_tree(result, results);
    traced = tracer.finish(results.tensors);
    plan.slots = std::move(call.slots);
    plan.labels = std::move(arguments.labels);
    options.example_arguments = std::move(arguments.reals);
  }
  const std::vector<std::string> warnings = traced->warnings;
  {
    py::gil_scoped_release unlocked;
    if (!traced->symbols.empty()) {
      const std::vector<at::Tensor> held = options.example_arguments;
      std::vector<const at::Tensor*> examples;
      for (const at::Tensor& tensor : held) examples.push_back(&tensor);
      plan.sized = std::make_shared<const runtime::SizedProgram>(*std::move(traced), options, std::move(times));
      plan.program = plan.sized->at(examples.data(), plan.labels);
    } else {
      if (traced->graph->find_shape_env()) *traced = capture::instantiate(*traced, {});
      plan.program = runtime::Program::compile(*std::move(traced), options, std::move(times));
    }
  }
  py::list texts;
  for (const std::string& text : warnings) texts.append(text);
  return py::make_tuple(make_program_object(std::move(plan)), texts);
}

py::object materialize(py::object tensor, std::string what) {
  const at::Tensor& traced = THPVariable_Unpack(tensor.ptr());
  capture::Tracer* tracer = capture::Tracer::current();
  if (!capture::is_tracer(traced) || !tracer) return tensor;
  return wrap(tracer->materialize(traced, what));
}

py::object number_of(py::object size) {
  capture::Tracer* tracer = capture::Tracer::current();
  if (!tracer) return size;
  return wrap(tracer->wrap_number(capture::dim_of(size.cast<c10::SymInt>()).size()));
}

static c10::IValue number_behind_placeholder(const at::Tensor& tensor) {
  const py::gil_scoped_acquire gil;
  const auto object = py::reinterpret_steal<py::object>(THPVariable_Wrap(tensor));
  const py::object number = py::getattr(object, "_wrapped_number", py::none());
  if (torch::is_symint(number)) return number.cast<c10::SymInt>();
  if (!torch::is_symfloat(number)) return {};
  const py::object node = number.attr("node");
  if (!py::isinstance<c10::SymNodeImpl>(node)) return number.cast<c10::SymFloat>();
  return c10::SymFloat(node.cast<c10::SymNode>());  // PyTorch's own cast would wrap it.
}

void install_placeholders() {
  capture::set_placeholder_hook(&number_behind_placeholder);
}

py::object untraced(py::object function, py::args args, py::kwargs kwargs) {
  const capture::RunForReal guard;
  return function(*args, **kwargs);
}

void forget_packed_weights(py::iterable weights) {
  std::vector<at::Tensor> tensors;
  for (const py::handle weight : weights) {
    if (!guards::is_tensor(weight.ptr()))
      throw UserError(
          concat("braze.compiler.repack_weights takes tensors, not ", py::repr(weight).cast<std::string>()),
          UserError::Kind::type);
    tensors.push_back(THPVariable_Unpack(weight.ptr()));
  }
  runtime::forget_packed_weights(tensors);
}

}  // namespace braze::python
