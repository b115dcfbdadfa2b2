// python/interpreter/watch/break_reasons.h: why graphs end, as data.
//
// One row a reason in break_reasons.def: an id for those who count and compare, what users read, and what they can
// do. A reason is told by its id, or by its text, which is looked up in the table when the code is compiled: a text
// without a row does not compile. Only what others say, such as the text of an exception, counts as `other`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace braze::interpreter {

enum class Break : uint16_t {
  other,
#define BREAK(id, text, remedy) id,
#include "python/interpreter/watch/break_reasons.def"
#undef BREAK
};

struct BreakRow {
  std::string_view id, text, remedy;
};

/// What several rows advise.
namespace remedies {
inline constexpr std::string_view
    otherwise = "Move this out of the compiled function, or drop fullgraph=True.",
    use_where = "Use torch.where, or compute the condition outside of the compiled function.",
    use_where_for_mask =
        "Use torch.where(mask, a, b), which keeps the shape, or select after the compiled function "
        "has returned.",
    without_gradients = "Call it under torch.no_grad() or torch.inference_mode(), or detach its inputs.",
    keep_in_tensors =
        "Keep the value in a tensor (no item(), tolist(), numpy(), float() or print), or read it after "
        "the compiled function has returned.",
    unmark = "Call it outside of the compiled function, or take the mark away.",
    make_new = "Make a new list or dict in the function and return it.",
    return_it = "Return the new value instead of using nonlocal.",
    move_out = "Move the call out of the compiled function, or put it into one marked braze.compiler.disable.",
    use_operator = "Use the operator of torch that does the same without that method.",
    pass_attribute = "Read this attribute before the call, and pass the value.",
    use_list = "Use a list comprehension, or a generator without try and with.",
    use_ordered = "Use a list or tuple: the order of a set may differ between two runs.",
    del_outside = "Make objects with __del__ outside of the compiled function.",
    import_first = "Import the module at the top of the file.",
    check_first = "Check for the error before the compiled function is called.",
    pass_it = "Pass the object as an argument, or reach it over attributes, globals or closures.",
    pass_builtin = "Pass the value as an argument of a builtin type, or as a tensor.",
    data_dependent = "Do it before or after the compiled function: a graph's shapes are known before it runs.";
}  // namespace remedies

namespace remedies {
inline constexpr BreakRow rows[] = {
    {"other", "", otherwise},
#define BREAK(id, text, remedy) {#id, text, remedy},
#include "python/interpreter/watch/break_reasons.def"
#undef BREAK
};
}  // namespace remedies
inline constexpr std::span<const BreakRow> break_rows = remedies::rows;

constexpr const BreakRow& row_of(Break id) {
  return break_rows[static_cast<size_t>(id)];
}

/// A row of the table, and what is shown of it.
class BreakReason {
 public:
  constexpr BreakReason(Break id) : id_(id), text_(row_of(id).text) {}  // NOLINT: a row is a reason
  template <size_t size>
  consteval BreakReason(const char (&text)[size]) : id_(find(text)), text_(text) {}  // NOLINT: likewise
  /// What somebody else says: the text of an exception.
  static constexpr BreakReason told(std::string_view text) { return BreakReason(Break::other, text); }

  constexpr Break id() const { return id_; }
  constexpr std::string_view text() const { return text_; }

 private:
  constexpr BreakReason(Break id, std::string_view text) : id_(id), text_(text) {}
  static consteval Break find(std::string_view text) {
    for (size_t k = 1; k < break_rows.size(); ++k)
      if (break_rows[k].text == text) return static_cast<Break>(k);
    throw "a reason without a row in break_reasons.def";
  }

  Break id_;
  std::string_view text_;
};

}  // namespace braze::interpreter
