// Runs a row from packages of AOTInductor, as a program in C++ does.
//
// How: the folder that measure.py made has a package for each function of the
// row (NAME.pt2), tensors.pt (the state, then all inputs) and calls.txt:
//
//   state 9 1            the first nine tensors; 1: overwritten in place
//   calls_per_step 1
//   call first 9 10 11   a function and its inputs, behind the state
//   call token 12 13
//
// Calls go round that list. A function that works in place returns its outputs,
// others the new state before them. Prints {"samples": [microseconds a step]};
// with --results=FILE it runs --steps=N steps and writes the state, then the
// last outputs of each function, for measure.py to compare.
// Thread: one.
// Tested by: bench/peers/measure.py, which compares its results with eager's.
#include <ATen/Parallel.h>
#include <time.h>
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>
#include <torch/serialize.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <iterator>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace tjit::bench {
namespace {

using Tensors = std::vector<at::Tensor>;
using Package = torch::inductor::AOTIModelPackageLoader;

struct Function {
  std::string name;
  std::unique_ptr<Package> package;
  Tensors outputs;  // of the last call
};

struct Call {
  std::size_t function;
  Tensors inputs;
};

struct Program {
  Tensors state;
  bool in_place = false;
  double calls_per_step = 1;
  std::vector<Function> functions;  // in the order of their first calls
  std::vector<Call> calls;
};

std::vector<char> ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::size_t FunctionOf(const std::string& name, const std::string& folder,
                       Program& program) {
  auto& all = program.functions;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].name == name) return i;
  }
  all.push_back({name,
                 std::make_unique<Package>(folder + "/" + name + ".pt2",
                                           "model",
                                           /*run_single_threaded=*/true),
                 {}});
  return all.size() - 1;
}

Program Read(const std::string& folder) {
  Program program;
  Tensors tensors;
  const at::IValue saved =
      torch::pickle_load(ReadFile(folder + "/tensors.pt"));
  for (const at::IValue& value : saved.toListRef()) {
    tensors.push_back(value.toTensor());
  }
  const std::vector<char> text = ReadFile(folder + "/calls.txt");
  std::istringstream lines(std::string(text.begin(), text.end()));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string kind, name;
    words >> kind;
    if (kind == "state") {
      std::size_t count = 0;
      words >> count >> program.in_place;
      program.state.assign(tensors.begin(),
                           tensors.begin() + static_cast<long>(count));
    } else if (kind == "calls_per_step") {
      words >> program.calls_per_step;
    } else {
      words >> name;
      Call call{FunctionOf(name, folder, program), {}};
      for (std::size_t at = 0; words >> at;) {
        call.inputs.push_back(tensors.at(at));
      }
      program.calls.push_back(std::move(call));
    }
  }
  if (program.calls.empty()) throw std::runtime_error("no calls: " + folder);
  return program;
}

void Run(const Call& call, Program& program) {
  Function& function = program.functions[call.function];
  Tensors arguments;
  arguments.reserve(program.state.size() + call.inputs.size());
  arguments.insert(arguments.end(), program.state.begin(),
                   program.state.end());
  arguments.insert(arguments.end(), call.inputs.begin(), call.inputs.end());
  function.outputs = function.package->boxed_run(std::move(arguments));
  if (program.in_place || program.state.empty()) return;
  const auto end = function.outputs.begin() +
                   static_cast<long>(program.state.size());
  std::move(function.outputs.begin(), end, program.state.begin());
  function.outputs.erase(function.outputs.begin(), end);
}

void WriteResults(Program& program, std::size_t steps,
                  const std::string& path) {
  const auto count = static_cast<std::size_t>(
      static_cast<double>(steps) * program.calls_per_step);
  for (std::size_t i = 0; i < count; ++i) {
    Run(program.calls[i % program.calls.size()], program);
  }
  std::vector<at::IValue> results = {program.state};
  for (const Function& function : program.functions) {
    results.emplace_back(function.outputs);
  }
  const std::vector<char> bytes =
      torch::pickle_save(c10::ivalue::Tuple::create(std::move(results)));
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!file.flush()) throw std::runtime_error("cannot write " + path);
}

// Seconds of the wall's clock, or of the processor's for this process.
double Seconds(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) +
         1e-9 * static_cast<double>(now.tv_nsec);
}

// Seconds that `rounds` times all calls take.
double Take(Program& program, long rounds, clockid_t clock) {
  const double start = Seconds(clock);
  for (long i = 0; i < rounds; ++i) {
    for (const Call& call : program.calls) Run(call, program);
  }
  return Seconds(clock) - start;
}

// Rounds that take `seconds`, found within the warm-up.
long RoundsOf(Program& program, double seconds, clockid_t clock) {
  constexpr double kWarmUp = 0.3;
  long rounds = 1;
  for (double all = 0; all < kWarmUp;) {
    const double took = Take(program, rounds, clock);
    all += took;
    const double missing = seconds / std::max(took, 1e-9);
    if (missing > 1) {
      rounds = static_cast<long>(
                   static_cast<double>(rounds) * std::min(missing, 10.0)) +
               1;
    }
  }
  return rounds;
}

void Measure(Program& program, int repetitions, double seconds,
             clockid_t clock) {
  const long rounds = RoundsOf(program, seconds, clock);
  const double steps = static_cast<double>(rounds) *
                       static_cast<double>(program.calls.size()) /
                       program.calls_per_step;
  std::string text;
  for (int i = 0; i < repetitions; ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(1e6 * Take(program, rounds, clock) / steps);
  }
  std::printf("{\"samples\": [%s]}\n", text.c_str());
}

int Main(int argc, char** argv) {
  std::string results;
  std::size_t steps = 1;
  int repetitions = 5;
  double seconds = 0.04;
  clockid_t clock = CLOCK_MONOTONIC;
  for (int i = 2; i + 1 < argc; i += 2) {
    const std::string_view name = argv[i];
    if (name == "--results") results = argv[i + 1];
    if (name == "--steps") steps = std::strtoul(argv[i + 1], nullptr, 10);
    if (name == "--repetitions") repetitions = std::atoi(argv[i + 1]);
    if (name == "--min-time") seconds = std::atof(argv[i + 1]);
    if (name == "--clock" && argv[i + 1] == std::string_view("processor")) {
      clock = CLOCK_PROCESS_CPUTIME_ID;
    }
  }
  if (argc < 2 || argc % 2 != 0) {
    std::fprintf(stderr,
                 "bench_aoti FOLDER [--repetitions N] [--min-time S] "
                 "[--clock wall|processor] or "
                 "[--steps N --results FILE]\n");
    return 2;
  }
  at::set_num_threads(1);
  const c10::InferenceMode inference;
  Program program = Read(argv[1]);
  if (!results.empty()) {
    WriteResults(program, steps, results);
  } else {
    Measure(program, repetitions, seconds, clock);
  }
  return 0;
}

}  // namespace
}  // namespace tjit::bench

int main(int argc, char** argv) {
  try {
    return tjit::bench::Main(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
    return 1;
  }
}
