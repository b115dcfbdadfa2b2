#include "python/compile/remedies.h"

namespace braze::python {
namespace {

struct Row {
  std::string_view part;  ///< Of the reason. The first row that fits counts.
  std::string_view remedy;
};

constexpr Row rows[] = {
    {"braze.compiler.disable", "Call it outside of the compiled function, or take the mark away."},
    {"branch on the value of a tensor",
     "Use torch.where, or compute the condition outside of the compiled function."},
    {"values of a tensor are read",
     "Keep values in tensors (no item(), bool(), float()); use torch.where(mask, a, b) where a mask selects; or do "
     "it after the compiled function has returned."},
    {"reads the value of a tensor",
     "Keep the value in a tensor (no item(), tolist(), numpy(), float() or print), or read it after the compiled "
     "function has returned."},
    {"gradients", "Call it under torch.no_grad() or torch.inference_mode(), or detach its inputs."},
    {"grad mode", "Use `with torch.no_grad():` around the call."},
    {"an item is stored into", "Make a new list or dict in the function and return it."},
    {"container that existed before is changed", "Make a new list or dict in the function and return it."},
    {"object that existed before is changed", "Return the new value, and store it where the function is called."},
    {"variable of an enclosing function", "Return the new value instead of using nonlocal."},
    {"builtin function",
     "Move the call out of the compiled function, or put it into one marked braze.compiler.disable."},
    {"C function", "Move the call out of the compiled function, or put it into one marked braze.compiler.disable."},
    {"method of tensors that is not understood",
     "Use the operator of torch that does the same without that method."},
    {"tensor that guards do not cover", "Read this attribute before the call, and pass the value."},
    {"generator", "Use a list comprehension, or a generator without try and with."},
    {"set", "Use a list or tuple: the order of a set may differ between two runs."},
    {"result that cannot be rebuilt", "Return tensors, numbers, tuples, lists and dicts."},
    {"__del__", "Make objects with __del__ outside of the compiled function."},
    {"deterministic algorithms", "Call torch.use_deterministic_algorithms(False)."},
    {"import", "Import the module at the top of the file."},
    {"raises", "Check for the error before the compiled function is called."},
    {"unknown origin", "Pass the object as an argument, or reach it over attributes, globals or closures."},
    {"cannot be guarded", "Pass the value as an argument of a builtin type, or as a tensor."},
};

}  // namespace

std::string_view remedy_for(std::string_view reason) {
  for (const Row& row : rows)
    if (reason.find(row.part) != std::string_view::npos) return row.remedy;
  return "Move this out of the compiled function, or drop fullgraph=True.";
}

}  // namespace braze::python
