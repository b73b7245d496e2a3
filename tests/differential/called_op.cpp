// See called_op.h.
#include "tests/differential/called_op.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <mutex>
#include <unordered_map>

#include "tests/differential/propose.h"

namespace tjit::differential {
namespace {

constexpr int kListLength = 2;

bool IsTensor(char letter) {
  return std::string_view("TUQ=pL").find(letter) != std::string_view::npos;
}
bool IsList(char letter) { return letter == 'V' || letter == 'v'; }

// --- Text ---

std::string Numbered(const char* kind, int index) {
  return kind + std::to_string(index);
}

// The argument of one letter; counts what it takes of the statement.
class Words {
 public:
  explicit Words(const Call& call) : call_(call) {
    if (call.form == Call::Form::kOut) args_ = 1;
  }
  std::string Next(char letter) {
    switch (letter) {
      case 'U':
        return "at::sin(" + Arg() + ")";
      case 'Q':
        return "at::abs(" + Arg() + ") + 1";
      case 'p':
        return "at::sigmoid(" + Arg() + ")";
      case 'W':
        return "at::scalar_tensor(" + Numbered("$s", scalars_++) + ")";
      case 'V':
      case 'v':
        return "{" + Arg() + ", " + Arg() + "}";
      case 'S':
      case 'A':
        return Numbered("$s", scalars_++);
      case '*':
        scalars_ += kListLength;
        return "{" + Numbered("$s", scalars_ - 2) + ", " +
               Numbered("$s", scalars_ - 1) + "}";
      case 'I':
        return Numbered("$i", ints_++);
      case 'D':
        return "{" + Numbered("$i", ints_++) + "}";
      case 'E':
        return Numbered("$l", ints_);
      case 'X':
        return "at::ScalarType(" + Numbered("$i", ints_++) + ")";
      default:
        return IsTensor(letter) || letter == 'M' ? Arg() : Constant(letter);
    }
  }

 private:
  std::string Arg() { return Numbered("$", args_++); }
  std::string Constant(char letter) const {
    const std::string base = call_.form == Call::Form::kOut ? "$1" : "$0";
    switch (letter) {
      case 'h':
        return "0.5";
      case 'd':
        return "1.25";
      case 'm':
        return "-0.5";
      case 'j':
        return "-1.0";
      case 'e':
        return "1e-5";
      case 'f':
        return "false";
      case 'y':
        return "true";
      case 'N':
        return "{}";
      case 'n':
        return "\"none\"";
      case 't':
        return "\"tanh\"";
      case 'o':
        return "{1}";
      case 's':
        return base + ".sizes()";
      case 'Z':
        return "{" + base + ".size(-1)}";
      case 'x':
        return base + ".scalar_type()";
      default:
        return std::string(1, letter);
    }
  }

  const Call& call_;
  int args_ = 0, scalars_ = 0, ints_ = 0;
};

// "aten::lerp.Scalar" is "lerp".
std::string NameOf(const std::string& op) {
  const std::string name = op.substr(6);
  return name.substr(0, name.find('.'));
}

// What stands before an in-place call, so that its operand has a domain.
std::string BeforeOf(char letter) {
  if (letter == 'U') return "$0.sin_(); ";
  return letter == 'Q' ? "$0.abs_().add_(1); " : "";
}

// --- Arguments ---

const at::Tensor& Base(Generator& g, const Statement& st) { return g.A(st, 0); }

// One more tensor, which goes with those before it.
bool ProposeTensor(Generator& g, Statement& st, const Call& call, char letter) {
  if (st.args.empty()) {
    return call.writes() ? g.Target(st, Any) : g.Arg(st, Any);
  }
  const at::Tensor base = Base(g, st);
  const bool is_first_of_out =
      call.form == Call::Form::kOut && st.args.size() == 1;
  const bool mixes = g.rng().Chance(0.1);
  return g.Arg(st, [&](const at::Tensor& t) {
    if (!mixes && t.scalar_type() != base.scalar_type()) return false;
    if (letter == 'L') return t.dim() == 1 && t.size(0) == base.size(-1);
    if (letter == '=' || letter == 'p' || is_first_of_out) {
      return t.sizes() == base.sizes();
    }
    if (call.writes()) return FitsInto(base, t);
    for (int i = 0; i < static_cast<int>(st.args.size()); ++i) {
      if (!Broadcasts(g.A(st, i), t)) return false;
    }
    return true;
  });
}

bool ProposeMask(Generator& g, Statement& st) {
  if (st.args.empty()) return g.Arg(st, Bool);
  const at::Tensor base = Base(g, st);
  return g.Arg(
      st, [&](const at::Tensor& t) { return Bool(t) && FitsInto(base, t); });
}

// A first list of any tensors, or one that goes with it element by element.
bool ProposeList(Generator& g, Statement& st, const Call& call, char letter) {
  for (int i = 0; i < kListLength; ++i) {
    if (letter == 'v') {
      const at::Tensor like = g.A(st, i);
      const auto fits = [&](const at::Tensor& t) {
        return t.sizes() == like.sizes() &&
               t.scalar_type() == like.scalar_type();
      };
      if (!g.Arg(st, fits)) return false;
      continue;
    }
    const int first = st.args.empty() ? -1 : st.args[0];
    const auto fits = [&](const at::Tensor& t) {
      return first < 0 || t.scalar_type() == g.V(first).scalar_type();
    };
    if (!(call.writes() ? g.Target(st, fits) : g.Arg(st, fits))) return false;
    if (call.writes() && st.args.back() == first) return false;
  }
  return true;
}

// Dims for 'I', 'D' and 'E', none twice.
bool ProposeDims(Generator& g, Statement& st, char letter) {
  const std::int64_t ndim = Base(g, st).dim();
  if (ndim == 0) return false;
  const std::int64_t from = g.rng().Int(0, ndim - 1);
  const std::int64_t to = letter == 'E' ? g.rng().Int(from, ndim - 1) : from;
  for (std::int64_t dim = from; dim <= to; ++dim) st.ints.push_back(dim);
  return true;
}

void ProposeNumber(Generator& g, Statement& st, char letter) {
  const bool is_float =
      !st.args.empty() && at::isFloatingType(Base(g, st).scalar_type());
  const Use real = letter == 'A' ? Use::kAlpha : Use::kFactor;
  g.Scalar(st, is_float ? real : Use::kInteger);
}

bool ProposeLetter(Generator& g, Statement& st, const Call& call, char letter) {
  if (IsTensor(letter)) return ProposeTensor(g, st, call, letter);
  if (IsList(letter)) return ProposeList(g, st, call, letter);
  switch (letter) {
    case 'M':
      return ProposeMask(g, st);
    case 'S':
    case 'A':
    case 'W':
      ProposeNumber(g, st, letter);
      return true;
    case '*':
      ProposeNumber(g, st, letter);
      ProposeNumber(g, st, letter);
      return true;
    case 'I':
    case 'D':
    case 'E':
      return ProposeDims(g, st, letter);
    case 'X':
      st.ints.push_back(static_cast<std::int64_t>(g.rng().Of<at::ScalarType>(
          {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kLong})));
      return true;
    default:
      return true;
  }
}

// --- Running ---

class Arguments {
 public:
  Arguments(Context& c, const Call& call) : c_(c), call_(call) {
    if (call.form == Call::Form::kOut) args_ = 1;
  }

  c10::IValue Next(char letter) {
    if (IsTensor(letter) || letter == 'M') return Tensor(letter);
    if (IsList(letter)) {
      return std::vector<at::Tensor>{c_.T(args_++), c_.T(args_++)};
    }
    switch (letter) {
      case 'W':
        return at::scalar_tensor(c_.S(scalars_++),
                                 c_.T(0).options().requires_grad(false));
      case 'S':
      case 'A':
        return c_.S(scalars_++);
      case '*':
        return ScalarList();
      case 'I':
      case 'X':
        return c_.I(ints_++);
      case 'D':
        return std::vector<std::int64_t>{c_.I(ints_++)};
      case 'E':
        return c_.List(ints_).vec();
      default:
        return Constant(letter);
    }
  }

 private:
  const at::Tensor& Operand() const {
    return c_.T(call_.form == Call::Form::kOut ? 1 : 0);
  }
  c10::IValue Tensor(char letter) {
    const bool is_target = args_ == 0 && call_.form == Call::Form::kInPlace;
    const at::Tensor& t = c_.T(args_++);
    if (letter == 'U') return is_target ? t.sin_() : at::sin(t);
    if (letter == 'Q') {
      return is_target ? t.abs_().add_(1) : at::abs(t) + 1;
    }
    return letter == 'p' ? at::sigmoid(t) : t;
  }
  c10::IValue ScalarList() {
    c10::impl::GenericList scalars(c10::NumberType::get());
    for (int i = 0; i < kListLength; ++i) scalars.push_back(c_.S(scalars_++));
    return scalars;
  }
  c10::IValue Constant(char letter) const {
    switch (letter) {
      case 'h':
        return 0.5;
      case 'd':
        return 1.25;
      case 'm':
        return -0.5;
      case 'j':
        return -1.0;
      case 'e':
        return 1e-5;
      case 'f':
      case 'y':
        return letter == 'y';
      case 'N':
        return {};
      case 'n':
        return "none";
      case 't':
        return "tanh";
      case 'o':
        return std::vector<std::int64_t>{1};
      case 's':
        return Operand().sizes().vec();
      case 'Z':
        return std::vector<std::int64_t>{Operand().size(-1)};
      case 'x':
        return static_cast<std::int64_t>(Operand().scalar_type());
      default:
        return std::int64_t{letter - '0'};
    }
  }

  Context& c_;
  const Call& call_;
  int args_ = 0, scalars_ = 0, ints_ = 0;
};

const c10::OperatorHandle& HandleOf(const Call& call) {
  static auto& handles =
      *new std::unordered_map<const Call*, c10::OperatorHandle>;
  static std::mutex mutex;
  const std::scoped_lock lock(mutex);
  const auto found = handles.find(&call);
  if (found != handles.end()) return found->second;
  const std::size_t dot = call.op.find('.');
  const bool has_overload = dot != std::string::npos;
  return handles
      .emplace(&call, c10::Dispatcher::singleton().findSchemaOrThrow(
                          call.op.substr(0, dot).c_str(),
                          has_overload ? call.op.substr(dot + 1).c_str() : ""))
      .first->second;
}

}  // namespace

std::string TextOf(const Call& call) {
  Words words(call);
  std::string first, rest;
  for (const char letter : call.letters) {
    const std::string word = words.Next(letter);
    if (first.empty()) {
      first = word;
    } else {
      rest += ", " + word;
    }
  }
  const std::string name = NameOf(call.op);
  const bool is_list = IsList(call.letters[0]);
  if (call.form == Call::Form::kInPlace && !is_list) {
    if (!rest.empty()) rest.erase(0, 2);
    return BeforeOf(call.letters[0]) + "$0." + name + "(" + rest + ");";
  }
  const std::string all = first + rest;
  switch (call.form) {
    case Call::Form::kInPlace:
      return "at::" + name + "(" + all + ");";
    case Call::Form::kOut:
      return "at::" + name + "_outf(" + all + ", $0);";
    case Call::Form::kFreshOut:
      return "$d0 = at::empty({0}, $0.options()); at::" + name + "_outf(" +
             all + ", $d0);";
    default:
      break;
  }
  const std::string value = "at::" + name + "(" + all + ")";
  if (is_list && call.results > 1) {
    return "{ auto r = " + value + "; $d0 = r[0]; $d1 = r[1]; }";
  }
  if (call.results == 1) return "$d0 = " + value + ";";
  std::string names;
  for (int i = 0; i < call.results; ++i) {
    names += (i > 0 ? ", $d" : "$d") + std::to_string(i);
  }
  return "std::tie(" + names + ") = " + value + ";";
}

bool ProposeCall(Generator& g, Statement& st) {
  const Call& call = *OpTable()[static_cast<std::size_t>(st.op)].call;
  if (call.form == Call::Form::kOut && !g.Target(st, Any)) return false;
  for (const char letter : call.letters) {
    if (!ProposeLetter(g, st, call, letter)) return false;
  }
  return true;
}

void RunCall(Context& c) {
  const Call& call =
      *OpTable()[static_cast<std::size_t>(c.statement().op)].call;
  const c10::OperatorHandle& op = HandleOf(call);
  torch::jit::Stack stack;
  Arguments arguments(c, call);
  for (const char letter : call.letters) {
    stack.push_back(arguments.Next(letter));
  }
  const auto& formal = op.schema().arguments();
  const bool is_out =
      call.form == Call::Form::kOut || call.form == Call::Form::kFreshOut;
  const std::size_t inputs = formal.size() - (is_out ? 1 : 0);
  for (std::size_t i = stack.size(); i < inputs; ++i) {
    stack.push_back(formal[i].default_value().value_or(c10::IValue()));
  }
  if (call.form == Call::Form::kOut) stack.push_back(c.T(0));
  if (call.form == Call::Form::kFreshOut) {
    stack.push_back(at::empty({0}, c.T(0).options().requires_grad(false)));
  }
  op.callBoxed(stack);
  if (call.writes()) return;
  if (stack.size() == 1 && stack[0].isTensorList()) {
    const auto list = std::move(stack[0]).toTensorVector();
    for (int i = 0; i < call.results; ++i) {
      c.Out(list[static_cast<std::size_t>(i)], i);
    }
    return;
  }
  for (int i = 0; i < call.results; ++i) {
    c.Out(std::move(stack[static_cast<std::size_t>(i)]).toTensor(), i);
  }
}

}  // namespace tjit::differential
