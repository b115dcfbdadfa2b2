// python/guards/shape_guard.cpp
#include "python/guards/shape_guard.h"

#include <c10/util/SmallVector.h>
#include <torch/csrc/autograd/python_variable.h>

#include <utility>

#include "python/guards/kinds.h"
#include "python/guards/scalar.h"
#include "python/guards/torch_values.h"
#include "support/error.h"

namespace braze::guards {

namespace {

using Kind = SizeRead::Kind;

std::string text_of(const SizeRead& read, const Texts& texts) {
  const std::string& name = texts[read.place];
  switch (read.kind) {
    case Kind::size: return concat(name, ".shape[", read.dim, "]");
    case Kind::stride: return concat(name, ".stride(", read.dim, ")");
    case Kind::derived: return read.derived->text();
    case Kind::number: break;
  }
  return name;
}

/// "math.sqrt(n) == 2.0 (model.py:4)"
std::string text_of(const DerivedTest& test) {
  return concat(test.derived->text(), " == ", describe(test.expected.get()), " (", test.why, ")");
}

class Shapes final : public Payload {
 public:
  Shapes(std::shared_ptr<const ir::Graph> graph, NumberReads reads, std::span<const SizeFit> fits,
         std::vector<DerivedTest> tests)
      : graph_(std::move(graph)),
        env_(graph_->find_shape_env()),
        reads_(std::move(reads)),
        fits_(fits.begin(), fits.end()),
        tests_(std::move(tests)) {
    for (const SizeFit& fit : fits_) code_.add(fit.size);
  }

  /// The number of what does not hold: symbols that cannot be read or are out of range, fits, guards; -1 for none.
  enum class Part : uint8_t { none, symbol, fit, guard, test };
  struct Broken {
    Part part = Part::none;
    size_t number = 0;
  };

  Broken broken(PyObject* const* values, ReadNumbers& numbers) const {
    c10::SmallVectorImpl<int64_t>& symbols = numbers.symbols;
    symbols.assign(reads_.symbols.size(), 0);
    numbers.floats.clear();
    for (const uint32_t place : reads_.floats) numbers.floats.push_back(PyFloat_AS_DOUBLE(values[place]));
    for (uint32_t slot = 0; slot < reads_.symbols.size(); ++slot) {
      const ir::SymbolFacts& facts = env_->declared(slot);
      if (!reads_.symbols[slot].read(values, numbers.all(), &symbols[slot]) || !facts.range.has(symbols[slot]))
        return {Part::symbol, slot};
    }
    c10::SmallVector<int64_t, 16> wanted(fits_.size());
    if (!code_.run({symbols.data(), symbols.size()}, {wanted.data(), wanted.size()})) return {Part::guard, 0};
    for (size_t k = 0; k < fits_.size(); ++k) {
      int64_t found = 0;
      if (!fits_[k].where.read(values, {}, &found) || found != wanted[k]) return {Part::fit, k};
    }
    if (env_ && !env_->guards().empty())
      if (const auto guard = env_->broken({symbols.data(), symbols.size()})) return {Part::guard, *guard};
    for (size_t k = 0; k < tests_.size(); ++k)
      if (!tests_[k].holds(numbers.all())) return {Part::test, k};
    return {};
  }

  bool equals(const Payload&) const noexcept override { return false; }

  std::string text(const Broken& what, PyObject* const* values, const ReadNumbers& numbers,
                   const Texts& texts) const {
    const std::span<const int64_t> symbols = numbers.all().symbols;
    switch (what.part) {
      case Part::symbol: {
        const ir::SizeRange range = env_->declared(static_cast<uint32_t>(what.number)).range;
        const SizeRead& read = reads_.symbols[what.number];
        if (read.kind == Kind::derived) return concat(text_of(read, texts), " is a number", where(symbols, texts));
        const std::string high = range.high == ir::SizeRange::infinity ? "" : concat(" and <= ", range.high);
        return concat(text_of(read, texts), " >= ", range.low, high, ", was ", symbols[what.number]);
      }
      case Part::fit: {
        int64_t found = 0;
        fits_[what.number].where.read(values, {}, &found);
        return concat(text_of(fits_[what.number].where, texts), " == ", ir::to_text(fits_[what.number].size),
                      ", was ", found, where(symbols, texts));
      }
      case Part::guard:
        return concat(ir::to_text(env_->guards()[what.number].test), " (", env_->guards()[what.number].why,
                      "), was not", where(symbols, texts));
      case Part::test: {
        const Ref found = tests_[what.number].derived->evaluate(numbers.all());
        return concat(text_of(tests_[what.number]), ", was ", describe(found.get()), where(symbols, texts));
      }
      case Part::none: break;
    }
    std::string all = reads_.floats.empty() || !reads_.symbols.empty() ? "sizes:" : "floats vary:";
    const char* before = " ";
    const auto say = [&](std::string_view one) { all += concat(std::exchange(before, ", "), one); };
    for (const uint32_t place : reads_.floats) all += concat(" ", texts[place]);
    for (uint32_t slot = 0; slot < reads_.symbols.size(); ++slot) {
      say(concat(env_->table().name(slot), " is ", text_of(reads_.symbols[slot], texts)));
      if (reads_.symbols[slot].kind != Kind::derived) all += concat(" >= ", env_->declared(slot).range.low);
    }
    if (!reads_.floats.empty()) before = ", ";
    for (const SizeFit& fit : fits_) say(concat(text_of(fit.where, texts), " == ", ir::to_text(fit.size)));
    const std::span<const ir::ShapeEnv::Guard> guards =
        env_ ? std::span<const ir::ShapeEnv::Guard>(env_->guards()) : std::span<const ir::ShapeEnv::Guard>();
    for (const ir::ShapeEnv::Guard& guard : guards)
      say(concat(ir::to_text(guard.test), guard.why.empty() ? "" : concat(" (", guard.why, ")")));
    for (const DerivedTest& test : tests_) say(text_of(test));
    return all;
  }

 private:
  /// ", where n is x.shape[0], 3"
  std::string where(std::span<const int64_t> symbols, const Texts& texts) const {
    std::string all = reads_.symbols.empty() ? "" : ", where ";
    for (uint32_t slot = 0; slot < reads_.symbols.size(); ++slot)
      all += concat(slot ? ", " : "", env_->table().name(slot), " = ", text_of(reads_.symbols[slot], texts), " = ",
                    symbols[slot]);
    return all;
  }

  const std::shared_ptr<const ir::Graph> graph_;
  const ir::ShapeEnv* const env_;  ///< Null: the graph has no symbols.
  const NumberReads reads_;
  const std::vector<SizeFit> fits_;
  const std::vector<DerivedTest> tests_;
  ir::SizeCode code_;
};

}  // namespace

bool SizeRead::read(PyObject* const* values, const CallNumbers& numbers, int64_t* number) const noexcept {
  if (kind == Kind::derived) {
    const Ref found = derived->evaluate(numbers);
    const std::optional<int64_t> one = found ? part_of(found.get(), part) : std::nullopt;
    *number = one.value_or(0);
    return one.has_value();
  }
  PyObject* value = values[place];
  if (kind == Kind::number) {
    if (!PyLong_CheckExact(value)) return false;
    int overflow = 0;
    *number = PyLong_AsLongLongAndOverflow(value, &overflow);
    return !overflow;
  }
  if (!is_tensor(value)) return false;
  const c10::TensorImpl& impl = *THPVariable_Unpack(value).unsafeGetTensorImpl();
  if (impl.has_symbolic_sizes_strides() || dim >= impl.sizes().size()) return false;
  *number = kind == Kind::size ? impl.sizes()[dim] : impl.strides()[dim];
  return true;
}

bool ReadNumbers::read(const NumberReads& reads, PyObject* const* values) {
  floats.clear();
  for (const uint32_t place : reads.floats) floats.push_back(PyFloat_AS_DOUBLE(values[place]));
  symbols.assign(reads.symbols.size(), 0);
  for (size_t slot = 0; slot < symbols.size(); ++slot)
    if (!reads.symbols[slot].read(values, all(), &symbols[slot])) return false;
  return true;
}

std::shared_ptr<Payload> make_shapes_payload(std::shared_ptr<const ir::Graph> graph, NumberReads reads,
                                             std::span<const SizeFit> fits, std::vector<DerivedTest> tests) {
  return std::make_shared<Shapes>(std::move(graph), std::move(reads), fits, std::move(tests));
}

bool test_shapes(const Expected& expected, PyObject* const* values, const Call&) noexcept {
  try {
    ReadNumbers numbers;
    return static_cast<const Shapes*>(expected.payload)->broken(values, numbers).part == Shapes::Part::none;
  } catch (const std::exception&) {  // no memory
    return false;
  }
}

std::string explain_shapes(const Expected& expected, PyObject* const* values, const Call&, const Texts& texts) {
  const auto& shapes = static_cast<const Shapes&>(*expected.payload);
  ReadNumbers numbers;
  const Shapes::Broken what = values ? shapes.broken(values, numbers) : Shapes::Broken{};
  return shapes.text(what, values, numbers, texts);
}

}  // namespace braze::guards
