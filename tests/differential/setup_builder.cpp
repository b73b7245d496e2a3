// See setup_builder.h.
#include "tests/differential/setup_builder.h"

namespace tjit::differential {

int SetupBuilder::Make(std::string_view op, std::vector<std::int64_t> ints,
                       double scalar, std::vector<int> args) {
  Statement st;
  st.op = OpIndex(op);
  st.ints = std::move(ints);
  st.args = std::move(args);
  st.scalars.push_back({.a = scalar});
  int id = g_.program_.num_vars;
  if (OpTable()[st.op].num_dst > 0) {
    st.dst.push_back(id);
    g_.program_.num_vars++;
    g_.machine_->state().vars.resize(g_.program_.num_vars);
  }
  if (!g_.machine_->RunOne(st, -1, -1)) {
    if (!st.dst.empty()) g_.program_.num_vars--;
    return -1;
  }
  g_.program_.setup.push_back(std::move(st));
  return id;
}

void SetupBuilder::Plain() {
  Make("input", {n_, m_});
  Make("input", {n_, m_});
  Make("input", {m_, k_});
  Make("input", {m_});
  if (g_.rng_.Chance(0.6)) Make("input", {n_, 1});
  if (g_.rng_.Chance(0.4)) Make("input", {});
  if (g_.rng_.Chance(0.4)) Make("input", {2, n_, m_});
}

void SetupBuilder::Rare() {
  if (g_.rng_.Chance(0.3)) Make("mask", {n_, m_});
  if (g_.rng_.Chance(0.2)) Make("mask", {m_});
  if (g_.rng_.Chance(0.15)) Make("input", {0, m_});
  if (g_.rng_.Chance(0.2)) Make("one_value", {n_, m_}, 0.7);
}

void SetupBuilder::Indices() {
  std::int64_t small = std::min(n_, m_);
  Make("indices", {small, 3});
  Make("indices", {small, n_});
  Make("indices", {m_, n_, 2});
  Make("indices", {m_, n_, m_});
  Make("input", {3, m_});
  Make("input", {n_, m_});
}

void SetupBuilder::Params() {
  auto& params = g_.params_;
  params.push_back(Make("param", {m_, k_}, 0.3));
  params.push_back(Make("param", {k_}, 0.1));
  if (g_.rng_.Chance(0.6)) params.push_back(Make("param", {k_, m_}, 0.3));
  if (g_.rng_.Chance(0.6)) params.push_back(Make("param", {m_}, 0.5));
  if (g_.rng_.Chance(0.4)) params.push_back(Make("param", {n_, m_}, 0.5));
  Make("zeros", {m_});  // running statistics
  Make("zeros", {m_});
  Make("indices", {m_, n_});  // classes of rows of [n, m]
  Make("indices", {std::min(n_, k_), n_});
}

void SetupBuilder::Images() {
  std::int64_t channels = g_.rng_.Int(1, 3);
  Make("input", {2, channels, 6, 5});
  Make("indices", {4, 2});
  g_.params_.push_back(Make("param", {4, channels, 3, 3}, 0.3));
  g_.params_.push_back(Make("param", {4}, 0.1));
  g_.params_.push_back(Make("param", {4, 4, 3, 3}, 0.2));
  g_.params_.push_back(Make("param", {4}, 1.0));
  Make("zeros", {4});
  Make("zeros", {4});
}

void SetupBuilder::Dtypes() {
  static const std::vector<std::string_view> kCasts = {
      "to_kDouble", "to_kBFloat16", "to_kHalf", "to_kLong",
      "to_kInt",    "to_kByte",     "to_kBool"};
  int count = g_.num_setup_vars_ = g_.program_.num_vars;
  for (int i = 0; i < 5; ++i) {
    int source = static_cast<int>(g_.rng_.Int(0, count - 1));
    std::string_view cast = g_.rng_.Of(kCasts);
    if (cast == "to_kByte") {  // negative values are undefined there
      source = Make("mask", {n_, m_});
    }
    Make(cast, {}, 1, {source});
  }
}

void SetupBuilder::Complex() {
  const auto type = static_cast<std::int64_t>(
      g_.rng_.Chance(0.5) ? at::kComplexFloat : at::kComplexDouble);
  for (const std::vector<std::int64_t>& sizes :
       std::vector<std::vector<std::int64_t>>{
           {n_, m_}, {n_, m_}, {m_}, {m_, n_}, {n_, 1}, {}}) {
    std::vector<std::int64_t> ints = {type};
    ints.insert(ints.end(), sizes.begin(), sizes.end());
    Make("complex_input", ints);
  }
}

void SetupBuilder::Aliases(int count) {
  const auto& table = OpTable();
  std::vector<int> views;
  for (std::size_t i = 0; i < table.size(); ++i) {
    if (table[i].group == Group::kView && table[i].num_dst == 1) {
      views.push_back(static_cast<int>(i));
    }
  }
  for (int i = 0; i < count; ++i) {
    Statement st;
    st.op = g_.rng_.Of(views);
    if (!table[st.op].propose(g_, st)) continue;
    if (g_.A(st, 0).requires_grad()) continue;
    Make(table[st.op].name, st.ints, 1, st.args);
  }
}

void SetupBuilder::Raw() {
  int blob = Make("from_blob", {n_ * m_, n_, m_}, 0.5);
  Make("from_blob", {m_, m_}, 0.25);
  int owned = Make("input", {n_, m_});
  Make("take_pointer", {}, 1, {owned});
  if (g_.rng_.Chance(0.5)) Make("take_pointer", {}, 1, {0});
  if (g_.rng_.Chance(0.3)) Make("take_pointer", {}, 1, {blob});
}

void SetupBuilder::Build() {
  const Family& family = *g_.family_;
  n_ = g_.rng_.Int(2, 6);
  m_ = g_.rng_.Int(4, 7);
  k_ = g_.rng_.Int(2, 5);
  if (g_.rng_.Chance(0.12)) {  // more than 4 KiB
    n_ = g_.rng_.Int(33, 40);
    m_ = g_.rng_.Int(32, 35);
  }
  if (family.has_long_rows) {
    n_ = g_.rng_.Int(1, 4);
    m_ = g_.rng_.Chance(0.3)   ? std::int64_t{1} << g_.rng_.Int(12, 15)
         : g_.rng_.Chance(0.6) ? g_.rng_.Int(4000, 12000)
                               : g_.rng_.Int(12000, 40000);
  }
  Plain();
  if (family.concurrent) {
    g_.program_.shared_vars = g_.program_.num_vars;
    g_.program_.shared_setup = static_cast<int>(g_.program_.setup.size());
    Plain();
  }
  Make("zeros", {n_, m_});  // state to accumulate in
  Make("zeros", {m_});
  Rare();
  if (family.trains) Params();
  if (family.has_images) Images();
  if (family.mixes_dtypes) Dtypes();
  if (family.has_complex) Complex();
  if (family.has_blobs) Raw();
  bool indexes = family.name == "indexing" || family.name == "errors";
  if (indexes || g_.rng_.Chance(0.15)) Indices();
  Aliases(family.name == "views" ? 4 : static_cast<int>(g_.rng_.Int(0, 2)));
  bool may_cycle = g_.beat_ == 1 || g_.beat_ == 3;
  if (may_cycle && g_.rng_.Chance(0.5)) {
    if (g_.rng_.Chance(0.5)) {
      g_.batches_ = {Make("input", {3 * n_, m_})};
    } else {
      g_.batches_ = {Make("input", {n_, m_}), Make("input", {n_, m_}),
                     Make("input", {n_, m_})};
    }
  }
  g_.num_setup_vars_ = g_.program_.num_vars;
}

}  // namespace tjit::differential
