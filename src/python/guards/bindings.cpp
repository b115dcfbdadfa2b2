// python/guards/bindings.cpp
#include "python/guards/bindings.h"

#include <pybind11/stl.h>

#include <chrono>

#include "python/guards/guard.h"
#include "python/guards/recipe.h"
#include "python/guards/source.h"
#include "support/error.h"

namespace braze::guards {

namespace {

namespace py = pybind11;

/// The arguments of a Python call as a vectorcall passes them.
class PackedCall {
 public:
  PackedCall(const py::args& positional, const py::kwargs& keywords) {
    for (py::handle value : positional) arguments_.push_back(value.ptr());
    call_.positional = arguments_.size();
    if (!keywords.empty()) {
      names_ = py::tuple(keywords.size());
      size_t i = 0;
      for (const auto& [name, value] : keywords) {
        names_[i++] = name;
        arguments_.push_back(value.ptr());
      }
      call_.keywords = names_.ptr();
    }
    call_.arguments = arguments_.data();
  }
  const Call& get() const { return call_; }

 private:
  std::vector<PyObject*> arguments_;
  py::tuple names_;
  Call call_;
};

std::vector<PyObject*> pointers(const py::list& objects) {
  std::vector<PyObject*> all;
  for (py::handle object : objects) all.push_back(object.ptr());
  return all;
}

std::vector<RecipeNode> nodes(const std::vector<uint32_t>& numbers) {
  std::vector<RecipeNode> all;
  for (const uint32_t number : numbers) all.push_back({number});
  return all;
}

PyTypeObject* type_or_null(const py::object& type) {
  return type.is_none() ? nullptr : reinterpret_cast<PyTypeObject*>(type.ptr());
}

py::object or_none(PyObject* value) {
  return value ? py::reinterpret_borrow<py::object>(value) : py::none().cast<py::object>();
}

template <typename Value>
Value named(const char* what, const std::string& name, const std::vector<std::pair<const char*, Value>>& values) {
  for (const auto& [text, value] : values)
    if (name == text) return value;
  throw UserError(concat("there is no ", what, " called ", name), UserError::Kind::value);
}

Member member_named(const std::string& name) {
  return named<Member>("member", name,
                       {{"function_code", Member::function_code},
                        {"function_defaults", Member::function_defaults},
                        {"function_kwdefaults", Member::function_kwdefaults},
                        {"function_closure", Member::function_closure},
                        {"function_globals", Member::function_globals},
                        {"function_annotations", Member::function_annotations},
                        {"cell_contents", Member::cell_contents},
                        {"method_function", Member::method_function},
                        {"method_self", Member::method_self},
                        {"weakref_referent", Member::weakref_referent},
                        {"getter_parts", Member::getter_parts},
                        {"builtin_self", Member::builtin_self},
                        {"type_mro", Member::type_mro},
                        {"type_name", Member::type_name},
                        {"type_qualname", Member::type_qualname},
                        {"tensor_grad", Member::tensor_grad},
                        {"iterated", Member::iterated}});
}

EffectKind effect_named(const std::string& name) {
  return named<EffectKind>("effect", name,
                           {{"store_attribute", EffectKind::store_attribute},
                            {"delete_attribute", EffectKind::delete_attribute},
                            {"store_in_dict_of", EffectKind::store_in_dict_of},
                            {"delete_from_dict_of", EffectKind::delete_from_dict_of},
                            {"store_item", EffectKind::store_item},
                            {"delete_item", EffectKind::delete_item},
                            {"append", EffectKind::append},
                            {"replace_list", EffectKind::replace_list},
                            {"store_cell", EffectKind::store_cell},
                            {"ask_next", EffectKind::ask_next},
                            {"call", EffectKind::call}});
}

py::object values_of(const GuardProgram& program, const py::args& positional, const py::kwargs& keywords) {
  const PackedCall call(positional, keywords);
  std::vector<PyObject*> values(program.wanted());
  const int32_t failed = program.check(call.get(), values.data());
  if (failed != GuardProgram::ok) throw UserError(program.explain(failed, call.get()));
  py::list list;
  for (PyObject* value : values) list.append(py::handle(value));
  return list;
}

/// Mean nanoseconds of a check that succeeds.
double time_check(const GuardProgram& program, size_t times, const py::args& positional,
                  const py::kwargs& keywords) {
  const PackedCall call(positional, keywords);
  std::vector<PyObject*> values(program.wanted());
  const auto start = std::chrono::steady_clock::now();
  for (size_t i = 0; i < times; ++i)
    if (const int32_t failed = program.check(call.get(), values.data()); failed != GuardProgram::ok)
      throw UserError(program.explain(failed, call.get()));
  const std::chrono::duration<double, std::nano> taken = std::chrono::steady_clock::now() - start;
  return taken.count() / static_cast<double>(times);
}

using Sources = std::vector<const Source*>;
constexpr auto kWithSet = py::return_value_policy::reference_internal;

void add_sources(py::class_<GuardSet>& set) {
  const auto def = [&](const char* name, auto make) { set.def(name, make, kWithSet); };
  def("argument", [](GuardSet& s, uint32_t i, const std::string& name) { return s.sources().argument(i, name); });
  def("object",
      [](GuardSet& s, py::handle o, const std::string& text) { return s.sources().object(o.ptr(), text); });
  def("dict_of", [](GuardSet& s, const Source* o) { return s.sources().dict_of(o); });
  def("type_of", [](GuardSet& s, const Source* o) { return s.sources().type_of(o); });
  def("dict_item",
      [](GuardSet& s, const Source* d, py::handle key) { return s.sources().dict_item(d, key.ptr()); });
  def("dict_key", [](GuardSet& s, const Source* d, uint32_t i) { return s.sources().dict_key(d, i); });
  def("sequence_item", [](GuardSet& s, const Source* o, uint32_t i) { return s.sources().sequence_item(o, i); });
  def("next_item", [](GuardSet& s, const Source* o, uint32_t i) { return s.sources().next_item(o, i); });
  def("next_key", [](GuardSet& s, const Source* o, uint32_t i) { return s.sources().next_key(o, i); });
  def("slot", [](GuardSet& s, const Source* o, py::handle d) { return s.sources().slot(o, d.ptr()); });
  def("type_attribute",
      [](GuardSet& s, const Source* t, py::handle name) { return s.sources().type_attribute(t, name.ptr()); });
  def("member", [](GuardSet& s, const Source* o, const std::string& name) {
    return s.sources().member(o, member_named(name));
  });
  def("function_mode", [](GuardSet& s, uint32_t index) { return s.sources().function_mode(index); });
  def("context_value", [](GuardSet& s, const Source* o) { return s.sources().context_value(o); });
  def("thread_local_attribute", [](GuardSet& s, const Source* o, py::handle name) {
    return s.sources().thread_local_attribute(o, name.ptr());
  });
  def("attribute",
      [](GuardSet& s, const Source* o, py::handle name) { return s.sources().attribute(o, name.ptr()); });
  def("closure_variable", [](GuardSet& s, const Source* f, uint32_t i, const std::string& name) {
    return s.sources().closure_variable(f, i, name);
  });
  set.def("label", [](GuardSet& s, const Source* o, const std::string& text) { s.sources().label(o, text); });
}

void add_guards(py::class_<GuardSet>& set) {
  set.def("constant", [](GuardSet& s, const Source* o, py::handle value) { s.constant(o, value.ptr()); });
  set.def(
      "identity",
      [](GuardSet& s, const Source* o, py::handle value, bool weak) {
        s.identity(o, value.ptr(), weak ? Hold::weak : Hold::strong);
      },
      py::arg(), py::arg(), py::arg("weak") = false);
  set.def("type", [](GuardSet& s, const Source* o, py::type type) {
    s.type(o, reinterpret_cast<PyTypeObject*>(type.ptr()));
  });
  set.def("length", &GuardSet::length);
  set.def("dict_keys", [](GuardSet& s, const Source* o, py::handle dict) { s.dict_keys(o, dict.ptr()); });
  set.def("absent", &GuardSet::absent);
  set.def("function", [](GuardSet& s, const Source* o, py::handle function) { s.function(o, function.ptr()); });
  set.def("deep", [](GuardSet& s, const Source* o, py::handle value) { return s.deep(o, value.ptr()); });
  set.def("membership",
          [](GuardSet& s, const Source* o, py::handle item, bool is_in) { s.membership(o, item.ptr(), is_in); });
  set.def(
      "tensor",
      [](GuardSet& s, const Source* o, py::handle tensor, uint32_t alignment) {
        return s.tensor(o, tensor.ptr(), alignment);
      },
      py::arg(), py::arg(), py::arg("alignment") = 1);
  set.def("same_object", &GuardSet::same_object);
  set.def("objects", [](GuardSet& s, const Sources& sources, const py::list& values) {
    s.objects(sources, pointers(values));
  });
  set.def("storages", [](GuardSet& s, const Sources& sources, const py::list& tensors) {
    s.storages(sources, pointers(tensors));
  });
  set.def("torch_state", &GuardSet::torch_state);
  set.def("call_shape", [](GuardSet& s, const py::args& positional, const py::kwargs& keywords) {
    s.call_shape(PackedCall(positional, keywords).get());
  });
  set.def("want", &GuardSet::want);
  set.def("__len__", [](const GuardSet& s) { return s.guards().size(); });
}

uint32_t make_container(RecipeBuilder& builder, const std::string& kind, const std::vector<uint32_t>& items,
                        const py::object& type) {
  using Make = RecipeNode (RecipeBuilder::*)(std::span<const RecipeNode>, PyTypeObject*);
  const Make make = named<Make>("container", kind,
                                {{"tuple", &RecipeBuilder::tuple},
                                 {"list", &RecipeBuilder::list},
                                 {"set", &RecipeBuilder::set},
                                 {"frozenset", &RecipeBuilder::frozenset},
                                 {"dict", &RecipeBuilder::dict}});
  return (builder.*make)(nodes(items), type_or_null(type)).number;
}

py::tuple run_recipe(const Recipe& recipe, const py::list& values, const py::list& outputs) {
  std::vector<Ref> results(recipe.result_count());
  if (!recipe.run(pointers(values), pointers(outputs), results.data())) throw py::error_already_set();
  py::tuple all(results.size());
  for (size_t i = 0; i < results.size(); ++i) all[i] = py::reinterpret_steal<py::object>(results[i].release());
  return all;
}

void add_recipes(py::module_& module) {
  using B = RecipeBuilder;
  py::class_<B>(module, "RecipeBuilder")
      .def(py::init<>())
      .def("value", [](B& b, uint32_t i) { return b.value(i).number; })
      .def("constant", [](B& b, py::handle o) { return b.constant(o.ptr()).number; })
      .def("output", [](B& b, uint32_t i) { return b.output(i).number; })
      .def("container", &make_container, py::arg(), py::arg(), py::arg("type") = py::none())
      .def("object",
           [](B& b, py::type type) { return b.object(reinterpret_cast<PyTypeObject*>(type.ptr())).number; })
      .def("slice", [](B& b, uint32_t x, uint32_t y, uint32_t z) { return b.slice({x}, {y}, {z}).number; })
      .def("cell", [](B& b) { return b.cell().number; })
      .def("cell", [](B& b, uint32_t contents) { return b.cell({contents}).number; })
      .def("method", [](B& b, uint32_t function, uint32_t self) { return b.method({function}, {self}).number; })
      .def("function", [](B& b, const std::vector<uint32_t>& parts) { return b.function(nodes(parts)).number; })
      .def("iterator",
           [](B& b, uint32_t container, uint32_t taken) { return b.iterator({container}, taken).number; })
      .def("call",
           [](B& b, py::handle callable, const std::vector<uint32_t>& arguments) {
             return b.call(callable.ptr(), nodes(arguments)).number;
           })
      .def("attribute", [](B& b, uint32_t o, py::handle name, uint32_t v) { b.attribute({o}, name.ptr(), {v}); })
      .def("add_item", [](B& b, uint32_t container, uint32_t item) { b.add_item({container}, {item}); })
      .def("add_entry", [](B& b, uint32_t dict, uint32_t key, uint32_t v) { b.add_entry({dict}, {key}, {v}); })
      .def("effect", [](B& b, const std::string& kind,
                        const std::vector<uint32_t>& operands) { b.effect(effect_named(kind), nodes(operands)); })
      .def("finish",
           [](B& b, const std::vector<uint32_t>& results) { return std::move(b).finish(nodes(results)); });
  py::class_<Recipe>(module, "Recipe").def("run", &run_recipe);
}

}  // namespace

void add_bindings(py::module_& module) {
  py::class_<Source>(module, "Source").def("__str__", [](const Source& source) { return to_text(&source); });
  py::class_<GuardSet> set(module, "GuardSet");
  set.def(py::init<>());
  add_sources(set);
  add_guards(set);
  set.def("evaluate", [](GuardSet&, const Source* source, const py::args& positional, const py::kwargs& keywords) {
    return or_none(evaluate(source, PackedCall(positional, keywords).get()));
  });
  set.def("program", [](GuardSet& s) { return GuardProgram(std::move(s)); }, "Takes the guards out of the set.");
  py::class_<GuardProgram>(module, "GuardProgram")
      .def(
          "check",
          [](const GuardProgram& p, const py::args& positional, const py::kwargs& keywords) {
            std::vector<PyObject*> values(p.wanted());
            return p.check(PackedCall(positional, keywords).get(), values.data());
          },
          "-1, or the number of what failed.")
      .def("values", &values_of, "The wanted values; an error with the explanation when a guard fails.")
      .def("explain",
           [](const GuardProgram& p, int32_t failed, const py::args& positional, const py::kwargs& keywords) {
             return p.explain(failed, PackedCall(positional, keywords).get());
           })
      .def("texts", &GuardProgram::texts)
      .def("time_check", &time_check, "Mean nanoseconds of so many checks.")
      .def("__len__", &GuardProgram::instruction_count);
  add_recipes(module);
}

}  // namespace braze::guards
