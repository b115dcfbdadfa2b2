// python/interpreter/watch/watcher.h: watches a run of a Python function and collects what its outcome depends on.
//
// Before an instruction runs, the watcher decides whether it understands all that the instruction can read and
// change: what it reads from outside is learnt with a guard, what it changes must have been made by the run.
// Anything else abandons the run, with the reason. Tensor operators are understood by whoever traces them; they are
// just calls of C functions here.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "python/interpreter/observer.h"
#include "python/interpreter/watch/place.h"
#include "python/interpreter/watch/root_frame.h"
#include "python/interpreter/watch/rows.h"
#include "python/interpreter/watch/values.h"

namespace braze::interpreter {

class Watcher final : public Observer {
 public:
  Watcher(guards::GuardSet& guards, TensorWorld& tensors) : values_(guards, tensors) {}

  ~Watcher() override;
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;

  Values& values() { return values_; }
  /// The run leaves a generator in the middle of what may be a `try` or `with`.
  bool leaves_generator() const;
  /// How many frames the run was deep.
  size_t deepest() const { return deepest_; }
  /// The run was abandoned for what a native run will have done the next time.
  bool is_for_later() const { return is_for_later_; }
  /// Why the run was abandoned, and where.
  const Place& place() const { return place_; }

  /// Before the function under the Scope is called; `callable` and the arguments have been learnt. False:
  /// abandoned.
  bool begin(PyObject* callable, PyObject* const* arguments, Py_ssize_t count);
  /// Before the rest of a frame runs, the one that `root` describes. When the frame comes to an instruction that is
  /// not understood, or to the one that is asked for, the run ends there.
  void begin(RootFrame& root);

  bool entered(Frame* frame) override;
  void left(Frame* frame) override;
  bool before(Activation& a, int opcode, int arg) override;
  bool after(Activation& a, int opcode, int arg, Step step) override;
  bool handing_over(Handover reason) override;

 private:
  /// Which Python functions the running instruction may enter.
  enum class Entry : uint8_t {
    none,
    known,    ///< Those that are sourced or made.
    tensor,   ///< Also those that are methods of torch.Tensor.
    around,   ///< Code of PyTorch's that runs unwatched, and around what it calls (watcher_trusted.cpp).
    trusted,  ///< Any: a function of the library that is known to read nothing but its guarded arguments.
  };
  struct Activity {
    Entry entry = Entry::none;
    bool is_trusted = false;              ///< The frame runs what Entry::trusted entered.
    bool is_around = false;               ///< The frame runs what Entry::around entered, and is not watched.
    bool makes_result = false;            ///< What the instruction leaves on top is made by it, if it is not known.
    bool makes_signature = false;         ///< That is one of inspect.signature().
    bool makes_constant = false;          ///< Likewise, and it is the same object in every run.
    bool asks_whether_compiling = false;  ///< Reads the flag that is true in captures only.
    PyObject* answer = nullptr;           ///< What a call gives in place of its own result.
    bool passes_slice = false;            ///< Makes a slice object for a __getitem__.
    PyObject* reduces = nullptr;          ///< Takes this object apart for a copy.
    bool is_direct = false;               ///< Calls a Python function and does nothing else.
    bool looks = false;                   ///< C code that looks into what Python functions give it.
    PyObject *fills = nullptr, *key = nullptr;  ///< An older defaultdict that gets an entry, and its key.
    PyObject* sets_variable = nullptr;          ///< A context variable.
    PyObject* iterator = nullptr;               ///< Asked for its next item. Only compared.
    PyTypeObject* constructs = nullptr;         ///< A class whose __init__ is given a new instance.
    bool shares = false;                        ///< C code that may release the GIL, with effects hidden.
    bool holds_changes = false;                 ///< C code that has something changed in its hands.
    bool makes_address = false;                 ///< A number that is another one in every run.
    bool is_quiet = false;                      ///< Trusted, and computes nothing with tensors.
    std::optional<ir::Size> size = {};          ///< What the number is that the instruction leaves on top.
    bool packs_arguments = false;               ///< The tuples that are passed are made by the C function.
  };

  bool abandon(BreakReason why, PyObject* subject = nullptr);
  bool allow(Entry entry) {
    activities_.back().entry = entry;
    return true;
  }
  bool allow_made_result(Entry entry = Entry::none) {
    activities_.back().entry = entry;
    activities_.back().makes_result = true;
    return true;
  }

  /// The instruction's C code looks into what it is given, by functions and generators too.
  bool looks() {
    activities_.back().looks = true;
    return true;
  }
  bool gives(Activation& a, int opcode);
  void keep_generator(PyObject* generator);
  void learn_unbound(Activation& a);

  // watcher_sizes.cpp
  std::optional<ir::Size> as_size(PyObject* value) const;
  Ref for_tensors(PyObject* value, int depth = 0);
  void give_to_tensors(PyObject*& operand);
  bool give_number(PyObject*& operand, PyObject* beside);
  void put_tracers(Activation& a, int opcode, int arg);
  void put_tracer(PyObject*& operand);
  void look_at_sizes(Activation& a, int opcode, int arg);
  static bool is_truth(int opcode);
  void compute_size(PyObject*& left, PyObject*& right, int operation);
  void compare_sizes(PyObject*& left, PyObject*& right, int comparison);
  bool builtin_of_sizes(PyObject* callable, PyObject* const* arguments, Py_ssize_t count);
  bool calls_tensors(PyObject* callable) const;
  bool enters_watched() const;
  void give_sizes(Activation& a, int arg);
  void give_unpacked_sizes(Activation& a, int arg);
  void take_sizes(Activation& a);
  // watcher_root.cpp
  bool consume(Activation& a, int opcode, int arg);
  bool swap_slots(Activation& a, int one, int other);
  bool learn_slot(Activation& a, int slot, bool stays = false);
  bool drops(Activation& a, int slot);
  // watcher_deferred.cpp
  static bool only_moves(Activation& a, int opcode, int arg, int depth);
  bool defer_slot(Activation& a, int slot);
  void settle_operands(Activation& a, int opcode, int arg);
  bool lets_go(PyObject* value, const guards::Source* source, bool contents = false);
  bool lets_go_of_entry(PyObject* dict, PyObject* key);
  bool learn_cell_slot(Activation& a, int index);
  // looks.h
  struct Looks;
  bool look(Activation& a, int opcode, int arg);
  // watcher_threads.cpp
  bool hide_effects(Activation& a, int opcode, int arg);
  bool hide_effects();
  bool show_effects();
  // watcher.cpp
  bool learn_parameters(Frame* frame);
  bool operands(std::initializer_list<PyObject*> values, BreakReason why);
  bool operand(PyObject* value, BreakReason why);
  bool truth(PyObject* value);
  bool load_global(Activation& a, int arg);
  bool store_global(Activation& a, int arg);
  bool load_cell(PyObject* cell);
  bool store_cell(PyObject* cell, PyObject* value);
  bool copy_free_variables(Activation& a);
  bool subscript(PyObject* container, PyObject* key);
  bool missing_entry(PyObject* dict, PyObject* key);
  bool contains(PyObject* container, PyObject* item);
  bool has_same_object(PyObject* container, PyObject* item);
  bool store_item(PyObject* container, PyObject* key, PyObject* value);
  bool store_entry(PyObject* dict, PyObject* key, PyObject* value);
  bool delete_entry(PyObject* dict, PyObject* key);
  bool delete_item(PyObject* container, PyObject* key);
  bool change_list(PyObject* list);
  bool iterate(PyObject* iterable);
  /// What the class of an operand says about an operator.
  enum class Method : uint8_t { none, python, other };
  Method learn_operator(PyObject* operand, const std::string& name);
  bool user_operator(PyObject* left, PyObject* right, int operation);
  bool user_comparison(PyObject* left, PyObject* right, int operation);
  bool user_methods(PyObject* left, PyObject* right, const std::vector<std::pair<PyObject*, std::string>>& asked);
  bool unary(PyObject* value, const char* method);
  bool binary(PyObject* left, PyObject* right, int operation);
  bool comparison(PyObject* left, PyObject* right, int operation);
  bool compare(PyObject* left, PyObject* right, int operation);
  bool compare_identity(PyObject* left, PyObject* right);
  bool enter_with(PyObject* manager);
  std::optional<std::string> imported_name(Frame* frame, PyObject* name, PyObject* level);
  bool import_module(Activation& a, int arg);
  // watcher_attributes.cpp
  bool attribute(PyObject* object, PyObject* name);
  bool instance_attribute(PyObject* object, PyObject* name);
  /// The lookup of object.__getattribute__, whatever the class has of its own.
  bool plain_attribute(PyObject* object, PyObject* name);
  bool function_attribute(PyObject* function, PyObject* name);
  bool function_field(PyObject* function, const guards::Source* source, PyObject* name);
  bool class_of(PyObject* object, PyObject* name);
  bool class_attribute(PyObject* type, PyObject* name);
  bool class_field(PyObject* type, PyObject* meta, PyObject* name);
  bool tensor_attribute(PyObject* tensor, PyObject* name);
  bool own_attribute(PyObject* tensor, PyObject* name);
  bool module_attribute(PyObject* module, PyObject* name);
  bool lacks_in_module(PyObject* module, PyObject* name);
  bool super_attribute(PyObject* object, PyObject* name);
  bool super_lookup(PyObject* this_class, PyObject* self_class, PyObject* name);
  bool learn_class_entry(PyObject* found, const guards::Source* source);
  const guards::Source* type_source(PyObject* object) { return values_.type_source(object); }
  const guards::Source* class_source(PyObject* type);
  /// A special method written in Python, such as `__call__`: learns it. False, and no abandonment, if it is none.
  bool special_function(PyObject* object, const char* name);
  bool store_attribute(PyObject* object, PyObject* name, PyObject* value);
  /// What object.__setattr__ does, whatever the class has of its own. Without a value: object.__delattr__.
  bool plain_store(PyObject* object, PyObject* name, PyObject* value);
  bool store_in_class(PyObject* type, PyObject* name, PyObject* value);
  bool find_written(PyObject* type, PyObject* name);
  bool bind_in_metaclass(PyObject* type, PyObject* found, PyObject* name);
  bool property_getter(PyObject* property, const guards::Source* source, PyObject* name);
  bool named_tuple_field(PyObject* object, PyObject* field, const guards::Source* source);
  bool delete_attribute(PyObject* object, PyObject* name);
  /// Special methods that the class of an object has or lacks decide what an operation means: they stay as they
  /// are.
  bool keep_special(PyObject* object, std::initializer_list<const char*> names);
  bool keep_in_class(PyObject* type, const guards::Source* source, std::initializer_list<const char*> names);
  bool open_classes(PyObject* classes);
  // watcher_types.cpp
  bool is_generic(PyObject* object);
  bool subscript_type(PyObject* container, PyObject* key);
  bool is_part_of_type(PyObject* part);
  // watcher_classes.cpp
  void keep_bases(PyTypeObject* type, const guards::Source* source);
  bool keep_class_of(PyObject* object);
  bool keep_pattern_flags(PyObject* object);
  /// A builtin container, or an instance of a subclass that leaves the operation `slot` to it.
  bool acts_as_builtin(PyObject* object, const char* slot);
  bool class_name(PyObject* type, PyObject* name);
  // watcher_methods.cpp and watcher_calls.cpp
  bool call(PyObject* callable, PyObject* const* arguments, Py_ssize_t count);
  bool call_promised(Promise promise, PyObject* callable, PyObject* const* arguments, Py_ssize_t count);
  bool learn_method(PyObject* callable);
  bool open_partial(PyObject* partial, guards::Ref (&parts)[3]);
  bool call_partial(PyObject* partial, PyObject* const* arguments, Py_ssize_t count);
  bool call_class(PyObject* type, PyObject* const* arguments, Py_ssize_t count);
  bool instantiate(PyObject* type, PyObject* const* arguments, Py_ssize_t count);
  bool converts(std::string_view builtin, PyObject* object);
  bool reverses_by_index(PyObject* object);
  bool is_plain_exception(PyObject* object);
  bool formats_as_text(PyObject* object);
  bool formats_as_data(PyObject* object);
  bool call_getter(PyObject* getter, PyObject* const* arguments, Py_ssize_t count);
  bool call_method_caller(PyObject* caller, PyObject* const* arguments, Py_ssize_t count);
  bool call_builtin(PyObject* function, PyObject* const* arguments, Py_ssize_t count);
  bool call_method(PyObject* name, PyObject* self, PyObject* const* arguments, Py_ssize_t count);
  // watcher_copies.cpp
  bool reduce(PyObject* object, PyObject* const* arguments, Py_ssize_t count);
  bool reduce_builtin(PyObject* object);
  void learn_reduced(PyObject* object, PyObject* parts);
  bool address(PyObject* object);
  bool check_abstract(PyObject* type, PyObject* subject, bool is_instance);
  // watcher_views.cpp
  PyObject* dict_behind(PyObject* view);
  bool view_contains(PyObject* view, PyObject* dict, PyObject* item);
  bool combines_keys(PyObject* left, PyObject* right, int operation);
  bool hashes(PyObject* key);
  // watcher_slots.cpp
  bool call_slot(PyTypeObject* owner, std::string_view name, PyObject* self, PyObject* const* arguments,
                 Py_ssize_t count);
  bool call_bound_slot(PyObject* slot, PyObject* const* arguments, Py_ssize_t count);
  bool call_weak_reference(PyObject* reference);
  bool make_weak_reference(PyObject* const* arguments, Py_ssize_t count);
  bool call_container_slot(std::string_view name, PyObject* self, PyObject* const* arguments, Py_ssize_t count);
  bool call_context_variable(std::string_view name, PyObject* self, PyObject* const* arguments, Py_ssize_t count);
  bool text_of_class(PyObject* type);
  bool call_object_slot(std::string_view name, PyObject* self, PyObject* const* arguments, Py_ssize_t count);
  bool change_by_method(std::string_view name, PyObject* self, PyObject* const* arguments, Py_ssize_t count);
  bool call_pattern(PyObject* self, PyObject* const* arguments, Py_ssize_t count);
  bool resume_generator(PyObject* generator, PyObject* const* arguments, Py_ssize_t count);
  bool sort(PyObject* list, PyObject* const* arguments, Py_ssize_t count);
  // watcher_deques.cpp
  bool call_deque(std::string_view name, PyObject* self, PyObject* const* arguments, Py_ssize_t count);
  bool store_in_deque(PyObject* deque, PyObject* key, PyObject* value);
  bool change_deque(std::string_view name, PyObject* deque, PyObject* const* arguments, Py_ssize_t count);
  bool is_data_deque(PyObject* deque) const;
  bool change_set(std::string_view name, PyObject* set, PyObject* const* arguments, Py_ssize_t count);
  bool pop_item(PyObject* dict, PyObject* const* arguments, Py_ssize_t count);
  bool update_dict(PyObject* dict, PyObject* const* arguments, Py_ssize_t count);
  bool load_class_cell();
  bool absorb_all(PyObject* const* arguments, Py_ssize_t count, PyObject* callable);
  // watcher_given.cpp
  std::optional<Does> what_given_does(PyObject* callable);
  std::optional<Does> what_partial_does(PyObject* partial);
  Does what_bound_does(PyObject* self, PyObject* name);
  Does what_method_does(PyObject* self, PyTypeObject* type, PyObject* name);
  /// What the C function does with the items of what it is given.
  enum class Items : uint8_t {
    looked_into,
    handed_on,  ///< To the Python function that it is given too, and nothing else.
  };
  bool absorb_given(PyObject* const* arguments, Py_ssize_t count, Items items = Items::looked_into);
  static Items items_given_to(std::string_view name);
  bool hands_on(PyObject* value);
  bool reduces_in_place(PyObject* const* arguments, Py_ssize_t count);
  bool call_reduce(PyObject* const* arguments, Py_ssize_t count);
  bool call_operator(std::string_view name, PyObject* const* arguments, Py_ssize_t count);
  // watcher_iterators.cpp
  /// What asking an iterator comes to.
  enum class Next : uint8_t { gives, ends, unknown };
  bool is_older_iterator(PyObject* object) const;
  bool ask_next(PyObject* iterator);
  Next advance(PyObject* iterator, Passed& item, std::vector<PyObject*>& asked);
  Next advance_zip(PyObject* zip, const guards::Source* source, Passed& item, std::vector<PyObject*>& asked);
  Next advance_within(PyObject* iterator, const guards::Source* source, Passed& item,
                      std::vector<PyObject*>& asked);
  bool receive(Activation& a);
  bool learn_passed(PyObject* value, const Passed& passed);
  // watcher_library.cpp
  bool calls_signature(PyObject* function, Py_ssize_t count) const;
  bool call_signature(PyObject* function);
  void make_signature(PyObject* signature);
  bool is_cache_key(PyObject* argument);
  bool call_cached(PyObject* wrapper, PyObject* const* arguments, Py_ssize_t count);
  // watcher_trusted.cpp
  static bool is_trusted_code(const Frame* frame);
  bool call_stand_in(PyObject* function, PyObject* stand_in);
  bool put_stand_in(PyObject* callable, PyObject* stand_in);
  bool put_stand_in_partial(guards::Ref (&parts)[3], PyObject* stand_in);
  bool call_trusted(PyObject* function, PyObject* const* arguments, Py_ssize_t count);
  bool open_closure(PyObject* function);
  bool opens_for_trusted(PyObject* value);
  void keep_fresh(PyObject* value);
  enum class Way : uint8_t { unwatched, watched, unknown };
  Way way_from_trusted(Frame* frame);
  bool entered_from_trusted(Frame* frame);
  // watcher_torch.cpp
  bool learn_tensor_method(PyObject* function);
  bool hashes_tensor(PyObject* function);
  bool is_function_apply(PyObject* function);
  bool apply_function(PyObject* type);
  bool gradient(PyObject* tensor);
  bool is_word_for_backward(PyObject* object, PyObject* descriptor);
  bool is_needs_input_grad(PyObject* object, PyObject* descriptor);

  Values values_;
  std::vector<Activity> activities_;  ///< One a frame.
  Place place_;
  bool is_for_later_ = false;
  size_t deepest_ = 1;                   ///< How many frames there were at once.
  PyObject** callee_ = nullptr;          ///< Where the stack holds what the running instruction calls, if it does.
  PyObject* keyword_names_ = nullptr;    ///< Of the call that is looked at; null if there are none.
  Passed next_item_;                     ///< What the running instruction gets from an older iterator, if anything.
  std::vector<guards::Ref> generators_;  ///< Made by the run, with `try` or `with` in them.
  bool looks_lazily_ = false;            ///< There is an iterator that looks into its items.
  RootFrame* root_ = nullptr;            ///< Null: the run is that of a call.
};

}  // namespace braze::interpreter
