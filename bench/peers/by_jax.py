"""Rows by jax.jit."""
import os

import numpy
import torch


def set_flags(variant):
    """Before jax is loaded: one thread, and "512" asks for wide vectors."""
    flags = ["--xla_cpu_multi_thread_eigen=false"]
    if "512" in variant:
        flags.append("--xla_cpu_prefer_vector_width=512")
    os.environ["XLA_FLAGS"] = " ".join(flags)
    os.environ["JAX_PLATFORMS"] = "cpu"


class Runner:
    """A row whose functions are f(state, weights, inputs); what it works on in
    place is donated."""

    def __init__(self, row, loops):
        # pylint: disable=import-outside-toplevel
        import jax
        import ops_jax
        jax.config.update("jax_cpu_enable_async_dispatch", False)
        tensors = (*row.state, *row.weights,
                   *(t for call in row.schedule for t in call.inputs))
        jax.config.update("jax_enable_x64", any(
            t.dtype == torch.float64 for t in tensors))
        self.row, self.last, self.kept = row, {}, {}
        made = {}

        def arrays(tensors):
            for t in tensors:
                if id(t) not in made:
                    made[id(t)] = self.array(t)
            return tuple(made[id(t)] for t in tensors)
        # Donated: must not be shared with others.
        self.state = tuple(self.array(t) for t in row.state)
        self.weights = arrays(row.weights)
        self.inputs = {id(call): arrays(call.inputs) for call in row.schedule}

        def compiled(f):
            return jax.jit(
                lambda state, weights, inputs: f(ops_jax, state, weights,
                                                 inputs), donate_argnums=0)
        self.functions = {name: compiled(f)
                          for name, f in row.functions.items()}
        if loops:
            self.make_loop(jax, ops_jax)

    @staticmethod
    def array(tensor):
        """A copy."""
        from jax import numpy as jnp  # pylint: disable=import-outside-toplevel
        if tensor.dtype == torch.bfloat16:
            return jnp.array(tensor.float().numpy()).astype(jnp.bfloat16)
        return jnp.array(tensor.numpy())

    @staticmethod
    def tensor(array):
        """A copy, by numpy, which has no bfloat16."""
        if str(array.dtype) == "bfloat16":
            return torch.from_numpy(
                numpy.array(array.astype("float32"))).bfloat16()
        return torch.from_numpy(numpy.array(array))

    def make_loop(self, jax, ops_jax):
        """Puts all calls of the schedule into one, a loop; the results of each
        are kept, as others keep them."""
        (name, f), = self.row.functions.items()
        all_inputs = [self.inputs[id(call)] for call in self.row.schedule]
        # What is the same in all calls is no input of the loop.
        moves = [any(i[at] is not all_inputs[0][at] for i in all_inputs)
                 for at in range(len(all_inputs[0]))]

        def loop(state, weights, inputs):
            fixed, moving = inputs

            def step(state, now):
                fixed_ones, moving_ones = iter(fixed), iter(now)
                return f(ops_jax, state, weights, [
                    next(moving_ones if is_moving else fixed_ones)
                    for is_moving in moves])
            return jax.lax.scan(step, state, moving)
        compiled = jax.jit(loop, donate_argnums=0)
        fixed = [v for v, moving in zip(all_inputs[0], moves) if not moving]
        moving = [jax.numpy.stack([i[at] for i in all_inputs])
                  for at, is_moving in enumerate(moves) if is_moving]
        self.loop = name, compiled, (fixed, moving)

    def call(self, call):
        """One call of the schedule."""
        self.state, self.last[call.function] = self.functions[call.function](
            self.state, self.weights, self.inputs[id(call)])

    def call_all(self):
        """The whole schedule in one call."""
        name, compiled, inputs = self.loop
        self.state, kept = compiled(self.state, self.weights, inputs)
        self.kept = {name: kept}

    def wait(self):
        """Until all is computed."""
        import jax  # pylint: disable=import-outside-toplevel
        jax.block_until_ready((self.state, self.last, self.kept))

    def results(self):
        """As those of the C++ row."""
        for name, kept in self.kept.items():
            self.last[name] = [stacked[-1] for stacked in kept]
        return self.row.results(
            [self.tensor(a) for a in self.state],
            {name: [self.tensor(a) for a in out]
             for name, out in self.last.items()})


def compiled_row(row, variant):
    """A row under jax.jit, after set_flags()."""
    runner = Runner(row, "loop" in variant)
    return runner, runner.wait
