// Typed wrappers: linear ops, part 3 of 6.
#include "runtime/intercept/typed_wrapper.h"
#include "runtime/intercept/wrap_registry.h"

#include <ATen/ops/prod_ops.h>
#include <ATen/ops/put_ops.h>
#include <ATen/ops/random_ops.h>
#include <ATen/ops/roll_ops.h>
#include <ATen/ops/scatter_ops.h>
#include <ATen/ops/scatter_add_ops.h>
#include <ATen/ops/sort_ops.h>
#include <ATen/ops/std_ops.h>
#include <ATen/ops/sum_ops.h>
#include <ATen/ops/take_ops.h>
#include <ATen/ops/topk_ops.h>
#include <ATen/ops/tril_ops.h>
#include <ATen/ops/triu_ops.h>
#include <ATen/ops/uniform_ops.h>
#include <ATen/ops/var_ops.h>
#include <ATen/ops/var_mean_ops.h>
#include <ATen/ops/vdot_ops.h>

namespace tjit::runtime {

void AddLinear3Ops(std::vector<TypedOp>* ops) {
  AddTyped<at::_ops::prod_dim_int>(ops);
  AddTyped<at::_ops::put_>(ops);
  AddTyped<at::_ops::random_>(ops);
  AddTyped<at::_ops::random__from>(ops);
  AddTyped<at::_ops::random__to>(ops);
  AddTyped<at::_ops::roll>(ops);
  AddTyped<at::_ops::scatter_reduce>(ops);
  AddTyped<at::_ops::scatter_src>(ops);
  AddTyped<at::_ops::scatter_value>(ops);
  AddTyped<at::_ops::scatter_value_reduce>(ops);
  AddTyped<at::_ops::scatter__reduce>(ops);
  AddTyped<at::_ops::scatter__src>(ops);
  AddTyped<at::_ops::scatter__value>(ops);
  AddTyped<at::_ops::scatter__value_reduce>(ops);
  AddTyped<at::_ops::scatter_add>(ops);
  AddTyped<at::_ops::scatter_add_>(ops);
  AddTyped<at::_ops::sort_stable>(ops);
  AddTyped<at::_ops::sort_values_stable>(ops);
  AddTyped<at::_ops::std_correction>(ops);
  AddTyped<at::_ops::sum_IntList_out>(ops);
  AddTyped<at::_ops::sum_dim_IntList>(ops);
  AddTyped<at::_ops::take>(ops);
  AddTyped<at::_ops::topk>(ops);
  AddTyped<at::_ops::topk_values>(ops);
  AddTyped<at::_ops::tril>(ops);
  AddTyped<at::_ops::tril_>(ops);
  AddTyped<at::_ops::triu>(ops);
  AddTyped<at::_ops::triu_>(ops);
  AddTyped<at::_ops::uniform_>(ops);
  AddTyped<at::_ops::var_correction>(ops);
  AddTyped<at::_ops::var_mean_correction>(ops);
  AddTyped<at::_ops::vdot>(ops);
}

}  // namespace tjit::runtime
