// python/guards/shortcut.h: a part of a guard program as a list of words that must not have changed.
//
// Most of what a check of a model does is to follow pointers that are the same as last time: module, instance dict,
// table, module. Once a part of the program has succeeded, a shortcut remembers where it read these pointers, and
// the versions of the dicts, as pairs of address and word. While all words are what they were, everything that they
// lead to is where it was, and only guards on what words do not tell are tested: properties of tensors, content of
// lists. The words are compared in the order in which the program reads them and do not depend on each other, so
// that the processor fetches many at a time.
//
// Why an address may be read: each one lies in an object that an earlier word leads to. The version of a dict is
// unique in the process, so that an unchanged one means the same entries, whatever was freed and allocated in
// between. Any other word only means an object at the same address, perhaps a new one: its type is compared before
// anything in it is read, and what is known of its value is tested again.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "python/guards/instructions.h"

namespace braze::guards {

class Shortcut {
 public:
  /// Remembers what the program `code[begin, end)` read, right after it succeeded. \param root  the source that it
  /// starts from. \returns false if there is something that words cannot stand for.
  bool record(const Instruction* code, uint32_t begin, uint32_t end, const Source* root, uint32_t root_slot,
              std::span<PyObject* const> slots);
  void forget() noexcept { recorded_ = false; }
  /// Whether holds() writes slots.
  bool reloads() const noexcept { return reloads_; }
  /// For the garbage collector.
  int visit(visitproc visit, void* argument) const;

  /// Whether the program would succeed for `root`. The slots must be those that it left. False also when nothing is
  /// recorded.
  bool holds(PyObject* root, const Instruction* code, PyObject** slots, const Call& call) const noexcept {
    if (!recorded_ || root != root_) return false;
    for (const Word& word : words_)
      if (*word.address != word.value) return false;
    uint64_t any = 0;
    for (const uint64_t* zero : zeros_) any |= *zero;
    if (any) return false;
    for (const uint32_t at : tests_)
      if (!step(code[at], slots, call)) return false;
    return true;
  }

 private:
  struct Word {
    const uint64_t* address;
    uint64_t value;
  };
  class Recorder;

  bool recorded_ = false, reloads_ = false;
  PyObject* root_ = nullptr;
  std::vector<Word> words_;
  std::vector<const uint64_t*> zeros_;  ///< Words that are 0, and that no later one is reached through.
  std::vector<Ref> types_;       ///< Those of the words: while they live, an equal word means an equal layout.
  std::vector<uint32_t> tests_;  ///< Instructions that are run anew.
};

}  // namespace braze::guards
