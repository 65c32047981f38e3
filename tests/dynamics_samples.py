"""Small systems for the tests of integrators, constraints and barostats, with forces given by formulas."""

from __future__ import annotations

import numpy as np

from mdsim.backends import get_backend
from mdsim.box import Box
from mdsim.kernels.fixed_point import FORCE_SCALE
from mdsim.state import LocalView, State
from mdsim.tables import CompiledSystem, ConstraintTable, VirtualSiteTable

KT = 2.5  # kJ/mol, about 300 K
WATER_MASSES = (15.99943, 1.007947, 1.007947)
OH, HH = 0.09572, 0.15139006545247014  # TIP3P, nm
CH = 0.109
METHANE_MASSES = (12.01078, 1.007947, 1.007947, 1.007947, 1.007947)


def constraint_table(settle=(), settle_distances=(), groups=()) -> ConstraintTable:
    """``groups``: for each, a list of (i, j, distance)."""
    flat = [c for group in groups for c in group]
    return ConstraintTable(
        settle=np.array(settle, np.int32).reshape(-1, 3),
        settle_distances=np.array(settle_distances, np.float64).reshape(-1, 2),
        atoms=np.array([c[:2] for c in flat], np.int32).reshape(-1, 2),
        distance=np.array([c[2] for c in flat], np.float64),
        group_start=np.cumsum([0] + [len(group) for group in groups]).astype(np.int32),
    )


def site_table(rows=()) -> VirtualSiteTable:
    """``rows``: (site, kind, parents, dict of the arrays that matter)."""
    m = len(rows)
    arrays = {
        name: np.array([row[3].get(name, np.zeros(3)) for row in rows], np.float64).reshape(m, 3)
        for name in ("weights", "origin_weights", "x_weights", "y_weights", "local")
    }
    return VirtualSiteTable(
        sites=np.array([row[0] for row in rows], np.int32),
        kind=np.array([row[1] for row in rows], np.int32),
        parents=np.array([row[2] for row in rows], np.int32).reshape(m, 3),
        **arrays,
    )


def make_system(masses, constraints=None, sites=None, molecule_sizes=None, remove_cm=0, periodic=True) -> CompiledSystem:
    n = len(masses)
    sizes = [1] * n if molecule_sizes is None else molecule_sizes
    starts = np.cumsum([0, *sizes]).astype(np.int32)
    return CompiledSystem(
        masses=np.array(masses, np.float64),
        forces=(),
        constraints=constraint_table() if constraints is None else constraints,
        virtual_sites=site_table() if sites is None else sites,
        group_atoms=np.arange(n, dtype=np.int32),
        group_start=starts,
        molecule_atoms=np.arange(n, dtype=np.int32),
        molecule_start=starts,
        periodic=periodic,
        default_vectors=np.eye(3) * 3.0,
        remove_cm_frequency=remove_cm,
    )


def make_state(positions, velocities=None, box=None) -> State:
    x = np.asarray(positions, np.float64)
    box = Box(np.eye(3) * 3.0) if box is None else box
    fractions, images = box.fractions(x)
    return State(
        step=0,
        box=box,
        ids=np.arange(len(x), dtype=np.int32),
        positions=fractions,
        images=images,
        velocities=np.zeros_like(x) if velocities is None else np.array(velocities, np.float64),
        n_local=len(x),
    )


def view_of(state: State) -> LocalView:
    return LocalView(ids=state.ids, global_to_local=np.arange(len(state.ids), dtype=np.int32), n_local=state.n_local)


def cartesian(state: State) -> np.ndarray:
    """Unwrapped positions, nm."""
    return state.box.cartesian(state.positions, state.images)


def fixed(forces) -> np.ndarray:
    """kJ/mol/nm to fixed point."""
    return np.rint(np.asarray(forces) * FORCE_SCALE).astype(np.int64)


def run(integrator, state, force, steps, after=None):
    """Take ``steps`` steps under ``force(positions in nm) -> float64[n, 3]``."""
    forces = fixed(force(cartesian(state)))
    for _ in range(steps):
        integrator.first_half(state, forces)
        state.step += 1
        forces = fixed(force(cartesian(state)))
        integrator.second_half(state, forces)
        if after is not None:
            after(state)


def water() -> np.ndarray:
    """O, H, H in nm."""
    half = 0.5 * HH
    height = np.sqrt(OH**2 - half**2)
    return np.array([[0.0, 0.0, 0.0], [height, half, 0.0], [height, -half, 0.0]])


def methane() -> np.ndarray:
    """C, H, H, H, H in nm."""
    corners = np.array([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]]) / np.sqrt(3.0)
    return np.concatenate([np.zeros((1, 3)), CH * corners])


def rotation(rng) -> np.ndarray:
    q, r = np.linalg.qr(rng.normal(size=(3, 3)))
    q = q * np.sign(np.diag(r))
    return q if np.linalg.det(q) > 0 else -q


def methane_constraints(first: int, angles: bool) -> list[tuple[int, int, float]]:
    """C-H bonds of a methane whose carbon is ``first``; with ``angles``, the H-H distances too (redundant)."""
    bonds = [(first, first + k, CH) for k in range(1, 5)]
    hh = CH * np.sqrt(8.0 / 3.0)
    pairs = [(first + a, first + b, hh) for a in range(1, 5) for b in range(a + 1, 5)]
    return bonds + (pairs if angles else [])


def rigid_mixture(n_water=40, n_methane=10, angles=False, seed=3, triclinic=True):
    """Waters (SETTLE) and methanes (SHAKE) on a grid in a box that they stick out of: (system, state at 300 K)."""
    rng = np.random.default_rng(seed)
    side = int(np.ceil((n_water + n_methane) ** (1 / 3)))
    grid = 0.5 * np.array(np.meshgrid(*[range(side)] * 3)).reshape(3, -1).T
    molecules = [water()] * n_water + [methane()] * n_methane
    positions = np.concatenate([m @ rotation(rng) + grid[k] for k, m in enumerate(molecules)])
    masses = np.array(WATER_MASSES * n_water + METHANE_MASSES * n_methane)
    first_c = 3 * n_water
    table = constraint_table(
        settle=[(3 * w, 3 * w + 1, 3 * w + 2) for w in range(n_water)],
        settle_distances=[(OH, HH)] * n_water,
        groups=[methane_constraints(first_c + 5 * m, angles) for m in range(n_methane)],
    )
    edge = 0.5 * side
    vectors = [[edge, 0, 0], [0.3 * edge, edge, 0], [-0.2 * edge, 0.4 * edge, edge]] if triclinic else np.eye(3) * edge
    velocities = rng.normal(size=positions.shape) * np.sqrt(KT / masses)[:, None]
    sizes = [3] * n_water + [5] * n_methane
    system = make_system(masses, table, molecule_sizes=sizes)
    return system, make_state(positions, velocities, Box(np.array(vectors)))


def threads(n: int):
    return get_backend("cpu", n)
