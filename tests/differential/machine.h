// Runs a program statement by statement with the ops of libtorch, and logs
// what the program could see.
//
// How: a Machine holds the variables of one thread; it never keeps a tensor
// longer than the C++ text of the program would, so that reference counts and
// life times, which tjit and autograd observe, are those of the text.
// Invariants:
// (1) The machine calls the public interface of tjit only for mark_step() and
//     sync(); whether tjit is on is the caller's business (engine.h).
// (2) An exception ends its statement, not the program.
// Thread: a Machine is used by one thread; its statements with OnWorker() run
// on a thread of its own that it waits for.
// Tested by: tests/differential/harness_test.cpp
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "tests/differential/log.h"
#include "tests/differential/program.h"
#include "tjit/jit.h"

namespace tjit::differential {

// A wrong execution, made on purpose to show that the harness sees it.
struct Mutation {
  enum class Kind : std::uint8_t {
    kNone,
    kSkip,         // the statement does not run
    kStaleScalar,  // its scalars keep the values of iteration 0
    kSwap,         // it runs before the statement in front of it
    kFlipBit,      // the lowest bit of its first result is flipped
    kLoseAlias,    // an in-place write goes to a copy
  };
  Kind kind = Kind::kNone;
  int statement = 0;
  std::int64_t from_iteration = 0;
};

// The variables of one thread of a program.
struct State {
  std::vector<at::Tensor> vars;
  std::vector<double> regs;
  std::vector<at::Tensor> kept;
  std::unordered_map<int, std::shared_ptr<std::vector<float>>> blobs;
  std::unordered_map<int, float*> pointers;
  std::unordered_map<int, at::Tensor> caches;  // by what they are read into
  std::optional<at::Generator> generator;
  Log log;
};

// What a statement sees while it runs.
class Context {
 public:
  Context(State& state, const Statement& st, int index, std::int64_t it,
          std::int64_t scalar_it, std::int64_t trip)
      : state_(state),
        st_(st),
        index_(index),
        it_(it),
        scalar_it_(scalar_it),
        trip_(trip) {}

  // THROWS: c10::Error if the variable is undefined.
  const at::Tensor& T(int i) const;
  at::Tensor& Var(int i) { return state_.vars[st_.args[i]]; }
  const Statement& statement() const { return st_; }
  int num_args() const { return static_cast<int>(st_.args.size()); }
  int arg_id(int i) const { return st_.args[i]; }
  int dst_id(int i) const { return st_.dst[i]; }
  std::int64_t I(int i) const { return st_.ints[i]; }
  at::IntArrayRef List(int from) const {
    return at::IntArrayRef(st_.ints).slice(from);
  }
  at::Scalar S(int i) const;
  double D(int i) const;
  std::int64_t it() const {
    used_it_ = true;
    return it_;
  }
  bool used_it() const { return used_it_; }
  // How often the loop that the statement is in has gone round; 0 without one.
  std::int64_t trip() const { return trip_; }
  // What lies there beside variables is the host's: see
  // WithoutHostStatements().
  State& state() {
    used_it_ = true;
    return state_;
  }

  void Out(at::Tensor value, int i = 0);
  // Logs a value that the program read.
  void Observe(const std::string& what, const std::string& text);
  void Observe(double value);

 private:
  State& state_;
  const Statement& st_;
  int index_;
  std::int64_t it_;
  std::int64_t scalar_it_;
  std::int64_t trip_;
  mutable bool used_it_ = false;
};

class Machine {
 public:
  // `shared` holds the variables common to two threads, or is null.
  Machine(const Program& program, const State* shared, int thread,
          const Mutation& mutation = {});
  ~Machine();
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  // Runs the set-up statements [from, to).
  void Setup(std::size_t from, std::size_t to);
  void Iterate(std::int64_t it);
  // From here on the body of the loop is a function of tjit::jit() over all
  // variables, and all numbers and guards of its statements.
  void WrapBody();
  // Reads everything for the last time and lets go of all variables.
  void Finish();

  State& state() { return state_; }
  // Statements of the body that did something on the host, or on another
  // thread, beside their ops.
  const std::set<int>& host_statements() const { return host_statements_; }
  // Did the last statement run without an exception?
  bool RunOne(const Statement& st, int index, std::int64_t it);

 private:
  class Worker;

  void RunBody(std::int64_t it);
  void RunFunction(std::int64_t it);
  void RunAt(int index, std::int64_t it);
  void RunMutated(int index, std::int64_t it);
  void Execute(const Statement& st, int index, std::int64_t it,
               std::int64_t scalar_it);

  const Program& program_;
  const Mutation mutation_;
  State state_;
  std::unique_ptr<Worker> worker_;
  // The wrapped body; null: there is none.
  using Body = std::function<std::vector<at::Tensor>(
      const std::vector<at::Tensor>&, const std::vector<double>&,
      const std::vector<std::int64_t>&)>;
  std::unique_ptr<Jit<Body>> function_;
  std::int64_t iteration_ = 0;  // of the function that runs
  std::set<int> host_statements_;
  bool threw_ = false;
  std::int64_t trip_ = 0;  // of the loop that runs
};

// All threads of a program from start to end, with so many threads of
// libtorch's pool. `at_iteration(it)` is called by the first thread when every
// thread stands before iteration `it`. `is_wrapped`: see WrapBody().
// Returns the logs of the threads one after the other.
Log RunProgram(const Program& program, int threads = 1,
               const std::function<void(std::int64_t)>& at_iteration = {},
               const Mutation& mutation = {}, bool is_wrapped = false);

// `program` without the statements of the body that do something on the host,
// as an eager run finds them.
Program WithoutHostStatements(const Program& program);

// `program` without the statements of the body that do something on the host,
// as an eager run finds them.
Program WithoutHostStatements(const Program& program);

// Appends the state of every variable to its log (snapshot.cpp).
void Snapshot(State& state, std::int64_t it, ReadMode mode, bool with_rng);

// The elements of `t` in row-major order.
std::string ElementBytes(const at::Tensor& t, ReadMode mode);

}  // namespace tjit::differential
