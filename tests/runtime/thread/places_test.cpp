// Reads and writes of parts of one storage whose places change from step to
// step: rows drawn at random, a static cache of keys and values, parts that
// begin to overlap. Each loop is compared with eager's bits and with the ops
// that were replayed.
// Tests: Note [Places] in recorder/split_places.h
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <tjit/tjit.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <random>
#include <thread>
#include <vector>

namespace tjit {
namespace {

constexpr int kSteps = 120;

using Tensors = std::vector<at::Tensor>;
// All results of a program.
using Program = std::function<Tensors()>;

bool SameBits(const Tensors& a, const Tensors& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const at::Tensor x = a[i].contiguous(), y = b[i].contiguous();
    if (x.sizes() != y.sizes() ||
        std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) != 0) {
      return false;
    }
  }
  return true;
}

Tensors OnAFreshThread(const Program& program) {
  Tensors results;
  std::thread([&] { results = program(); }).join();
  return results;
}

// Runs the program eagerly and replayed; the share of its ops that was
// replayed is at least `share`.
void ExpectReplayed(const Program& program, double share) {
  const Tensors eager = program();
  Options fast;
  fast.hot_threshold = 2;
  ASSERT_TRUE(enable(fast));
  const Stats before = stats();
  const Tensors replayed = program();
  const Stats since = stats() - before;
  disable();
  clear();
  EXPECT_TRUE(SameBits(eager, replayed));
  EXPECT_GE(static_cast<double>(since.ops_replayed),
            share * static_cast<double>(since.ops_seen))
      << since.to_json();
  EXPECT_EQ(since.shadow_mismatches, 0);
}

struct Draw {
  std::mt19937 random{7};
  std::int64_t operator()(std::int64_t end) {
    return static_cast<std::int64_t>(random() % static_cast<unsigned>(end));
  }
};

TEST(PlacesTest, StackedRowsDrawnAtRandom) {
  ExpectReplayed(
      [] {
        at::manual_seed(1);
        Draw draw;
        const at::Tensor all = at::rand({100, 32}), w = at::rand({32, 8});
        Tensors results;
        for (int i = 0; i < kSteps; ++i) {
          Tensors rows;
          for (int r = 0; r < 4; ++r) rows.push_back(all[draw(100)]);
          results.push_back(at::tanh(at::mm(at::stack(rows), w)).mul(2).add(1));
          mark_step();
        }
        return results;
      },
      0.7);
}

// A batch is stacked from a list of tensors, as a loader does: other ones in
// each step, in an order that is drawn anew.
TEST(PlacesTest, StackedTensorsOfAList) {
  ExpectReplayed(
      [] {
        at::manual_seed(1);
        Draw draw;
        const at::Tensor w = at::rand({32, 8});
        Tensors list, results;
        for (int i = 0; i < 50; ++i) list.push_back(at::rand({32}));
        for (int i = 0; i < kSteps; ++i) {
          std::shuffle(list.begin(), list.end(), draw.random);
          const Tensors batch(list.begin(), list.begin() + 8);
          at::Tensor x = at::tanh(at::mm(at::stack(batch), w)).mul(2).add(1);
          for (int k = 0; k < 4; ++k) x = x.mul(0.5).tanh();
          results.push_back(x);
          (void)x.sum().item<float>();
        }
        return results;
      },
      0.7);
}

// A memory of the last states and what was answered to each, from which a batch
// of another size is drawn in each step. By chance it has what the step itself
// has read or made, and one tensor several times.
Tensors DrawnFromAMemory() {
  at::manual_seed(1);
  Draw draw;
  const at::Tensor w = at::rand({16, 16});
  Tensors states, answers, results;
  at::Tensor state = at::rand({1, 16});
  for (int i = 0; i < 4 * kSteps; ++i) {
    const at::Tensor answer = at::tanh(at::mm(state, w)).mul(0.5);
    states.push_back(state);
    answers.push_back(answer);
    state = at::sub(answer, 0.25).cos();
    (void)state.sum().item<float>();
    if (states.size() < 20) continue;
    if (states.size() > 40) {
      states.erase(states.begin());
      answers.erase(answers.begin());
    }
    Tensors x, y;
    for (int k = 0; k < 8 + i % 2; ++k) {
      const auto at = static_cast<std::size_t>(draw(20));
      x.push_back(states[states.size() - 1 - at]);
      y.push_back(answers[states.size() - 1 - at]);
    }
    at::Tensor z = at::mm(at::cat(x), w).sub(at::cat(y).mean());
    for (int k = 0; k < 4; ++k) z = z.mul(0.5).tanh();
    w.sub_(z.mean(), 0.01);
    results.push_back(z);
  }
  results.push_back(w.clone());
  return results;
}

TEST(PlacesTest, BatchesDrawnFromAMemory) {
  ExpectReplayed(&DrawnFromAMemory, 0.6);
}

TEST(PlacesTest, BatchesDrawnFromAMemoryOnAFreshThread) {
  ExpectReplayed([] { return OnAFreshThread(&DrawnFromAMemory); }, 0.6);
}

// Each step has a sequence of another length: a part of it is read all the
// same.
TEST(PlacesTest, AStepOfASequenceOfAnyLength) {
  ExpectReplayed(
      [] {
        at::manual_seed(1);
        Tensors results;
        const at::Tensor w = at::rand({8, 8});
        for (int i = 0; i < kSteps; ++i) {
          const at::Tensor x = at::rand({3 + i * 37 % kSteps, 4, 8});
          const at::Tensor first = at::tanh(at::matmul(x[0], w)).mul(2);
          results.push_back(at::tanh(at::matmul(x[1], w)).add(first));
          mark_step();
        }
        return results;
      },
      0.75);
}

// The storage ends where the sequence was recorded with, or is written.
TEST(PlacesTest, WholeAndWrittenStoragesKeepTheirSize) {
  ExpectReplayed(
      [] {
        at::manual_seed(1);
        Tensors results;
        for (int i = 0; i < kSteps; ++i) {
          const at::Tensor x = at::rand({i % 3 == 2 ? 4 : 2, 64});
          const at::Tensor row = x[0];
          row.mul_(2).add_(x[1]);
          results.push_back(at::tanh(row).add(1));
          results.push_back(x);
          mark_step();
        }
        return results;
      },
      0.5);
}

// Of a small storage: the same row is drawn twice in most of the steps.
TEST(PlacesTest, ALongListMeetsItself) {
  ExpectReplayed(
      [] {
        at::manual_seed(1);
        Draw draw;
        const at::Tensor all = at::rand({20, 16});
        Tensors results;
        for (int i = 0; i < kSteps; ++i) {
          Tensors rows;
          for (int r = 0; r < 32; ++r) rows.push_back(all[draw(20)]);
          results.push_back(at::tanh(at::stack(rows)).mul(2).add(1));
          mark_step();
        }
        return results;
      },
      0.7);
}

TEST(PlacesTest, TwoRowsOfOneCall) {
  ExpectReplayed(
      [] {
        at::manual_seed(1);
        Draw draw;
        const at::Tensor all = at::rand({1000, 32});
        Tensors results;
        for (int i = 0; i < kSteps; ++i) {
          const at::Tensor x = at::add(all[draw(1000)], all[draw(1000)]);
          results.push_back(at::tanh(x).mul(all[draw(1000)]).add(1));
          mark_step();
        }
        return results;
      },
      0.7);
}

// Slices of different lengths' worth of overlap, from none to all.
TEST(PlacesTest, PartsThatBeginToOverlap) {
  ExpectReplayed(
      [] {
        at::manual_seed(1);
        const at::Tensor all = at::rand({512});
        Tensors results;
        for (int i = 0; i < kSteps; ++i) {
          const at::Tensor a = all.narrow(0, i, 64), b = all.narrow(0, 128, 64);
          results.push_back(at::tanh(at::sub(a, b)).mul(a).add(b));
          mark_step();
        }
        return results;
      },
      0.7);
}

// The row that is written moves, the whole is read after it, and the next step
// writes before the last read has run.
TEST(PlacesTest, AStaticCache) {
  ExpectReplayed(
      [] {
        at::manual_seed(1);
        const at::Tensor keys = at::zeros({1, kSteps, 16});
        const at::Tensor values = at::zeros({1, kSteps, 16});
        const at::Tensor w = at::rand({16, 16});
        at::Tensor x = at::rand({1, 16});
        Tensors results;
        for (int i = 0; i < kSteps; ++i) {
          keys.select(1, i).copy_(at::mm(x, w));
          values.select(1, i).copy_(at::tanh(x));
          const at::Tensor s =
              at::softmax(at::mv(keys[0], x[0]).mul(0.25), 0);
          x = at::tanh(at::mm(s.unsqueeze(0), values[0]));
          results.push_back(x);
          mark_step();
        }
        results.push_back(keys.clone());
        return results;
      },
      0.7);
}

// A replay buffer: the first row is written in each step, a row that is drawn
// is read. Now and then both are the same row.
Tensors ReplayBuffer() {
  at::manual_seed(1);
  Draw draw;
  const at::Tensor pool = at::rand({16, 32});
  at::Tensor x = at::rand({32});
  Tensors results;
  for (int i = 0; i < kSteps; ++i) {
    pool[0].copy_(at::tanh(x).mul(2));
    const at::Tensor y = at::tanh(pool[draw(16)]).mul(0.5);
    x = at::add(y, pool[draw(16)]).mul(0.25);
    results.push_back(x);
    mark_step();
  }
  results.push_back(pool.clone());
  return results;
}

TEST(PlacesTest, AFixedPlaceIsWrittenAMovingOneIsRead) {
  ExpectReplayed(&ReplayBuffer, 0.7);
}

TEST(PlacesTest, TheSameOnAFreshThread) {
  ExpectReplayed([] { return OnAFreshThread(&ReplayBuffer); }, 0.7);
}

// The fixed row is written and read before and behind what moves.
TEST(PlacesTest, AFixedPlaceAroundAMovingOne) {
  ExpectReplayed(
      [] {
        at::manual_seed(1);
        Draw draw;
        const at::Tensor pool = at::rand({16, 32});
        Tensors results;
        for (int i = 0; i < kSteps; ++i) {
          const std::int64_t p = draw(16);
          pool[3].mul_(0.5).add_(0.1);
          const at::Tensor y = at::tanh(pool[p]).mul(pool[p]);
          pool[3].add_(y);
          results.push_back(at::sub(pool[p], pool[3]).mul(y).add(1));
          mark_step();
        }
        results.push_back(pool.clone());
        return results;
      },
      0.85);
}

// A cache whose first row is a sink: it is written in each step, as is the row
// that moves, and the whole is read.
TEST(PlacesTest, ACacheWithASink) {
  ExpectReplayed(
      [] {
        at::manual_seed(1);
        const at::Tensor cache = at::zeros({kSteps + 1, 16});
        const at::Tensor w = at::rand({16, 16});
        at::Tensor x = at::rand({1, 16});
        Tensors results;
        for (int i = 0; i < kSteps; ++i) {
          cache[0].add_(x[0]).mul_(0.5);
          cache[1 + i].copy_(at::mm(x, w)[0]);
          const at::Tensor y = at::tanh(cache[i / 2]).add(cache[1 + i]);
          const at::Tensor s = at::softmax(at::mv(cache, y), 0);
          x = at::tanh(at::mm(s.unsqueeze(0), cache));
          results.push_back(x);
          mark_step();
        }
        results.push_back(cache.clone());
        return results;
      },
      0.7);
}

// Writes through one place and reads through another, which overlaps in some
// steps and not in others, with several writes in a step. The steps that begin
// to overlap are left; all others are replayed.
TEST(PlacesTest, WritesThatBeginToOverlapReads) {
  ExpectReplayed(
      [] {
        at::manual_seed(1);
        Draw draw;
        const at::Tensor all = at::rand({256});
        Tensors results;
        for (int i = 0; i < kSteps; ++i) {
          const at::Tensor to = all.narrow(0, draw(192), 64);
          const at::Tensor from = all.narrow(0, draw(192), 64);
          const at::Tensor y = at::tanh(from).add(0.5);
          to.mul_(0.5);
          const at::Tensor z = at::sub(from, y);
          to.add_(z);
          results.push_back(at::mul(from, z).add(y));
          mark_step();
        }
        results.push_back(all.clone());
        return results;
      },
      0.7);
}

// One op reads and writes one storage at two places. It runs at the call, and
// each run is left there: what comes before it is replayed as a shorter run.
TEST(PlacesTest, AnOpThatCopiesWithinAStorage) {
  ExpectReplayed(
      [] {
        at::manual_seed(1);
        Draw draw;
        const at::Tensor all = at::rand({64, 16});
        Tensors results;
        for (int i = 0; i < kSteps; ++i) {
          at::Tensor x = at::tanh(all[draw(64)]).mul(2);
          for (int k = 0; k < 12; ++k) x = at::tanh(x).mul(2).add(0.5);
          all[draw(64)].copy_(all[draw(64)]);
          results.push_back(at::add(x, all[draw(64)]));
          mark_step();
        }
        results.push_back(all.clone());
        return results;
      },
      0.7);
}

// The storage dies while two of its places are read by pending ops. Of a step
// the draw of its numbers is never replayed.
TEST(PlacesTest, AStorageThatIsDropped) {
  ExpectReplayed(
      [] {
        at::manual_seed(1);
        Draw draw;
        Tensors results;
        for (int i = 0; i < kSteps; ++i) {
          at::Tensor all = at::rand({8, 16});
          at::Tensor y = at::add(all[draw(8)], all[draw(8)]);
          all.reset();
          const at::Tensor other = at::full({8, 16}, 3.0);
          results.push_back(at::mul(y, other[0]));
          mark_step();
        }
        return results;
      },
      0.6);
}

// An op that may write to tensors that are not there, over places that share.
TEST(PlacesTest, AnOpWithUndefinedOutputs) {
  ExpectReplayed(
      [] {
        at::manual_seed(1);
        Draw draw;
        const at::Tensor all = at::rand({100, 8, 4});
        const at::Tensor none;
        Tensors results;
        for (int i = 0; i < kSteps; ++i) {
          const at::Tensor x = at::add(all[draw(100)], all[draw(100)]);
          const at::Tensor y = std::get<0>(at::native_batch_norm(
              all[draw(100)], none, none, none, none, true, 0.1, 1e-5));
          results.push_back(at::mul(at::tanh(y), x).add(1));
          mark_step();
        }
        return results;
      },
      0.7);
}

// A stencil is one storage that is read and written at fixed places: one slot.
TEST(PlacesTest, AStencilStaysOneStorage) {
  ExpectReplayed(
      [] {
        at::manual_seed(1);
        const at::Tensor u = at::rand({34, 34});
        for (int i = 0; i < kSteps; ++i) {
          const at::Tensor inner = u.slice(0, 1, 33).slice(1, 1, 33);
          const at::Tensor sum = at::add(u.slice(0, 0, 32).slice(1, 1, 33),
                                         u.slice(0, 2, 34).slice(1, 1, 33));
          inner.copy_(at::mul(at::add(sum, inner), 0.3));
          mark_step();
        }
        return Tensors{u.clone()};
      },
      0.7);
}

// Another thread writes a row between the steps. What is pending then runs, and
// counts as replayed.
TEST(PlacesTest, AWriterOnAnotherThread) {
  ExpectReplayed(
      [] {
        at::manual_seed(1);
        Draw draw;
        const at::Tensor all = at::rand({32, 16});
        Tensors results;
        for (int i = 0; i < kSteps; ++i) {
          at::Tensor x = at::add(all[draw(32)], all[draw(32)]);
          x = at::tanh(x).mul(2);
          if (i % 8 == 7) {
            const std::int64_t row = draw(32);
            std::thread([&] { all[row].add_(1); }).join();
          }
          results.push_back(at::sub(x, all[draw(32)]));
          mark_step();
        }
        return results;
      },
      0.7);
}

}  // namespace
}  // namespace tjit
