// Typed wrappers: special function ops, part 1 of 1.
#include <ATen/Operators.h>

#include "runtime/intercept/typed_wrapper.h"
#include "runtime/intercept/wrap_registry.h"

namespace tjit::runtime {

void AddSpecial1Ops(std::vector<TypedOp>* ops) {
  AddTyped<at::_ops::special_airy_ai>(ops);
  AddTyped<at::_ops::special_airy_ai_out>(ops);
  AddTyped<at::_ops::special_bessel_j0>(ops);
  AddTyped<at::_ops::special_bessel_j0_out>(ops);
  AddTyped<at::_ops::special_bessel_j1>(ops);
  AddTyped<at::_ops::special_bessel_j1_out>(ops);
  AddTyped<at::_ops::special_bessel_y0>(ops);
  AddTyped<at::_ops::special_bessel_y0_out>(ops);
  AddTyped<at::_ops::special_bessel_y1>(ops);
  AddTyped<at::_ops::special_bessel_y1_out>(ops);
  AddTyped<at::_ops::special_chebyshev_polynomial_t>(ops);
  AddTyped<at::_ops::special_chebyshev_polynomial_t_out>(ops);
  AddTyped<at::_ops::special_chebyshev_polynomial_u>(ops);
  AddTyped<at::_ops::special_chebyshev_polynomial_u_out>(ops);
  AddTyped<at::_ops::special_chebyshev_polynomial_v>(ops);
  AddTyped<at::_ops::special_chebyshev_polynomial_v_out>(ops);
  AddTyped<at::_ops::special_chebyshev_polynomial_w>(ops);
  AddTyped<at::_ops::special_chebyshev_polynomial_w_out>(ops);
  AddTyped<at::_ops::special_entr>(ops);
  AddTyped<at::_ops::special_entr_out>(ops);
  AddTyped<at::_ops::special_erfcx>(ops);
  AddTyped<at::_ops::special_erfcx_out>(ops);
  AddTyped<at::_ops::special_hermite_polynomial_h>(ops);
  AddTyped<at::_ops::special_hermite_polynomial_h_out>(ops);
  AddTyped<at::_ops::special_hermite_polynomial_he>(ops);
  AddTyped<at::_ops::special_hermite_polynomial_he_out>(ops);
  AddTyped<at::_ops::special_i0e>(ops);
  AddTyped<at::_ops::special_i0e_out>(ops);
  AddTyped<at::_ops::special_i1>(ops);
  AddTyped<at::_ops::special_i1_out>(ops);
  AddTyped<at::_ops::special_i1e>(ops);
  AddTyped<at::_ops::special_i1e_out>(ops);
  AddTyped<at::_ops::special_laguerre_polynomial_l>(ops);
  AddTyped<at::_ops::special_laguerre_polynomial_l_out>(ops);
  AddTyped<at::_ops::special_legendre_polynomial_p>(ops);
  AddTyped<at::_ops::special_legendre_polynomial_p_out>(ops);
  AddTyped<at::_ops::special_log_ndtr>(ops);
  AddTyped<at::_ops::special_log_ndtr_out>(ops);
  AddTyped<at::_ops::special_modified_bessel_i0>(ops);
  AddTyped<at::_ops::special_modified_bessel_i0_out>(ops);
  AddTyped<at::_ops::special_modified_bessel_i1>(ops);
  AddTyped<at::_ops::special_modified_bessel_i1_out>(ops);
  AddTyped<at::_ops::special_modified_bessel_k0>(ops);
  AddTyped<at::_ops::special_modified_bessel_k0_out>(ops);
  AddTyped<at::_ops::special_modified_bessel_k1>(ops);
  AddTyped<at::_ops::special_modified_bessel_k1_out>(ops);
  AddTyped<at::_ops::special_ndtri>(ops);
  AddTyped<at::_ops::special_ndtri_out>(ops);
  AddTyped<at::_ops::special_scaled_modified_bessel_k0>(ops);
  AddTyped<at::_ops::special_scaled_modified_bessel_k0_out>(ops);
  AddTyped<at::_ops::special_scaled_modified_bessel_k1>(ops);
  AddTyped<at::_ops::special_scaled_modified_bessel_k1_out>(ops);
  AddTyped<at::_ops::special_shifted_chebyshev_polynomial_t>(ops);
  AddTyped<at::_ops::special_shifted_chebyshev_polynomial_t_out>(ops);
  AddTyped<at::_ops::special_shifted_chebyshev_polynomial_u>(ops);
  AddTyped<at::_ops::special_shifted_chebyshev_polynomial_u_out>(ops);
  AddTyped<at::_ops::special_shifted_chebyshev_polynomial_v>(ops);
  AddTyped<at::_ops::special_shifted_chebyshev_polynomial_v_out>(ops);
  AddTyped<at::_ops::special_shifted_chebyshev_polynomial_w>(ops);
  AddTyped<at::_ops::special_shifted_chebyshev_polynomial_w_out>(ops);
  AddTyped<at::_ops::special_spherical_bessel_j0>(ops);
  AddTyped<at::_ops::special_spherical_bessel_j0_out>(ops);
  AddTyped<at::_ops::special_xlog1py>(ops);
  AddTyped<at::_ops::special_xlog1py_out>(ops);
  AddTyped<at::_ops::special_zeta>(ops);
  AddTyped<at::_ops::special_zeta_out>(ops);
}

}  // namespace tjit::runtime
