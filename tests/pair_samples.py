"""Random systems for tests of the non-bonded engine, and what a pair list holds, pair by pair."""

import math

import numpy as np

from mdsim.box import Box
from mdsim.forces.base import ForceBuffers
from mdsim.forces.nonbonded import PairTerm
from mdsim.kernels.fixed_point import ENERGY_SCALE, FORCE_SCALE
from mdsim.tables import NonbondedTable

ORTHORHOMBIC = Box(np.diag([2.5, 2.6, 2.4]))
TRICLINIC = Box(np.array([[2.6, 0.0, 0.0], [0.8, 2.4, 0.0], [-0.8, 0.8, 2.3]]))


def spread_positions(n, box, seed=0):
    """int32[n, 3]: a lattice with noise, so that no two atoms overlap."""
    rng = np.random.default_rng(seed)
    edge = math.ceil(n ** (1 / 3))
    lattice = np.stack(np.meshgrid(*[np.arange(edge)] * 3, indexing="ij"), -1).reshape(-1, 3)[:n]
    return box.fractions((lattice + 0.5 + rng.uniform(-0.1, 0.1, lattice.shape)) / edge @ box.vectors)[0]


def make_table(n, method="PME", cutoff=0.9, seed=0, by_type=False, **options):
    """Charges, Lennard-Jones parameters for two atoms of five, and triples of excluded atoms."""
    rng = np.random.default_rng(seed)
    first = np.arange(0, n - 2, 3)
    exclusions = np.concatenate([np.stack([first, first + k], axis=1) for k in (1, 2)])
    if by_type:
        a, b = rng.uniform(size=(2, 5, 5)) * np.array([1e-6, 1e-3])[:, None, None]
        a[2] = a[:, 2] = b[2] = b[:, 2] = 0.0  # a type without Lennard-Jones
        options |= {"lj_type": rng.integers(0, 5, n).astype(np.int32), "lj_a": a + a.T, "lj_b": b + b.T}
    return NonbondedTable(
        label="NonbondedForce",
        lj_label="NonbondedForce",
        method=method,
        cutoff=cutoff,
        charge=rng.normal(size=n) * 0.5,
        sigma=rng.uniform(0.15, 0.3, n),
        epsilon=rng.uniform(size=n) * (rng.uniform(size=n) < 0.4),
        exclusions=exclusions[np.lexsort(exclusions.T[::-1])].astype(np.int32),
        ewald_alpha=2.9 if method in ("PME", "LJPME") else 0.0,
        ljpme_alpha=2.6 if method == "LJPME" else 0.0,
        **options,
    )


def compute(term, positions, box, with_energy=True):
    """(int64[n, 3] forces, int64[3] energies, flags) of a term, summed over threads."""
    threads, n = term.backend.n_threads, len(positions)
    out = ForceBuffers(
        np.zeros((threads, n, 3), np.int64), np.zeros((3, threads), np.int64), np.zeros((3, threads), np.int32)
    )
    term.update_list(positions, box)
    term.compute(positions, box, out, with_energy)
    return out.forces.sum(axis=0), out.energies.sum(axis=1), int(np.bitwise_or.reduce(out.flags, axis=None))


def compute_real(table, backend, positions, box, **options):
    """The same in kJ/mol/nm and kJ/mol, from a new term."""
    forces, energies, flags = compute(PairTerm(table, backend, box, **options), positions, box)
    return forces / FORCE_SCALE, energies / ENERGY_SCALE, flags


def listed_pairs(pair_list):
    """All atom pairs (i < j) that the rows of a list hold, as often as they occur in it."""
    rows, width, pairs = pair_list.rows, pair_list.width, []
    for ci in range(len(rows.plain_start)):
        entries = [(rows.plain[k], -1) for k in range(rows.plain_start[ci], rows.plain_end[ci])]
        entries += [
            (rows.masked[k], int(rows.masked_bits[k])) for k in range(rows.masked_start[ci], rows.masked_end[ci])
        ]
        for cj, bits in entries:
            for a in range(4):
                for lane in range(width):
                    i, j = pair_list.slot_atom[ci * 4 + a], pair_list.slot_atom[cj * width + lane]
                    if i >= 0 and j >= 0 and bits >> (a * width + lane) & 1:
                        pairs.append((min(i, j), max(i, j)))
    return pairs
