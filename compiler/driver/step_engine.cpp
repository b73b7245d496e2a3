#include "compiler/driver/step_engine.h"

#include <algorithm>
#include <utility>

#include "compiler/driver/segment_compiler.h"
#include "compiler/driver/segment_dump.h"
#include "compiler/driver/segment_steps.h"
#include "compiler/lower/partition.h"

namespace tjit {
namespace {

class StepSegmentCompiler : public SegmentCompiler {
 public:
  StepSegmentCompiler(const SegmentInput& input, StepEngine* engine,
                      const CompileLimits& limits, SegmentDump* dump)
      : SegmentCompiler(input, limits, dump, /*finds_varied=*/false),
        engine_(engine) {}

  SegmentCode Run() {
    DescribeSteps();
    for (std::uint32_t s = 0; s < steps_.size(); ++s) {
      FindLowerable(s);
      // Loops want steps of equal extent together, graphs all that may be.
      steps_[s].elements = 0;
    }
    for (const PartitionItem& item : Partition(steps_)) {
      if (!item.is_group) {
        AddCalls(item.steps);
        continue;
      }
      for (const auto& part : ByContext(input_, item.steps)) AddStepGroup(part);
    }
    return std::move(code_);
  }

 private:
  bool CanCompile(std::uint32_t s) override {
    std::string why = engine_->WhyNotStep(MakeStepGroup({s}));
    return why.empty() || Fail({s}, std::move(why));
  }

  bool Fills(const StepRecord& /*record*/,
             std::int32_t /*slot*/) const override {
    return false;
  }

  // Steps that go alone may not go together: then in two groups.
  void AddStepGroup(const std::vector<std::uint32_t>& steps) {
    if (!KeepsLimits(steps)) return AddCalls(steps);
    CompiledGroup group;
    std::string why;
    if (CompileSteps(steps, &group, &why)) return Append(std::move(group));
    if (steps.size() == 1) {
      Fail(steps, std::move(why));
      return AddCalls(steps);
    }
    const auto half = steps.begin() + (steps.size() + 1) / 2;
    AddStepGroup({steps.begin(), half});
    AddStepGroup({half, steps.end()});
  }

  StepGroup MakeStepGroup(const std::vector<std::uint32_t>& steps) {
    StepGroup group;
    group.slots = GroupSlots(steps);
    for (const GroupSlot& slot : group.slots) {
      if (!slot.born_here) {
        group.externals.push_back(slot.slot);
      } else if (slot.needed_after) {
        group.returns.push_back(slot.slot);
      }
    }
    for (const std::uint32_t s : steps) {
      const SegmentStep& step = input_.steps[s];
      for (std::size_t i = 0; i < step.record.scalars.size(); ++i) {
        if (!step.record.scalars[i].IsRuntime()) continue;
        group.scalars.push_back({static_cast<std::int32_t>(group.steps.size()),
                                 static_cast<std::int32_t>(i)});
      }
      group.steps.push_back(&step);
    }
    return group;
  }

  bool CompileSteps(const std::vector<std::uint32_t>& steps,
                    CompiledGroup* group, std::string* why) {
    const StepGroup input = MakeStepGroup(steps);
    group->kernel = engine_->CompileSteps(input, why);
    if (group->kernel == nullptr) return false;
    if (dump_ != nullptr) {
      group->dump_number =
          dump_->AddStepGroup(steps, group->kernel->CodeText());
    }
    group->reads = input.externals;
    group->writes = input.returns;
    for (const std::int32_t slot : input.externals) {
      const auto writes = [&](std::uint32_t s) {
        const std::vector<std::int32_t>& w = steps_[s].writes;
        return std::find(w.begin(), w.end(), slot) != w.end();
      };
      if (std::any_of(steps.begin(), steps.end(), writes)) {
        group->writes.push_back(slot);
      }
    }
    group->memory = input.externals;
    group->memory.insert(group->memory.end(), input.returns.begin(),
                         input.returns.end());
    BindScalars(steps, input.scalars, group);
    ++code_.compiled;
    return true;
  }

  StepEngine* const engine_;
};

}  // namespace

SegmentCode StepEngine::CompileSegment(const SegmentInput& input,
                                       KernelCache* /*cache*/,
                                       const CompileLimits& limits,
                                       SegmentDump* dump) {
  return StepSegmentCompiler(input, this, limits, dump).Run();
}

std::string StepEngine::WhyNot(const ir::Function& /*function*/) {
  return "the engine takes steps";
}

std::shared_ptr<const Kernel> StepEngine::Compile(
    const ir::Function& /*function*/, std::string* why) {
  *why = "the engine takes steps";
  return nullptr;
}

}  // namespace tjit
