"""The functions of the rows' mathematics, as jax has them."""
import jax
from jax import lax
from jax import numpy as jnp

abs = jnp.abs  # pylint: disable=redefined-builtin
exp = jnp.exp
log = jnp.log
max = jnp.max  # pylint: disable=redefined-builtin
mean = jnp.mean
relu = jax.nn.relu
sigmoid = jax.nn.sigmoid
sqrt = jnp.sqrt
stack = jnp.stack
sum = jnp.sum  # pylint: disable=redefined-builtin
tanh = jnp.tanh
zeros_like = jnp.zeros_like
rfftn = jnp.fft.rfftn


def permute(x, *dims):
    """Its dimensions in another order."""
    return jnp.transpose(x, dims)


def linear(x, weight, bias=None):
    """Weights are [out, in]."""
    y = x @ weight.T
    return y if bias is None else y + bias


def gelu(x):
    """By erf."""
    return jax.nn.gelu(x, approximate=False)


def var(x, axis):
    """The unbiased one."""
    return jnp.var(x, axis, ddof=1)


def softmax(x):
    """Over the last dimension."""
    return jax.nn.softmax(x, -1)


def layer_norm(x, scale, shift):
    """Over the last dimension."""
    centred = x - x.mean(-1, keepdims=True)
    y = centred * lax.rsqrt((centred * centred).mean(-1, keepdims=True) + 1e-5)
    return y * scale if shift is None else y * scale + shift


def roll(x, by):
    """The last two dimensions of x, moved around."""
    return jnp.roll(x, by, (-2, -1))


def irfftn(x, sizes):
    """To `sizes`."""
    return jnp.fft.irfftn(x, sizes)


def write(x, new, place):
    """x with `new` from `place`, a scalar array, of dimension 1 on."""
    return lax.dynamic_update_slice_in_dim(x, new, place, 1)


def mse_loss(x, y):
    """The mean of the squares."""
    return jnp.mean((x - y)**2)


def cross_entropy(logits, labels):
    """The mean over the rows."""
    logs = jax.nn.log_softmax(logits, -1)
    return -jnp.mean(jnp.take_along_axis(logs, labels[:, None], 1))


def conv2d_3x3(x, weight, bias):
    """Of the same size."""
    y = lax.conv_general_dilated(x, weight, (1, 1), "SAME",
                                 dimension_numbers=("NCHW", "OIHW", "NCHW"))
    return y + bias[None, :, None, None]


def max_pool_2x2(x):
    """Of half the size."""
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2),
                             "VALID")


def dropout_half(x, steps):
    """By a key of the count of steps, of the generator that is fastest."""
    key = jax.random.fold_in(jax.random.key(1, impl="rbg"),
                             steps.astype(jnp.int32))
    return jnp.where(jax.random.bernoulli(key, 0.5, x.shape), 2 * x, 0)


def fold(f, carry, xs):
    """f over the first dimension of xs."""
    return lax.scan(lambda carry, x: (f(carry, x), None), carry, xs)[0]


def while_loop(goes_on, body, carry):
    """Within the compiled function."""
    return lax.while_loop(lambda c: goes_on(*c), lambda c: body(*c), carry)


def value_and_grad(f, parameters):
    """A scalar function and its gradients."""
    return jax.value_and_grad(f)(list(parameters))
