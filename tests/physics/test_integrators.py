"""Integrators against what theory says of them: orders, invariants and distributions, on systems with analytic forces."""

import numpy as np
import pytest
from dynamics_samples import (
    KT,
    cartesian,
    constraint_table,
    fixed,
    make_state,
    make_system,
    rigid_mixture,
    run,
    threads,
    view_of,
)

from mdsim.errors import InputError, SimulationError
from mdsim.integrators import make_integrator
from mdsim.units import BOLTZMANN

TEMPERATURE = KT / BOLTZMANN
CENTRE = 1.5


def oscillators(n, k, masses=None, seed=1):
    """``n`` atoms, each in a harmonic well of stiffness ``k`` (kJ/mol/nm^2) about its own point: (system, state, force)."""
    rng = np.random.default_rng(seed)
    masses = np.full(n, 10.0) if masses is None else masses
    x = CENTRE + rng.normal(size=(n, 3)) * np.sqrt(KT / np.asarray(k))[..., None]
    v = rng.normal(size=(n, 3)) * np.sqrt(KT / masses)[:, None]
    return make_system(masses), make_state(x, v), lambda x: -np.asarray(k)[..., None] * (x - CENTRE)


def bound(kind, system, state, n_threads=1, **parameters):
    integrator = make_integrator(threads(n_threads), system, kind, **parameters)
    integrator.bind(view_of(state))
    return integrator


def anharmonic(x):
    """u = sum of k d^2 / 2 + q d^4 / 4 over the coordinates, d from the centre: (energy, force)."""
    d = x - CENTRE
    k, q = np.array([800.0, 1000.0, 1200.0]), 4e4
    return (0.5 * k * d**2 + 0.25 * q * d**4).sum(), -(k * d + q * d**3)


def energy_error(dt, system, start):
    """Largest deviation of the total energy over 2 ps."""
    state = make_state(start[0], start[1])
    integrator = bound("velocity-verlet", system, state, timestep=dt)
    integrator.constrain(state)
    first = anharmonic(cartesian(state))[0] + integrator.kinetic_energy(state)
    errors = []

    def record(state):
        errors.append(anharmonic(cartesian(state))[0] + integrator.kinetic_energy(state) - first)

    run(integrator, state, lambda x: anharmonic(x)[1], round(2.0 / dt), record)
    return np.abs(errors).max()


@pytest.mark.parametrize("rigid", [False, True])
def test_verlet_energy_error_falls_as_dt_squared(rigid):
    """Free atoms, and pairs of atoms held at a fixed distance."""
    rng = np.random.default_rng(6)
    n = 8
    x = CENTRE + rng.normal(size=(n, 3)) * 0.05
    if rigid:
        x[1::2] = x[::2] + [0.1, 0.0, 0.0]
    v = rng.normal(size=(n, 3)) * 0.5
    table = constraint_table(groups=[[(i, i + 1, 0.1)] for i in range(0, n, 2)]) if rigid else None
    system = make_system(np.linspace(2.0, 12.0, n), table)
    coarse, fine = (energy_error(dt, system, (x, v)) for dt in (0.004, 0.002))
    assert coarse / fine == pytest.approx(4.0, rel=0.1)


def test_verlet_is_reversible():
    system, state = rigid_mixture(n_water=4, n_methane=2, triclinic=False)
    integrator = bound("velocity-verlet", system, state, timestep=0.001)
    integrator.constrain(state)
    start_x, start_v = cartesian(state), state.velocities.copy()
    run(integrator, state, well, 200)
    assert np.abs(cartesian(state) - start_x).max() > 0.05
    state.velocities *= -1.0
    run(integrator, state, well, 200)
    assert np.abs(cartesian(state) - start_x).max() < 1e-6  # 5e-10 nm of rounding at each step, and rotors that part
    assert np.abs(state.velocities + start_v).max() < 1e-4


def test_constraints_hold_and_momentum_stays_during_dynamics():
    system, state = rigid_mixture()
    integrator = bound("velocity-verlet", system, state, timestep=0.002)
    integrator.constrain(state)
    momentum, energy = integrator.motion.momentum(state), integrator.kinetic_energy(state)
    run(integrator, state, lambda x: np.zeros_like(x), 200)
    _, errors = integrator.motion.constraints.relative_errors(state.positions, state.box, np.zeros_like(state.velocities))
    assert errors.max() < 1e-8  # a box of 2 nm has a lattice of 5e-10 nm
    assert np.abs(integrator.motion.momentum(state) - momentum).max() < 1e-6
    assert integrator.kinetic_energy(state) == pytest.approx(energy, rel=1e-2)  # free rotors: error of order dt^2


def test_langevin_middle_samples_a_harmonic_oscillator_exactly():
    """At a timestep (omega dt = 1) where velocity Verlet would be wrong by a third."""
    k, mass = 1000.0, 10.0
    dt = 1.0 * np.sqrt(mass / k)
    system, state, force = oscillators(1500, np.full(1500, k))
    integrator = bound(
        "langevin-middle", system, state, timestep=dt, temperature=TEMPERATURE, friction=1.0 / dt, seed=3
    )
    run(integrator, state, force, 50)
    samples = []
    run(integrator, state, force, 300, lambda s: samples.append(((cartesian(s) - CENTRE) ** 2, s.velocities**2)))
    x2, v2 = np.array(samples).mean(axis=(0, 2, 3))
    # 4500 coordinates at some 100 independent times: 0.2 % standard error
    assert x2 == pytest.approx(KT / k, rel=0.01)
    assert v2 == pytest.approx(KT / mass, rel=0.01)


def test_langevin_temperature_of_rigid_molecules():
    system, state = rigid_mixture(n_water=120, n_methane=40)
    integrator = bound("langevin-middle", system, state, timestep=0.004, temperature=TEMPERATURE, friction=20.0, seed=3)
    integrator.draw_velocities(state, TEMPERATURE, seed=5)
    energies = []
    run(integrator, state, lambda x: np.zeros_like(x), 300, lambda s: energies.append(integrator.kinetic_energy(s)))
    expected = 0.5 * integrator.degrees_of_freedom * KT
    # 1160 degrees of freedom, correlation time 1/friction = 12 steps: 1.2 % standard error
    assert np.mean(energies) == pytest.approx(expected, rel=0.04)


def test_initial_velocities():
    system, state = rigid_mixture(n_water=600, n_methane=100, triclinic=False)
    integrator = bound("velocity-verlet", system, state, timestep=0.001)
    integrator.draw_velocities(state, 300.0, seed=11)
    degrees = system.degrees_of_freedom
    temperature = 2.0 * integrator.kinetic_energy(state) / (degrees * BOLTZMANN)
    assert temperature == pytest.approx(300.0, rel=4.5 * np.sqrt(2.0 / degrees))
    first = state.velocities.copy()
    integrator.draw_velocities(state, 300.0, seed=12)
    assert np.abs(state.velocities - first).max() > 0.1
    integrator.draw_velocities(state, 0.0, seed=12)
    assert not state.velocities.any()
    drift = make_system(system.masses, system.constraints, remove_cm=1)
    resting = bound("velocity-verlet", drift, state, timestep=0.001)
    resting.draw_velocities(state, 300.0, seed=11)
    assert np.abs(resting.motion.momentum(state)).max() < 1e-6


def test_kinetic_energy_and_momentum_are_what_they_say():
    system, state = rigid_mixture()
    integrator = bound("velocity-verlet", system, state, timestep=0.001)
    m, v = system.masses[:, None], state.velocities
    assert integrator.kinetic_energy(state) == pytest.approx(0.5 * (m * v**2).sum(), rel=1e-9)
    assert integrator.motion.momentum(state) == pytest.approx((m * v).sum(axis=0), abs=1e-7)
    integrator.remove_cm_motion(state)
    assert np.abs((m * state.velocities).sum(axis=0)).max() < 1e-7


def kinetic_energies(kind, system, state, force, steps, **parameters):
    integrator = bound(kind, system, state, **parameters)
    energies = []
    run(integrator, state, force, steps // 10)
    run(integrator, state, force, steps, lambda s: energies.append(integrator.kinetic_energy(s)))
    return integrator, np.array(energies)


def test_bussi_gives_the_canonical_kinetic_energy():
    """Free atoms: the kinetic energy is gamma-distributed, mean n kT / 2, variance n kT^2 / 2."""
    system = make_system(np.linspace(1.0, 30.0, 7))
    state = make_state(np.random.default_rng(1).uniform(0, 3, (7, 3)), np.ones((7, 3)))
    _, energies = kinetic_energies(
        "bussi", system, state, np.zeros_like, 6000, timestep=0.002, temperature=TEMPERATURE, coupling_time=0.002, seed=2
    )
    n = 21
    # a correlation time of one step: some 2800 independent samples
    assert energies.mean() == pytest.approx(0.5 * n * KT, rel=4.5 * np.sqrt(2.0 / n / 2800))
    assert energies.var() == pytest.approx(0.5 * n * KT**2, rel=0.15)
    third = ((energies - energies.mean()) ** 3).mean() / energies.std() ** 3
    assert third == pytest.approx(np.sqrt(8.0 / n), abs=0.2)  # skewness of a gamma distribution


@pytest.mark.parametrize("n_atoms", [1, 20])
def test_bussi_conserves_with_its_bath(n_atoms):
    k = np.full(n_atoms, 400.0)
    system, state, force = oscillators(n_atoms, k)
    integrator = bound("bussi", system, state, timestep=0.002, temperature=TEMPERATURE, coupling_time=0.1, seed=2)
    totals, kinetic, baths = [], [], []

    def record(s):
        potential = 0.5 * (k[:, None] * (cartesian(s) - CENTRE) ** 2).sum()
        kinetic.append(integrator.kinetic_energy(s))
        baths.append(integrator.bath_energy(s))
        totals.append(potential + kinetic[-1] + baths[-1])

    run(integrator, state, force, 500, record)
    assert min(np.ptp(kinetic), np.ptp(baths)) > KT
    assert np.ptp(totals) < 0.002 * n_atoms * KT


def test_nose_hoover_gives_the_canonical_kinetic_energy():
    n = 30
    k = np.linspace(300.0, 1500.0, n)
    system, state, force = oscillators(n, k, masses=np.linspace(5.0, 20.0, n))
    _, energies = kinetic_energies(
        "nose-hoover", system, state, force, 8000, timestep=0.008, temperature=TEMPERATURE, coupling_time=0.3,
        chain_length=3,
    )  # fmt: skip
    # the mean of velocity Verlet's kinetic energy is off by (omega dt)^2 / 4 at most 0.5 %
    assert energies.mean() == pytest.approx(1.5 * n * KT, rel=0.012)
    assert energies.var() == pytest.approx(1.5 * n * KT**2, rel=0.2)


def test_nose_hoover_conserves_its_energy():
    n = 10
    k = np.linspace(300.0, 1500.0, n)
    spreads = []
    for dt in (0.004, 0.002):
        system, state, force = oscillators(n, k)
        state.velocities *= 1.5
        integrator = bound(
            "nose-hoover", system, state, timestep=dt, temperature=TEMPERATURE, coupling_time=0.2, chain_length=3
        )
        totals = []

        def record(s, integrator=integrator, totals=totals):
            potential = 0.5 * (k[:, None] * (cartesian(s) - CENTRE) ** 2).sum()
            totals.append(potential + integrator.kinetic_energy(s) + integrator.bath_energy(s))

        run(integrator, state, force, round(4.0 / dt), record)
        assert np.ptp([integrator.kinetic_energy(state), totals[0]]) > 1.0
        spreads.append(np.ptp(totals))
    assert spreads[0] / spreads[1] == pytest.approx(4.0, rel=0.15)
    assert spreads[1] < 0.01 * n * KT


KINDS = {
    "langevin-middle": {"temperature": 300.0, "friction": 1.0, "seed": 2**62 + 5},
    "velocity-verlet": {},
    "bussi": {"temperature": 300.0, "coupling_time": 0.1, "seed": 9},
    "nose-hoover": {"temperature": 300.0, "coupling_time": 0.1, "chain_length": 4},
}


def bits(state):
    extra = b"".join(state.extra[name].tobytes() for name in sorted(state.extra))
    return state.positions.tobytes() + state.images.tobytes() + state.velocities.tobytes() + extra


def well(x):
    return -200.0 * (x - CENTRE)


@pytest.mark.parametrize("kind", KINDS)
def test_same_bits_for_any_number_of_threads(kind):
    results = set()
    for n in (1, 2, 3, 4):
        system, state = rigid_mixture(n_water=20, n_methane=5)
        integrator = bound(kind, system, state, n, timestep=0.002, **KINDS[kind])
        integrator.draw_velocities(state, 300.0, seed=4)
        run(integrator, state, well, 10)
        integrator.remove_cm_motion(state)
        results.add(bits(state))
    assert len(results) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_continues_from_a_checkpoint_as_if_nothing_had_happened(kind):
    def fresh():
        system, state = rigid_mixture(n_water=5, n_methane=2)
        return state, bound(kind, system, state, timestep=0.002, **KINDS[kind])

    whole, integrator = fresh()
    run(integrator, whole, well, 12)
    state, integrator = fresh()
    run(integrator, state, well, 5)
    resumed, integrator = fresh()
    resumed.step, resumed.extra = state.step, {name: value.copy() for name, value in state.extra.items()}
    resumed.positions, resumed.images, resumed.velocities = (
        a.copy() for a in (state.positions, state.images, state.velocities)
    )
    run(integrator, resumed, well, 7)
    assert bits(resumed) == bits(whole)


def test_atoms_do_not_depend_on_where_they_are_stored():
    """The same atoms in another order, as after a migration, move the same."""
    masses = np.linspace(1.0, 20.0, 12)
    system = make_system(masses)
    x = np.random.default_rng(5).uniform(0, 3, (12, 3))
    order = np.random.default_rng(6).permutation(12)
    results = []
    for permutation in (np.arange(12), order):
        state = make_state(x[permutation])
        state.ids = permutation.astype(np.int32)
        integrator = bound("langevin-middle", system, state, timestep=0.002, **KINDS["langevin-middle"])
        integrator.draw_velocities(state, 300.0, seed=1)
        for _ in range(5):
            integrator.first_half(state, fixed(well(cartesian(state))))
            state.step += 1
        back = np.argsort(permutation)
        results.append(state.positions[back].tobytes() + state.velocities[back].tobytes())
    assert results[0] == results[1]


@pytest.mark.parametrize(
    ("kind", "change", "message"),
    [
        ("langevin-middle", {"timestep": -0.002}, "timestep must be a finite number greater than 0 in ps, got -0.002"),
        ("langevin-middle", {"timestep": float("nan")}, "timestep must be a finite"),
        ("langevin-middle", {"friction": -1.0}, "friction must be a finite number of 0 or more in 1/ps"),
        ("bussi", {"temperature": 0.0}, "temperature must be a finite number greater than 0 in K"),
        ("bussi", {"coupling_time": 0.0}, "coupling_time"),
        ("nose-hoover", {"chain_length": 0}, "chain_length must be at least 1"),
        ("velocity-verlet", {"friction": 1.0}, "friction"),
        ("leapfrog", {}, "there is no integrator 'leapfrog'; known: bussi, "),
    ],
)
def test_arguments_that_make_no_sense(kind, change, message):
    system = make_system([1.0, 1.0])
    with pytest.raises(InputError, match=message):
        make_integrator(threads(1), system, kind, **{"timestep": 0.002, **KINDS.get(kind, {}), **change})


def test_an_atom_that_flies_off_is_named():
    system = make_system([1.0, 1.0, 1.0])
    state = make_state(np.ones((3, 3)))
    integrator = bound("velocity-verlet", system, state, timestep=0.002)
    state.velocities[1, 2] = 900.0  # 1.8 nm in a step, in a box of 3 nm
    with pytest.raises(SimulationError, match=r"step 0: atom 1 would move 1.8 nm"):
        integrator.first_half(state, fixed(np.zeros((3, 3))))
