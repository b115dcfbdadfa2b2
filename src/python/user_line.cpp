// python/user_line.cpp: the innermost Python frame outside of torch and braze.
//
// Called once per recorded op: at most 300 ns when the line was met before. Frames are walked through the public C
// API; what is asked of a code object (is it the user's? which line is that instruction?) is kept by its address,
// and the code object is kept alive, so that no other takes that address.
#include "python/user_line.h"

#include <Python.h>

#include <filesystem>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "capture/trace.h"
#include "ir/graph.h"
#include "support/error.h"

namespace braze::python {

namespace {

// Set once, at import, before any trace; read without a lock afterwards.
std::string torch_prefix, braze_prefix;

struct CodeFacts {
  bool user = false;
  std::string file;
  std::unordered_map<int, std::string_view> lines;  ///< By instruction offset; interned in the graph.
};

/// The path as people know it: below site-packages or the current folder without that prefix.
std::string short_path(std::string_view path) {
  constexpr std::string_view packages = "site-packages/";
  if (const size_t at = path.rfind(packages); at != path.npos)
    return std::string(path.substr(at + packages.size()));
  std::error_code failed;
  const std::string here = std::filesystem::current_path(failed).string() + "/";
  if (!failed && path.starts_with(here)) return std::string(path.substr(here.size()));
  return std::string(path);
}

CodeFacts facts_of(PyCodeObject* code) {
  CodeFacts facts;
  Py_ssize_t size = 0;
  const char* text = PyUnicode_AsUTF8AndSize(code->co_filename, &size);
  if (!text) {
    PyErr_Clear();
    return facts;
  }
  const std::string_view path(text, size);
  facts.user = !path.starts_with(torch_prefix) && !path.starts_with(braze_prefix) && !path.starts_with("<frozen ");
  if (facts.user) facts.file = short_path(path);
  return facts;
}

class WithGil {
 public:
  WithGil() : state_(PyGILState_Ensure()) {}
  ~WithGil() { PyGILState_Release(state_); }
  WithGil(const WithGil&) = delete;
  WithGil& operator=(const WithGil&) = delete;

 private:
  PyGILState_STATE state_;
};

}  // namespace

struct UserLineScope::Cache {
  ir::Graph* graph = nullptr;
  std::unordered_map<PyCodeObject*, CodeFacts> codes;

  ~Cache() {
    WithGil gil;
    for (auto& [code, facts] : codes) Py_DECREF(code);
  }

  CodeFacts& facts(PyCodeObject* code) {
    auto found = codes.find(code);
    if (found == codes.end()) {
      found = codes.emplace(code, facts_of(code)).first;
      Py_INCREF(code);
    }
    return found->second;
  }

  std::string_view line(ir::Graph& of) {
    if (graph != &of) {  // Interned text belongs to one graph.
      for (auto& [code, facts] : codes) facts.lines.clear();
      graph = &of;
    }
    PyFrameObject* frame = PyThreadState_GetFrame(PyThreadState_Get());
    std::string_view text;
    while (frame) {
      PyCodeObject* code = PyFrame_GetCode(frame);
      CodeFacts& known = facts(code);
      Py_DECREF(code);
      if (known.user) {
        const int offset = PyFrame_GetLasti(frame);
        auto [at, added] = known.lines.try_emplace(offset);
        if (added) at->second = of.intern(concat(known.file, ":", PyCode_Addr2Line(code, offset)));
        text = at->second;
        break;
      }
      PyFrameObject* back = PyFrame_GetBack(frame);
      Py_DECREF(frame);
      frame = back;
    }
    Py_XDECREF(frame);
    return text;
  }
};

struct UserLineHook {
  static thread_local UserLineScope::Cache* active;  ///< Of the innermost scope on this thread.

  static std::string_view source(ir::Graph& graph) {
    if (!active) return {};
    WithGil gil;  // torch lets go of it around operators.
    return active->line(graph);
  }
};
thread_local UserLineScope::Cache* UserLineHook::active = nullptr;

UserLineScope::UserLineScope() : cache_(std::make_unique<Cache>()), outer_(UserLineHook::active) {
  UserLineHook::active = cache_.get();
}
UserLineScope::~UserLineScope() {
  UserLineHook::active = outer_;
}

bool is_own_code(PyCodeObject* code) {
  const char* text = PyUnicode_AsUTF8(code->co_filename);
  if (!text) PyErr_Clear();
  return text && !braze_prefix.empty() && std::string_view(text).starts_with(braze_prefix);
}

void install_source_hook(std::string torch_folder, std::string braze_folder) {
  torch_prefix = std::move(torch_folder) + "/";
  braze_prefix = std::move(braze_folder) + "/";
  capture::set_source_hook(UserLineHook::source);
}

}  // namespace braze::python
