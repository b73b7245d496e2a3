// Random programs as data: statements over named tensors, run as a loop body.
//
// How: a Program is made by a generator from one number, printed as C++, and
// run by a Machine (machine.h), so one text has one meaning everywhere:
//   setup    v0 = at::randn({4, 6}); v1 = v0.t();
//   body     v2 = at::mul(v0, 1.0 / (1 + it)); v1.add_(v2, 0.5);
// The body runs `iterations` times with `it` counting from 0.
// Invariants:
// (1) Plain data, no torch: equal programs are equal bytes.
// (2) Statement::op indexes OpTable() (op_table.h).
// Thread: immutable once generated.
// Tested by: tests/differential/harness_test.cpp
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tjit::differential {

// A number in a program; it may differ in each iteration.
struct ScalarExpr {
  enum class Kind : std::uint8_t {
    kConst,    // a
    kLinear,   // a + b * it
    kInverse,  // a / (1 + it)
    kDecay,    // a * pow(b, it)
    kCycle,    // cycle[it % size]
    kStep,     // it < period ? a : b
    kReg,      // a + b * register `period`, a value the program read back
    kDrawn,    // a + draw(it, period) % b: one of b values, in no order
  };
  Kind kind = Kind::kConst;
  bool is_int = false;
  double a = 0;
  double b = 0;
  std::int64_t period = 1;
  std::vector<double> cycle = {};

  double Value(std::int64_t it, const std::vector<double>& regs) const;
  std::string ToString() const;
};

// A number that depends on nothing but these two, and looks like any.
std::uint64_t Draw(std::int64_t it, std::int64_t salt);

// When a statement runs at all.
struct Guard {
  enum class Kind : std::uint8_t { kAlways, kMod, kNotMod, kFrom, kReg };
  Kind kind = Kind::kAlways;
  std::int64_t mod = 1;
  std::int64_t rem = 0;

  bool Holds(std::int64_t it, const std::vector<double>& regs) const;
  std::string ToString() const;  // "" for kAlways
};

enum class Mode : std::uint8_t { kGrad, kNoGrad, kInference };

struct Statement {
  int op = 0;
  std::vector<int> dst;   // variables that are bound
  std::vector<int> args;  // variables that are read (or written in place)
  std::vector<std::int64_t> ints;
  std::vector<ScalarExpr> scalars;
  Guard guard;
  Mode mode = Mode::kGrad;
  // Another thread runs it, and this one waits, in the iterations where
  // it % worker_every is worker_every - 1; 0: never.
  std::int64_t worker_every = 0;
  // Of Program::loops, which it is in: neighbours of one number are the body of
  // one loop. -1: it runs once.
  int loop = -1;

  bool OnWorker(std::int64_t it) const {
    return worker_every > 0 && it % worker_every == worker_every - 1;
  }
};

// How the final values are read.
enum class ReadMode : std::uint8_t { kClone, kMutablePointer, kSyncConst };

struct Program {
  std::uint64_t seed = 0;
  int family = 0;
  int iterations = 40;
  std::vector<Statement> setup;
  std::vector<Statement> body;
  // Loops inside the body, by how often they go round in an iteration.
  std::vector<ScalarExpr> loops;
  int num_vars = 0;
  int num_regs = 0;
  std::vector<int> scoped;  // variables that die at the end of the body
  bool mark_step = true;
  bool mark_in_scope = true;  // before the scoped variables die
  int snapshot_every = 0;     // iterations between snapshots; 0: at the end
  ReadMode read_mode = ReadMode::kClone;
  // Two threads run the body; variables below `shared_vars`, made by the first
  // `shared_setup` setup statements, are common to both and only read.
  bool concurrent = false;
  int shared_vars = 0;
  int shared_setup = 0;

  // Close to C++ that compiles: a reproduction to paste.
  std::string ToString() const;
  // One past the last statement of the loop, or the one, at `begin`.
  std::size_t EndOfLoop(std::size_t begin) const;
};

// One statement as C++, guard, mode and thread included.
std::string ToString(const Statement& statement);

}  // namespace tjit::differential
