// python/interpreter/watch/running_threads.cpp
#include "python/interpreter/watch/running_threads.h"

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "python/guards/ref.h"
#include "python/guards/scalar.h"
#include "python/guards/storage_access.h"
#include "python/interpreter/watch/look_ups.h"

namespace braze::interpreter {

using guards::Ref;

namespace {

/// The thread that tqdm keeps beside its progress bars: every ten seconds it looks whether one has stood still, and
/// touches nothing else.
bool is_progress_monitor(const PyThreadState* thread) {
  PyObject* threading = PyDict_GetItemString(PyImport_GetModuleDict(), "threading");
  PyObject* active = threading && PyModule_Check(threading)
                         ? PyDict_GetItemString(PyModule_GetDict(threading), "_active")
                         : nullptr;
  const Ref id = Ref::steal(PyLong_FromUnsignedLong(thread->thread_id));
  PyObject* object = active && id && PyDict_CheckExact(active) ? PyDict_GetItem(active, id.get()) : nullptr;
  if (!object || std::string_view(Py_TYPE(object)->tp_name) != "TMonitor") return false;
  return text_of(PyDict_GetItemString(guards::class_dict(Py_TYPE(object)), "__module__")) == "tqdm._monitor";
}

/// A thread of autograd's engine (PyTorch's Engine::thread_init), which names it so.
bool is_named_by_autograd(uint64_t thread) {
  std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/comm");
  std::string name;
  return std::getline(file, name) && name.starts_with("pt_autograd_");
}

/// One of autograd's that waits for work: it keeps a Python state all its life, and has no frame. A backward that
/// sets it to work is called by this thread, which the run sees, or by another one, which has frames of its own.
bool is_idle_of_autograd(const PyThreadState* thread) {
  // The name is asked of the system once a thread: has_other_threads() is called for each value that a run makes.
  // Ids are given once in a process. Under the GIL.
  static std::vector<uint64_t> known;
  if (thread->cframe->current_frame) return false;
  if (std::ranges::find(known, thread->id) != known.end()) return true;
  if (!is_named_by_autograd(thread->native_thread_id)) return false;
  known.push_back(thread->id);
  return true;
}

}  // namespace

bool has_other_threads() {
  const PyThreadState* own = PyThreadState_Get();
  for (PyThreadState* one = PyInterpreterState_ThreadHead(own->interp); one; one = PyThreadState_Next(one))
    if (one != own && !is_idle_of_autograd(one) && !is_progress_monitor(one)) return true;
  return false;
}

}  // namespace braze::interpreter
