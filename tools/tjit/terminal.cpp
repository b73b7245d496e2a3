#include "tools/tjit/terminal.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "absl/strings/str_split.h"

namespace tjit::tools {
namespace {

constexpr char kCtrlC = 3;

void Send(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

}  // namespace

bool Terminal::Start() {
  const char* const kind = std::getenv("TERM");
  const std::string_view name = kind == nullptr ? "" : kind;
  if (isatty(STDOUT_FILENO) == 0 || name.empty() || name == "dumb") {
    return false;
  }
  sigset_t wanted;
  sigemptyset(&wanted);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH}) {
    sigaddset(&wanted, number);
  }
  signals_ = signalfd(-1, &wanted, SFD_CLOEXEC);
  if (signals_ < 0) return false;
  sigprocmask(SIG_BLOCK, &wanted, &old_signals_);
  reads_keys_ = tcgetattr(STDIN_FILENO, &old_keys_) == 0;
  if (reads_keys_) {
    termios keys = old_keys_;
    keys.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO | ISIG);
    tcsetattr(STDIN_FILENO, TCSANOW, &keys);
  }
  is_on_ = true;
  Send("\x1b[?1049h\x1b[?25l\x1b[2J");
  return true;
}

void Terminal::Stop() {
  if (!is_on_) return;
  is_on_ = false;
  Send("\x1b[?25h\x1b[?1049l");
  if (reads_keys_) tcsetattr(STDIN_FILENO, TCSANOW, &old_keys_);
  close(std::exchange(signals_, -1));
  sigprocmask(SIG_SETMASK, &old_signals_, nullptr);
  if (ended_by_ != 0) raise(ended_by_);
}

void Terminal::Draw(const std::string& text) {
  text_ = text;
  Redraw();
}

void Terminal::Redraw() const {
  winsize size{};
  const bool is_known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 &&
                        size.ws_row > 0 && size.ws_col > 0;
  constexpr std::size_t kRows = 24, kColumns = 80;
  const std::size_t rows = is_known ? size.ws_row : kRows;
  const std::size_t columns = is_known ? size.ws_col : kColumns;
  std::string out = "\x1b[H";
  std::size_t row = 0;
  for (const auto line : absl::StrSplit(text_, '\n')) {
    if (row == rows) break;
    if (row++ != 0) out += "\n";
    out += std::string(line.substr(0, columns)) + "\x1b[K";
  }
  Send(out + "\x1b[J");
}

bool Terminal::Wait(double seconds) {
  using Clock = std::chrono::steady_clock;
  const auto until = Clock::now() + std::chrono::duration<double>(seconds);
  for (;;) {
    const double left_ms =
        std::chrono::duration<double, std::milli>(until - Clock::now()).count();
    if (left_ms <= 0) return false;
    pollfd ready[] = {{signals_, POLLIN, 0},
                      {reads_keys_ ? STDIN_FILENO : -1, POLLIN, 0}};
    if (poll(ready, 2, static_cast<int>(std::ceil(left_ms))) <= 0) continue;
    signalfd_siginfo signal{};
    if (ready[0].revents != 0 &&
        read(signals_, &signal, sizeof(signal)) == sizeof(signal)) {
      if (signal.ssi_signo == SIGWINCH) {
        Redraw();
        continue;
      }
      const auto number = static_cast<int>(signal.ssi_signo);
      ended_by_ = number == SIGINT ? 0 : number;
      return true;
    }
    if (ready[1].revents == 0) continue;
    char key = 0;
    if (read(STDIN_FILENO, &key, 1) != 1) {
      reads_keys_ = false;  // the other end is gone
      continue;
    }
    if (key == 'q' || key == 'Q' || key == kCtrlC) return true;
  }
}

}  // namespace tjit::tools
