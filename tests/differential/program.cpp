// Values and text of programs. See program.h.
#include "tests/differential/program.h"

#include <cmath>
#include <cstdio>

#include "tests/differential/op_table.h"
#include "tests/differential/rng.h"

namespace tjit::differential {
namespace {

// The shortest decimal that reads back as `value`.
std::string Number(double value, bool is_int) {
  if (is_int) return std::to_string(static_cast<std::int64_t>(value));
  if (std::isnan(value)) return "NAN";
  if (std::isinf(value)) return value < 0 ? "-INFINITY" : "INFINITY";
  char text[40];
  for (int digits = 3; digits <= 17; ++digits) {
    std::snprintf(text, sizeof text, "%.*g", digits, value);
    if (std::stod(text) == value) break;
  }
  std::string result = text;
  if (result.find_first_of(".en") == std::string::npos) result += ".0";
  return result;
}

std::string Var(int id) {
  std::string name = "v";
  return name += std::to_string(id);
}

// Replaces the placeholder that starts at text[pos] and moves `pos` past it.
std::string Placeholder(const Statement& st, std::string_view text,
                        std::size_t& pos) {
  char kind = text[++pos];
  if (kind < '0' || kind > '9') ++pos;
  std::size_t index = kind == 'j' ? 0 : text[pos++] - '0';
  switch (kind) {
    case 'd':
      return index < st.dst.size() ? Var(st.dst[index]) : "?";
    case 's':
      return index < st.scalars.size() ? st.scalars[index].ToString() : "?";
    case 'j':  // how often its loop has gone round
      return st.loop < 0 ? "0" : "j";
    case 'i':
      return index < st.ints.size() ? std::to_string(st.ints[index]) : "?";
    case 'l': {
      std::string list = "{";
      for (std::size_t i = index; i < st.ints.size(); ++i) {
        list += (i > index ? ", " : "") + std::to_string(st.ints[i]);
      }
      return list + "}";
    }
    default:
      index = kind - '0';
      return index < st.args.size() ? Var(st.args[index]) : "?";
  }
}

std::string Declare(const std::vector<int>& vars) {
  std::string text;
  for (int id : vars) text += (text.empty() ? "at::Tensor " : ", ") + Var(id);
  return text.empty() ? text : text + ";\n";
}

std::string Header(const Program& program) {
  std::string text = "// seed " + std::to_string(program.seed) + ", family " +
                     std::to_string(program.family);
  if (program.concurrent) {
    text += ", two threads run the loop; both read v0..v" +
            std::to_string(program.shared_vars - 1);
  }
  return text + "\n";
}

// The statements [begin, end) of a body, which are one loop or one statement.
std::string Loop(const Program& program, std::size_t begin, std::size_t end) {
  std::string text;
  std::string indent = "  ";
  const int loop = program.body[begin].loop;
  if (loop >= 0) {
    text += "  for (int64_t j = 0, n = " +
            program.loops[static_cast<std::size_t>(loop)].ToString() +
            "; j < n; ++j) {\n";
    indent = "    ";
  }
  for (std::size_t i = begin; i < end; ++i) {
    text += indent + ToString(program.body[i]) + "\n";
  }
  return loop >= 0 ? text + "  }\n" : text;
}

}  // namespace

std::uint64_t Draw(std::int64_t it, std::int64_t salt) {
  return Rng(static_cast<std::uint64_t>(it) << 8 ^
             static_cast<std::uint64_t>(salt))
      .Next();
}

double ScalarExpr::Value(std::int64_t it,
                         const std::vector<double>& regs) const {
  double value = a;
  switch (kind) {
    case Kind::kConst:
      break;
    case Kind::kLinear:
      value = a + b * static_cast<double>(it);
      break;
    case Kind::kInverse:
      value = a / static_cast<double>(1 + it);
      break;
    case Kind::kDecay:
      value = a * std::pow(b, static_cast<double>(it));
      break;
    case Kind::kCycle:
      value = cycle[static_cast<std::size_t>(it) % cycle.size()];
      break;
    case Kind::kStep:
      value = it < period ? a : b;
      break;
    case Kind::kReg:
      value = a + b * regs[static_cast<std::size_t>(period)];
      break;
    case Kind::kDrawn:
      value = a + static_cast<double>(Draw(it, period) %
                                      static_cast<std::uint64_t>(b));
      break;
  }
  return is_int ? std::trunc(value) : value;
}

std::string ScalarExpr::ToString() const {
  std::string text_a = Number(a, is_int);
  std::string text_b = Number(b, is_int);
  switch (kind) {
    case Kind::kConst:
      return text_a;
    case Kind::kLinear:
      if (is_int && std::trunc(b) != b) {
        return "int64_t(" + text_a + " + " + Number(b, false) + " * it)";
      }
      return "(" + text_a + " + " + text_b + " * it)";
    case Kind::kInverse:
      return "(" + text_a + " / (1 + it))";
    case Kind::kDecay:
      return "(" + text_a + " * std::pow(" + text_b + ", it))";
    case Kind::kCycle: {
      std::string list;
      for (double value : cycle) {
        list += (list.empty() ? "" : ", ") + Number(value, is_int);
      }
      return "std::array{" + list + "}[it % " + std::to_string(cycle.size()) +
             "]";
    }
    case Kind::kStep:
      return "(it < " + std::to_string(period) + " ? " + text_a + " : " +
             text_b + ")";
    case Kind::kReg:
      return "(" + text_a + " + " + text_b + " * r" + std::to_string(period) +
             ")";
    case Kind::kDrawn:
      return "(" + text_a + " + draw(it, " + std::to_string(period) + ") % " +
             text_b + ")";
  }
  return "?";
}

bool Guard::Holds(std::int64_t it, const std::vector<double>& regs) const {
  switch (kind) {
    case Kind::kAlways:
      return true;
    case Kind::kMod:
      return it % mod == rem;
    case Kind::kNotMod:
      return it % mod != rem;
    case Kind::kFrom:
      return it >= rem;
    case Kind::kReg:
      return regs[static_cast<std::size_t>(rem)] > 0;
  }
  return true;
}

std::string Guard::ToString() const {
  std::string m = std::to_string(mod);
  std::string r = std::to_string(rem);
  switch (kind) {
    case Kind::kAlways:
      return "";
    case Kind::kMod:
      return "if (it % " + m + " == " + r + ") ";
    case Kind::kNotMod:
      return "if (it % " + m + " != " + r + ") ";
    case Kind::kFrom:
      return "if (it >= " + r + ") ";
    case Kind::kReg:
      return "if (r" + r + " > 0) ";
  }
  return "";
}

std::string ToString(const Statement& st) {
  std::string_view text = OpTable()[st.op].text;
  std::string out;
  for (std::size_t pos = 0; pos < text.size();) {
    if (text[pos] == '$') {
      out += Placeholder(st, text, pos);
    } else {
      out += text[pos++];
    }
  }
  if (st.mode == Mode::kNoGrad) out = "{ at::NoGradGuard g; " + out + " }";
  if (st.mode == Mode::kInference) {
    out = "{ c10::InferenceMode g; " + out + " }";
  }
  if (st.worker_every > 0) {
    std::string there = "std::thread([&] { " + out + " }).join();";
    if (st.worker_every > 1) {
      there = "if (it % " + std::to_string(st.worker_every) +
              " == " + std::to_string(st.worker_every - 1) + ") " + there +
              " else { " + out + " }";
    }
    out = there;
  }
  return st.guard.ToString() + out;
}

std::size_t Program::EndOfLoop(std::size_t begin) const {
  std::size_t end = begin + 1;
  if (body[begin].loop < 0) return end;
  while (end < body.size() && body[end].loop == body[begin].loop) ++end;
  return end;
}

std::string Program::ToString() const {
  std::vector<bool> is_scoped(num_vars, false);
  for (int id : scoped) is_scoped[id] = true;
  std::vector<int> outer;
  for (int id = 0; id < num_vars; ++id) {
    if (!is_scoped[id]) outer.push_back(id);
  }
  std::string text = Header(*this) + Declare(outer);
  for (int i = 0; i < num_regs; ++i) {
    text += "double r" + std::to_string(i) + " = 0;\n";
  }
  for (const Statement& st : setup) {
    text += differential::ToString(st) + "\n";
  }
  text += "for (int64_t it = 0; it < " + std::to_string(iterations) +
          "; ++it) {\n";
  if (!scoped.empty()) text += "  " + Declare(scoped);
  for (std::size_t i = 0, end = 0; i < body.size(); i = end) {
    end = EndOfLoop(i);
    text += Loop(*this, i, end);
  }
  if (mark_step && mark_in_scope) text += "  tjit::mark_step();\n";
  text += "  if (it == " + std::to_string(iterations - 1) + ") read_all();\n}";
  if (mark_step && !mark_in_scope) text += "  // mark_step() after the scope";
  if (snapshot_every > 0) {
    text += "  // all variables are read every " +
            std::to_string(snapshot_every) + " iterations";
  }
  return text + "\n";
}

}  // namespace tjit::differential
