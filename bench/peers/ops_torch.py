"""The functions of the rows' mathematics, as torch has them."""
import torch
from torch.nn import functional as F

abs = torch.abs  # pylint: disable=redefined-builtin
exp = torch.exp
linear = F.linear
log = torch.log
max = torch.amax  # pylint: disable=redefined-builtin
mean = torch.mean
mse_loss = F.mse_loss
cross_entropy = F.cross_entropy
gelu = F.gelu
relu = F.relu
sigmoid = torch.sigmoid
sqrt = torch.sqrt
stack = torch.stack
sum = torch.sum  # pylint: disable=redefined-builtin
tanh = torch.tanh
var = torch.var
zeros_like = torch.zeros_like


def softmax(x):
    """Over the last dimension."""
    return torch.softmax(x, -1)


def layer_norm(x, scale, shift):
    """Over the last dimension."""
    return F.layer_norm(x, x.shape[-1:], scale, shift)


def permute(x, *dims):
    """Its dimensions in another order."""
    return x.permute(dims)


def roll(x, by):
    """The last two dimensions of x, moved around."""
    return torch.roll(x, by, (-2, -1))


def rfftn(x):
    """Over all dimensions."""
    return torch.fft.rfftn(x)


def irfftn(x, sizes):
    """To `sizes`."""
    return torch.fft.irfftn(x, sizes)


def write(x, new, place):
    """x with `new` from `place`, a scalar tensor, of dimension 1 on."""
    return x.index_copy(1, place + torch.arange(new.shape[1]), new)


def conv2d_3x3(x, weight, bias):
    """Of the same size."""
    return F.conv2d(x, weight, bias, padding=1)


def max_pool_2x2(x):
    """Of half the size."""
    return F.max_pool2d(x, 2)


def dropout_half(x, steps):
    """By the global generator, which needs no count of steps."""
    del steps
    return F.dropout(x, 0.5)


def fold(f, carry, xs):
    """f over the first dimension of xs."""
    for x in xs.unbind(0):
        carry = f(carry, x)
    return carry


def while_loop(goes_on, body, carry):
    """Within the compiled function."""
    # pylint: disable-next=import-outside-toplevel
    from torch._higher_order_ops.while_loop import while_loop as loop
    return loop(goes_on, body, carry)


def value_and_grad(f, parameters):
    """A scalar function and its gradients."""
    leaves = [p.detach().requires_grad_() for p in parameters]
    with torch.enable_grad():
        value = f(leaves)
        gradients = torch.autograd.grad(value, leaves)
    return value.detach(), gradients
