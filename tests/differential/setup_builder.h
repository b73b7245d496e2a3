// Makes the set-up of a program: the variables that live through its loop.
#pragma once

#include <string_view>
#include <vector>

#include "tests/differential/generator.h"

namespace tjit::differential {

class SetupBuilder {
 public:
  explicit SetupBuilder(Generator& generator) : g_(generator) {}
  void Build();

 private:
  // Adds a statement that binds one variable; its number, or -1.
  int Make(std::string_view op, std::vector<std::int64_t> ints,
           double scalar = 1, std::vector<int> args = {});
  void Plain();
  void Rare();
  void Indices();
  void Params();
  void Images();
  void Dtypes();
  void Complex();
  void Aliases(int count);
  void Raw();

  Generator& g_;
  std::int64_t n_ = 4;
  std::int64_t m_ = 6;
  std::int64_t k_ = 3;
};

}  // namespace tjit::differential
