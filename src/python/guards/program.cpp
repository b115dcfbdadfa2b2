// python/guards/program.cpp: guards as a flat program.
//
// Sources become slots. The program walks the tree of sources depth first, arguments before held objects, and tests
// the guards of each value as soon as it is read, cheapest first.
//
// Entries of one dict, and lookups in one type, are read and tested between an `enter` and a `leave` that compare
// and remember the version of the dict or type. While it has not moved, everything between them is skipped: the
// entries are the same objects, and only guards that the same object cannot fail (guards.def, `stable`) stand
// there. Slots keep their values from check to check for that; one that is read again only then is alive, because
// the dict that holds it is unchanged. Any other slot is written anew before it is read.
//
// The instructions of one root are a part; a part that has succeeded leaves a shortcut (shortcut.h).
#include <algorithm>
#include <array>
#include <optional>

#include "python/guards/drops.h"
#include "python/guards/guard.h"
#include "python/guards/instructions.h"
#include "python/guards/kinds.h"
#include "python/guards/shortcut.h"
#include "support/error.h"

namespace braze::guards {

namespace {

constexpr uint32_t kNoSlot = UINT32_MAX;

/// How the guards on a value depend on the version of the dict or type that it is.
enum class Versioned : uint8_t { no, dict, type };

Versioned container_of(SourceKind kind) {
  switch (kind) {
    case SourceKind::dict_item:
    case SourceKind::dict_key: return Versioned::dict;
    case SourceKind::type_attribute: return Versioned::type;
    default: return Versioned::no;
  }
}

bool is_type_mro(const Source& source) {
  return source.kind == SourceKind::member && static_cast<Member>(source.index) == Member::type_mro;
}

/// The version that keeps the value of `source` the same.
Versioned version_of(const Source& source) {
  return is_type_mro(source) ? Versioned::type : container_of(source.kind);
}

bool is_stable(const Guard& guard) {
  if (guard.kind != GuardKind::type) return row(guard.kind).stable;
  return !can_change_class(reinterpret_cast<PyTypeObject*>(guard.object.get()));
}

/// The instructions of one root, or some that have none.
struct Part {
  uint32_t begin, end;
  const Source* root = nullptr;  ///< Null: no shortcut.
  uint32_t root_slot = 0;
  Shortcut shortcut = {};
  // Recording costs as much as several checks. It waits twice as long each time that a shortcut never held.
  uint32_t wait = 1;  ///< Checks from now on until the next recording.
  uint32_t patience = 1;
  bool moved = true;  ///< In this check, a slot was given another value than it had.
};

/// What a guard on several sources is told.
struct Gathered {
  std::vector<uint32_t> slots = {};
  std::vector<uint32_t> parts = {};  ///< That these slots are written in; each once.
  bool is_about_addresses = false;   ///< Holds as long as the slots keep their values.
};

constexpr uint32_t kLongest = 1024;   // checks that a part waits at most before it records again
constexpr uint32_t kWorthwhile = 12;  // instructions; fewer are run as they are

}  // namespace

struct GuardProgram::Impl {
  GuardSet set;
  std::vector<Part> parts = {};
  std::vector<Instruction> code = {};
  std::vector<PyObject*> slots = {};    ///< Borrowed; see above.
  std::vector<uint32_t> slot_of = {};   ///< By number of source.
  std::vector<uint32_t> wanted = {};    ///< Slots.
  std::vector<Gathered> gathered = {};  ///< By guard.
  std::vector<PyObject*> scratch = {};  ///< For gathered values.
  bool settled = false;                 ///< The last check succeeded.
  bool has_drops = false;               ///< Guards ask who notices that something is dropped.

  /// Runs a part. \returns ok or the number of the instruction that failed.
  int32_t run(Part& part, const Call& call) noexcept;
  /// Fills in `gathered`.
  void plan_gathering();
  /// The last check has shown that the guard holds, and nothing that it is about has moved since.
  bool holds_still(const Gathered& gathering) const noexcept {
    return settled && gathering.is_about_addresses &&
           std::none_of(gathering.parts.begin(), gathering.parts.end(), [&](uint32_t p) { return parts[p].moved; });
  }
  /// Records the shortcut of a part that has just succeeded, if it is time to.
  void record(Part& part) noexcept;
};

namespace {

/// Writes the program of a guard set.
class Writer {
 public:
  Writer(const GuardSet& set, const SourceTable& sources, const std::vector<const Source*>& wanted)
      : set_(set), nodes_(sources.size()) {
    for (size_t i = 0; i < set.guards().size(); ++i) place_guard(static_cast<uint32_t>(i));
    for (const Source* source : wanted) need(source);
    std::stable_partition(roots_.begin(), roots_.end(),
                          [](const Source* root) { return root->kind == SourceKind::argument; });
  }

  void write() {
    for (const uint32_t guard : sourceless_)
      if (set_.guards()[guard].kind == GuardKind::call_shape) gather(guard);
    bool state_tested = false;
    for (const Source* root : roots_) {
      if (root->kind != SourceKind::argument && !state_tested) {
        test_state();
        state_tested = true;
      }
      end_part();
      write_node(root);
      end_part(root);
    }
    if (!state_tested) test_state();
    for (const uint32_t guard : many_) gather(guard);
    end_part();
  }

  std::vector<Instruction> code;
  std::vector<Part> parts;
  std::vector<uint32_t> slot_of() const {
    std::vector<uint32_t> slots;
    for (const Node& node : nodes_) slots.push_back(node.slot);
    return slots;
  }
  uint32_t slot_count() const { return slot_count_; }

 private:
  struct Node {
    uint32_t slot = kNoSlot;
    std::vector<const Source*> children;
    std::vector<uint32_t> guards;
  };

  Node& node(const Source* source) { return nodes_[source->number]; }

  /// Makes a part of the instructions since the last one. \param root  where they start from, if there is one.
  void end_part(const Source* root = nullptr) {
    const uint32_t begin = parts.empty() ? 0 : parts.back().end, end = static_cast<uint32_t>(code.size());
    if (begin == end) return;
    if (end - begin < kWorthwhile) root = nullptr;
    parts.push_back({.begin = begin, .end = end, .root = root, .root_slot = root ? node(root).slot : 0});
  }

  void need(const Source* source) {
    Node& own = node(source);
    if (own.slot != kNoSlot) return;
    if (source->parent) {
      need(source->parent);
      node(source->parent).children.push_back(source);
    } else {
      roots_.push_back(source);
    }
    own.slot = slot_count_++;
  }

  void place_guard(uint32_t number) {
    const Guard& guard = set_.guards()[number];
    for (const Source* source : guard.sources) need(source);
    switch (row(guard.kind).sources) {
      case GuardRow::Sources::none: sourceless_.push_back(number); break;
      case GuardRow::Sources::one: node(guard.sources[0]).guards.push_back(number); break;
      case GuardRow::Sources::two:
      case GuardRow::Sources::many: many_.push_back(number); break;
    }
  }

  void test_state() {
    for (const uint32_t guard : sourceless_)
      if (set_.guards()[guard].kind != GuardKind::call_shape) gather(guard);
  }

  /// Which version, if any, a guard of `source` depends on alone.
  Versioned version_of_guard(const Source* source, const Guard& guard) {
    const auto has_entries = [&] {
      for (const Source* child : node(source).children)
        if (container_of(child->kind) == Versioned::dict) return true;
      for (const uint32_t other : node(source).guards)
        if (set_.guards()[other].kind == GuardKind::dict_keys) return true;
      return false;
    };
    switch (guard.kind) {
      case GuardKind::dict_keys: return Versioned::dict;
      case GuardKind::absent: return version_of(*static_cast<const AbsentTarget*>(guard.payload.get())->target);
      case GuardKind::class_entries: return Versioned::type;
      case GuardKind::length: return has_entries() ? Versioned::dict : Versioned::no;
      default: return Versioned::no;
    }
  }

  void write_node(const Source* source) {
    write_load(source);
    write_rest(source);
  }

  /// Everything but the load and the stable guards, where these have been written already.
  void write_rest(const Source* source, bool stable_written = false) {
    for (const uint32_t guard : sorted_guards(source)) {
      const Guard& own = set_.guards()[guard];
      if (version_of_guard(source, own) != Versioned::no) continue;
      if (stable_written && is_stable(own)) continue;
      write_test(source, guard);
    }
    write_group(source, Versioned::dict, Op::enter_dict, Op::leave_dict);
    write_group(source, Versioned::type, Op::enter_type, Op::leave_type);
    for (const Source* child : node(source).children) {
      if (version_of(*child) == Versioned::no)
        write_node(child);
      else
        write_rest(child, true);
    }
  }

  void write_group(const Source* source, Versioned version, Op enter, Op leave) {
    const size_t begin = code.size();
    const uint32_t slot = node(source).slot;
    code.push_back({.op = enter, .from = slot});
    for (const uint32_t guard : sorted_guards(source)) {
      if (version_of_guard(source, set_.guards()[guard]) != version) continue;
      if (set_.guards()[guard].kind == GuardKind::dict_keys) code[begin].ordered = true;
      write_test(source, guard);
    }
    for (const Source* child : node(source).children) {
      if (version_of(*child) != version) continue;
      if (child->kind == SourceKind::dict_key) code[begin].ordered = true;
      write_load(child);
      for (const uint32_t guard : sorted_guards(child))
        if (is_stable(set_.guards()[guard])) write_test(child, guard);
    }
    if (code.size() == begin + 1) {
      code.pop_back();
      return;
    }
    code.push_back({.op = leave, .from = slot, .to = static_cast<uint32_t>(begin)});
    code[begin].to = static_cast<uint32_t>(code.size());
  }

  void write_load(const Source* source) {
    if (source->kind == SourceKind::object) return;  // in its slot from the start
    Op op = Op::load;
    if (source->kind == SourceKind::dict_of) op = Op::load_dict;
    if (source->kind == SourceKind::dict_item && PyUnicode_CheckExact(source->key.get())) op = Op::load_entry;
    code.push_back({.op = op,
                    .from = source->parent ? node(source->parent).slot : 0,
                    .to = node(source).slot,
                    .source = source,
                    .expected = {.object = source->key.get(), .bits = static_cast<uint64_t>(source->hash)}});
  }

  void write_test(const Source* source, uint32_t number) {
    const Guard& guard = set_.guards()[number];
    code.push_back({.op = guard.kind == GuardKind::type ? Op::type : Op::test,
                    .kind = guard.kind,
                    .from = node(source).slot,
                    .guard = number,
                    .test = row(guard.kind).test,
                    .expected = guard.expected()});
  }

  void gather(uint32_t number) {
    const Guard& guard = set_.guards()[number];
    code.push_back({.op = Op::gather, .guard = number, .test = row(guard.kind).test, .expected = guard.expected()});
  }

  /// Numbers of the guards of one source, cheapest first.
  std::vector<uint32_t> sorted_guards(const Source* source) {
    std::vector<uint32_t> numbers = node(source).guards;
    std::stable_sort(numbers.begin(), numbers.end(), [&](uint32_t a, uint32_t b) {
      return row(set_.guards()[a].kind).cost < row(set_.guards()[b].kind).cost;
    });
    return numbers;
  }

  const GuardSet& set_;
  std::vector<Node> nodes_;
  std::vector<const Source*> roots_;
  std::vector<uint32_t> sourceless_, many_;
  uint32_t slot_count_ = 0;
};

}  // namespace

GuardProgram::GuardProgram(GuardSet guards) : impl_(std::make_unique<Impl>(Impl{.set = std::move(guards)})) {
  Impl& impl = *impl_;
  const SourceTable& sources = *impl.set.sources_;
  Writer writer(impl.set, sources, impl.set.wanted_);
  writer.write();
  impl.code = std::move(writer.code);
  impl.parts = std::move(writer.parts);
  impl.slot_of = writer.slot_of();
  impl.slots.assign(std::max(writer.slot_count(), 1u), nullptr);  // tests name slot 0
  for (size_t i = 0; i < sources.size(); ++i)
    if (sources.at(i)->kind == SourceKind::object && impl.slot_of[i] != kNoSlot)
      impl.slots[impl.slot_of[i]] = sources.at(i)->key.get();
  for (const Source* source : impl.set.wanted_) impl.wanted.push_back(impl.slot_of[source->number]);
  impl.plan_gathering();
  impl.has_drops =
      std::ranges::any_of(impl.set.guards(), [](const Guard& guard) { return guard.kind == GuardKind::drops; });
}

void GuardProgram::Impl::plan_gathering() {
  constexpr uint32_t kNoPart = UINT32_MAX;
  std::vector<uint32_t> part_of(slots.size(), kNoPart);
  for (uint32_t p = 0; p < parts.size(); ++p)
    for (uint32_t at = parts[p].begin; at < parts[p].end; ++at)
      if (is_load(code[at])) part_of[code[at].to] = p;
  gathered.resize(set.guards().size());
  size_t most = 1;
  for (const Instruction& in : code) {
    if (in.op != Op::gather) continue;
    const Guard& guard = set.guards()[in.guard];
    Gathered& own = gathered[in.guard];
    own.is_about_addresses = guard.kind == GuardKind::objects || guard.kind == GuardKind::same_object;
    for (const Source* source : guard.sources) {
      own.slots.push_back(slot_of[source->number]);
      const uint32_t part = part_of[own.slots.back()];  // None writes the slot of a held object.
      if (part != kNoPart && std::find(own.parts.begin(), own.parts.end(), part) == own.parts.end())
        own.parts.push_back(part);
    }
    most = std::max(most, guard.sources.size());
  }
  scratch.resize(most);
}

GuardProgram::~GuardProgram() = default;
GuardProgram::GuardProgram(GuardProgram&&) noexcept = default;
GuardProgram& GuardProgram::operator=(GuardProgram&&) noexcept = default;

int32_t GuardProgram::Impl::run(Part& part, const Call& call) noexcept {
  for (uint32_t at = part.begin; at < part.end;) {
    Instruction& in = code[at];
    switch (in.op) {
      case Op::gather: {
        const Gathered& gathering = gathered[in.guard];
        if (holds_still(gathering)) break;
        PyObject** place = scratch.data();
        for (const uint32_t slot : gathering.slots) *place++ = slots[slot];
        if (!in.test(in.expected, scratch.data(), call)) return static_cast<int32_t>(at);
        break;
      }
      // The version is forgotten on entering: a check that fails before it leaves has overwritten slots.
      case Op::enter_dict: {
        PyObject* dict = slots[in.from];
        const uint64_t version = dict_version(dict);
        if (version == in.expected.bits && version != 0 && !(in.ordered && PyODict_Check(dict))) {
          at = in.to;
          continue;
        }
        in.expected.bits = 0;
        break;
      }
      case Op::enter_type: {
        const uint64_t version = type_version(slots[in.from]);
        if (version == in.expected.bits && version != 0) {
          at = in.to;
          continue;
        }
        in.expected.bits = 0;
        break;
      }
      case Op::leave_dict: code[in.to].expected.bits = dict_version(slots[in.from]); break;
      case Op::leave_type: code[in.to].expected.bits = type_version(slots[in.from]); break;
      default: {
        PyObject* const before = slots[in.to];
        if (!step(in, slots.data(), call)) return static_cast<int32_t>(at);
        part.moved |= slots[in.to] != before;
      }
    }
    ++at;
  }
  return ok;
}

void GuardProgram::Impl::record(Part& part) noexcept {
  if (--part.wait) return;
  part.patience = std::min(part.patience * 2, kLongest);
  part.wait = part.patience;
  try {
    if (!part.shortcut.record(code.data(), part.begin, part.end, part.root, part.root_slot, slots))
      part.root = nullptr;
  } catch (const std::bad_alloc&) {
    part.root = nullptr;
  }
}

int32_t GuardProgram::check(const Call& call, PyObject** values) const noexcept {
  Impl& impl = *impl_;
  std::optional<SharedDrops> drops;
  if (impl.has_drops) drops.emplace();
  for (Part& part : impl.parts) {
    if (part.root) {
      PyObject* root = load(*part.root, nullptr, call);
      if (part.shortcut.holds(root, impl.code.data(), impl.slots.data(), call)) {
        part.patience = 1;
        part.moved = part.shortcut.reloads();
        continue;
      }
      part.shortcut.forget();  // the slots that it counts on are written now
    }
    part.moved = false;
    if (const int32_t failed = impl.run(part, call); failed != ok) {
      impl.settled = false;
      return failed;
    }
    if (part.root) impl.record(part);
  }
  impl.settled = true;
  for (size_t i = 0; i < impl.wanted.size(); ++i) values[i] = impl.slots[impl.wanted[i]];
  return ok;
}

// ------------------------------------------------------------------------------------------------ text

std::string GuardProgram::explain(int32_t failed, const Call& call) const {
  if (failed == ok) return "every guard holds";
  BRAZE_CHECK(failed >= 0 && static_cast<size_t>(failed) < impl_->code.size(), "no guard number ", failed);
  const Instruction& in = impl_->code[failed];
  if (in.source) return to_text(in.source) + " is no longer there";
  const Guard& guard = impl_->set.guards()[in.guard];
  std::vector<PyObject*> values;
  Texts texts;
  for (const Source* source : guard.sources) {
    texts.push_back(to_text(source));
    values.push_back(evaluate(source, call));
    if (!values.back()) return texts.back() + " is no longer there";
  }
  values.push_back(nullptr);  // so that there is an array even without sources
  const GuardRow& kind = row(guard.kind);
  if (kind.test(guard.expected(), values.data(), call))
    return kind.explain(guard.expected(), nullptr, call, texts) + " (it holds again)";
  return kind.explain(guard.expected(), values.data(), call, texts);
}

std::vector<std::string> GuardProgram::texts() const {
  std::vector<std::string> all;
  for (const Instruction& in : impl_->code) {
    if (in.op != Op::test && in.op != Op::gather && in.op != Op::type) continue;
    const Guard& guard = impl_->set.guards()[in.guard];
    Texts texts;
    for (const Source* source : guard.sources) texts.push_back(to_text(source));
    all.push_back(row(guard.kind).explain(guard.expected(), nullptr, {}, texts));
  }
  return all;
}

bool GuardProgram::is_dead() const noexcept {
  return std::ranges::any_of(impl_->set.guards(), [](const Guard& guard) {
    if (guard.kind == GuardKind::weak_identity) return PyWeakref_GET_OBJECT(guard.object.get()) == Py_None;
    return guard.payload && guard.payload->is_dead();
  });
}

size_t GuardProgram::wanted() const noexcept {
  return impl_->wanted.size();
}
size_t GuardProgram::instruction_count() const noexcept {
  return impl_->code.size();
}
const SourceTable& GuardProgram::sources() const noexcept {
  return *impl_->set.sources_;
}

int GuardProgram::visit(visitproc visit, void* arg) const {
  const SourceTable& table = sources();
  for (size_t i = 0; i < table.size(); ++i) Py_VISIT(table.at(i)->key.get());
  for (const Guard& guard : impl_->set.guards()) {
    Py_VISIT(guard.object.get());
    if (guard.payload)
      if (const int result = guard.payload->visit(visit, arg)) return result;
  }
  for (const Part& part : impl_->parts)
    if (const int result = part.shortcut.visit(visit, arg)) return result;
  return 0;
}

}  // namespace braze::guards
