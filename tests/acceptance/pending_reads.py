"""Every way to look into a tensor from Python, while its bytes are pending.

A program that knows nothing of tjit, but for the count that it asks for where
argv[1] names a library: it repeats a small loop until that is replayed, then
leaves its results pending and reads them in one of the ways below. Prints one
line per way: name, what was read, and how many ops were pending just before
(0 without a library). The caller compares a run with tjit and one without.
"""
import copy
import ctypes
import gc
import hashlib
import io
import multiprocessing
import os
import pickle
import sys
import tempfile
import threading
import warnings

warnings.simplefilter("ignore")
import torch  # noqa: E402

try:
    import numpy
except ImportError:
    numpy = None

torch.set_num_threads(1)
READERS = {}


def reader(function):
    READERS[function.__name__] = function
    return function


def step(x, w):
    """[64, 32] f32 from x [64, 32] and w [32]: five ops, all deferrable."""
    y = torch.tanh(x * w)
    z = torch.add(y, x, alpha=0.5)
    return torch.add(z, y) * 2


# What is read of y, the result of a step over x and w. All of them return
# something that repr() tells apart.

@reader
def item(y, x, w):
    return y[3, 3].item()


@reader
def tolist(y, x, w):
    return y.tolist()


@reader
def printing(y, x, w):
    return str(y) + repr(y[0])


@reader
def scalar_conversions(y, x, w):
    return float(y[0, 0]), int(y[0, 1] * 100), bool(y[0, 2] > 0)


@reader
def comparison(y, x, w):
    return torch.equal(y, y.clone()), bool((y == y).all())


@reader
def iteration(y, x, w):
    return [row.sum().item() for row in y]


@reader
def membership(y, x, w):
    return 5.0 in y, torch.isnan(y).any().item()


@reader
def mask(y, x, w):
    return y[y > 0].tolist(), torch.nonzero(y > 0.5).tolist()


@reader
def data_pointer(y, x, w):
    return list((ctypes.c_float * y.numel()).from_address(y.data_ptr()))


@reader
def pointer_of_a_view(y, x, w):
    v = y[2:5, 3:]
    return ctypes.c_float.from_address(v.data_ptr()).value


@reader
def storage_pointer(y, x, w):
    return list((ctypes.c_float * 8).from_address(
        y.untyped_storage().data_ptr()))


@reader
def typed_storage(y, x, w):
    return y.storage().tolist()[:40]


@reader
def dlpack(y, x, w):
    other = torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(y))
    return other.tolist()


@reader
def dlpack_protocol(y, x, w):
    return torch.from_dlpack(y).tolist()


@reader
def write_through_dlpack(y, x, w):
    view = torch.from_dlpack(y)
    view.add_(1)
    later = y * 2
    view.mul_(3)
    return later.tolist(), y.tolist()


@reader
def pickling(y, x, w):
    return pickle.loads(pickle.dumps(y)).tolist()


@reader
def saving(y, x, w):
    file = io.BytesIO()
    torch.save({"y": y, "x": x}, file)
    file.seek(0)
    loaded = torch.load(file)
    return loaded["y"].tolist(), loaded["x"].tolist()


@reader
def saving_to_disk(y, x, w):
    with tempfile.NamedTemporaryFile() as file:
        torch.save(y, file.name)
        return torch.load(file.name).tolist()


@reader
def saving_in_the_old_format(y, x, w):
    file = io.BytesIO()
    torch.save(y, file, _use_new_zipfile_serialization=False)
    file.seek(0)
    return torch.load(file).tolist()


@reader
def state_dict(y, x, w):
    module = torch.nn.Linear(32, 64)
    with torch.no_grad():
        module.weight.copy_(y)
    return hashlib.sha256(pickle.dumps(
        module.state_dict()["weight"].tolist())).hexdigest()


@reader
def deepcopy(y, x, w):
    return copy.deepcopy(y).tolist()


@reader
def write_to_file(y, x, w):
    with tempfile.TemporaryFile() as file:
        y.untyped_storage()._write_file(file, True, False, 4)
        file.seek(0)
        return hashlib.sha256(file.read()).hexdigest()


@reader
def share_memory(y, x, w):
    y.share_memory_()
    return y.tolist(), y.is_shared()


@reader
def resize_storage(y, x, w):
    y.untyped_storage().resize_(y.untyped_storage().nbytes() + 64)
    return y.tolist()


@reader
def resize_larger(y, x, w):
    y.resize_(128, 32)
    return y[:64].tolist()


@reader
def resize_smaller(y, x, w):
    y.resize_(4, 4)
    return y.tolist()


@reader
def set_storage(y, x, w):
    other = torch.empty(0)
    other.set_(y.untyped_storage(), 32, (4, 8), (8, 1))
    return other.tolist()


@reader
def set_data(y, x, w):
    other = torch.zeros(3)
    other.data = y
    y.data = x
    return other.tolist(), y.tolist()


@reader
def swap(y, x, w):
    a, b = torch.nn.Parameter(y), torch.nn.Parameter(x.clone())
    torch.utils.swap_tensors(a, b)
    return a.tolist(), b.tolist()


@reader
def lazy_clone(y, x, w):
    z = torch._lazy_clone(y)
    z.add_(1)
    return y.tolist(), z.tolist()


@reader
def storage_copy(y, x, w):
    storage = y.untyped_storage().clone()
    return list((ctypes.c_float * 8).from_address(storage.data_ptr()))


@reader
def storage_fill(y, x, w):
    y.untyped_storage().fill_(0)
    return y.sum().item()


@reader
def backward_hooks(y, x, w):
    seen = []
    leaf = torch.ones(64, 32, requires_grad=True)
    z = leaf * y
    z.register_hook(lambda g: seen.append(g.sum().item()))
    leaf.register_hook(lambda g: g * 2)
    (z * y).sum().backward()
    return seen, leaf.grad.tolist()


@reader
def hook_that_reads_memory(y, x, w):
    seen = []
    leaf = torch.ones(64, 32, requires_grad=True)
    z = leaf * y
    z.register_hook(lambda g: seen.append(
        ctypes.c_float.from_address(g.data_ptr()).value))
    z.pow(2).sum().backward()
    return seen, leaf.grad[0].tolist()


@reader
def saved_tensor_hooks(y, x, w):
    packed = []

    def pack(t):
        packed.append(pickle.dumps(t.tolist()))
        return len(packed) - 1

    leaf = torch.ones(64, 32, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(
            pack, lambda i: torch.tensor(pickle.loads(packed[i]))):
        z = (leaf * y).tanh().sum()
    z.backward()
    return leaf.grad.tolist()


@reader
def autograd_function(y, x, w):
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            ctx.save_for_backward(a)
            return a * 2

        @staticmethod
        def backward(ctx, g):
            (a,) = ctx.saved_tensors
            return g * a.tolist()[0][0]

    leaf = y.clone().requires_grad_()
    Double.apply(leaf).sum().backward()
    return leaf.grad[0].tolist()


@reader
def backward_in_another_thread(y, x, w):
    leaf = torch.ones(64, 32, requires_grad=True)
    loss = (leaf * y).sum()
    thread = threading.Thread(target=loss.backward)
    thread.start()
    thread.join()
    return leaf.grad.tolist()


@reader
def another_thread(y, x, w):
    seen = []
    thread = threading.Thread(target=lambda: seen.append((y + 1).tolist()))
    thread.start()
    thread.join()
    return seen


@reader
def a_thread_that_leaves_results_pending(y, x, w):
    results = []

    def work():
        for _ in range(30):
            results.append(step(y, w))
            results[-1][0, 0].item()
        results.append(step(y, w))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    return results[-1].tolist()


@reader
def forked_child(y, x, w):
    r, wr = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(wr, hashlib.sha256(str(y.tolist()).encode()).digest())
        os._exit(0)
    os.waitpid(child, 0)
    return os.read(r, 64), y.tolist()


@reader
def data_loader(y, x, w):
    data = torch.utils.data.TensorDataset(y, x)
    loader = torch.utils.data.DataLoader(data, batch_size=10)
    return [a.sum().item() + b.sum().item() for a, b in loader]


@reader
def data_loader_workers(y, x, w):
    loader = torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(y), batch_size=16, num_workers=2,
        multiprocessing_context="fork")
    return [a.tolist() for (a,) in loader]


@reader
def queue(y, x, w):
    context = multiprocessing.get_context("fork")
    items = context.SimpleQueue()
    child = context.Process(target=lambda: items.put((y * 2).tolist()))
    child.start()
    got = items.get()
    child.join()
    return got


@reader
def jit_script(y, x, w):
    @torch.jit.script
    def f(a):
        if float(a[0, 0]) > 0:
            return a + 1
        return a - 1
    return f(y).tolist()


@reader
def jit_trace(y, x, w):
    f = torch.jit.trace(lambda a: torch.tanh(a) * y, (x,))
    return f(y).tolist(), f(x).tolist()


@reader
def jit_save(y, x, w):
    class Module(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("y", y)

        def forward(self, a):
            return a + self.y
    file = io.BytesIO()
    torch.jit.save(torch.jit.script(Module()), file)
    file.seek(0)
    return torch.jit.load(file)(x).tolist()


@reader
def vmap(y, x, w):
    return torch.func.vmap(lambda a, b: (a * b).sum())(y, x).tolist()


@reader
def functional_gradient(y, x, w):
    return torch.func.grad(lambda a: (a * y).tanh().sum())(x).tolist()


@reader
def forward_mode(y, x, w):
    return torch.func.jvp(torch.tanh, (x,), (y,))[1].tolist()


@reader
def sparse(y, x, w):
    return torch.relu(y).to_sparse().coalesce().values().tolist()


@reader
def sparse_rows(y, x, w):
    return (torch.relu(y).to_sparse_csr() @ x.t()).tolist()


@reader
def onednn(y, x, w):
    if not torch.backends.mkldnn.is_available():
        return None
    return torch.relu(y.to_mkldnn()).to_dense().tolist()


@reader
def quantized(y, x, w):
    return torch.quantize_per_tensor(
        y, 0.1, 10, torch.quint8).int_repr().tolist()


@reader
def nested(y, x, w):
    n = torch.nested.nested_tensor([y[:3], y[3:10]])
    return n.to_padded_tensor(0.0).tolist()


@reader
def subclass(y, x, w):
    class Mine(torch.Tensor):
        pass
    return (y.as_subclass(Mine) * 2).tolist()


@reader
def dispatch_mode(y, x, w):
    from torch.utils._python_dispatch import TorchDispatchMode
    names = []

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, op, types, args=(), kwargs=None):
            names.append(str(op))
            return op(*args, **(kwargs or {}))

    with Mode():
        z = torch.tanh(y) * x
    return names, z.tolist()


@reader
def autocast(y, x, w):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return (y @ x.t()).tolist()


@reader
def custom_op(y, x, w):
    if "mine" not in READERS:
        READERS["mine"] = None
        library = torch.library.Library("tjit_pending_reads", "DEF")
        library.define("first(Tensor t) -> Tensor")
        library.impl("first", lambda t: torch.tensor(
            ctypes.c_float.from_address(t.data_ptr()).value), "CPU")
        custom_op.library = library
        del READERS["mine"]
    return torch.ops.tjit_pending_reads.first(y).item()


@reader
def conversions(y, x, w):
    return (y.to(torch.bfloat16).tolist(), y.double().sum().item(),
            y.to(torch.int32).tolist())


@reader
def frombuffer(y, x, w):
    memory = bytearray(64)
    t = torch.frombuffer(memory, dtype=torch.float32)
    t.copy_(y[0, :16])
    first = bytes(memory)
    later = t * 2
    memory[0:4] = b"\0\0\0\0"
    return first, later.tolist()


@reader
def weak_reference(y, x, w):
    z = step(y, w)
    shape = z.shape
    del z
    gc.collect()
    return tuple(shape), y.tolist()


@reader
def rng_state(y, x, w):
    torch.manual_seed(3)
    noise = torch.randn_like(y)
    z = noise * y
    state = torch.get_rng_state()
    noise.normal_()
    torch.set_rng_state(state)
    return z.tolist(), torch.rand(2).tolist()


@reader
def write_to_an_input(y, x, w):
    z = step(y, w)
    y.fill_(1)
    pointer = (ctypes.c_float * y.numel()).from_address(y.data_ptr())
    u = step(y, w)
    pointer[5] = 7.0
    return z.tolist(), u.tolist(), y.tolist()


if numpy is not None:
    @reader
    def to_numpy(y, x, w):
        return y.numpy().tolist()

    @reader
    def numpy_array(y, x, w):
        return numpy.asarray(y).sum().item(), numpy.add(y, 1).tolist()

    @reader
    def write_through_numpy(y, x, w):
        view = y.numpy()
        later = y * 2
        view[0, 0] = 18
        y.add_(1)
        return later.tolist(), view.tolist()

    @reader
    def from_numpy(y, x, w):
        array = numpy.ones((64, 32), dtype=numpy.float32)
        t = torch.from_numpy(array)
        z = t * y
        array[:] = 5
        return z.tolist()


def main():
    library = ctypes.CDLL(sys.argv[1]) if len(sys.argv) > 1 else None
    torch.manual_seed(1)
    base, w = torch.randn(64, 32), torch.randn(32)
    for name, read in READERS.items():
        x = base.clone()
        for _ in range(20):
            step(x, w)[0, 0].item()
        y = step(x, w)
        pending = library.tjit_test_pending() if library else 0
        value = hashlib.sha256(repr(read(y, x, w)).encode()).hexdigest()
        print(name, value[:16], pending, flush=True)
        del y, x


main()
