#include "tools/tjit/captured.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

namespace tjit::tools {

std::string OutputOf(const std::vector<std::string>& command,
                     const char* variable) {
  std::vector<char*> words;
  for (const std::string& word : command) {
    words.push_back(const_cast<char*>(word.c_str()));
  }
  words.push_back(nullptr);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return {};
  const pid_t child = fork();
  if (child == 0) {
    const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    dup2(null, STDIN_FILENO);
    dup2(null, STDERR_FILENO);
    dup2(ends[1], STDOUT_FILENO);
    if (variable != nullptr) setenv(variable, "1", /*overwrite=*/1);
    execvp(words[0], words.data());
    _exit(127);
  }
  close(ends[1]);
  std::string text;
  char part[4096];
  for (;;) {
    const ssize_t n = child < 0 ? 0 : read(ends[0], part, sizeof(part));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    text.append(part, static_cast<std::size_t>(n));
  }
  close(ends[0]);
  if (child > 0) {
    while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  return text;
}

}  // namespace tjit::tools
