"""Rows 13 to 17: bench/workloads_science.cpp, bench/workloads_lbm.cpp."""
import math

import torch

from .row import Call, Row, doubles, function, uniform


def rate_triple(batch):
    now_and_before = [doubles((batch,), seed) for seed in range(1, 7)]
    times = (doubles((batch,), 7) + 1, doubles((batch,), 8))

    def compute(ops, a, an, b, bn, c, cn, t, tn):
        del ops
        return tuple((x - xn) / (t - tn)
                     for x, xn in ((a, an), (b, bn), (c, cn)))
    return function((*now_and_before, *times), compute)


def elasticity(batch):
    """100 calls, each with its share of the strain."""
    young, poisson, ramp = 1e3, 0.3, 100
    bulk, shear = young / 3 / (1 - 2 * poisson), young / 2 / (1 + poisson)
    strain = 0.01 * doubles((batch, 6), 1)
    identity = torch.cat([torch.ones(3).double(), torch.zeros(3).double()])

    def step(ops, state, weights, inputs):
        strain, identity, share = inputs
        strain = strain * share
        trace = ops.sum(strain[:, :3], -1).reshape(-1, 1)
        volumetric = trace / 3 * identity
        deviatoric = strain - volumetric
        return state, (3 * bulk * volumetric + 2 * shear * deviatoric,)
    shares = [torch.tensor(i / ramp).double() for i in range(1, ramp + 1)]
    return Row([Call("step", (strain, identity, share)) for share in shares],
               {"step": step}, is_loop=True, check_steps=ramp)


def radial_return(batch):
    """Newton's steps until all have converged."""
    shear, yielding, saturation, rate = 80e3, 200, 100, 10
    most, enough = 20, 1e-8

    def compute(ops, trial, zero):
        def decay_and_residual(gamma):
            decay = ops.exp(-rate * gamma)
            return decay, (trial - 3 * shear * gamma - yielding -
                           saturation * (1 - decay))

        def goes_on(count, gamma, decay, residual):
            del gamma, decay
            return (count < most) & (ops.max(ops.abs(residual)) >= enough)

        def newton(count, gamma, decay, residual):
            slope = -3 * shear - saturation * rate * decay
            gamma = gamma - residual / slope
            return (count + 1, gamma, *decay_and_residual(gamma))

        gamma = ops.zeros_like(trial)
        return (ops.while_loop(goes_on, newton, (
            zero, gamma, *decay_and_residual(gamma)))[1],)
    return function((250 + 400 * doubles((batch,), 1), torch.tensor(0)),
                    compute)


def cahn_hilliard(*sizes):
    """dt is an input of the call; after 40 steps it starts again."""
    frequencies = [torch.fft.fftfreq(n, dtype=torch.float64)
                   for n in sizes[:-1]]
    frequencies.append(torch.fft.rfftfreq(sizes[-1], dtype=torch.float64))
    behind = range(len(sizes) - 1, -1, -1)  # dimensions behind each
    k2 = sum((2 * math.pi * k).square().reshape([-1] + [1] * count)
             for k, count in zip(frequencies, behind))

    def step(ops, state, weights, inputs):
        del weights
        (c,), (k2, k4, dt) = state, inputs
        low, high = c - 0.3, 0.7 - c
        mu = 10 * low * high**2 - 10 * low**2 * high
        change = -5 * k2 * ops.rfftn(mu)
        c = ops.irfftn((ops.rfftn(c) + dt * change) / (1 + 10 * dt * k4), sizes)
        return (c,), ()
    return Row([Call("step", (k2, k2.square(),
                              torch.tensor(1e-3 * 1.1**i).double()))
                for i in range(40)],
               {"step": step}, state=(0.5 + 0.02 * (doubles(sizes, 1) - 0.5),),
               results=lambda state, last: list(state))


VELOCITIES = ((0, 0), (1, 0), (0, 1), (-1, 0), (0, -1), (1, 1), (-1, 1),
              (-1, -1), (1, -1))


def lattice_boltzmann(side):
    omega = 1.2
    velocities = torch.tensor(VELOCITIES).float()
    # Packages of AOTInductor read whatever strides they were made for.
    cx, cy = (velocities[:, i].reshape(9, 1, 1).contiguous() for i in (0, 1))
    shares = torch.tensor(
        [4 / 9] + 4 * [1 / 9] + 4 * [1 / 36]).reshape(9, 1, 1)

    def step(ops, state, weights, inputs):
        del weights
        (f,), (cx, cy, shares) = state, inputs
        rho = ops.sum(f, 0)
        ux = ops.sum(f * cx, 0) / rho
        uy = ops.sum(f * cy, 0) / rho
        cu = cx * ux + cy * uy
        square = ux * ux + uy * uy
        equilibrium = shares * rho * (
            1 + 3 * cu + 4.5 * cu * cu - 1.5 * square)
        collided = f - omega * (f - equilibrium)
        f = ops.stack([ops.roll(collided[i], (vy, vx))
                       for i, (vx, vy) in enumerate(VELOCITIES)])
        return (f,), ()
    start = shares * (1 + 0.01 * uniform((9, side, side), 1))
    return Row([Call("step", (cx, cy, shares))], {"step": step},
               state=(start,), results=lambda state, last: list(state))


ROWS = {
    "rate-triple-1": lambda: rate_triple(1),
    "rate-triple-1024": lambda: rate_triple(1024),
    "rate-triple-64k": lambda: rate_triple(65536),
    "elasticity-1": lambda: elasticity(1),
    "elasticity-1024": lambda: elasticity(1024),
    "elasticity-32768": lambda: elasticity(32768),
    "radial-return-1024": lambda: radial_return(1024),
    "cahn-hilliard-200": lambda: cahn_hilliard(200, 200),
    "lbm-10": lambda: lattice_boltzmann(10),
    "lbm-512": lambda: lattice_boltzmann(512),
}
