// Makes a random program from a number.
//
// How: set-up statements first, then body statements one by one. Each proposal
// is run eagerly on the generator's own variables, so later proposals know
// sizes and dtypes; what throws, overflows or grows is rejected. At the end the
// whole program runs once and statements that threw on the way are dropped.
//   family 1 (training): forward ... loss.backward() ... update ... zero_grad
// Invariants:
// (1) The same seed gives the same program in every process.
// (2) Without Statement `throws` rows, a program runs without an exception.
// REQUIRES: tjit is disabled while a program is generated.
// Tested by: tests/differential/harness_test.cpp
#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "tests/differential/families.h"
#include "tests/differential/machine.h"
#include "tests/differential/op_table.h"
#include "tests/differential/rng.h"

namespace tjit::differential {

// What a scalar argument is used for.
enum class Use : std::uint8_t {
  kFactor,    // about 1
  kAlpha,     // small
  kPositive,  // (0, 2]
  kExponent,  // the values for which pow takes short cuts, and others
  kFraction,  // (0, 1)
  kInteger,   // small integers
};

class Generator {
 public:
  explicit Generator(std::uint64_t seed);

  Program Generate();

  // For the rows of the op table.
  Rng& rng() { return rng_; }
  const at::Tensor& V(int id) { return machine_->state().vars[id]; }
  const at::Tensor& A(const Statement& st, int i) { return V(st.args[i]); }
  // Appends a defined variable for which `fits` holds, rather a recent one.
  template <typename Fits>
  bool Arg(Statement& st, Fits fits);
  // The same for an argument that is written.
  template <typename Fits>
  bool Target(Statement& st, Fits fits);
  bool ArgWithPointer(Statement& st);  // its raw pointer was taken in set-up
  bool ArgWithBlob(Statement& st);     // over a buffer of the program
  bool ArgTemporary(Statement& st);    // not one of set-up
  // May the two arguments change places for the iterations to come?
  bool AreTwins(const Statement& st);
  void Scalar(Statement& st, Use use);
  // A number, at least 0, that differs from iteration to iteration: one of few,
  // one of many, or one that grows.
  const ScalarExpr& Length();
  int NewRegister() {
    machine_->state().regs.resize(program_.num_regs + 1);
    return program_.num_regs++;
  }
  bool concurrent() const { return program_.concurrent; }

 private:
  friend class SetupBuilder;
  friend class SweepBuilder;

  bool ArgOf(Statement& st, const std::vector<int>& ids);
  int Choose(const std::vector<int>& ids);
  bool IsWritable(int id);
  bool IsRebindable(int id);
  void Begin();
  void AddBody();
  void AddPhase(const Phase& phase, int count);
  bool AddRandom(Group group);
  // A statement of this row of the op table, if something fits.
  bool AddRow(int row);
  void AddFreshData();
  ScalarExpr NewLength();
  void AddTraining();
  // Statements that run several times in a row, and what they carry along.
  void AddLoop();
  void AddCarry(int state, int loop_vars);
  void AddUpdate(int param, int style);
  // Binds `dst`, or new variables where the row has results and dst is -1.
  bool AddNamed(std::string_view name, std::vector<int> args,
                std::vector<ScalarExpr> scalars, Mode mode, int dst = -1);
  bool TryAdd(Statement st);
  void TryOtherwise(const Statement& st);
  static bool WritesOperand(const Statement& st);
  bool IsAcceptable(const Statement& st, const std::vector<at::Tensor>& old);
  bool MayHold(const at::Tensor& t) const;
  std::int64_t MaxElements() const;
  bool IsSmallBroadcast(const Statement& st);
  void BindResults(Statement& st, int count);
  void ChooseMode(Statement& st);
  void Decorate(Statement& st);
  void Vary(ScalarExpr& e);
  void SetIterations();
  // Drops statements that throw in some iteration. False if one did. Sees what
  // becomes of the numbers.
  bool Clean();
  bool IsUsable() const;

  Rng rng_;
  const Family* family_;
  Program program_;
  std::unique_ptr<Machine> machine_;
  int num_setup_vars_ = 0;
  std::vector<int> params_;
  int loop_ = -1;  // that statements are added to
  std::vector<ScalarExpr> lengths_;  // so far
  bool has_many_lengths_ = false;    // else two or three of each
  std::vector<int> batches_;  // three inputs of one size, or none
  Mode base_mode_ = Mode::kGrad;
  // What changes from iteration to iteration by cases does so with one period,
  // or the whole would hardly ever repeat.
  std::int64_t beat_ = 1;
  double varying_share_ = 0.3;
  bool is_tame_ = false;  // the last run of Clean()
  // What arguments are if they can; empty: anything.
  std::function<bool(const at::Tensor&)> taste_;
  double scoped_share_ = 1;
};

template <typename Fits>
bool Generator::Arg(Statement& st, Fits fits) {
  std::vector<int> ids;
  for (int id = 0; id < program_.num_vars; ++id) {
    if (V(id).defined() && fits(V(id))) ids.push_back(id);
  }
  if (ids.empty()) return false;
  st.args.push_back(Choose(ids));
  return true;
}

template <typename Fits>
bool Generator::Target(Statement& st, Fits fits) {
  std::vector<int> ids;
  for (int id = 0; id < program_.num_vars; ++id) {
    if (V(id).defined() && IsWritable(id) && fits(V(id))) ids.push_back(id);
  }
  if (ids.empty()) return false;
  st.args.push_back(Choose(ids));
  return true;
}

// The program of `seed`; the same as Generator(seed).Generate().
Program GenerateProgram(std::uint64_t seed);

}  // namespace tjit::differential
