// A terminal that a subcommand redraws in place.
//
//   Terminal terminal;
//   if (terminal.Start()) {          // stdout is a terminal that can do it
//     terminal.Draw(text);
//     if (terminal.Wait(1.0)) ...    // q, Ctrl-C or a signal: end
//   }                                // restored as it was
//
// Signals that end or resize are blocked and waited for, so nothing is left as
// it is not meant to be: the alternate screen, a hidden cursor, keys unseen.
// Thread: the only one. Tested by: tests/acceptance/top_test.py
#pragma once

#include <signal.h>
#include <termios.h>

#include <string>

namespace tjit::tools {

class Terminal {
 public:
  Terminal() = default;
  ~Terminal() { Stop(); }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  // False, and nothing is done, if stdout is none or TERM is unset or "dumb".
  bool Start();
  // As it was before. A signal that ended Wait() is raised then.
  void Stop();

  // Lines, as many and as long as fit.
  void Draw(const std::string& text);
  // True if the user wants it to end. A new size is drawn at once.
  bool Wait(double seconds);

 private:
  void Redraw() const;

  bool is_on_ = false, reads_keys_ = false;
  int signals_ = -1, ended_by_ = 0;
  sigset_t old_signals_{};
  termios old_keys_{};
  std::string text_;
};

}  // namespace tjit::tools
