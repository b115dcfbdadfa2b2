// loops/print.cpp: kernels as text; the grammar is beside each statement kind in kernel.h.
#include <limits>
#include <unordered_set>

#include "ir/literals.h"
#include "loops/kernel.h"
#include "loops/transposes.h"
#include "loops/words.h"
#include "support/error.h"

namespace braze::loops {

namespace {

/// Names become identifiers, distinct within one kernel.
class Names {
 public:
  std::string unique(std::string_view wished, std::string_view otherwise) {
    std::string base;
    for (char c : wished) base += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
    if (base.empty()) base = otherwise;
    // Values are numbers, so a buffer must not begin with a digit.
    if (std::isdigit(static_cast<unsigned char>(base[0]))) base.insert(0, 1, '_');
    std::string name = base;
    for (int i = 1; !taken_.insert(name).second; ++i) name = concat(base, "_", i);
    return name;
  }

 private:
  std::unordered_set<std::string> taken_;
};

class Printer {
 public:
  explicit Printer(const Kernel& kernel) : kernel_(kernel), number_(kernel.types.size(), none) {
    Names buffers, scalars, symbols;
    for (const Buffer& buffer : kernel.buffers) buffers_.push_back(buffers.unique(buffer.name, "b"));
    for (const Scalar& scalar : kernel.scalars) scalars_.push_back(scalars.unique(scalar.name, "s"));
    for (const std::string& symbol : kernel.symbols) symbols_.push_back(symbols.unique(symbol, "n"));
  }

  std::string run() {
    put("kernel @", Names().unique(kernel_.name, "kernel"), "(");
    std::string_view separator = "";
    for (BufferId id = 0; id < kernel_.buffers.size(); ++id) {
      const Buffer& buffer = kernel_.buffers[id];
      if (!buffer.is_parameter) continue;
      put(separator);
      put_type_of(id);
      put(" ", word(access_words, buffer.access));
      if (buffer.space != Space::global) put(" ", word(space_words, buffer.space));
      if (!buffer.may_alias) put(" noalias");
      if (buffer.alignment != planned_alignment) put(" align=", buffer.alignment);
      if (buffer.is_exact) put(" exactly");
      separator = ", ";
    }
    for (size_t i = 0; i < scalars_.size(); ++i) {
      put(separator, "$", scalars_[i], ": ", ir::name(kernel_.scalars[i].dtype));
      separator = ", ";
    }
    for (const std::string& symbol : symbols_) {
      put(separator, "#", symbol);
      separator = ", ";
    }
    put(kernel_.narrow ? ") narrow {\n" : ") {\n");
    put_block(kernel_.body, {});
    put("}\n");
    return std::move(out_);
  }

 private:
  // ---- pieces
  void put_one(std::string_view text) { out_ += text; }
  void put_one(int64_t value) { out_ += std::to_string(value); }
  template <typename... Parts>
  void put(const Parts&... parts) {
    (put_one(parts), ...);
  }
  void put_line_start() { out_.append(2 * depth_, ' '); }

  void define(ValueId value) {
    if (value < number_.size()) number_[value] = next_++;
    use(value);
  }
  void use(ValueId value) {
    // Text of a kernel that does not verify is still worth reading.
    if (value >= number_.size() || number_[value] == none)
      put("%undefined.", static_cast<int64_t>(value));
    else
      put("%", static_cast<int64_t>(number_[value]));
  }
  void use_all(const std::vector<ValueId>& values) {
    for (size_t i = 0; i < values.size(); ++i) {
      if (i) put(", ");
      use(values[i]);
    }
  }
  void put_buffer(BufferId id) { put("%", id < buffers_.size() ? buffers_[id] : concat("undefined.", id)); }
  void put_type_of(BufferId id) {
    const Buffer& buffer = kernel_.buffers[id];
    put_buffer(id);
    put(": ", ir::name(buffer.dtype));
    if (buffer.is_parameter && buffer.size == Extent()) return;
    put("[");
    put_extent(buffer.size);
    put("]");
  }

  /// "+ x" or "- x" within a sum, "x" or "-x" at its start.
  int64_t put_sign(int64_t value, bool first) {
    const bool negative = value < 0 && value != std::numeric_limits<int64_t>::min();
    if (first)
      put(negative ? "-" : "");
    else
      put(negative ? " - " : " + ");
    return negative ? -value : value;
  }
  void put_symbol_product(int64_t factor, uint32_t symbol, bool first) {
    factor = put_sign(factor, first);
    if (factor != 1) put(factor, "*");
    put("#", symbol < symbols_.size() ? symbols_[symbol] : concat("undefined.", symbol));
  }
  void put_extent(const Extent& extent, bool first = true) {
    if (extent.is_constant()) return put(put_sign(extent.constant, first));
    put_symbol_product(extent.factor, extent.symbol, first);
    if (extent.constant != 0) put(put_sign(extent.constant, false));
  }
  void put_affine(const Affine& index) {
    bool first = true;
    for (const auto& [factor, value] : index.terms) {
      if (factor.is_constant()) {
        const int64_t size = put_sign(factor.constant, first);
        if (size != 1) put(size, "*");
      } else if (factor.constant == 0) {
        put_symbol_product(factor.factor, factor.symbol, first);
        put("*");
      } else {
        put(first ? "(" : " + (");
        put_extent(factor);
        put(")*");
      }
      use(value);
      first = false;
    }
    if (first || index.offset != Extent()) put_extent(index.offset, first);
  }
  void put_element(BufferId buffer, const Affine& index) {
    put_buffer(buffer);
    put("[");
    put_affine(index);
    put("]");
  }

  // ---- blocks
  void put_block(const Block& block, const std::vector<const std::vector<ValueId>*>& yields) {
    ++depth_;
    for (const Stmt& stmt : block) put_stmt(stmt);
    bool first = true;
    for (const auto* values : yields) {
      if (values->empty()) continue;
      if (first) put_line_start();
      put(first ? "yield " : ", ");
      use_all(*values);
      first = false;
    }
    if (!first) put("\n");
    --depth_;
  }
  void close() {
    put_line_start();
    put("}");
  }
  void put_schedule(const Schedule& s) {
    if (s.parallel) put(" parallel");
    if (s.grain != 1) put(" grain=", s.grain);
    if (s.vector) put(" vector");
    if (s.unroll != 1) put(" unroll=", static_cast<int64_t>(s.unroll));
    if (s.bind != Schedule::Bind::none) put(" bind=", word(bind_words, s.bind));
    if (s.cluster != 1) put(" cluster=", static_cast<int64_t>(s.cluster));
  }
  void put_reduction(const Reduction& r) {
    put(word(combine_words, r.combine));
    if (!has_free_state(r.combine)) return;
    put("(");
    for (size_t i = 0; i < r.init.size(); ++i) {
      if (i) put(", ");
      if (i < r.state.size()) {
        define(r.state[i]);
        put(" = ");
      }
      use(r.init[i]);
    }
    put(")");
  }
  void put_bound(ValueId value, const Extent& extent) {
    if (value == none)
      put_extent(extent);
    else
      use(value);
  }
  void put_loop(const Loop& loop) {
    // The results are named first, so they are numbered first.
    bool first = true;
    for (const Reduction& reduction : loop.reductions)
      for (ValueId result : reduction.results) {
        if (!first) put(", ");
        define(result);
        first = false;
      }
    put(first ? "for " : " = for ");
    define(loop.var);
    put(" in ");
    put_bound(loop.begin_value, loop.begin);
    // A value's name may hold dots, so the range's must stand apart from it.
    put(loop.begin_value == none ? ".." : " .. ");
    put_bound(loop.end_value, loop.end);
    if (loop.step != 1) put(" step ", loop.step);
    put_schedule(loop.schedule);
    std::vector<const std::vector<ValueId>*> yields;
    for (const Reduction& reduction : loop.reductions) {
      put(yields.empty() ? " reduce " : ", ");
      put_reduction(reduction);
      yields.push_back(&reduction.yielded);
    }
    put(" {\n");
    put_block(loop.body, yields);
    close();
  }

  // ---- statements
  void put_constant(const Stmt& s) {
    std::string text;
    ir::append_number(text, s.number);
    const bool is_truth = s.type == DType::b8 && !s.number.floating && (s.number.i == 0 || s.number.i == 1);
    put(is_truth ? (s.number.i ? "true" : "false") : text);
  }
  void put_predicate(const Stmt& s) {
    if (s.predicate == none) return;
    put(" if ");
    use(s.predicate);
  }
  void put_transpose(const Stmt& s) {
    put_buffer(s.buffer);
    put(", ");
    put_element(s.sources.at(0), s.index);
    put(", rows=", s.shape.at(0), " step=");
    put_extent(row_step(s));
    put(", cols=", s.shape.at(2), " step=", s.shape.at(3));
    if (s.valid.empty()) return;
    put(" valid=");
    use(s.valid.at(0));
    put(", ");
    use(s.valid.at(1));
  }
  void put_alloc(const Stmt& s) {
    put_type_of(s.buffer);
    const Buffer& buffer = kernel_.buffers[s.buffer];
    put(" ", word(space_words, buffer.space));
    if (buffer.alignment != planned_alignment) put(" align=", buffer.alignment);
  }
  void put_stmt(const Stmt& s);

  const Kernel& kernel_;
  std::string out_;
  std::vector<uint32_t> number_;
  std::vector<std::string> buffers_, scalars_, symbols_;
  uint32_t next_ = 0;
  size_t depth_ = 0;
};

void Printer::put_stmt(const Stmt& s) {
  put_line_start();
  if (s.kind == StmtKind::loop) {
    put_loop(*s.loop);
    put("\n");
    return;
  }
  if (s.result != none) {
    define(s.result);
    put(" = ");
  }
  put(s.kind == StmtKind::compute ? ir::info(s.op).name : word(stmt_words, s.kind));
  if (s.kind != StmtKind::barrier) put(" ");
  switch (s.kind) {
    case StmtKind::constant: put_constant(s); break;
    case StmtKind::scalar: put("$", scalars_.at(s.slot)); break;
    case StmtKind::symbol: put("#", symbols_.at(s.slot)); break;
    case StmtKind::compute: use_all(s.args); break;
    case StmtKind::affine: put_affine(s.index); break;
    case StmtKind::load:
      put_element(s.buffer, s.index);
      put_predicate(s);
      if (s.otherwise != none) {
        put(" else ");
        use(s.otherwise);
      }
      break;
    case StmtKind::atomic: put(word(atomic_words, s.atomic), " "); [[fallthrough]];
    case StmtKind::store:
      put_element(s.buffer, s.index);
      put(", ");
      use_all(s.args);
      put_predicate(s);
      if (s.stream) put(" stream");
      break;
    case StmtKind::checked:
      use_all(s.args);
      put(", ");
      put_extent(s.extent);
      break;
    case StmtKind::alloc: put_alloc(s); break;
    case StmtKind::branch:
      use(s.predicate);
      put(" {\n");
      put_block(s.body, {});
      close();
      break;
    case StmtKind::barrier: break;
    case StmtKind::transpose: put_transpose(s); break;
    case StmtKind::loop: break;  // Above.
  }
  // Types that follow from the slot or are always i64 are not repeated.
  const bool typed = s.kind == StmtKind::constant || s.kind == StmtKind::compute || s.kind == StmtKind::load;
  if (typed) put(" : ", ir::name(s.type));
  put("\n");
}

}  // namespace

std::string print(const Kernel& kernel) {
  return Printer(kernel).run();
}

}  // namespace braze::loops
