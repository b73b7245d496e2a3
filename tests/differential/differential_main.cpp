// The tool: differential --seeds 0..10000 --engine tier1 --jobs 1
//
//   --engine eager|tier1|interpreter|llvm|plain|torchscript|drain|exit|
//            threads
//                                             what is compared with eager
//   --family NAME               only programs of this family
//   --max-drains N              at most N drains per program
//   --iterations N              of each loop, instead of the program's own
//   --defect NAME               plant a defect (runtime/testing.h)
//   --coverage                  print which ops ran in compiled groups
//                               (coverage.h has the letters)
//   --print                     print the programs, run nothing
//   --program FILE              this one instead of seeds (program_text.h)
//   --shrink                    print failing programs shrunk
//   --write FOLDER              and write them there, with what was recorded
//   --stop-after N              end after N failures
//   --stats                     print the counters of each hot phase
//   --verbose                   one line per program
// Exit status: 0 no difference, 1 some, 2 wrong arguments.
#include <c10/util/Exception.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/differential/driver.h"
#include "tests/differential/families.h"
#include "tests/differential/generator.h"
#include "tests/differential/program_text.h"

namespace tjit::differential {
namespace {

struct Arguments {
  DriverConfig config;
  bool print = false;
  bool shrink = false;
  std::string folder;   // of shrunk programs
  std::string program;  // a file
  bool verbose = false;
  std::int64_t stop_after = 20;
};

// "a..b", or "a" for one.
bool ParseSeeds(const std::string& text, DriverConfig& config) {
  char* end = nullptr;
  config.first = std::strtoull(text.c_str(), &end, 10);
  config.last = config.first + 1;
  if (std::string(end).rfind("..", 0) == 0) {
    config.last = std::strtoull(end + 2, &end, 10);
  }
  return *end == '\0' && !text.empty();
}

bool ParseOne(const std::string& name, const std::string& value,
              Arguments& arguments) {
  DriverConfig& config = arguments.config;
  if (name == "--seeds") return ParseSeeds(value, config);
  if (name == "--engine") return ParseEngine(value, config.engine);
  if (name == "--jobs") config.jobs = std::atoi(value.c_str());
  if (name == "--max-drains") config.max_drains = std::atoi(value.c_str());
  if (name == "--defect") config.defect = value;
  if (name == "--iterations") config.iterations = std::atoi(value.c_str());
  if (name == "--stop-after") arguments.stop_after = std::atoi(value.c_str());
  if (name == "--program") arguments.program = value;
  if (name == "--write") {
    arguments.folder = value;
    arguments.shrink = true;
  }
  if (name == "--family") {
    config.family = FamilyIndex(value);
    return config.family >= 0;
  }
  return name == "--jobs" || name == "--max-drains" || name == "--defect" ||
         name == "--iterations" || name == "--stop-after" ||
         name == "--program" || name == "--write";
}

bool Parse(int argc, char** argv, Arguments& arguments) {
  for (int i = 1; i < argc; ++i) {
    std::string name = argv[i];
    if (name == "--print") {
      arguments.print = true;
    } else if (name == "--shrink") {
      arguments.shrink = true;
    } else if (name == "--stats") {
      arguments.config.print_stats = true;
    } else if (name == "--coverage") {
      arguments.config.covers = true;
    } else if (name == "--verbose") {
      arguments.verbose = true;
    } else if (i + 1 >= argc || !ParseOne(name, argv[++i], arguments)) {
      std::fprintf(stderr, "differential: cannot use %s\n", name.c_str());
      return false;
    }
  }
  return arguments.config.jobs > 0;
}

int Print(const DriverConfig& config) {
  for (std::uint64_t seed = config.first; seed < config.last; ++seed) {
    if (config.family >= 0 && FamilyOf(seed) != config.family) continue;
    std::printf("%s\n", GenerateProgram(seed).ToString().c_str());
  }
  return 0;
}

int RunFile(const Arguments& arguments) {
  Program program;
  try {
    program = ReadProgram(arguments.program);
  } catch (const c10::Error& e) {
    std::fprintf(stderr, "differential: %s\n", e.what_without_backtrace());
    return 2;
  }
  const SeedResult result = RunAlone(arguments.config, program);
  const bool is_same = result.status == SeedResult::Status::kSame;
  std::printf("%s: %s, %.2f of %lld hot ops in the engine\n",
              arguments.program.c_str(),
              is_same ? "no difference" : result.detail.c_str(), result.share,
              static_cast<long long>(result.ops));
  return is_same ? 0 : 1;
}

int Main(int argc, char** argv) {
  Arguments arguments;
  if (!Parse(argc, argv, arguments)) return 2;
  if (!arguments.program.empty()) return RunFile(arguments);
  if (arguments.print) return Print(arguments.config);
  std::int64_t failed = 0;
  Summary summary =
      RunSeeds(arguments.config, [&](const SeedResult& result) {
        if (arguments.verbose) {
          std::printf("seed %llu %s: %.2f of %lld\n",
                      static_cast<unsigned long long>(result.seed),
                      Families()[FamilyOf(result.seed)].name.data(),
                      result.share, static_cast<long long>(result.ops));
        }
        return result.status == SeedResult::Status::kSame ||
               ++failed < arguments.stop_after;
      });
  for (const SeedResult& result : summary.failures) {
    std::printf("%s\n", Report(arguments.config, result, arguments.shrink,
                               arguments.folder)
                            .c_str());
  }
  if (arguments.config.covers) {
    std::printf("%s", ToString(summary.coverage).c_str());
  }
  std::printf("%s\n", summary.ToString().c_str());
  return summary.failed > 0 ? 1 : 0;
}

}  // namespace
}  // namespace tjit::differential

int main(int argc, char** argv) {
  return tjit::differential::Main(argc, argv);
}
