// Prints steps and traces in a form that people read and tests compare.
//
//   trace 3 ops=2 slots=4 key=9f3a26c1d0e47b58
//     s0: external 1024 bytes
//     s1: external 128 bytes
//     s2: born %0 512 bytes
//     s3: external 4 bytes
//     %0 aten::mm(s0 f32[32,8], s1 f32[8,4]) -> s2 f32[32,4]
//     %1 aten::add_.Tensor(s2! f32[32,4], s3 f32[]) {i:1~#0} -> arg 0
//
// `!` written in place; a tensor that is not contiguous has strides and
// offset: f32[8,4](1,8)+16; `-` undefined; `empty f32[0]` a result without
// elements, which has no slot; `<1,ff>` static arguments, hex;
// `{d:0.5~#7}` scalars: bits that are guarded, or `~` may vary within class
// 7, `*` did vary; `@3` context, where it is not that of the step before;
// `call` runs at the call; `'` a wrapped number; `ks=` the key set, where it
// is not that of the tensor before. A slot that was named (tjit::name) says so
// in its line, and behind its number: `s1: external 128 bytes called
// layer1.weight` and `s1:layer1.weight f32[8,4]`, in the form of
// printed_name.h. The same steps give the same text: no addresses, no counters
// that move. The text parses back to the same text: see trace_parse.h.
// Tested by: tests/recorder/trace_text_test.cpp
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "recorder/trace_node.h"

namespace tjit {

// "f32", "bool"; "t37" for a dtype without a name here.
std::string DtypeName(std::uint8_t dtype);
// The way back. False if there is no such name.
bool DtypeByName(std::string_view name, std::uint8_t* dtype);

// "f32[32,8]" and what is not ordinary about it.
std::string ToText(const TensorGeometry& geometry);
// "0.25", "3", "true".
std::string PlainText(const ScalarValue& value);

// One line for each slot and step. `names`: of the slots, by index; empty ones,
// and those behind its end, have none.
std::string ToText(const std::vector<const StepRecord*>& steps,
                   const std::vector<SlotRecord>& slots,
                   const std::vector<std::string>& names = {});

// With the header line. REQUIRES: `path` is one of the trace's paths.
std::string ToText(const Trace& trace,
                   const std::vector<const TraceNode*>& path);

// Steps and slots of a path, for the functions above and the verifier.
std::vector<const StepRecord*> StepsOf(
    const std::vector<const TraceNode*>& path);
std::vector<SlotRecord> SlotsOf(const std::vector<const TraceNode*>& path);

}  // namespace tjit
