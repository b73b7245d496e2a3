// What TJIT_DUMP shows of one segment: collects sections while the segment is
// compiled, writes them at the end.
//
//   ; ==== segment 1 trace
//     s0: external 1024 bytes ...
//   ; ==== segment 1 group 1 lowered
//   ; group of %0 aten::mul.Tensor, %2 aten::relu
//   ; name %0 = s0
//   func f(n0) { ...
//   ; ==== segment 1 group 1 pass fold
//   (unchanged)
//
// Where tensors were named (tjit::name), the trace says so, and the names of
// externals and returned values begin so: `; name %0 = layer1.weight (s0)`.
//
// A heading begins with `; ====`; functions parse back (ir_text.h). Names of
// externals, returned values, symbols and scalars hold in all sections of the
// group. dump_reader.h reads it.
// Thread: one. Tested by: tests/compiler/driver/segment_code_test.cpp
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/driver/segment.h"
#include "compiler/lower/group.h"
#include "compiler/program/executable.h"
#include "support/dump_file.h"

namespace tjit {

class SegmentDump {
 public:
  // Both outlive it.
  SegmentDump(DumpFile* file, const SegmentInput& input);
  ~SegmentDump();
  SegmentDump(const SegmentDump&) = delete;
  SegmentDump& operator=(const SegmentDump&) = delete;

  int number() const { return number_; }
  // "segment 1 group 2": the group begun last.
  std::string where() const;

  // Returns its number. `steps`: indices into the input's.
  int BeginGroup(const std::vector<std::uint32_t>& steps,
                 const Lowered& lowered);
  // The same for an engine over steps, with what it made of them.
  int AddStepGroup(const std::vector<std::uint32_t>& steps,
                   std::string_view graph);
  void AddPass(const std::string& pass, const ir::Function& before,
               const ir::Function& after);
  // Behind all passes, and its loops.
  void AddFinal(const ir::Function& function);
  // What the engine made of it.
  void AddCode(std::string_view code);
  // The group has the kernel of another one.
  void AddReuse(const std::string& where);
  void AddFailure(const std::vector<std::uint32_t>& steps,
                  const std::string& why);
  // The group had no room for its sizes, and is cut in two.
  void AddCut(const std::vector<std::uint32_t>& steps, const std::string& why);

 private:
  void Heading(const std::string& title);
  void AddSteps(const char* what, const std::vector<std::uint32_t>& steps,
                const std::string& why);
  void AddTrace();
  std::string SlotText(std::int32_t slot) const;
  std::string GroupText(const std::vector<std::uint32_t>& steps) const;
  void AddNames(const std::vector<std::uint32_t>& steps,
                const Lowered& lowered);

  DumpFile* const file_;
  const SegmentInput& input_;
  const int number_;
  int groups_ = 0;
  std::string names_;  // of the group, until they are written
  std::string text_;
};

// The section "segment 1 plan": what runs, in order (a line each), and where
// its values and the scratch of groups lie. What library calls need besides is
// learned as they run: `plan` is one without. REQUIRES: file->Wants(kDumpPlan).
void DumpPlan(DumpFile* file, int number, const std::vector<std::string>& items,
              const MemoryPlan& plan);

// A name for people, made of the ops of the function: "mul_add_relu".
std::string KernelName(const ir::Function& function);

}  // namespace tjit
