// python/interpreter/handlers_stack.cpp: the stack and constants.
#include <utility>

#include "python/interpreter/handlers.h"

namespace braze::interpreter {

Step pop_top(Activation& a, int) {
  a.pop();
  return Step::next;
}

Step push_null(Activation& a, int) {
  a.push(Ref());
  return Step::next;
}

Step nop(Activation&, int) {
  return Step::next;
}

Step copy(Activation& a, int arg) {
  a.push_borrowed(a.peek(arg));
  return Step::next;
}

Step swap(Activation& a, int arg) {
  std::swap(a.peek(1), a.peek(arg));
  return Step::next;
}

Step load_const(Activation& a, int arg) {
  a.push_borrowed(a.constant(arg));
  return Step::next;
}

}  // namespace braze::interpreter
