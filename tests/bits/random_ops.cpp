#include "tests/bits/random_ops.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace tjit::bits {
namespace {

using at::Tensor;
using torch::jit::Stack;

Stack Of(std::initializer_list<c10::IValue> arguments) { return arguments; }

// ---- Tensors of a form. They do not draw: a range, folded.

Tensor Range(const RandomForm& f) {
  return at::arange(f.n, at::kDouble).mul_(0.37).remainder_(4);
}
Tensor Numbers(const RandomForm& f) {  // -2 to 2
  return Range(f).sub_(2).to(f.type);
}
Tensor Chances(const RandomForm& f) {  // 0.05 to 0.95
  return Range(f).mul_(0.225).add_(0.05).to(f.type);
}
Tensor Positive(const RandomForm& f) {  // 0.5 to 4.5
  return Range(f).add_(0.5).to(f.type);
}
Tensor Target(const RandomForm& f) {
  return at::zeros({f.n}, at::TensorOptions(f.type));
}

c10::IValue Sizes(const RandomForm& f) {
  return std::vector<std::int64_t>{f.n};
}
c10::IValue Type(const RandomForm& f) {
  return static_cast<std::int64_t>(f.type);
}
const c10::IValue kNone;
c10::IValue OwnGenerator() {
  return at::make_generator<at::CPUGeneratorImpl>(11);
}

// ---- The ops

using Table = std::vector<RandomOp>;

// In place, and the functional and out= forms of the same schema.
void AddFill(Table& t, const std::string& name, const std::string& overload,
             std::vector<c10::IValue> numbers) {
  const auto with = [numbers](Stack stack) {
    stack.insert(stack.end(), numbers.begin(), numbers.end());
    return stack;
  };
  const std::string dot = overload.empty() ? "" : absl::StrCat(".", overload);
  t.push_back({absl::StrCat("aten::", name, "_", dot),
               [with](auto& f) { return with({Target(f)}); }});
  const std::string out = overload.empty() ? "" : absl::StrCat(overload, "_");
  t.push_back({absl::StrCat("aten::", name, ".", out, "out"), [=](auto& f) {
                 Stack stack = with({Target(f)});
                 stack.insert(stack.end(), {kNone, Target(f)});
                 return stack;
               }});
  t.push_back({absl::StrCat("aten::", name, dot),
               [with](auto& f) { return with({Target(f)}); }});
}

void AddFills(Table& t) {
  AddFill(t, "uniform", "", {-1.0, 3.0});
  AddFill(t, "exponential", "", {1.5});
  AddFill(t, "cauchy", "", {0.5, 2.0});
  AddFill(t, "log_normal", "", {0.25, 0.5});
  AddFill(t, "geometric", "", {0.3});
  AddFill(t, "random", "", {});
  AddFill(t, "random", "to", {100});
  AddFill(t, "random", "from", {-5, 100});
  t.push_back({"aten::normal_", [](auto& f) {
                 return Of({Target(f), 0.5, 2.0});
               }});
  t.push_back({"aten::normal_functional", [](auto& f) {
                 return Of({Target(f), 0.5, 2.0});
               }});
  t.push_back({"aten::normal.out", [](auto& f) {
                 return Of({Target(f), 0.5, 2.0, kNone, Target(f)});
               }});
  t.push_back({"aten::bernoulli_.float", [](auto& f) {
                 return Of({Target(f), 0.3});
               }});
  t.push_back({"aten::bernoulli_.Tensor", [](auto& f) {
                 return Of({Target(f), Chances({f.n, at::kFloat})});
               }});
}

void AddNormals(Table& t) {
  t.push_back({"aten::normal.Tensor_float", [](auto& f) {
                 return Of({Numbers(f), 2.0});
               }});
  t.push_back({"aten::normal.float_Tensor", [](auto& f) {
                 return Of({0.5, Positive(f)});
               }});
  t.push_back({"aten::normal.Tensor_Tensor", [](auto& f) {
                 return Of({Numbers(f), Positive(f)});
               }});
  t.push_back({"aten::normal.Tensor_Tensor_out", [](auto& f) {
                 return Of({Numbers(f), Positive(f), kNone, Target(f)});
               }});
  t.push_back({"aten::normal.Tensor_float_out", [](auto& f) {
                 return Of({Numbers(f), 2.0, kNone, Target(f)});
               }});
  t.push_back({"aten::normal.float_Tensor_out", [](auto& f) {
                 return Of({0.5, Positive(f), kNone, Target(f)});
               }});
}

void AddOfTensors(Table& t) {
  t.push_back({"aten::bernoulli", [](auto& f) { return Of({Chances(f)}); }});
  t.push_back({"aten::bernoulli.p", [](auto& f) {
                 return Of({Target(f), 0.3});
               }});
  t.push_back({"aten::bernoulli.out", [](auto& f) {
                 return Of({Chances(f), kNone, Target(f)});
               }});
  t.push_back({"aten::bernoulli.float_out", [](auto& f) {
                 return Of({Target(f), 0.3, kNone, Target(f)});
               }});
  t.push_back({"aten::bernoulli.Tensor", [](auto& f) {
                 return Of({Target(f), Chances({f.n, at::kFloat})});
               }});
  t.push_back(
      {"aten::bernoulli.Tensor_out", [](auto& f) {
         return Of({Target(f), Chances({f.n, at::kFloat}), kNone, Target(f)});
       }});
  AddNormals(t);
  for (const char* const op :
       {"aten::poisson", "aten::_standard_gamma", "aten::_sample_dirichlet"}) {
    t.push_back({op, [](auto& f) { return Of({Positive(f)}); }});
    t.push_back({absl::StrCat(op, ".out"), [](auto& f) {
                   return Of({Positive(f), kNone, Target(f)});
                 }});
  }
  t.push_back({"aten::binomial", [](auto& f) {
                 return Of({Positive(f).floor(), Chances(f)});
               }});
  t.push_back({"aten::binomial.out", [](auto& f) {
                 return Of({Positive(f).floor(), Chances(f), kNone, Target(f)});
               }});
  t.push_back({"aten::multinomial", [](auto& f) {
                 return Of({Positive(f), 3, true});
               }});
  t.push_back({"aten::multinomial", [](auto& f) {
                 return Of({Positive(f), (f.n + 1) / 2, false});
               }});
  t.push_back(
      {"aten::multinomial.out", [](auto& f) {
         return Of({Positive(f), 3, true, kNone, Target({3, at::kLong})});
       }});
}

void AddDropouts(Table& t) {
  for (const char* const op :
       {"aten::native_dropout", "aten::dropout", "aten::dropout_",
        "aten::alpha_dropout", "aten::alpha_dropout_"}) {
    t.push_back({op, [](auto& f) { return Of({Numbers(f), 0.4, true}); }});
  }
  for (const char* const op :
       {"aten::feature_dropout", "aten::feature_dropout_",
        "aten::feature_alpha_dropout", "aten::feature_alpha_dropout_"}) {
    t.push_back({op, [](auto& f) {
                   return Of({Numbers(f).unsqueeze(1), 0.4, true});
                 }});
  }
  for (const char* const op : {"aten::rrelu", "aten::rrelu_"}) {
    t.push_back({op, [](auto& f) { return Of({Numbers(f), 0.1, 0.3, true}); }});
  }
  t.push_back({"aten::native_dropout.out", [](auto& f) {
                 return Of({Numbers(f), 0.4, true, Target(f),
                            Target({f.n, at::kBool})});
               }});
  t.push_back(
      {"aten::rrelu_with_noise.out", [](auto& f) {
         return Of({Numbers(f), Target(f), 0.1, 0.3, true, kNone, Target(f)});
       }});
  for (const char* const op :
       {"aten::rrelu_with_noise", "aten::rrelu_with_noise_",
        "aten::rrelu_with_noise_functional"}) {
    t.push_back({op, [](auto& f) {
                   return Of({Numbers(f), Target(f), 0.1, 0.3, true});
                 }});
  }
}

// In all forms that a factory has: with a generator of the program's own, with
// out=, of the type that is wanted.
void AddFactory(Table& t, const std::string& name, const std::string& overload,
                const std::function<Stack(const RandomForm&)>& make) {
  const bool is_low = overload == "low";
  const std::string plain = overload.empty() ? "" : absl::StrCat(".", overload);
  const std::string joined =
      overload.empty() ? "" : absl::StrCat(overload, "_");
  const auto with = [make](const RandomForm& f,
                           std::initializer_list<c10::IValue> more) {
    Stack stack = make(f);
    stack.insert(stack.end(), more);
    return stack;
  };
  t.push_back({absl::StrCat("aten::", name, plain),
               [=](auto& f) { return with(f, {Type(f)}); }});
  t.push_back(
      {absl::StrCat("aten::", name, ".", joined, "generator"), [=](auto& f) {
         return with(f, {OwnGenerator(), Type(f)});
       }});
  t.push_back({absl::StrCat("aten::", name, ".", is_low ? joined : "", "out"),
               [=](auto& f) { return with(f, {Target(f)}); }});
  t.push_back({absl::StrCat("aten::", name, ".", joined, "generator_out"),
               [=](auto& f) {
                 return with(f, {OwnGenerator(), Target(f)});
               }});
}

// The same of a tensor like which it is; `low`: in the names of its overloads.
void AddLike(Table& t, const std::string& name, const std::string& first,
             const std::string& type, std::vector<c10::IValue> numbers) {
  const auto with = [numbers](const RandomForm& f,
                              std::initializer_list<c10::IValue> more) {
    Stack stack = Of({Target(f)});
    stack.insert(stack.end(), numbers.begin(), numbers.end());
    stack.insert(stack.end(), more);
    return stack;
  };
  const std::string op = absl::StrCat("aten::", name);
  const std::string plain = absl::StrCat(first, type);
  const std::string dot = plain.empty() ? "" : absl::StrCat(".", plain);
  const std::string out = plain.empty() ? ".out" : absl::StrCat(dot, "_out");
  const std::string own =
      absl::StrCat(".", first, first.empty() ? "" : "_", "generator", type);
  t.push_back({absl::StrCat(op, dot), [=](auto& f) { return with(f, {}); }});
  t.push_back({absl::StrCat(op, own),
               [=](auto& f) { return with(f, {OwnGenerator()}); }});
  t.push_back({absl::StrCat(op, out), [=](auto& f) {
                 return with(f, {kNone, Target(f)});
               }});
  t.push_back({absl::StrCat(op, own, "_out"), [=](auto& f) {
                 return with(f, {OwnGenerator(), kNone, Target(f)});
               }});
}

void AddFactories(Table& t) {
  for (const char* const name : {"rand", "randn"}) {
    AddFactory(t, name, "", [](auto& f) { return Of({Sizes(f)}); });
    AddLike(t, absl::StrCat(name, "_like"), "", "", {});
  }
  AddFactory(t, "randint", "", [](auto& f) { return Of({9, Sizes(f)}); });
  AddFactory(t, "randint", "low", [](auto& f) {
    return Of({-3, 9, Sizes(f)});
  });
  AddFactory(t, "randperm", "", [](auto& f) { return Of({f.n}); });
  AddLike(t, "randint_like", "", "", {9});
  AddLike(t, "randint_like", "Tensor", "", {at::scalar_tensor(9, at::kLong)});
  AddLike(t, "randint_like", "low", "_dtype", {-3, 9});
  t.push_back({"aten::normal.float_float", [](auto& f) {
                 return Of({0.5, 2.0, Sizes(f), kNone, Type(f)});
               }});
  t.push_back({"aten::normal.float_float_out", [](auto& f) {
                 return Of({0.5, 2.0, Sizes(f), kNone, Target(f)});
               }});
}

}  // namespace

const std::vector<RandomOp>& RandomOps() {
  static const auto& ops = *new Table([] {
    Table t;
    AddFills(t);
    AddOfTensors(t);
    AddDropouts(t);
    AddFactories(t);
    for (RandomOp& op : t) {
      op.reads = op.op.starts_with("aten::randint_like.Tensor");
    }
    return t;
  }());
  return ops;
}

}  // namespace tjit::bits
