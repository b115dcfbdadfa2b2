#include "codegen/nvptx/disassembler.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <vector>

#include "support/error.h"
#include "support/files.h"

extern char** environ;

namespace braze::codegen::nvptx {

namespace {

/// A file of the system's temporary folder that nobody else reads, gone with this object.
class TemporaryFile {
 public:
  TemporaryFile() : path_((std::filesystem::temp_directory_path() / "braze-XXXXXX").string()) {
    descriptor_ = mkostemp(path_.data(), O_CLOEXEC);
    if (descriptor_ < 0)
      throw UserError(concat("braze: no file can be made at ", path_, " to disassemble code in"));
  }
  ~TemporaryFile() {
    close(descriptor_);
    unlink(path_.c_str());
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  const std::string& path() const { return path_; }
  int descriptor() const { return descriptor_; }
  std::string text() const {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

 private:
  std::string path_;
  int descriptor_ = -1;
};

std::vector<std::string> candidates() {
  std::vector<std::string> found = {"nvdisasm"};
  if (const char* home = std::getenv("CUDA_HOME")) found.push_back(concat(home, "/bin/nvdisasm"));
  found.emplace_back("/usr/local/cuda/bin/nvdisasm");
  return found;
}

/// The exit status of `program file`, with its output in `output`; nothing if there is no such program.
std::optional<int> run(const std::string& program, const std::string& file, const TemporaryFile& output) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, output.descriptor(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, output.descriptor(), STDERR_FILENO);
  std::string name = program, option = "--print-code", argument = file;
  char* arguments[] = {name.data(), option.data(), argument.data(), nullptr};
  pid_t child = 0;
  const int failed = posix_spawnp(&child, program.c_str(), &actions, nullptr, arguments, environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed) return std::nullopt;
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  // 127: glibc's way to say so on some kernels.
  if (WIFEXITED(status) && WEXITSTATUS(status) == 127) return std::nullopt;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

std::string disassemble(std::string_view cubin) {
  const TemporaryFile code;
  if (!write_all(code.descriptor(), cubin.data(), cubin.size()))
    throw UserError(concat("braze: ", code.path(), " cannot be written; is the disk full?"));
  for (const std::string& program : candidates()) {
    const TemporaryFile output;
    const std::optional<int> status = run(program, code.path(), output);
    if (!status) continue;
    if (*status == 0) return output.text();
    throw UserError(concat("braze: ", program, " fails on the code of a kernel: ", output.text()));
  }
  throw UserError(
      "braze: nvdisasm, which shows a GPU's machine code, is not there. It comes with the CUDA toolkit: put "
      "it into PATH, or the toolkit's folder into CUDA_HOME. code(\"asm\") gives PTX without it.");
}

}  // namespace braze::codegen::nvptx
