#include "runtime/thread/functions/package_file.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/empty.h>
#include <c10/core/ScalarType.h>
#include <torch/csrc/jit/passes/canonicalize.h>
#include <torch/csrc/jit/serialization/import.h>
#include <torch/csrc/jit/serialization/pickle.h>
#include <torch/version.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "runtime/thread/functions/function_graph.h"
#include "tjit/tjit.h"

namespace tjit::runtime {
namespace {

namespace jit = torch::jit;

constexpr char kManifest[] = "tjit_manifest", kExample[] = "tjit_example",
               kCode[] = "tjit_code";
constexpr char kMagic[] = "tjit-package";
constexpr int kFormat = 1;
constexpr std::uint64_t kSeed = 20260727;

std::uint64_t HashOfBytes(std::string_view bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

// ---- The manifest.

std::string Fields(const PackageTensor& form) {
  return absl::StrCat(static_cast<int>(form.dtype), "\t",
                      absl::StrJoin(form.sizes, ","), "\t",
                      absl::StrJoin(form.strides, ","));
}

bool ParseInts(const std::string& text, std::vector<std::int64_t>* ints) {
  for (const absl::string_view one :
       absl::StrSplit(text, ',', absl::SkipEmpty())) {
    if (!absl::SimpleAtoi(one, &ints->emplace_back())) return false;
  }
  return true;
}

using Words = std::vector<std::string>;

bool ParseForm(const Words& words, std::size_t at, PackageTensor* form) {
  int dtype = 0;
  if (words.size() < at + 3 || !absl::SimpleAtoi(words[at], &dtype) ||
      dtype < 0 || dtype >= static_cast<int>(at::ScalarType::NumOptions) ||
      !ParseInts(words[at + 1], &form->sizes) ||
      !ParseInts(words[at + 2], &form->strides)) {
    return false;
  }
  form->dtype = static_cast<at::ScalarType>(dtype);
  return form->sizes.size() == form->strides.size();
}

// One line; false if it is none.
bool ParseLine(const Words& words, PackageInfo* info, std::uint64_t* graph,
               std::uint64_t* example) {
  const std::string& kind = words[0];
  if (words.size() < 2) return false;
  if (kind == "name") return absl::CUnescape(words[1], &info->name);
  if (kind == "torch") return absl::CUnescape(words[1], &info->torch);
  if (kind == "structure") return absl::CUnescape(words[1], &info->structure);
  if (kind == "graph") return absl::SimpleAtoi(words[1], graph);
  if (kind == "example") {
    info->has_example = true;
    return absl::SimpleAtoi(words[1], example);
  }
  if (kind == "number" && words.size() == 3) {
    PackageArgument& number = info->arguments.emplace_back();
    number.name = words[1];
    number.is_tensor = false;
    number.is_free = words[2] == "free";
    return true;
  }
  if (kind == "argument" && words.size() == 5) {
    PackageArgument& tensor = info->arguments.emplace_back();
    tensor.name = words[1];
    return ParseForm(words, 2, &tensor);
  }
  if (kind != "tensor" || words.size() != 8) return false;
  PackageState& tensor = info->tensors.emplace_back();
  tensor.name = words[1];
  tensor.is_given = words[5] == "given";
  tensor.is_written = words[6] == "written";
  return ParseForm(words, 2, &tensor) &&
         absl::SimpleAtoi(words[7], &tensor.hash);
}

// ---- The example.

std::string BytesOf(const PackageExample& example) {
  const std::vector<char> bytes = jit::pickle_save(c10::ivalue::Tuple::create(
      c10::IValue(example.tensors), c10::IValue(example.numbers),
      c10::IValue(example.results)));
  return {bytes.begin(), bytes.end()};
}

PackageExample ExampleOf(const std::string& bytes) {
  const auto parts =
      jit::pickle_load({bytes.begin(), bytes.end()}).toTuple()->elements();
  return {parts.at(0).toTensorVector(), parts.at(1).toDoubleVector(),
          parts.at(2).toTensorVector()};
}

// As far as one libtorch prints it alike each time.
std::uint64_t HashOfGraph(const jit::Module& module) {
  std::string text;
  for (const char* method : {"forward", "ops"}) {
    absl::StrAppend(&text,
                    jit::Canonicalize(module.get_method(method).graph(), false)
                        ->toString(/*print_source_locations=*/false));
  }
  return HashOfBytes(text);
}

// "" or which tensor of the module is not that of the manifest.
std::string CheckTensors(const PackageFile& file) {
  const auto tensors = TensorsOf(file.module);
  for (const PackageState& state : file.info.tensors) {
    const auto at =
        std::find_if(tensors.begin(), tensors.end(),
                     [&](const auto& t) { return t.first == state.name; });
    if (at == tensors.end() ||
        (!state.is_given && HashOf(at->second) != state.hash)) {
      return absl::StrCat("is damaged: tensor ", state.name, " is ",
                          at == tensors.end() ? "missing" : "another one");
    }
  }
  return "";
}

// Reads what libtorch would only read while the module runs.
void ReadSourceRanges(const jit::Module& module) {
  for (const jit::Method& method : module.get_methods()) {
    for (const jit::Node* node : method.graph()->nodes()) {
      node->sourceRange().findSourceRangeThatGenerated();
    }
  }
}

// What libtorch says of a file, without where in libtorch.
std::string FirstLine(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

std::string Read(const std::string& path, PackageFile* file) {
  if (access(path.c_str(), R_OK) != 0) {
    return absl::StrCat("cannot be read: ", std::strerror(errno));
  }
  jit::ExtraFilesMap parts = {{kManifest, ""}, {kExample, ""}, {kCode, ""}};
  try {
    file->module = jit::load(path, c10::kCPU, parts);
    ReadSourceRanges(file->module);
  } catch (const c10::Error& e) {
    return absl::StrCat("is damaged, or no package: ",
                        FirstLine(e.what_without_backtrace()));
  } catch (const std::exception& e) {
    return absl::StrCat("is damaged, or no package: ", FirstLine(e.what()));
  }
  const std::string& manifest = parts[kManifest];
  if (manifest.empty()) {
    return "is a module of TorchScript and no package; torch::jit::load() "
           "opens it, tjit::save_package() writes packages";
  }
  std::uint64_t graph = 0, example = 0;
  std::string error = ReadManifest(manifest, &file->info, &graph, &example);
  if (!error.empty()) return error;
  // Another libtorch may print it otherwise.
  if (file->info.torch == TORCH_VERSION && HashOfGraph(file->module) != graph) {
    return "is damaged: its ops are not those that were saved";
  }
  error = CheckTensors(*file);
  if (!error.empty()) return error;
  if (file->info.has_example) {
    if (HashOfBytes(parts[kExample]) != example) {
      return "is damaged: its example is not the one that was saved";
    }
    file->example = ExampleOf(parts[kExample]);
  }
  error = cache::ParseEntries(parts[kCode], &file->code);
  for (const auto& [name, bytes] : file->code) {
    const std::string target = cache::TargetOf(name, bytes);
    if (!target.empty()) file->info.code[target] += bytes.size();
  }
  return error.empty() ? "" : "is damaged: " + error;
}

}  // namespace

std::string WriteManifest(const PackageInfo& info, std::uint64_t graph,
                          std::uint64_t example) {
  std::string text =
      absl::StrCat(kMagic, "\t", kFormat, "\nname\t", absl::CEscape(info.name),
                   "\ntorch\t", absl::CEscape(info.torch), "\n");
  if (!info.structure.empty()) {
    absl::StrAppend(&text, "structure\t", absl::CEscape(info.structure), "\n");
  }
  for (const PackageArgument& a : info.arguments) {
    if (a.is_tensor) {
      absl::StrAppend(&text, "argument\t", a.name, "\t", Fields(a), "\n");
    } else {
      absl::StrAppend(&text, "number\t", a.name, "\t",
                      a.is_free ? "free" : "fixed", "\n");
    }
  }
  for (const PackageState& t : info.tensors) {
    absl::StrAppend(&text, "tensor\t", t.name, "\t", Fields(t), "\t",
                    t.is_given ? "given" : "inside", "\t",
                    t.is_written ? "written" : "read", "\t", t.hash, "\n");
  }
  absl::StrAppend(&text, "graph\t", graph, "\n");
  if (info.has_example) absl::StrAppend(&text, "example\t", example, "\n");
  return absl::StrCat(text, "end\t", HashOfBytes(text), "\n");
}

std::string ReadManifest(const std::string& text, PackageInfo* info,
                         std::uint64_t* graph, std::uint64_t* example) {
  const Words lines = absl::StrSplit(text, '\n');
  const Words first = absl::StrSplit(lines[0], '\t');
  int format = 0;
  if (first.size() == 2 && first[0] == kMagic &&
      absl::SimpleAtoi(first[1], &format) && format != kFormat) {
    return absl::StrCat("has format ", format, ", and this tjit reads format ",
                        kFormat,
                        "; save it again by this tjit, or load it by "
                        "the one that saved it");
  }
  const std::size_t end = text.rfind("end\t");
  if (format != kFormat || end == std::string::npos ||
      text.substr(end) !=
          absl::StrCat("end\t", HashOfBytes(std::string_view(text).substr(0, end)),
                       "\n")) {
    return "is damaged: the checksum of its manifest is wrong";
  }
  for (std::size_t i = 1; i + 2 < lines.size(); ++i) {
    if (!ParseLine(absl::StrSplit(lines[i], '\t'), info, graph, example)) {
      return absl::StrCat("is damaged: line ", i + 1,
                          " of its manifest is none: ", lines[i]);
    }
  }
  return "";
}

PackageFile ReadPackage(const char* who, const std::string& path) {
  PackageFile file;
  const std::string error = Read(path, &file);
  TORCH_CHECK(error.empty(), who, ": ", path, " ", error);
  return file;
}

void WritePackage(const char* who, const std::string& path,
                  const PackageFile& file) {
  sync();  // what is read below without an op
  const std::string example =
      file.info.has_example ? BytesOf(file.example) : "";
  jit::ExtraFilesMap parts = {{kExample, example},
                              {kCode, cache::JoinEntries(file.code)}};
  // Of what is read back, as whoever loads it does.
  std::istringstream without(runtime::BytesOf(file.module, {}));
  const std::uint64_t graph = HashOfGraph(jit::load(without, c10::kCPU));
  parts[kManifest] = WriteManifest(file.info, graph, HashOfBytes(example));
  const std::string bytes = runtime::BytesOf(file.module, parts);
  CheckReadBack(bytes, file.module);
  WriteBytes(who, path, bytes);
}

std::uint64_t HashOf(const at::Tensor& tensor) {
  const at::NoGradGuard no_grad;
  const at::Tensor whole = tensor.detach().contiguous();
  sync();  // it is read without an op
  return HashOfBytes({static_cast<const char*>(whole.const_data_ptr()), whole.nbytes()});
}

PackageTensor FormOf(std::string name, const at::Tensor& tensor) {
  return {std::move(name), tensor.scalar_type(), tensor.sizes().vec(),
          tensor.strides().vec()};
}

std::string TextOf(const PackageTensor& form) {
  return absl::StrCat(c10::toString(form.dtype), " with sizes [",
                      absl::StrJoin(form.sizes, ", "), "] and strides [",
                      absl::StrJoin(form.strides, ", "), "]");
}

std::vector<std::pair<std::string, at::Tensor>> TensorsOf(
    const jit::Module& module) {
  std::vector<std::pair<std::string, at::Tensor>> tensors;
  for (const auto& p : module.named_parameters()) {
    tensors.emplace_back(p.name, p.value);
  }
  for (const auto& b : module.named_buffers()) {
    tensors.emplace_back(b.name, b.value);
  }
  return tensors;
}

void SetTensor(const jit::Module& module, const std::string& name,
               const at::Tensor& tensor) {
  std::vector<std::string> path = absl::StrSplit(name, '.');
  jit::Module owner = module;
  for (std::size_t i = 0; i + 1 < path.size(); ++i) {
    owner = owner.attr(path[i]).toModule();
  }
  owner.setattr(path.back(), tensor);
}

std::vector<at::Tensor> CallModule(
    jit::Module* module, const std::vector<PackageArgument>& arguments,
    const std::vector<at::Tensor>& tensors,
    const std::vector<double>& numbers) {
  const at::NoGradGuard no_grad;
  std::vector<c10::IValue> inputs;
  std::size_t tensor = 0, number = 0;
  for (const PackageArgument& a : arguments) {
    if (a.is_tensor) {
      inputs.emplace_back(tensors[tensor++]);
    } else {
      inputs.emplace_back(numbers[number++]);
    }
  }
  const c10::IValue result = module->forward(std::move(inputs));
  std::vector<at::Tensor> results;
  if (result.isTensor()) {
    results.push_back(result.toTensor());
  } else if (result.isTuple()) {
    for (const c10::IValue& one : result.toTupleRef().elements()) {
      results.push_back(one.toTensor());
    }
  }
  return results;
}

SeededForExample::SeededForExample()
    : before_(at::detail::getDefaultCPUGenerator().get_state()) {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_current_seed(kSeed);
}

SeededForExample::~SeededForExample() {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  generator.set_state(before_);
}

}  // namespace tjit::runtime
