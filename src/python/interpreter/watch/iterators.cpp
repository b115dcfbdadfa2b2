// python/interpreter/watch/iterators.cpp
#include "python/interpreter/watch/iterators.h"

#include <algorithm>
#include <vector>

#include "python/guards/iterators.h"
#include "python/interpreter/activation.h"
#include "python/interpreter/watch/watch.h"

namespace braze::interpreter {

using guards::IteratorKind;

bool Iterators::is_older_iterator(PyObject* object) const {
  return guards::iterator_kind(object) != IteratorKind::none && values_.source_of(object);
}

bool Iterators::ask_next(PyObject* iterator) {
  if (is_older_iterator(iterator)) {
    Passed item;
    std::vector<PyObject*> asked;
    const Next next = advance(iterator, item, asked);
    if (next == Next::unknown) return abandon("an iterator that existed before the call", iterator);
    values_.effects().ask_next(iterator);
    next_item_ = std::move(item);
    return true;
  }
  const bool is_python = values_.source_of(iterator) && watch_.classes.special_function(iterator, "__next__");
  return (is_python && allow(Entry::known)) || abandon("an iterator that existed before the call", iterator);
}

/// Notes that an iterator, and those within it, move on.
/// \param item   what it gives, if it gives something.
/// \param asked  the iterators that have given something by then, and stand where they stood until the instruction
/// runs.
Iterators::Next Iterators::advance(PyObject* iterator, Passed& item, std::vector<PyObject*>& asked) {
  const guards::Source* source = values_.source_of(iterator);
  guards::SourceTable& sources = values_.sources();
  const auto& moved = values_.effects().iterators();
  const auto change = moved.find(iterator);
  const uint32_t taken = change == moved.end() ? 0 : change->second->taken;
  PyObject* const* place = guards::iterator_source(iterator);
  PyObject* within = place ? *place : nullptr;
  const guards::Source* within_source = sources.member(source, guards::Member::iterated);
  switch (guards::iterator_kind(iterator)) {
    case IteratorKind::none: return Next::unknown;
    case IteratorKind::enumerate: {
      Passed second;
      const Next next = advance_within(within, within_source, second, asked);
      if (next != Next::gives) return next;
      values_.effects().advance(iterator, false);
      item.parts = std::make_shared<const std::vector<Passed>>(
          std::vector<Passed>{{sources.next_key(source, taken)}, std::move(second)});
      return Next::gives;
    }
    case IteratorKind::zip: return advance_zip(iterator, within_source, item, asked);
    default: break;
  }
  // What the run has changed is not what the guards read.
  if (within &&
      (!is_builtin_container(within) || !values_.learn(within, within_source) || values_.effects().changed(within)))
    return Next::unknown;
  const Py_ssize_t given = std::ranges::count(asked, iterator);
  const Py_ssize_t left = guards::items_left(iterator, given + 1);
  if (left < 0) return Next::unknown;
  const bool ends = left == given;
  values_.effects().advance(iterator, ends);
  if (ends) return !within || lets_go(within, within_source) ? Next::ends : Next::unknown;
  asked.push_back(iterator);
  item.source = sources.next_item(source, taken);
  if (guards::iterator_kind(iterator) == IteratorKind::items) {
    item.parts = std::make_shared<const std::vector<Passed>>(
        std::vector<Passed>{{sources.next_key(source, taken)}, {std::exchange(item.source, nullptr)}});
  }
  return Next::gives;
}

Iterators::Next Iterators::advance_zip(PyObject* zip, const guards::Source* source, Passed& item,
                                       std::vector<PyObject*>& asked) {
  PyObject* within = *guards::iterator_source(zip);
  std::vector<Passed> parts(static_cast<size_t>(PyTuple_GET_SIZE(within)));
  Next first = Next::ends;  // Of nothing.
  for (size_t i = 0; i < parts.size(); ++i) {
    PyObject* each = PyTuple_GET_ITEM(within, static_cast<Py_ssize_t>(i));
    const Next next =
        advance_within(each, values_.sources().sequence_item(source, static_cast<uint32_t>(i)), parts[i], asked);
    if (i == 0) first = next;
    const bool raises = next != first && guards::is_strict(zip);
    if (next == Next::unknown || raises) return Next::unknown;
    if (next == Next::ends && !guards::is_strict(zip)) return next;
  }
  if (first == Next::gives) item.parts = std::make_shared<const std::vector<Passed>>(std::move(parts));
  return first;
}

Iterators::Next Iterators::advance_within(PyObject* iterator, const guards::Source* source, Passed& item,
                                          std::vector<PyObject*>& asked) {
  if (guards::iterator_kind(iterator) == IteratorKind::none || !values_.learn(iterator, source))
    return Next::unknown;
  return is_older_iterator(iterator) ? advance(iterator, item, asked) : Next::unknown;
}

bool Iterators::receive(Activation& a) {
  const Passed item = std::exchange(next_item_, {});
  if (!item) return true;
  if (run_.root && a.frame == run_.root->frame()) {
    run_.root->give(static_cast<int>(a.top - a.frame->localsplus) - 1, item);
    return true;
  }
  return learn_passed(a.peek(1), item) || abandon("a value that cannot be guarded", a.peek(1));
}

bool Iterators::learn_passed(PyObject* value, const Passed& passed) {
  if (passed.source) return values_.learn(value, passed.source);
  values_.make(value);
  for (size_t i = 0; i < passed.parts->size(); ++i)
    if (!learn_passed(PyTuple_GET_ITEM(value, static_cast<Py_ssize_t>(i)), (*passed.parts)[i])) return false;
  return true;
}

}  // namespace braze::interpreter
