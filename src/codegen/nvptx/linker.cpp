#include "codegen/nvptx/linker.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>

#include <array>
#include <cstdint>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "support/error.h"
#include "support/library_functions.h"

namespace braze::codegen::nvptx {

namespace {

// NVIDIA, "nvJitLink": the part of its interface that is used.
struct Library {
  using Handle = void*;
  int (*create)(Handle*, uint32_t count, const char** options) = nullptr;
  int (*destroy)(Handle*) = nullptr;
  int (*add)(Handle, int kind, const void* data, size_t size, const char* name) = nullptr;
  int (*complete)(Handle) = nullptr;
  int (*cubin_size)(Handle, size_t*) = nullptr;
  int (*cubin)(Handle, void*) = nullptr;
  int (*version)(unsigned* major, unsigned* minor) = nullptr;
  std::string name;

  bool open(void* file) {
    LibraryFunctions functions(file);
    functions.find(create, "nvJitLinkCreate");
    functions.find(destroy, "nvJitLinkDestroy");
    functions.find(add, "nvJitLinkAddData");
    functions.find(complete, "nvJitLinkComplete");
    functions.find(cubin_size, "nvJitLinkGetLinkedCubinSize");
    functions.find(cubin, "nvJitLinkGetLinkedCubin");
    functions.find(version, "nvJitLinkVersion");
    if (functions.missing()) return false;
    unsigned major = 0, minor = 0;
    if (version(&major, &minor) != 0) return false;
    name = concat("nvJitLink ", major, ".", minor);
    return true;
  }
};

constexpr int kPtx = 2;  // NVJITLINK_INPUT_PTX

/// Folders of the libraries that this process has loaded, and where NVIDIA's packages lie beside PyTorch's.
std::vector<std::string> folders() {
  std::vector<std::string> found;
  dl_iterate_phdr(
      [](dl_phdr_info* file, size_t, void* data) {
        const std::string_view path = file->dlpi_name ? file->dlpi_name : "";
        const size_t name = path.rfind('/');
        if (name == path.npos) return 0;
        auto& found = *static_cast<std::vector<std::string>*>(data);
        // site-packages/torch/lib/libc10.so
        if (path.substr(name + 1).starts_with("libc10.so"))
          for (const char* package : {"cu13", "nvjitlink"})
            found.push_back(concat(path.substr(0, name), "/../../nvidia/", package, "/lib/"));
        return 0;
      },
      &found);
  found.insert(found.begin(), "");  // the loader's own path, and what is loaded already
  found.emplace_back("/usr/local/cuda/lib64/");
  return found;
}

/// Null if it is not on this machine. Kept open, and never destroyed: code of it may run until the process ends.
const Library* library() {
  static const Library* const opened = []() -> const Library* {
    static Library& found = *new Library;
    for (const std::string& folder : folders())
      for (const char* name : {"libnvJitLink.so.13", "libnvJitLink.so.12"})
        if (void* file = dlopen((folder + name).c_str(), RTLD_NOW | RTLD_LOCAL))
          if (found.open(file)) return &found;
    return nullptr;
  }();
  return opened;
}

/// A job of the linker.
class Job {
 public:
  Job(const Library& library, std::string_view architecture) : library_(library) {
    const std::string arch = concat("-arch=", architecture);
    std::array<const char*, 2> options = {arch.c_str(), "-O3"};
    ok_ = library.create(&handle_, options.size(), options.data()) == 0;
  }
  ~Job() {
    if (handle_) library_.destroy(&handle_);
  }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  std::optional<std::string> run(std::string_view ptx) {
    size_t size = 0;
    // The text with the zero behind it.
    const std::string text(ptx);
    ok_ = ok_ && library_.add(handle_, kPtx, text.c_str(), text.size() + 1, "kernel.ptx") == 0;
    ok_ = ok_ && library_.complete(handle_) == 0 && library_.cubin_size(handle_, &size) == 0;
    std::string cubin(size, '\0');
    if (!ok_ || library_.cubin(handle_, cubin.data()) != 0) return std::nullopt;
    return cubin;
  }

 private:
  const Library& library_;
  Library::Handle handle_ = nullptr;
  bool ok_ = false;
};

constexpr std::string_view kNothing =
    ".version 7.8\n.target sm_90\n.address_size 64\n.visible .entry none() { ret; }\n";

/// The thread that makes the first cubin.
class Preparation {
 public:
  static Preparation& instance() {
    static Preparation preparation;
    return preparation;
  }
  void begin(std::string_view architecture) {
    std::call_once(once_, [&] {
      pthread_atfork([] { instance().end(); }, nullptr, nullptr);
      try {
        thread_ = std::jthread([arch = std::string(architecture)] {
          try {
            link(kNothing, arch);
          } catch (const std::bad_alloc&) {  // NOLINT: whoever needs a cubin will say so
          }
        });
      } catch (const std::system_error&) {  // NOLINT: no thread: the first cubin takes as long as ever
      }
    });
  }

 private:
  void end() {
    const std::lock_guard lock(mutex_);
    if (thread_.joinable()) thread_.join();
  }
  std::once_flag once_;
  std::mutex mutex_;
  std::jthread thread_;
};

}  // namespace

void prepare_linker(std::string_view architecture) {
  Preparation::instance().begin(architecture);
}

std::string_view linker_name() {
  const Library* found = library();
  return found ? std::string_view(found->name) : std::string_view();
}

std::optional<std::string> link(std::string_view ptx, std::string_view architecture) {
  const Library* found = library();
  if (!found) return std::nullopt;
  return Job(*found, architecture).run(ptx);
}

}  // namespace braze::codegen::nvptx
