// python/compile/size_history.h: which sizes have varied from call to call.
//
// Of one function, or one place in a function where captures begin: by the path over which a tensor or number was
// reached, the form that captures have found there. What was another at an earlier capture is expected to vary, and
// becomes a symbol; so the first capture of a function is static, and the second is for all sizes.
#pragma once

#include <ATen/core/Tensor.h>
#include <Python.h>

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "capture/trace.h"

namespace braze::python {

/// Whether a graph may take the float as an input: operators refuse numbers that a tensor's type does not hold.
bool may_be_input(double number);

/// What is said of whether sizes vary: by `dynamic=`.
enum class Dynamic : uint8_t {
  automatic,  ///< Those that have varied, and those that are marked.
  always,
  never,
};

/// Which sizes and strides of a tensor may vary.
struct VaryingForm {
  std::vector<capture::Varying> sizes;
  c10::SmallVector<bool, 5> strides;
  bool any() const;
};

/// What a tensor object is marked with: by braze.compiler.mark_dynamic() and its like, or by PyTorch's.
struct SizeMarks {
  std::unordered_map<int64_t, capture::Varying> dynamic;
  std::vector<int64_t> maybe, fixed;
  bool empty() const { return dynamic.empty() && maybe.empty() && fixed.empty(); }
};
SizeMarks marks_of(PyObject* tensor);

class SizeHistory {
 public:
  /// What a capture finds at `path`; and what may vary by now.
  VaryingForm note(const std::string& path, const at::Tensor& tensor, const SizeMarks& marks, Dynamic dynamic);
  /// \param counts  0 and 1 are numbers like others.
  bool note_number(const std::string& path, int64_t number, Dynamic dynamic, bool counts);
  bool note_float(const std::string& path, double number, Dynamic dynamic);
  /// \param contents  a hash of what is in an array of NumPy's. True: it has been another one.
  bool note_array(const std::string& path, size_t contents);
  /// True: another object has been there.
  bool note_object(const std::string& path, const void* object);
  /// What is reached over `path` comes of tensors' elements, as the result of nonzero() or item() does: its first
  /// size, or the number, varies from the first capture on and whatever `dynamic=` says.
  void expect_data(const std::string& path);
  /// Numbers of elements that this call has come by where other elements decide them, as masks do. A size that is
  /// one of them varies from the first capture on, unless nothing is to.
  void expect_sizes(const std::vector<int64_t>& sizes) { sizes_of_data_ = sizes; }
  bool expects_sizes() const { return !sizes_of_data_.empty(); }
  bool has_data() const { return !data_paths_.empty(); }
  /// A float that was read of a tensor at a break: it varies from the first capture on, unless nothing is to.
  void expect_float(const std::string& path) { float_paths_.insert(path); }
  /// A whole number of a loop that goes on, which the next iteration finds to be another one: likewise.
  void expect_counter(const std::string& path) { counter_paths_.insert(path); }
  /// Whole numbers that were read of a tensor at a break, over `path` and in the list there: likewise.
  void expect_numbers(const std::string& path);
  /// It is one of these two: 0, 1 and what is below are numbers like others.
  bool expects_any_number(const std::string& path) const;
  /// The iterators of such loops are there: likewise each number that one of them gives.
  void expect_items() { gives_items_ = true; }
  bool gives_items() const { return gives_items_; }
  bool expects_numbers() const {
    return !float_paths_.empty() || !counter_paths_.empty() || !number_paths_.empty() || gives_items_;
  }
  /// Captures begin behind a break: a number there that has been another one counts iterations rather than
  /// elements, so that 0 and 1 are numbers like others.
  void expect_counters() { has_counters_ = true; }
  /// A run puts another tensor where it has found one: the next run finds that, and no program is bound to either.
  /// False: it is known already.
  bool note_replaced(const std::string& path) { return replaced_.insert(path).second; }
  bool is_replaced(const std::string& path) const { return replaced_.contains(path); }
  /// Classes were registered with abstract ones while a run was captured. False: that happens each time.
  bool note_registered() { return !std::exchange(registers_, true); }
  /// A capture that takes gradients itself could not be differentiated in turn: the next ones end there. False:
  /// that is known already.
  bool leave_gradients() { return !std::exchange(leaves_gradients_, true); }
  bool leaves_gradients() const { return leaves_gradients_; }
  /// Python's generators draw numbers there: captures have symbols from now on. The present one may have none.
  void note_draws(bool has_symbols) {
    if (draws_ != Draws::unknown) return;
    draws_ = Draws::wanted;
    meets_draws_ = !has_symbols;
  }
  /// Whether a capture without symbols has just come to its end by that; once.
  bool meets_draws() { return std::exchange(meets_draws_, false); }
  bool has_draws() const { return draws_ == Draws::wanted; }
  /// A capture has decided something by drawn numbers; several may, before that is too many ways.
  void note_decided_draws() {
    constexpr int most_ways = 6;
    if (++ways_ >= most_ways) give_up_draws();
  }
  /// A program was for one drawn number alone, and will hardly be replayed.
  void give_up_draws() { draws_ = Draws::refused; }
  /// A row that a capture has copied, where eager makes a view, could be told from that: the next ones end where it
  /// is picked. False: they do already.
  bool leave_rows() { return !std::exchange(leaves_rows_, true); }
  bool leaves_rows() const { return leaves_rows_; }
  bool is_open() const { return state_ == State::open; }
  /// A capture with symbols or varying floats has come to nothing. The next ones have no symbols; if one of these
  /// comes to nothing, too, the next ones have constants alone.
  void give_up() {
    if (state_ == State::open) state_ = State::gives_up;
    if (state_ == State::numbers) state_ = State::gives_up_floats;
  }
  /// Whether it has just been told so; once.
  bool gives_up() {
    if (state_ == State::gives_up)
      state_ = State::numbers;
    else if (state_ == State::gives_up_floats)
      state_ = State::constants;
    else
      return false;
    return true;
  }
  /// It is, since there were symbols of sizes that came to nothing.
  bool stays_numbers() const { return state_ == State::numbers || state_ == State::gives_up_floats; }
  /// It has come to nothing without symbols, too, and for the same reason.
  void take_up_again() { state_ = State::open; }
  /// There was a capture.
  bool empty() const { return forms_.empty() && numbers_.empty() && floats_.empty(); }
  void clear() {
    forms_.clear();
    numbers_.clear();
    floats_.clear();
    arrays_.clear();
    objects_.clear();
    data_paths_.clear();
    number_paths_.clear();
    sizes_of_data_.clear();
    float_paths_.clear();
    counter_paths_.clear();
    small_numbers_.clear();
    replaced_.clear();
    registers_ = leaves_gradients_ = leaves_rows_ = gives_items_ = false;
    draws_ = Draws::unknown;
    ways_ = 0;
    state_ = State::open;
  }

 private:
  bool is_no_switch(const std::string& path, int64_t number);

  enum class State : uint8_t { open, gives_up, numbers, gives_up_floats, constants } state_ = State::open;
  enum class Draws : uint8_t { unknown, wanted, refused } draws_ = Draws::unknown;
  bool meets_draws_ = false;
  int ways_ = 0;
  struct Form {
    c10::SmallVector<int64_t, 5> sizes, strides;
    c10::SmallVector<bool, 5> sizes_vary, strides_vary;
  };
  template <typename Value>
  struct Number {
    Value value;
    bool varies = false;
  };
  std::vector<std::string> data_paths_, number_paths_;
  std::vector<int64_t> sizes_of_data_;
  std::unordered_set<std::string> float_paths_, counter_paths_, replaced_;
  std::unordered_map<std::string, std::set<int64_t>> small_numbers_;  ///< Below 2, by path.
  bool registers_ = false, has_counters_ = false, gives_items_ = false, leaves_gradients_ = false,
       leaves_rows_ = false;
  std::unordered_map<std::string, Form> forms_;
  std::unordered_map<std::string, Number<int64_t>> numbers_;
  std::unordered_map<std::string, Number<double>> floats_;
  std::unordered_map<std::string, Number<size_t>> arrays_;
  std::unordered_map<std::string, Number<const void*>> objects_;  ///< Only compared.
};

}  // namespace braze::python
