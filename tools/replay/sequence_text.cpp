#include "tools/replay/sequence_text.h"

#include <c10/core/ScalarType.h>

#include <sstream>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tjit::tools {
namespace {

bool IsWhole(const SequenceTensor& t) {
  std::int64_t stride = 1;
  for (std::size_t d = t.sizes.size(); d-- > 0;) {
    if (t.sizes[d] != 1 && t.strides[d] != stride) return false;
    stride *= t.sizes[d];
  }
  return t.offset == 0;
}

std::string ValueText(const c10::IValue& value, const SequenceCall& call) {
  if (value.isTensor()) {
    const auto i =
        static_cast<std::size_t>(value.toTensor().item<std::int64_t>());
    return i < call.tensors.size() ? TextOf(call.tensors[i]) : "?";
  }
  if (value.isList()) {
    std::vector<std::string> all;
    for (const c10::IValue& one : value.toListRef()) {
      all.push_back(ValueText(one, call));
    }
    return absl::StrCat("[", absl::StrJoin(all, ", "), "]");
  }
  std::ostringstream text;
  text.precision(17);
  text << value;
  return text.str();
}

}  // namespace

std::string TextOf(const SequenceTensor& tensor) {
  if (tensor.storage < 0) return "-";
  std::string text =
      absl::StrCat("s", tensor.storage, tensor.is_written ? "! " : " ",
                   absl::AsciiStrToLower(c10::toString(tensor.dtype)), "[",
                   absl::StrJoin(tensor.sizes, ","), "]");
  if (!IsWhole(tensor)) {
    absl::StrAppend(&text, "(", absl::StrJoin(tensor.strides, ","), ")+",
                    tensor.offset);
  }
  if (tensor.is_number) text += " number";
  if (tensor.is_conjugate) text += " conjugate";
  if (tensor.is_negative) text += " negative";
  return text;
}

std::string TextOf(const SequenceRun& run) {
  std::string text;
  for (std::size_t s = 0; s < run.storages.size(); ++s) {
    const SequenceStorage& storage = run.storages[s];
    absl::StrAppend(&text, "  s", s, ": ", storage.bytes, " bytes",
                    storage.content.defined() ? ", given" : ", made",
                    storage.is_foreign ? ", not libtorch's memory" : "",
                    storage.is_live ? "" : ", dropped", "\n");
  }
  for (std::size_t c = 0; c < run.calls.size(); ++c) {
    const SequenceCall& call = run.calls[c];
    std::vector<std::string> arguments, results;
    for (const c10::IValue& value : call.arguments) {
      arguments.push_back(ValueText(value, call));
    }
    for (const SequenceTensor& t : call.results) {
      if (t.storage >= 0) results.push_back(TextOf(t));
    }
    absl::StrAppend(
        &text, "  %", c, " ", call.op, "(", absl::StrJoin(arguments, ", "), ")",
        results.empty() ? "" : " -> ", absl::StrJoin(results, ", "), "\n");
  }
  return text;
}

}  // namespace tjit::tools
