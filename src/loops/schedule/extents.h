// loops/schedule/extents.h: sizes as the loop IR has them.
//
// A kernel knows no expressions: what is one becomes an integer that a launch passes, a *symbol* of the kernel, so
// that machine code only loads and adds. `64*n*m + 4` is 64 * #s + 4, where #s is n*m.
#pragma once

#include <vector>

#include "loops/kernel.h"
#include "loops/sizes.h"

namespace braze::loops {

class Extents {
 public:
  /// \param symbols  receives the value of each symbol that the kernel is given.
  Extents(Kernel& kernel, std::vector<Size>& symbols, const SizeRules& rules)
      : kernel_(kernel), symbols_(symbols), rules_(rules) {}

  Extent of(Size size) { return size.is_constant() ? Extent(size.constant()) : of_expression(size); }
  /// `size` times a number, which is seen to be a multiple of it.
  Extent multiple(int64_t factor, Size size);
  Size size(const Extent& extent) const {
    return extent.is_constant() ? Size(extent.constant) : size_of_expression(extent);
  }

  /// to += factor * what
  void add(Affine& to, Size factor, const Affine& what);
  void add(Affine& to, Size factor, ValueId value);
  void add_offset(Affine& to, Size offset);
  Affine scaled(Size factor, const Affine& what);

  ValueId value(Builder builder, Size size);
  /// The same, but not 0: what is divided by in loops that do not run if it is.
  ValueId divisor(Builder builder, Size size);

 private:
  Extent of_expression(Size size);
  Size size_of_expression(const Extent& extent) const;
  Kernel& kernel_;
  std::vector<Size>& symbols_;
  const SizeRules& rules_;
};

/// Takes symbols that nothing mentions out of the kernel and out of `symbols`.
void drop_unused_symbols(Kernel& kernel, std::vector<Size>& symbols);

}  // namespace braze::loops
