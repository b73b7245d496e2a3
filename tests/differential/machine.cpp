// The interpreter of programs. See machine.h.
#include "tests/differential/machine.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>

#include <barrier>
#include <condition_variable>
#include <cstring>
#include <limits>
#include <mutex>
#include <thread>

#include "tests/differential/op_table.h"
#include "tjit/tjit.h"

namespace tjit::differential {
namespace {

// Writes warnings into the log, where their order and number are compared.
class LogWarnings : public c10::WarningHandler {
 public:
  LogWarnings(Log& log, std::int64_t it, int statement)
      : log_(log), it_(it), statement_(statement) {}
  void process(const c10::Warning& warning) override {
    log_.push_back({it_, statement_, "warning", warning.msg(), "", 1});
  }

 private:
  Log& log_;
  std::int64_t it_;
  int statement_;
};

// The text of an exception without what depends on the run.
std::string Describe(const std::exception& e) {
  if (auto* error = dynamic_cast<const c10::Error*>(&e)) {
    return "c10::Error " + error->msg();
  }
  return std::string("std::exception ") + e.what();
}

void FlipLowestBit(at::Tensor& t) {
  if (!t.defined() || t.numel() == 0) return;
  at::NoGradGuard guard;
  at::Tensor wrong = t.detach().clone();
  static_cast<char*>(wrong.data_ptr())[0] ^= 1;
  t = t.requires_grad() ? wrong.requires_grad_() : wrong;
}

}  // namespace

const at::Tensor& Context::T(int i) const {
  const at::Tensor& t = state_.vars[st_.args[i]];
  TORCH_CHECK(t.defined(), "v", st_.args[i], " is undefined");
  return t;
}

at::Scalar Context::S(int i) const {
  const ScalarExpr& e = st_.scalars[i];
  double value = e.Value(scalar_it_, state_.regs);
  if (e.is_int) return at::Scalar(static_cast<std::int64_t>(value));
  return at::Scalar(value);
}

double Context::D(int i) const {
  return st_.scalars[i].Value(scalar_it_, state_.regs);
}

void Context::Out(at::Tensor value, int i) {
  state_.vars[st_.dst[i]] = std::move(value);
}

void Context::Observe(const std::string& what, const std::string& text) {
  state_.log.push_back({it_, index_, what, text, "", 1});
}

void Context::Observe(double value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  state_.log.push_back({it_, index_, "value read", "", std::move(bytes),
                        sizeof value, std::numeric_limits<double>::digits - 1});
}

// A second thread of the program, to which it hands single statements.
class Machine::Worker {
 public:
  Worker() : thread_([this] { Loop(); }) {}
  ~Worker() {
    {
      std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  // Runs `task` there and waits for its end.
  void Run(const std::function<void()>& task) {
    std::unique_lock lock(mutex_);
    task_ = &task;
    changed_.notify_all();
    changed_.wait(lock, [this] { return task_ == nullptr; });
  }

 private:
  void Loop() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return stop_ || task_ != nullptr; });
      if (stop_) return;
      (*task_)();
      task_ = nullptr;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  const std::function<void()>* task_ = nullptr;
  bool stop_ = false;
  std::thread thread_;
};

Machine::Machine(const Program& program, const State* shared, int thread,
                 const Mutation& mutation)
    : program_(program), mutation_(mutation) {
  state_.vars.resize(program.num_vars);
  state_.regs.resize(program.num_regs, 0.0);
  if (shared != nullptr) {
    for (int i = 0; i < program.shared_vars; ++i) {
      state_.vars[i] = shared->vars[i];
    }
  }
  if (program.concurrent) {
    state_.generator = at::make_generator<at::CPUGeneratorImpl>(
        program.seed + static_cast<std::uint64_t>(thread));
  }
}

Machine::~Machine() = default;

void Machine::Setup(std::size_t from, std::size_t to) {
  for (std::size_t i = from; i < to; ++i) {
    RunOne(program_.setup[i], -1, -1);
  }
}

void Machine::WrapBody() {
  JitOptions options;
  options.verify_every = program_.seed % 2 == 0 ? 0 : 8;
  function_ = std::make_unique<Jit<Body>>(
      [this](const std::vector<at::Tensor>& vars, const std::vector<double>&,
             const std::vector<std::int64_t>&) {
        state_.vars = vars;
        RunBody(iteration_);
        return std::move(state_.vars);
      },
      options);
}

// What a statement reads on the host are arguments, by value; what it does
// there but for its ops (log, registers, what is kept) is told by NoJit.
void Machine::RunFunction(std::int64_t it) {
  std::vector<double> numbers;
  std::vector<std::int64_t> guards;
  for (const Statement& st : program_.body) {
    guards.push_back(st.guard.Holds(it, state_.regs));
    guards.push_back(st.OnWorker(it));
    for (const ScalarExpr& scalar : st.scalars) {
      numbers.push_back(scalar.Value(it, state_.regs));
    }
  }
  for (const ScalarExpr& loop : program_.loops) {
    guards.push_back(static_cast<std::int64_t>(loop.Value(it, state_.regs)));
  }
  iteration_ = it;
  std::vector<at::Tensor> vars = std::move(state_.vars);
  std::vector<at::Tensor> results = (*function_)(vars, numbers, guards);
  vars.clear();
  state_.vars = std::move(results);
}

void Machine::RunBody(std::int64_t it) {
  for (std::size_t i = 0, end = 0; i < program_.body.size(); i = end) {
    end = program_.EndOfLoop(i);
    const int loop = program_.body[i].loop;
    const double trips =
        loop < 0 ? 1
                 : program_.loops[static_cast<std::size_t>(loop)].Value(
                       it, state_.regs);
    for (trip_ = 0; static_cast<double>(trip_) < trips; ++trip_) {
      for (std::size_t k = i; k < end; ++k) RunAt(static_cast<int>(k), it);
    }
    trip_ = 0;
  }
}

void Machine::Iterate(std::int64_t it) {
  if (function_ != nullptr) {
    RunFunction(it);
  } else {
    RunBody(it);
  }
  if (program_.mark_step && program_.mark_in_scope) mark_step();
  if (program_.snapshot_every > 0 && it % program_.snapshot_every == 1) {
    Snapshot(state_, it, ReadMode::kClone, !program_.concurrent);
  }
  // The last iteration's variables are read before they die.
  if (it + 1 == program_.iterations) return;
  for (auto id = program_.scoped.rbegin(); id != program_.scoped.rend(); ++id) {
    state_.vars[*id] = at::Tensor();
  }
  if (program_.mark_step && !program_.mark_in_scope) mark_step();
}

void Machine::RunAt(int index, std::int64_t it) {
  if (mutation_.kind != Mutation::Kind::kNone) {
    RunMutated(index, it);
  } else {
    RunOne(program_.body[static_cast<std::size_t>(index)], index, it);
  }
}

void Machine::RunMutated(int index, std::int64_t it) {
  const auto& body = program_.body;
  bool wrong = it >= mutation_.from_iteration;
  auto kind = mutation_.kind;
  const Statement& st = body[index];
  if (wrong && kind == Mutation::Kind::kSwap) {
    bool has_next = index + 1 < static_cast<int>(body.size());
    if (has_next && index + 1 == mutation_.statement) {
      RunOne(body[index + 1], index + 1, it);
    }
    if (index == mutation_.statement && index > 0) return;
    RunOne(st, index, it);
    return;
  }
  if (!wrong || index != mutation_.statement) {
    RunOne(st, index, it);
  } else if (kind == Mutation::Kind::kStaleScalar) {
    Execute(st, index, it, 0);
  } else if (kind == Mutation::Kind::kFlipBit) {
    RunOne(st, index, it);
    if (!st.dst.empty()) FlipLowestBit(state_.vars[st.dst[0]]);
  } else if (kind == Mutation::Kind::kLoseAlias && !st.args.empty()) {
    at::Tensor kept = state_.vars[st.args[0]];
    if (kept.defined()) state_.vars[st.args[0]] = kept.detach().clone();
    RunOne(st, index, it);
    state_.vars[st.args[0]] = kept;
  }
}

bool Machine::RunOne(const Statement& st, int index, std::int64_t it) {
  if (!st.guard.Holds(it, state_.regs)) return true;
  threw_ = false;
  if (st.OnWorker(it)) {
    const NoJit host("another thread runs the op");
    if (index >= 0) host_statements_.insert(index);
    if (!worker_) worker_ = std::make_unique<Worker>();
    worker_->Run([&] { Execute(st, index, it, it); });
  } else {
    Execute(st, index, it, it);
  }
  return !threw_;
}

void Machine::Execute(const Statement& st, int index, std::int64_t it,
                      std::int64_t scalar_it) {
  LogWarnings warnings(state_.log, it, index);
  c10::WarningUtils::WarningHandlerGuard guard(&warnings);
  Context context(state_, st, index, it, scalar_it, trip_);
  const std::size_t logged = state_.log.size();
  const std::size_t kept = state_.kept.size();
  const std::vector<double> regs = state_.regs;
  auto run = OpTable()[st.op].run;
  try {
    if (st.mode == Mode::kInference) {
      c10::InferenceMode inference;
      run(context);
    } else {
      at::AutoGradMode grad(st.mode == Mode::kGrad);
      run(context);
    }
  } catch (const std::exception& e) {
    threw_ = true;
    state_.log.push_back({it, index, "exception", Describe(e), "", 1});
  }
  if (state_.log.size() != logged || state_.kept.size() != kept ||
      state_.regs != regs || context.used_it()) {
    const NoJit host("depends on the host, or changes what it knows");
    if (index >= 0) host_statements_.insert(index);
  }
}

void Machine::Finish() {
  Snapshot(state_, program_.iterations, program_.read_mode,
           !program_.concurrent);
  state_.vars.clear();
  state_.kept.clear();
  state_.caches.clear();
}

namespace {

Log RunTwoThreads(const Program& program,
                  const std::function<void(std::int64_t)>& at_iteration) {
  Machine first(program, nullptr, 0);
  first.Setup(0, program.shared_setup);
  Machine second(program, &first.state(), 1);
  std::barrier before(2);
  auto loop = [&](Machine& machine, bool is_first) {
    machine.Setup(program.shared_setup, program.setup.size());
    for (std::int64_t it = 0; it < program.iterations; ++it) {
      before.arrive_and_wait();
      if (is_first && at_iteration) at_iteration(it);
      before.arrive_and_wait();
      machine.Iterate(it);
    }
  };
  std::thread other([&] { loop(second, false); });
  std::thread one([&] { loop(first, true); });
  one.join();
  other.join();
  if (at_iteration) at_iteration(program.iterations);
  first.Finish();
  second.Finish();
  Log log = std::move(first.state().log);
  Log& rest = second.state().log;
  log.insert(log.end(), rest.begin(), rest.end());
  return log;
}

}  // namespace

Log RunProgram(const Program& program, int threads,
               const std::function<void(std::int64_t)>& at_iteration,
               const Mutation& mutation, bool is_wrapped) {
  at::set_num_threads(threads);
  at::manual_seed(program.seed);
  if (program.concurrent) return RunTwoThreads(program, at_iteration);
  Machine machine(program, nullptr, 0, mutation);
  machine.Setup(0, program.setup.size());
  if (is_wrapped) machine.WrapBody();
  for (std::int64_t it = 0; it < program.iterations; ++it) {
    if (at_iteration) at_iteration(it);
    machine.Iterate(it);
  }
  if (at_iteration) at_iteration(program.iterations);
  machine.Finish();
  return std::move(machine.state().log);
}

Program WithoutHostStatements(const Program& program) {
  if (program.concurrent) return program;
  at::manual_seed(program.seed);
  Machine machine(program, nullptr, 0);
  machine.Setup(0, program.setup.size());
  for (std::int64_t it = 0; it < program.iterations; ++it) machine.Iterate(it);
  Program rest = program;
  rest.body.clear();
  for (std::size_t i = 0; i < program.body.size(); ++i) {
    if (!machine.host_statements().contains(static_cast<int>(i))) {
      rest.body.push_back(program.body[i]);
    }
  }
  return rest;
}

}  // namespace tjit::differential
