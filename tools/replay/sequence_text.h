// A sequence as text: one line for each call.
//
//   %0 aten::mul.Tensor(s0 float[4], s1 double[] number) -> s2 float[4]
//
// `!` written in place; strides and offset only where the tensor does not lie
// one element behind the other from the beginning of its storage.
// Thread: any. Tested by: tests/acceptance/replay_command_test.py
#pragma once

#include <tjit/sequence.h>

#include <string>

namespace tjit::tools {

// "s0 float[4,3](1,4)+16".
std::string TextOf(const SequenceTensor& tensor);
// With a line for each storage in front.
std::string TextOf(const SequenceRun& run);

}  // namespace tjit::tools
