// Makes a failing program smaller. See engine.h.
#include <algorithm>
#include <vector>

#include "tests/differential/engine.h"

namespace tjit::differential {
namespace {

// Tries `change` on a copy; keeps it if the copy still fails.
template <typename Change>
bool Try(Program& program, const std::function<bool(const Program&)>& fails,
         Change change) {
  Program smaller = program;
  if (!change(smaller) || !fails(smaller)) return false;
  program = std::move(smaller);
  return true;
}

using Part = std::vector<Statement> Program::*;

// Removes runs of statements, long ones first.
bool RemoveStatements(Program& program, Part part,
                      const std::function<bool(const Program&)>& fails) {
  bool changed = false;
  std::size_t length = std::max<std::size_t>(1, (program.*part).size() / 2);
  for (; length > 0; length /= 2) {
    std::size_t from = (program.*part).size();
    while (from > 0) {
      std::size_t begin = from > length ? from - length : 0;
      changed |= Try(program, fails, [&](Program& p) {
        auto& list = p.*part;
        auto at = list.begin();
        list.erase(at + static_cast<std::ptrdiff_t>(begin),
                   at + static_cast<std::ptrdiff_t>(from));
        return !(p.concurrent && part == &Program::setup);
      });
      from = begin;
    }
  }
  return changed;
}

// Goes round equally often in each iteration, or else alternates between that
// and once more.
bool SimplifyLoop(Program& program, std::size_t k,
                  const std::function<bool(const Program&)>& fails) {
  using Kind = ScalarExpr::Kind;
  const Kind kind = program.loops[k].kind;
  std::vector<ScalarExpr> simpler;
  if (kind != Kind::kConst) {
    for (const double trips : {1.0, 2.0, 4.0}) {
      simpler.push_back({.kind = Kind::kConst, .is_int = true, .a = trips});
    }
  }
  if (kind != Kind::kConst && kind != Kind::kCycle) {
    for (const double trips : {0.0, 1.0, 2.0}) {
      simpler.push_back(
          {.kind = Kind::kCycle, .is_int = true, .cycle = {trips, trips + 1}});
    }
  }
  return std::any_of(simpler.begin(), simpler.end(), [&](const ScalarExpr& e) {
    return Try(program, fails, [&](Program& p) {
      p.loops[k] = e;
      return true;
    });
  });
}

bool Simplify(Program& program,
              const std::function<bool(const Program&)>& fails) {
  bool changed = false;
  for (std::size_t i = 0; i < program.body.size(); ++i) {
    changed |= Try(program, fails, [&](Program& p) {
      bool had = p.body[i].guard.kind != Guard::Kind::kAlways;
      p.body[i].guard = {};
      return had;
    });
    changed |= Try(program, fails, [&](Program& p) {
      bool had = p.body[i].mode != Mode::kGrad;
      p.body[i].mode = Mode::kGrad;
      return had;
    });
    changed |= Try(program, fails, [&](Program& p) {
      return std::exchange(p.body[i].worker_every, 0) != 0;
    });
    for (std::size_t s = 0; s < program.body[i].scalars.size(); ++s) {
      changed |= Try(program, fails, [&](Program& p) {
        ScalarExpr& e = p.body[i].scalars[s];
        bool had = e.kind != ScalarExpr::Kind::kConst;
        e.kind = ScalarExpr::Kind::kConst;
        return had;
      });
    }
    changed |= Try(program, fails, [&](Program& p) {
      return std::exchange(p.body[i].loop, -1) >= 0;
    });
  }
  for (std::size_t k = 0; k < program.loops.size(); ++k) {
    changed |= SimplifyLoop(program, k, fails);
  }
  changed |= Try(program, fails, [](Program& p) {
    return std::exchange(p.snapshot_every, 0) != 0;
  });
  changed |= Try(program, fails, [](Program& p) {
    return std::exchange(p.read_mode, ReadMode::kClone) != ReadMode::kClone;
  });
  changed |= Try(program, fails, [](Program& p) {
    return !std::exchange(p.mark_step, true);
  });
  return changed;
}

}  // namespace

Program Shrink(const Program& program,
               const std::function<bool(const Program&)>& fails) {
  Program smaller = program;
  for (int round = 0; round < 4; ++round) {
    bool changed = RemoveStatements(smaller, &Program::body, fails);
    changed |= RemoveStatements(smaller, &Program::setup, fails);
    changed |= Simplify(smaller, fails);
    if (!changed) break;
  }
  return smaller;
}

}  // namespace tjit::differential
