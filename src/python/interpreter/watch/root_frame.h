// python/interpreter/watch/root_frame.h: a run that begins in the middle of a frame.
//
// What the frame holds then is *passed on* until an instruction uses it: a variable or stack slot that the run only
// carries to its end needs no guard, and may be another object on every later call.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "python/guards/source.h"
#include "python/interpreter/activation.h"

namespace braze::interpreter {

/// What a slot holds that was only passed on until now.
struct Passed {
  const guards::Source* source = nullptr;
  /// A tuple that an iterator has made of such, in the place of a source; else null.
  std::shared_ptr<const std::vector<Passed>> parts = {};

  explicit operator bool() const { return source || parts; }
};

class RootFrame {
 public:
  /// \param sources  by slot: locals, cells and free variables, then the operand stack.
  /// \param stop     0, or the number of the instruction, counted from 1, before which the run is to end.
  /// \param on_end   told the offset, in code units, of the instruction before which the run ends, while everything
  ///                 that the frame holds is still there.
  RootFrame(const Activation& a, std::vector<const guards::Source*> sources, uint64_t stop,
            std::function<void(Activation&, int offset)> on_end);

  const Frame* frame() const { return frame_; }
  /// Counts an instruction that is about to run; true if the run is to end before it.
  bool arrives(const Activation& a);
  /// How many instructions of the frame have begun.
  uint64_t steps() const { return steps_; }
  /// The last of them, if any but the first, that began with no more on the operand stack than the run did: where
  /// there is little to keep.
  uint64_t statement() const { return statement_; }
  /// The running instruction raises.
  void raises() {
    if (!raised_) raised_ = steps_;
  }
  /// The first instruction that raised, or the last that began: what follows an exception may be its handlers.
  uint64_t failed_at() const { return raised_ ? raised_ : steps_; }
  /// The run ends before the running instruction.
  void end(Activation& a);
  bool has_ended() const { return has_ended_; }

  /// What slot `slot` (an index into localsplus) holds, if it was only passed on until now; nothing otherwise.
  /// Afterwards it counts as used.
  Passed use(int slot);
  /// The same, without using it.
  const Passed& passed_on(int slot) const { return sources_[slot]; }
  /// Slot `slot` of the operand stack holds what it held at the beginning: perhaps nobody else does.
  bool is_temporary(int slot) const {
    return slot >= locals_ && sources_[slot].source && sources_[slot].source == own_[slot];
  }
  /// An instruction puts slot `from` as it is into `to`.
  void copy(int from, int to);
  /// An instruction exchanges what two slots hold.
  void swap(int one, int other);
  /// An instruction puts something else into `slot`.
  void overwrite(int slot) {
    sources_[slot] = {};
    mark(slot, Change::stored);
  }
  /// An instruction moves slot `from` as it is into `to`, and empties it.
  void take(int from, int to);
  /// What instructions have done with a slot, if anything.
  enum class Change : uint8_t {
    none,
    stored,  ///< Put something else into it, or emptied it.
    taken,   ///< Moved what it held to another slot, and perhaps back.
  };
  Change change(int slot) const { return changes_[slot]; }
  /// An iterator gives what is passed on into `slot`.
  void give(int slot, Passed passed) { sources_[slot] = std::move(passed); }
  /// An instruction puts the items of a passed on tuple, if it has so many, into its slot and those above it, the
  /// last one first. False: it is none.
  bool unpack(int slot, int count);
  /// Something was used by the running instruction.
  bool has_used() const { return has_used_; }

 private:
  void mark(int slot, Change change) { changes_[slot] = std::max(changes_[slot], change); }

  const Frame* frame_;
  int locals_;
  std::vector<Passed> sources_;             ///< By slot: of what it holds.
  std::vector<const guards::Source*> own_;  ///< By slot: of what it held at first.
  std::vector<Change> changes_;             ///< By slot.
  uint64_t stop_;
  std::function<void(Activation&, int)> on_end_;
  uint64_t steps_ = 0, statement_ = 0, raised_ = 0;
  std::ptrdiff_t depth_;
  int group_ = 0;  ///< Where the instructions begin that must run together: KW_NAMES belongs to its call.
  bool has_ended_ = false, has_used_ = false;
};

}  // namespace braze::interpreter
