// Every op that is lowered, called by its schema (called_op.h has the letters).
#include <deque>

#include "compiler/lower/op_rules.h"
#include "tests/differential/called_op.h"
#include "tests/differential/propose.h"

namespace tjit::differential {
namespace {

void AddPointwise(std::vector<CalledOp>& all) {
  for (const std::string_view op :
       {"neg",         "abs",      "sign",  "sgn",         "floor",
        "ceil",        "trunc",    "round", "relu",        "sin",
        "cos",         "atan",     "tanh",  "erf",         "erfc",
        "logical_not", "isnan",    "frac",  "hardsigmoid", "hardswish",
        "sigmoid",     "silu",     "mish",  "asinh",       "clone",
        "zeros_like",  "ones_like"}) {
    all.push_back({op, "T"});
  }
  for (const std::string_view op : {"exp", "expm1", "exp2", "sinh", "cosh",
                                    "tan", "asin", "acos", "atanh"}) {
    all.push_back({op, "U"});
    all.push_back({op, "T"});
  }
  for (const std::string_view op : {"reciprocal", "sqrt", "rsqrt", "log",
                                    "log2", "log10", "log1p", "acosh"}) {
    all.push_back({op, "Q"});
    all.push_back({op, "T"});
  }
  for (const std::string_view op : {"maximum",
                                    "minimum",
                                    "fmax",
                                    "fmin",
                                    "atan2",
                                    "hypot",
                                    "nextafter",
                                    "logaddexp",
                                    "logaddexp2",
                                    "logical_and",
                                    "logical_or",
                                    "logical_xor",
                                    "bitwise_and.Tensor",
                                    "bitwise_or.Tensor",
                                    "bitwise_xor.Tensor",
                                    "eq.Tensor",
                                    "ne.Tensor",
                                    "lt.Tensor",
                                    "le.Tensor",
                                    "gt.Tensor",
                                    "ge.Tensor",
                                    "clamp_min.Tensor",
                                    "clamp_max.Tensor"}) {
    all.push_back({op, "TT"});
  }
  for (const std::string_view op : {"eq.Scalar", "ne.Scalar", "lt.Scalar",
                                    "le.Scalar", "gt.Scalar", "ge.Scalar"}) {
    all.push_back({op, "T1"});
    all.push_back({op, "TS"});
  }
}

void AddArithmetic(std::vector<CalledOp>& all) {
  for (const CalledOp& op :
       std::initializer_list<CalledOp>{{"add.Tensor", "TTS"},
                                       {"add.Tensor", "TT"},
                                       {"add.Scalar", "TS1"},
                                       {"sub.Tensor", "TT"},
                                       {"sub.Tensor", "TTS"},
                                       {"sub.Scalar", "TS1"},
                                       {"rsub.Tensor", "TTS"},
                                       {"rsub.Scalar", "TSS"},
                                       {"mul.Tensor", "TU"},
                                       {"mul.Tensor", "TT"},
                                       {"mul.Scalar", "TS"},
                                       {"div.Tensor", "TQ"},
                                       {"div.Tensor", "TT"},
                                       {"div.Scalar", "TS"},
                                       {"addcmul", "TTTA"},
                                       {"addcmul", "TTT1"},
                                       {"addcdiv", "TTQA"},
                                       {"addcdiv", "TTQ1"},
                                       {"lerp.Scalar", "TTh"},
                                       {"lerp.Scalar", "TTS"},
                                       {"lerp.Tensor", "T=="},
                                       {"clamp", "TmS"},
                                       {"clamp", "T03"},
                                       {"clamp", "TNS"},
                                       {"clamp.Tensor", "T=="},
                                       {"clamp_min", "TA"},
                                       {"clamp_max", "TA"},
                                       {"hardtanh", "Tm1"},
                                       {"where.self", "MTT"},
                                       {"masked_fill.Scalar", "TMS"},
                                       {"leaky_relu", "TA"},
                                       {"threshold", "TSS"},
                                       {"xlogy.Tensor", "TQ"},
                                       {"pow.Tensor_Scalar", "Q2"},
                                       {"pow.Tensor_Scalar", "Q3"},
                                       {"pow.Tensor_Scalar", "Qh"},
                                       {"pow.Tensor_Scalar", "Qj"},
                                       {"pow.Tensor_Scalar", "Qd"},
                                       {"pow.Tensor_Tensor", "QU"},
                                       {"gelu", "Tn"},
                                       {"gelu", "Tt"},
                                       {"softplus", "Tdh"},
                                       {"elu", "Tdhd"},
                                       {"softshrink", "Th"},
                                       {"hardshrink", "Th"},
                                       {"log_sigmoid_forward", "T"}}) {
    all.push_back(op);
  }
}

void AddData(std::vector<CalledOp>& all) {
  for (const CalledOp& op :
       std::initializer_list<CalledOp>{{"copy_", "TT"},
                                       {"fill_.Tensor", "TW"},
                                       {"fill.Scalar", "TS"},
                                       {"zero_", "T"},
                                       {"full_like", "TS"},
                                       {"new_zeros", "Ts"},
                                       {"new_ones", "Ts"},
                                       {"new_full", "TsS"},
                                       {"_to_copy", "TX"},
                                       {"roll", "ToD"},
                                       {"cat", "VI"}}) {
    all.push_back(op);
  }
}

void AddBackward(std::vector<CalledOp>& all) {
  for (const CalledOp& op : std::initializer_list<CalledOp>{
           {"threshold_backward", "T=0"},
           {"tanh_backward", "T="},
           {"sigmoid_backward", "T="},
           {"silu_backward", "T="},
           {"mish_backward", "T="},
           {"gelu_backward", "T=n"},
           {"gelu_backward", "T=t"},
           {"softplus_backward", "T=dh"},
           {"elu_backward", "Tdhdf="},
           {"elu_backward", "Tdhdy="},
           {"hardtanh_backward", "T=md"},
           {"hardswish_backward", "T="},
           {"hardsigmoid_backward", "T="},
           {"softshrink_backward", "T=h"},
           {"hardshrink_backward", "T=h"},
           {"leaky_relu_backward", "T=Af"},
           {"log_sigmoid_backward", "T=p"},
           {"_prelu_kernel", "T="},
           {"_prelu_kernel_backward", "T=="},
           {"native_dropout_backward", "TMd"},
           {"binary_cross_entropy_backward", "TppN0"},
           {"binary_cross_entropy_backward", "Tpp=1"},
           {"mse_loss_backward", "T==0"},
           {"mse_loss_backward", "T==1"},
           {"smooth_l1_loss_backward", "T==0d"},
           {"smooth_l1_loss_backward", "T==1d"},
           {"huber_loss_backward", "T==0d"},
           {"huber_loss_backward", "T==1d"},
           {"_softmax_backward_data", "T=Ix"},
           {"_log_softmax_backward_data", "T=Ix"}}) {
    all.push_back(op);
  }
}

void AddReductions(std::vector<CalledOp>& all) {
  for (const CalledOp& op :
       std::initializer_list<CalledOp>{{"sum.dim_IntList", "TEf"},
                                       {"sum.dim_IntList", "TEy"},
                                       {"mean.dim", "TEf"},
                                       {"mean.dim", "TEy"},
                                       {"amax", "TEf"},
                                       {"amax", "TEy"},
                                       {"amin", "TEf"},
                                       {"amin", "TEy"},
                                       {"max", "T"},
                                       {"min", "T"},
                                       {"all", "T"},
                                       {"any", "T"},
                                       {"all.dim", "TIf"},
                                       {"any.dim", "TIf"},
                                       {"all.dim", "TIy"},
                                       {"any.dim", "TIy"},
                                       {"var.correction", "TE1f"},
                                       {"std.correction", "TE1f"},
                                       {"var.correction", "TE0y"},
                                       {"std.correction", "TE0y"},
                                       {"var_mean.correction", "TE1f"},
                                       {"std_mean.correction", "TE1f"},
                                       {"linalg_vector_norm", "T2Ef"},
                                       {"linalg_vector_norm", "T1Ey"},
                                       {"norm.ScalarOpt_dim", "T2Ef"},
                                       {"_softmax", "TIf"},
                                       {"_log_softmax", "TIf"},
                                       {"glu", "TI"},
                                       {"native_layer_norm", "TZLLe"},
                                       {"mse_loss", "T=0"},
                                       {"mse_loss", "T=1"},
                                       {"smooth_l1_loss", "T=0d"},
                                       {"smooth_l1_loss", "T=2d"},
                                       {"huber_loss", "T=0d"},
                                       {"huber_loss", "T=1d"}}) {
    all.push_back(op);
  }
}

void AddLists(std::vector<CalledOp>& all) {
  for (const std::string_view op :
       {"_foreach_abs", "_foreach_neg", "_foreach_sign", "_foreach_sqrt",
        "_foreach_rsqrt", "_foreach_reciprocal", "_foreach_exp", "_foreach_log",
        "_foreach_tanh", "_foreach_zero_"}) {
    all.push_back({op, "V"});
  }
  for (const std::string_view op :
       {"_foreach_add.Scalar", "_foreach_sub.Scalar", "_foreach_mul.Scalar",
        "_foreach_div.Scalar", "_foreach_clamp_min.Scalar",
        "_foreach_clamp_max.Scalar"}) {
    all.push_back({op, "VS"});
  }
  for (const std::string_view op :
       {"_foreach_add.ScalarList", "_foreach_sub.ScalarList",
        "_foreach_mul.ScalarList", "_foreach_div.ScalarList"}) {
    all.push_back({op, "V*"});
  }
  for (const std::string_view op :
       {"_foreach_add.Tensor", "_foreach_mul.Tensor", "_foreach_div.Tensor"}) {
    all.push_back({op, "VW"});
  }
  for (const CalledOp& op :
       std::initializer_list<CalledOp>{{"_foreach_add.List", "VvS"},
                                       {"_foreach_sub.List", "VvS"},
                                       {"_foreach_add.List", "Vv"},
                                       {"_foreach_sub.List", "Vv"},
                                       {"_foreach_mul.List", "Vv"},
                                       {"_foreach_div.List", "Vv"},
                                       {"_foreach_addcmul.Scalar", "VvvA"},
                                       {"_foreach_addcdiv.Scalar", "VvvA"},
                                       {"_foreach_addcmul.ScalarList", "Vvv*"},
                                       {"_foreach_addcdiv.ScalarList", "Vvv*"},
                                       {"_foreach_lerp.Scalar", "VvA"},
                                       {"_foreach_copy_", "Vv"}}) {
    all.push_back(op);
  }
}

std::vector<CalledOp> MakeOps() {
  std::vector<CalledOp> all;
  AddPointwise(all);
  AddArithmetic(all);
  AddData(all);
  AddBackward(all);
  AddReductions(all);
  AddLists(all);
  return all;
}

// How many variables it binds.
int ResultsOf(std::string_view op, Call::Form form, std::string_view letters) {
  if (form == Call::Form::kInPlace || form == Call::Form::kOut) return 0;
  if (op == "native_layer_norm") return 3;
  const bool is_list = letters[0] == 'V' && op != "cat";
  const bool is_pair =
      op == "log_sigmoid_forward" || op == "_prelu_kernel_backward" ||
      op == "var_mean.correction" || op == "std_mean.correction";
  return is_list || is_pair ? 2 : 1;
}

// A result like the first operand can be written over a variable.
bool IsElementwise(std::string_view letters) {
  return letters.find_first_of("IDEV") == std::string_view::npos &&
         letters != "MTT";
}

void AddRow(const CalledOp& op, std::string_view name, Call::Form form,
            std::vector<OpSpec>& table) {
  static auto& calls = *new std::deque<Call>;
  static auto& texts = *new std::deque<std::string>;
  Call& call = calls.emplace_back();
  call.op = std::string(name);
  call.letters = op.letters;
  call.form = form;
  call.results = ResultsOf(op.op, form, op.letters);
  std::string row(name);
  row += '(';
  row += op.letters;
  row += ')';
  if (form == Call::Form::kFreshOut) row += "fresh";
  const std::string& text = texts.emplace_back(TextOf(call));
  table.push_back({texts.emplace_back(std::move(row)), Group::kCalled, text,
                   ProposeCall, RunCall, call.results, call.writes()});
  table.back().call = &call;
}

}  // namespace

const std::vector<CalledOp>& CalledOps() {
  static const auto& ops = *new std::vector<CalledOp>(MakeOps());
  return ops;
}

void AddCalledOps(std::vector<OpSpec>& table) {
  for (const CalledOp& op : CalledOps()) {
    const lower::OpRule* const rule =
        lower::RuleOf("aten::" + std::string(op.op));
    TORCH_CHECK(rule != nullptr, op.op, " is not lowered");
    if (!rule->functional.empty()) {
      AddRow(op, rule->functional, Call::Form::kFunctional, table);
    }
    if (!rule->in_place.empty()) {
      AddRow(op, rule->in_place, Call::Form::kInPlace, table);
    }
    if (rule->out.empty()) continue;
    // Of it eager resizes a view, and then throws.
    if (op.op != "binary_cross_entropy_backward") {
      AddRow(op, rule->out, Call::Form::kFreshOut, table);
    }
    if (IsElementwise(op.letters)) {
      AddRow(op, rule->out, Call::Form::kOut, table);
    }
  }
}

}  // namespace tjit::differential
