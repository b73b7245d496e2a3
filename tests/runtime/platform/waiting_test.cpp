// The table of docs/design/threads.md, row by row and column by column: what may
// take a lock is called where a thread must not wait, and where it must, while
// another thread is in the middle of a flush. Runs under TJIT_WATCHDOG.
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/TensorIterator.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/_sparse_coo_tensor_unsafe.h>
#include <ATen/ops/add.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/max_pool1d.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/resolve_neg.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/record_function.h>
#include <c10/core/DefaultDtype.h>
#include <c10/util/ParallelGuard.h>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/jit/serialization/pickle.h>
#include <torch/library.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <fstream>
#include <functional>
#include <future>
#include <map>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "runtime/testing.h"
#include "tjit/tjit.h"

namespace at::native {
bool cpu_equal(const Tensor& a, const Tensor& b);
}
extern "C" std::int32_t torch_get_const_data_ptr(at::Tensor* tensor,
                                                 const void** data);

namespace tjit {
namespace {

constexpr std::int64_t kSide = 64;
constexpr float kSum = 3 * kSide * kSide;  // of what the flush makes: all 3

// Reads the first number where there is one to read; -1: it reads no bytes.
using Call = std::function<float(const at::Tensor&)>;

struct Row {
  std::string name;      // as in the document
  std::string symbols;   // parts of interposed.def's names, a blank between
  Call call;
  bool never_on_team = false;  // as the document has it
};

float First(const at::Tensor& t) {
  return *static_cast<const float*>(t.storage().data());
}

const std::vector<Row>& Rows() {
  static const auto& rows = *new std::vector<Row>{
      {"`const_data_ptr<T>()`", "const_data_ptrI",
       [](const at::Tensor& t) { return *t.const_data_ptr<float>(); }},
      {"mutable pointer", "",
       [](const at::Tensor& t) { return *t.data_ptr<float>(); }},
      {"`at::tensor(values)`", "2at6tensorE",
       [](const at::Tensor&) {
         return at::tensor({1.f, 2.f}).numel() == 2 ? -1.f : 0.f;
       }},
      {"setters of `at::Context`", "7Context",
       [](const at::Tensor&) {
         at::globalContext().setUserEnabledMkldnn(true);
         at::globalContext().setDeterministicAlgorithms(false, false);
         at::globalContext().setFloat32MatmulPrecision("highest");
         return -1.f;
       }},
      {"`at::set_num_threads()`, the same number", "set_num_threads",
       [](const at::Tensor&) {
         at::set_num_threads(2);
         return -1.f;
       }},
      {"`at::set_num_threads()`, another number", "set_num_threads",
       [](const at::Tensor&) {
         at::set_num_threads(3);
         at::set_num_threads(2);
         return -1.f;
       }},
      {"`at::get_num_threads()`, a thread's first", "",
       [](const at::Tensor&) {
         return at::get_num_threads() > 0 ? -1.f : 0.f;
       }},
      {"`at::in_parallel_region()`", "in_parallel_region",
       [](const at::Tensor&) {
         static_cast<void>(at::in_parallel_region());
         return -1.f;
       }},
      {"`c10::set_default_dtype()`", "set_default_dtype",
       [](const at::Tensor&) {
         c10::set_default_dtype(c10::get_default_dtype());
         return -1.f;
       }},
      {"`at::TensorIterator::build()`", "TensorIteratorBase5build",
       [](const at::Tensor& t) {
         at::TensorIteratorConfig()
             .add_owned_output(at::empty({kSide, kSide}))
             .add_owned_const_input(t)
             .build();
         return First(t);
       }},
      {"backward passes",
       "Engine7execute queue_callback set_compiled_autograd "
       "is_checkpoint_valid get_current_graph_task get_current_node "
       "task_should_compute_output update_exec_info",
       [](const at::Tensor& t) {
         const at::Tensor w = at::ones({kSide, kSide}).requires_grad_(true);
         const at::Tensor loss = at::mul(w, t).sum();
         // Below autograd, where a handler interrupts a kernel, is no graph.
         if (!loss.requires_grad()) return -1.f;
         torch::autograd::backward({loss}, {});
         return First(w.grad());
       }},
      {"printing", "5printERSo",
       [](const at::Tensor& t) {
         std::ostringstream out;
         at::print(out, t, 80);
         return out.str().find(" 3  3") != std::string::npos ? 3.f : 0.f;
       }},
      {"`resize_bytes_cpu()`", "resize_bytes_cpu",
       [](const at::Tensor& t) {
         at::Tensor own = at::add(t, 0);
         at::native::resize_bytes_cpu(own.storage().unsafeGetStorageImpl(),
                                      2 * own.nbytes());
         return First(own);
       }},
      {"`cpu_equal()`", "cpu_equal",
       [](const at::Tensor& t) {
         static const at::Tensor three = at::full({kSide, kSide}, 3.f);
         return at::native::cpu_equal(t, three) ? 3.f : 0.f;
       }},
      {"writers of files",
       "getWriteableTensorData save_mobile_module writeRecord",
       [](const at::Tensor& t) {
         const std::vector<char> bytes = torch::jit::pickle_save(t);
         return torch::jit::pickle_load(bytes)
             .toTensor()
             .const_data_ptr<float>()[0];
       },
       /*never_on_team=*/true},
      {"`resolve_neg()`", "resolve_neg",
       [](const at::Tensor& t) {
         return *at::resolve_neg(t).const_data_ptr<float>();
       }},
      {"`torch_get_const_data_ptr()`", "torch_get_const_data_ptr",
       [](const at::Tensor& t) {
         const void* data = nullptr;
         at::Tensor own = t;
         torch_get_const_data_ptr(&own, &data);
         return *static_cast<const float*>(data);
       }},
      {"an op, typed wrapper", "",
       [](const at::Tensor& t) {
         return *at::mul(t, t).const_data_ptr<float>() / 3;
       }},
      {"an op, boxed wrapper", "",
       [](const at::Tensor& t) {
         static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(
             "aten::logcumsumexp", "");
         torch::jit::Stack stack{t, std::int64_t{0}};
         op.callBoxed(&stack);
         return *stack[0].toTensor().const_data_ptr<float>();
       }},
      {"an op of another key", "",
       [](const at::Tensor& t) {
         const at::Tensor index = at::zeros({1, 1}, at::kLong);
         const at::Tensor sparse = at::_sparse_coo_tensor_unsafe(
             index, t.view({-1}).slice(0, 0, 1), {4});
         return sparse.to_dense().const_data_ptr<float>()[0];
       },
       /*never_on_team=*/true},
      {"a composite that reads", "",
       [](const at::Tensor& t) {
         return *at::max_pool1d(t, 2).const_data_ptr<float>();
       }},
      {"direct calls", "4_ops",
       [](const at::Tensor& t) {
         return *at::add(t, t).const_data_ptr<float>() / 2;
       }},
      {"direct views",
       "select_int slice_Tensor transpose_int 4_ops1t "
       "4_ops4view 6expand 7permute 9unsqueeze",
       [](const at::Tensor& t) {
         return t.select(0, 0).t().view({-1}).dim() == 1 ? -1.f : 0.f;
       }},
      {"observers of ops",
       "addGlobalCallback addThreadLocalCallback set_record_function_tls_ "
       "removeCallback clearCallbacks clearGlobalCallbacks "
       "clearThreadLocalCallbacks",
       [](const at::Tensor&) {
         at::removeCallback(at::addThreadLocalCallback(
             at::RecordFunctionCallback(
                 [](const at::RecordFunction&)
                     -> std::unique_ptr<at::ObserverContext> {
                   return nullptr;
                 })));
         return -1.f;
       }},
      {"a kernel is registered", "registerImpl",
       [](const at::Tensor&) {
         static std::atomic<int> count{0};
         torch::Library library(torch::Library::FRAGMENT, "waiting_test",
                                std::nullopt, __FILE__, __LINE__);
         const std::string name =
             "op" + std::to_string(getpid()) + "_" + std::to_string(++count);
         library.def((name + "(Tensor x) -> Tensor").c_str());
         library.impl(name.c_str(), c10::DispatchKey::CPU,
                      [](const at::Tensor& x) { return x; });
         return -1.f;
       }},
      {"allocation and release", "",
       [](const at::Tensor& t) {
         const at::Tensor kept = t;  // dropped here
         return at::empty({1 << 16}).numel() == 1 << 16 ? -1.f : 0.f;
       }},
      {"counters", "",
       [](const at::Tensor&) { return stats().ops_seen > 0 ? -1.f : 0.f; }},
  };
  return rows;
}

// What a thread does in the middle of a flush of `flusher`, once.
std::function<void()> g_during;
std::atomic<bool> g_is_due{false};
void DuringReplay() {
  if (g_is_due.exchange(false)) g_during();
}

// A team of libtorch's OpenMP, as a kernel's loop has it; false without one.
bool OnTeam(int threads, const std::function<void(int)>& body) {
  using Region = void (*)(void (*)(void*), void*, unsigned, unsigned);
  static const auto region =
      reinterpret_cast<Region>(dlsym(RTLD_DEFAULT, "GOMP_parallel"));
  static const auto index =
      reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "omp_get_thread_num"));
  if (region == nullptr || index == nullptr) return false;
  region(
      [](void* data) {
        const c10::ParallelGuard guard(true);
        (*static_cast<const std::function<void(int)>*>(data))(index());
      },
      const_cast<std::function<void(int)>*>(&body),
      static_cast<unsigned>(threads), 0);
  return true;
}

class WaitingTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    at::set_num_threads(2);
    Options options;
    options.hot_threshold = 2;
    options.backend = Backend::kReplay;
    ASSERT_TRUE(enable(options));
    testing::SetDuringReplay(&DuringReplay);
  }
  static void TearDownTestSuite() {
    testing::SetDuringReplay(nullptr);
    disable();
    clear();
  }

  // What a call read, where it reads.
  static void ExpectThree(float read) {
    if (read != -1) {
      EXPECT_EQ(read, 3);
    }
  }

  // What the thread's trace makes: all 3, pending.
  at::Tensor Step() const { return at::add(at::mul(x_, 2), x_); }

  // Flushes Step() on a thread of its own, whose team is new, with `during` in
  // the middle of it; returns whether it came there.
  bool Flush(const std::function<void(const at::Tensor&)>& during) const {
    bool has_come = false;
    std::thread([&] {
      for (int i = 0; i < 20; ++i) {
        Step().sum().item<float>();
        mark_step();
      }
      const at::Tensor pending = Step();
      g_during = [&] {
        has_come = true;
        during(pending);
      };
      const Stats before = stats();
      g_is_due.store(true);
      EXPECT_EQ(pending.sum().item<float>(), kSum);
      EXPECT_GE((stats() - before).ops_replayed, 2);
    }).join();
    g_is_due.store(false);
    return has_come;
  }

  const at::Tensor x_ = at::ones({kSide, kSide});
  const at::Tensor ready_ = at::full({kSide, kSide}, 3.f);
};

// a. The kernel waits for the thread: it must pass.
TEST_F(WaitingTest, OnTheFlushersTeam) {
  for (const Row& row : Rows()) {
    if (row.never_on_team) continue;
    SCOPED_TRACE(row.name);
    std::atomic<int> calls{0};
    EXPECT_TRUE(Flush([&](const at::Tensor&) {
      ASSERT_TRUE(OnTeam(3, [&](int index) {
        if (index == 0) return;
        row.call(ready_);
        ++calls;
      }));
    }));
    EXPECT_EQ(calls.load(), 2);
  }
}

// b. The thread needs bytes that are on their way: it must wait for them.
TEST_F(WaitingTest, OnAnotherTeam) {
  for (const Row& row : Rows()) {
    SCOPED_TRACE(row.name);
    std::thread other;
    std::vector<float> read(3, -1);
    EXPECT_TRUE(Flush([&](const at::Tensor& pending) {
      std::promise<void> begins;
      other = std::thread([&, pending] {
        std::atomic<bool> has_begun{false};
        OnTeam(3, [&](int index) {
          if (index == 0) return;
          if (!has_begun.exchange(true)) begins.set_value();
          read[static_cast<std::size_t>(index)] = row.call(pending);
        });
      });
      begins.get_future().wait();
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }));
    other.join();
    for (const float value : read) ExpectThree(value);
  }
}

// c. No region: whoever needs bytes waits, and gets them.
TEST_F(WaitingTest, OnANewThread) {
  for (const Row& row : Rows()) {
    SCOPED_TRACE(row.name);
    std::thread other;
    float read = -1;
    EXPECT_TRUE(Flush([&](const at::Tensor& pending) {
      std::promise<void> begins;
      other = std::thread([&, pending] {
        begins.set_value();
        read = row.call(pending);
      });
      begins.get_future().wait();
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }));
    other.join();
    ExpectThree(read);
  }
}

std::function<void()> g_in_handler;

// d. The handler interrupts the flusher itself.
TEST_F(WaitingTest, InASignalHandler) {
  struct sigaction action {}, before {};
  action.sa_handler = [](int) { g_in_handler(); };
  ASSERT_EQ(sigaction(SIGUSR2, &action, &before), 0);
  for (const Row& row : Rows()) {
    SCOPED_TRACE(row.name);
    bool called = false;
    g_in_handler = [&] {
      row.call(ready_);
      called = true;
    };
    EXPECT_TRUE(Flush([](const at::Tensor&) { raise(SIGUSR2); }));
    EXPECT_TRUE(called);
  }
  sigaction(SIGUSR2, &before, nullptr);
}

// e. The flusher forks; the child calls, and ends.
TEST_F(WaitingTest, InTheChildOfAFork) {
  for (const Row& row : Rows()) {
    SCOPED_TRACE(row.name);
    int status = -1;
    EXPECT_TRUE(Flush([&](const at::Tensor&) {
      const pid_t child = fork();
      if (child == 0) {
        alarm(30);
        row.call(ready_);
        _exit(0);
      }
      waitpid(child, &status, 0);
    }));
    EXPECT_EQ(status, 0);
  }
}

struct AtThreadExit {
  std::function<void()> function;
  ~AtThreadExit() {
    if (function) function();
  }
};

// f. The object is older than the thread's state, and goes after it.
TEST_F(WaitingTest, BehindTheThreadsState) {
  for (const Row& row : Rows()) {
    SCOPED_TRACE(row.name);
    std::thread other;
    float read = -1;
    EXPECT_TRUE(Flush([&](const at::Tensor& pending) {
      std::promise<void> begins;
      other = std::thread([&, pending] {
        thread_local AtThreadExit at_exit;
        at_exit.function = [&, pending] { read = row.call(pending); };
        at::add(x_, 1);
        begins.set_value();
      });
      begins.get_future().wait();
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }));
    other.join();
    ExpectThree(read);
  }
}

// The document has these rows, and no others.
TEST(WaitingTable, IsTheDocuments) {
  std::ifstream file(TJIT_SOURCE_DIR "/docs/design/threads.md");
  std::map<std::string, bool> documented, tested;  // never in column a
  std::string line;
  bool in_table = false;
  while (std::getline(file, line)) {
    if (line.starts_with("|---")) {
      in_table = true;
    } else if (in_table && line.starts_with("| ")) {
      const std::size_t end = line.find(" | ");
      documented[line.substr(2, end - 2)] =
          line.substr(end).starts_with(" | never | ");
    }
  }
  for (const Row& row : Rows()) tested[row.name] = row.never_on_team;
  EXPECT_EQ(documented, tested);
}

// Every interposed function is some row's.
TEST(WaitingTable, HasEveryInterposedFunction) {
  static const char* const kSymbols[] = {
#define TJIT_CONST_POINTER(symbol) #symbol,
#define TJIT_TENSOR_MAKER(symbol) #symbol,
#define TJIT_BOOL_SETTER(symbol) #symbol,
#define TJIT_INTERPOSED_AS_IS(symbol) #symbol,
#include "runtime/intercept/interposed.def"
  };
  for (const std::string symbol : kSymbols) {
    bool has_row = false;
    for (const Row& row : Rows()) {
      std::istringstream parts(row.symbols);
      for (std::string part; parts >> part;) {
        has_row = has_row || symbol.find(part) != std::string::npos;
      }
    }
    EXPECT_TRUE(has_row) << symbol;
  }
}

}  // namespace
}  // namespace tjit
