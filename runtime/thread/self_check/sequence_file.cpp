// Reads and writes the files of tjit/sequence.h.
#include <torch/csrc/jit/serialization/pickle.h>
#include <torch/version.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "support/output_file.h"
#include "tjit/sequence.h"
#include "tjit/tjit.h"

namespace tjit {
namespace {

using c10::IValue;

constexpr char kMagic[] = "tjit sequence ";
constexpr int kFormat = 1;
// Flags of a tensor.
constexpr std::int64_t kNumber = 1, kConjugate = 2, kNegative = 4, kWritten = 8;

c10::impl::GenericList NewList() {
  return c10::impl::GenericList(c10::AnyType::get());
}

IValue ListOf(const std::vector<IValue>& items) {
  c10::impl::GenericList list = NewList();
  for (const IValue& item : items) list.push_back(item);
  return list;
}

// ---- To the payload.

IValue Pack(const SequenceTensor& t) {
  const std::int64_t flags =
      (t.is_number ? kNumber : 0) | (t.is_conjugate ? kConjugate : 0) |
      (t.is_negative ? kNegative : 0) | (t.is_written ? kWritten : 0);
  return ListOf({t.storage, static_cast<std::int64_t>(t.dtype), t.sizes,
                 t.strides, t.offset, flags});
}

IValue Pack(const std::vector<SequenceTensor>& tensors) {
  c10::impl::GenericList list = NewList();
  for (const SequenceTensor& t : tensors) list.push_back(Pack(t));
  return list;
}

IValue Pack(const SequenceCall& call) {
  c10::impl::GenericList arguments = NewList();
  for (const IValue& value : call.arguments) arguments.push_back(value);
  return ListOf({call.op, arguments, Pack(call.tensors), Pack(call.results),
                 call.has_grad_mode});
}

// Contents that several storages have are written once.
class Contents {
 public:
  std::int64_t IndexOf(const at::Tensor& content) {
    if (!content.defined()) return -1;
    for (std::size_t i = 0; i < all_.size(); ++i) {
      if (all_[i].is_same(content)) return static_cast<std::int64_t>(i);
    }
    all_.push_back(content);
    return static_cast<std::int64_t>(all_.size()) - 1;
  }
  IValue Pack() const {
    c10::impl::GenericList list = NewList();
    for (const at::Tensor& t : all_) list.push_back(t);
    return list;
  }

 private:
  std::vector<at::Tensor> all_;
};

IValue Pack(const SequenceRun& run, Contents* contents) {
  c10::impl::GenericList calls = NewList(), storages = NewList();
  for (const SequenceCall& call : run.calls) calls.push_back(Pack(call));
  for (const SequenceStorage& s : run.storages) {
    storages.push_back(ListOf(
        {s.bytes, contents->IndexOf(s.content), s.is_live, s.is_foreign}));
  }
  return ListOf({calls, storages});
}

std::string PayloadOf(const Sequence& sequence) {
  Contents contents;
  c10::impl::GenericList runs = NewList();
  for (const SequenceRun& run : sequence.runs) {
    runs.push_back(Pack(run, &contents));
  }
  const std::vector<char> bytes =
      torch::jit::pickle_save(ListOf({runs, contents.Pack()}));
  return {bytes.begin(), bytes.end()};
}

// ---- From the payload. THROW: c10::Error where it is none.

SequenceTensor UnpackTensor(const IValue& value) {
  const c10::ArrayRef<IValue> items = value.toListRef();
  TORCH_CHECK(items.size() == 6, "a tensor has six fields");
  SequenceTensor t;
  t.storage = items[0].toInt();
  t.dtype = static_cast<at::ScalarType>(items[1].toInt());
  t.sizes = items[2].toIntVector();
  t.strides = items[3].toIntVector();
  t.offset = items[4].toInt();
  const std::int64_t flags = items[5].toInt();
  t.is_number = (flags & kNumber) != 0;
  t.is_conjugate = (flags & kConjugate) != 0;
  t.is_negative = (flags & kNegative) != 0;
  t.is_written = (flags & kWritten) != 0;
  return t;
}

std::vector<SequenceTensor> UnpackTensors(const IValue& value) {
  std::vector<SequenceTensor> tensors;
  for (const IValue& t : value.toListRef()) tensors.push_back(UnpackTensor(t));
  return tensors;
}

SequenceCall UnpackCall(const IValue& value) {
  const c10::ArrayRef<IValue> items = value.toListRef();
  TORCH_CHECK(items.size() == 5, "a call has five fields");
  SequenceCall call;
  call.op = items[0].toStringRef();
  call.arguments = items[1].toListRef().vec();
  call.tensors = UnpackTensors(items[2]);
  call.results = UnpackTensors(items[3]);
  call.has_grad_mode = items[4].toBool();
  return call;
}

// A tensor lies within its storage.
void CheckTensor(const SequenceTensor& t, const SequenceRun& run) {
  if (t.storage == -1) return;
  const auto storages = static_cast<std::int64_t>(run.storages.size());
  TORCH_CHECK(t.storage >= 0 && t.storage < storages, "there are ", storages,
              " storages, and none of number ", t.storage);
  TORCH_CHECK(t.sizes.size() == t.strides.size() && t.offset >= 0 &&
                  t.dtype >= at::kByte && t.dtype < at::ScalarType::NumOptions,
              "a tensor has no form");
  std::int64_t last = t.offset;
  for (std::size_t d = 0; d < t.sizes.size(); ++d) {
    TORCH_CHECK(t.sizes[d] >= 0 && t.strides[d] >= 0,
                "a tensor has negative sizes");
    if (t.sizes[d] == 0) return;
    last += (t.sizes[d] - 1) * t.strides[d];
  }
  const std::int64_t bytes =
      run.storages[static_cast<std::size_t>(t.storage)].bytes;
  TORCH_CHECK(
      last < bytes / static_cast<std::int64_t>(at::elementSize(t.dtype)),
      "a tensor reaches behind its storage of ", bytes, " bytes");
}

SequenceRun UnpackRun(const IValue& value,
                      const c10::ArrayRef<IValue>& contents) {
  const c10::ArrayRef<IValue> items = value.toListRef();
  TORCH_CHECK(items.size() == 2, "a run has two fields");
  SequenceRun run;
  for (const IValue& one : items[1].toListRef()) {
    const c10::ArrayRef<IValue> fields = one.toListRef();
    TORCH_CHECK(fields.size() == 4, "a storage has four fields");
    SequenceStorage storage;
    storage.bytes = fields[0].toInt();
    const std::int64_t index = fields[1].toInt();
    TORCH_CHECK(index < static_cast<std::int64_t>(contents.size()),
                "there is no content of number ", index);
    if (index >= 0) {
      storage.content = contents[static_cast<std::size_t>(index)].toTensor();
      TORCH_CHECK(storage.content.numel() == storage.bytes &&
                      storage.content.scalar_type() == at::kByte,
                  "a storage has no content of its size");
    }
    storage.is_live = fields[2].toBool();
    storage.is_foreign = fields[3].toBool();
    run.storages.push_back(std::move(storage));
  }
  for (const IValue& one : items[0].toListRef()) {
    run.calls.push_back(UnpackCall(one));
    for (const SequenceTensor& t : run.calls.back().tensors) {
      CheckTensor(t, run);
    }
    for (const SequenceTensor& t : run.calls.back().results) {
      CheckTensor(t, run);
    }
  }
  return run;
}

void Unpack(std::string_view payload, Sequence* sequence) {
  const IValue root = torch::jit::pickle_load({payload.begin(), payload.end()});
  const c10::ArrayRef<IValue> items = root.toListRef();
  TORCH_CHECK(items.size() == 2, "it has two fields");
  for (const IValue& run : items[0].toListRef()) {
    sequence->runs.push_back(UnpackRun(run, items[1].toListRef()));
  }
  TORCH_CHECK(!sequence->runs.empty(), "it has no run");
  for (const SequenceRun& run : sequence->runs) {
    TORCH_CHECK(run.calls.size() == sequence->runs.back().calls.size(),
                "its runs have other calls");
  }
}

// ---- The header.

std::uint64_t HashOfBytes(std::string_view bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

std::string HeaderOf(const Sequence& sequence, const std::string& payload) {
  const std::string lines = absl::StrCat(
      kMagic, kFormat, "\ntorch ", absl::CEscape(sequence.torch), "\nversion ",
      absl::CEscape(sequence.tjit), "\nthreads ", sequence.threads, "\nfound ",
      absl::CEscape(sequence.found), "\nbytes ", payload.size(), "\n");
  return absl::StrCat(lines, "checksum ", HashOfBytes(lines + payload), "\n\n");
}

// What is behind "NAME " in the line that begins so; "" if there is none.
std::string Field(const std::vector<std::string>& lines,
                  std::string_view name) {
  for (const std::string& line : lines) {
    std::string_view rest = line;
    if (!rest.starts_with(name) || rest.size() <= name.size() ||
        rest[name.size()] != ' ') {
      continue;
    }
    std::string value;
    const std::string escaped(rest.substr(name.size() + 1));
    return absl::CUnescape(escaped, &value) ? value : "";
  }
  return "";
}

// Returns "" or what is wrong.
std::string Read(const std::string& bytes, Sequence* sequence) {
  if (bytes.empty()) return "is empty; nothing has been written to it";
  const std::string_view magic = kMagic;
  if (!std::string_view(bytes).starts_with(magic)) {
    const bool is_begin = magic.starts_with(bytes);
    return is_begin ? "is cut short: it ends in its first line"
                    : "is no file of a sequence; TJIT_SHADOW=1 writes them "
                      "into the folder that TJIT_REPRO_DIR names";
  }
  const std::size_t end = bytes.find("\n\n");
  const std::vector<std::string> lines =
      absl::StrSplit(bytes.substr(0, end), '\n');
  const std::string format = lines[0].substr(magic.size());
  if (end != std::string::npos && format != absl::StrCat(kFormat)) {
    return absl::StrCat("has format ", format, ", and this tjit reads format ",
                        kFormat, "; replay it by the tjit that wrote it");
  }
  if (end == std::string::npos) return "is cut short: its header has no end";
  std::uint64_t size = 0;
  if (!absl::SimpleAtoi(Field(lines, "bytes"), &size)) {
    return "is damaged: its header does not say how long it is";
  }
  const std::string payload = bytes.substr(end + 2);
  if (payload.size() < size) {
    return absl::StrCat("is cut short: ", payload.size(), " of ", size,
                        " bytes are there; copy it again");
  }
  sequence->torch = Field(lines, "torch");
  sequence->tjit = Field(lines, "version");
  sequence->found = Field(lines, "found");
  const bool has_threads =
      absl::SimpleAtoi(Field(lines, "threads"), &sequence->threads);
  if (!has_threads ||
      bytes.substr(0, end + 2) != HeaderOf(*sequence, payload)) {
    return "is damaged: its checksum is wrong; copy it again";
  }
  if (sequence->torch != TORCH_VERSION) {
    return absl::StrCat("was written with libtorch ", sequence->torch,
                        ", and this is libtorch " TORCH_VERSION
                        ": ops and their bits may differ; replay it by a tjit "
                        "for that one");
  }
  try {
    Unpack(payload, sequence);
  } catch (const std::exception& e) {
    const std::string what = e.what();
    return absl::StrCat("is damaged: ", what.substr(0, what.find('\n')));
  }
  return "";
}

}  // namespace

Sequence load_sequence(const std::string& path) {
  constexpr char kWho[] = "tjit::load_sequence";
  TORCH_CHECK(!std::filesystem::is_directory(path), kWho, ": ", path,
              ": cannot be read: it is a folder");
  std::ifstream file(path, std::ios::binary);
  TORCH_CHECK(file, kWho, ": ", path,
              ": cannot be read: ", std::strerror(errno));
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  TORCH_CHECK(!file.bad(), kWho, ": ", path,
              ": cannot be read: ", std::strerror(errno));
  Sequence sequence;
  const std::string wrong = Read(bytes, &sequence);
  TORCH_CHECK(wrong.empty(), kWho, ": ", path, " ", wrong);
  return sequence;
}

void save_sequence(const Sequence& sequence, const std::string& path) {
  Sequence whole = sequence;
  if (whole.torch.empty()) whole.torch = TORCH_VERSION;
  if (whole.tjit.empty()) whole.tjit = TJIT_VERSION;
  const std::string payload = PayloadOf(whole);
  const std::string why = WhyNotReplaced(path, kSequenceFile);
  TORCH_CHECK(why.empty(), "tjit::save_sequence: ", why);
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  TORCH_CHECK(file.good(), "tjit::save_sequence: ", path,
              ": cannot be written: ", std::strerror(errno));
  file << HeaderOf(whole, payload) << payload;
  file.close();
  if (file.good()) return;
  const int error = errno;
  std::remove(path.c_str());  // rather than half a file
  TORCH_CHECK(false, "tjit::save_sequence: ", path,
              ": cannot be written: ", std::strerror(error));
}

}  // namespace tjit
