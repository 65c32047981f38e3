"""A checkpoint brings back every bit, one is always there, and it refuses to be taken for another run's."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest
from io_samples import TRICLINIC, small_system, snapshot

from mdsim.errors import OutputError
from mdsim.io.checkpoint import (
    NAME,
    PREVIOUS_NAME,
    Checkpoint,
    CheckpointWarning,
    differences,
    load_checkpoint,
    load_checkpoint_file,
    save_checkpoint,
)
from mdsim.io.fingerprint import fingerprint_differences, system_fingerprint
from mdsim.tables import (
    BondTable,
    CompiledSystem,
    ConstraintTable,
    NonbondedTable,
    VirtualSiteTable,
)

_, POSITIONS = small_system()
HERE = Path(__file__).parent


def checkpoint(step=10, **more):
    s = snapshot(POSITIONS, TRICLINIC, step=step, time=0.002 * step)
    extra = {"chain": np.array([0.1, -0.2]), "volume_step": np.array(0.03), "attempts": np.arange(3)}
    return Checkpoint(
        s.step, s.time, s.box, s.positions, s.images, s.velocities, extra, counts={"trajectory": 4}, **more
    )  # fmt: skip


def system(n=300, **changes):
    rng = np.random.default_rng(0)
    none = np.zeros((0, 3), np.int32)
    empty = np.zeros((0, 3))
    bonds = BondTable("HarmonicBondForce", np.arange(2 * n, dtype=np.int32).reshape(n, 2), rng.random(n), 1e5 * rng.random(n))
    nonbonded = NonbondedTable(
        "NonbondedForce", "NonbondedForce", "PME", 0.9, rng.normal(0, 0.5, n), rng.random(n), rng.random(n), none[:, :2]
    )
    made = CompiledSystem(
        masses=rng.random(n),
        forces=(bonds, nonbonded),
        constraints=ConstraintTable(none, empty[:, :2], none[:, :2], empty[:, 0], np.zeros(1, np.int32)),
        virtual_sites=VirtualSiteTable(none[:, 0], none[:, 0], none, empty, empty, empty, empty, empty),
        group_atoms=np.arange(n), group_start=np.array([0, n]), molecule_atoms=np.arange(n), molecule_start=np.array([0, n]),
        periodic=True, default_vectors=np.eye(3) * 3.0,
    )  # fmt: skip
    return replace(made, **changes)


def with_bonds(base, **changes):
    return replace(base, forces=(replace(base.forces[0], **changes), *base.forces[1:]))


def test_every_bit_comes_back(tmp_path):
    saved = checkpoint(system=system_fingerprint(system()), settings={"dynamics.timestep": 0.002, "forces": ["a", "b"]})
    save_checkpoint(tmp_path, saved)
    loaded = load_checkpoint(tmp_path)
    for name in ("positions", "images", "velocities"):
        a, b = getattr(saved, name), getattr(loaded, name)
        assert a.dtype == b.dtype
        assert a.tobytes() == b.tobytes()
    assert loaded.box.vectors.tobytes() == TRICLINIC.vectors.tobytes()
    assert loaded.box.periodic
    assert (loaded.step, loaded.time, loaded.counts, loaded.versions) == (10, 0.02, {"trajectory": 4}, saved.versions)
    assert {k: (v.dtype, v.tolist()) for k, v in loaded.extra.items()} == {
        k: (v.dtype, v.tolist()) for k, v in saved.extra.items()
    }
    loaded.check_same_run(saved.system, saved.settings)


def test_two_generations_are_kept(tmp_path):
    assert load_checkpoint(tmp_path) is None
    for step in (10, 20, 30):
        save_checkpoint(tmp_path, checkpoint(step))
    assert load_checkpoint(tmp_path).step == 30
    assert load_checkpoint_file(tmp_path / PREVIOUS_NAME).step == 20
    assert sorted(os.listdir(tmp_path)) == [NAME, PREVIOUS_NAME]


@pytest.mark.parametrize("damage", ["cut", "empty", "byte", "attribute", "dataset", "other"])
def test_a_damaged_checkpoint_is_seen_and_the_one_before_taken(tmp_path, damage):
    for step in (10, 20):
        save_checkpoint(tmp_path, checkpoint(step))
    newest = tmp_path / NAME
    content = newest.read_bytes()
    if damage == "cut":
        newest.write_bytes(content[: len(content) // 2])
    elif damage == "empty":
        newest.write_bytes(b"")
    elif damage == "byte":
        at = content.index(checkpoint(20).velocities.tobytes()) + 1000
        newest.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
    elif damage == "other":
        newest.write_bytes(b"something else entirely" * 100)
    else:
        with h5py.File(newest, "r+") as file:
            if damage == "attribute":
                file["state"].attrs["step"] = 21
            else:
                del file["state/images"]
    with pytest.warns(CheckpointWarning, match="damaged.*checkpoint.prev.h5, at step 10"):
        assert load_checkpoint(tmp_path).step == 10
    (tmp_path / PREVIOUS_NAME).write_bytes(b"")
    with pytest.raises(OutputError, match=r"no checkpoint in .* can be read"):
        load_checkpoint(tmp_path)


def test_a_checkpoint_that_cannot_be_written_is_an_error_for_people(tmp_path):
    with pytest.raises(OutputError, match="cannot be written"):
        save_checkpoint(tmp_path / "missing", checkpoint())


LOOP = """
    import sys
    sys.path.insert(0, {here!r})
    from test_checkpoint import checkpoint
    from mdsim.io.checkpoint import save_checkpoint
    step = int(sys.argv[2])
    while True:
        step += 1
        save_checkpoint(sys.argv[1], checkpoint(step))
        print(step, flush=True)
"""


def test_a_checkpoint_is_there_whenever_the_writer_is_killed(tmp_path):
    code, rng, done = textwrap.dedent(LOOP.format(here=str(HERE))), np.random.default_rng(5), 0
    for _ in range(5):
        process = subprocess.Popen([sys.executable, "-c", code, tmp_path, str(done)], stdout=subprocess.PIPE, text=True)
        process.stdout.readline()  # the first is written
        time.sleep(rng.uniform(0.0, 0.15))
        process.send_signal(signal.SIGKILL)
        printed = process.communicate()[0].split()
        loaded = load_checkpoint(tmp_path)
        announced = int(printed[-1]) if printed else done + 1
        assert announced <= loaded.step <= announced + 1  # never older than what was announced
        assert loaded.velocities.tobytes() == checkpoint(loaded.step).velocities.tobytes()
        done = loaded.step


# --- is it the same run? -----------------------------------------------------------------------------------------------


def test_fingerprint_does_not_see_noise():
    base, rng = system(), np.random.default_rng(1)

    def noisy(x):
        return x * (1.0 + 1e-9 * rng.uniform(-1, 1, x.shape))

    bonds, nonbonded = base.forces
    shaken = replace(
        base,
        masses=noisy(base.masses),
        forces=(replace(bonds, length=noisy(bonds.length), k=noisy(bonds.k)), replace(nonbonded, charge=noisy(nonbonded.charge))),
        notes=("another note",),
    )
    assert fingerprint_differences(system_fingerprint(base), system_fingerprint(shaken)) == []


@pytest.mark.parametrize("place", [0, 63, 64, 299])
def test_fingerprint_sees_one_changed_number(place):
    base = system()
    length = base.forces[0].length.copy()
    length[place] *= 1.0001
    changed = fingerprint_differences(system_fingerprint(base), system_fingerprint(with_bonds(base, length=length)))
    assert changed == ["HarmonicBondForce BondTable.length"]


def test_fingerprint_sees_swapped_atoms_missing_terms_and_options():
    base = system()
    finger = system_fingerprint(base)

    def changed(other):
        return fingerprint_differences(finger, system_fingerprint(other))

    assert changed(base) == []
    assert changed(with_bonds(base, atoms=base.forces[0].atoms[::-1])) == ["HarmonicBondForce BondTable.atoms"]
    charges = base.forces[1].charge.copy()
    charges[[3, 4]] = charges[[4, 3]]
    swapped = replace(base, forces=(base.forces[0], replace(base.forces[1], charge=charges)))
    assert changed(swapped) == ["NonbondedForce NonbondedTable.charge"]
    other_cutoff = replace(base, forces=(base.forces[0], replace(base.forces[1], cutoff=1.0)))
    assert changed(other_cutoff) == ["NonbondedForce NonbondedTable.cutoff"]
    assert all(name.startswith("HarmonicBondForce") for name in changed(replace(base, forces=base.forces[1:])))
    assert changed(replace(base, periodic=False)) == ["periodic"]


def test_another_run_is_refused_by_name(tmp_path):
    saved = checkpoint(system=system_fingerprint(system()), settings={"temperature": 300.0, "seed": 1})
    save_checkpoint(tmp_path, saved)
    loaded = load_checkpoint(tmp_path)
    with pytest.raises(OutputError, match=r"seed was '1', now not set; temperature was '300.0', now '310.0'"):
        loaded.check_same_run(saved.system, {"temperature": 310.0})
    heavier = system_fingerprint(system(masses=system().masses * 2.0))
    with pytest.raises(OutputError, match="the system differs in masses"):
        loaded.check_same_run(heavier, saved.settings)


def test_differences_know_what_json_makes_of_values():
    assert differences({"a": [1, 2], "p": "x"}, {"a": (1, 2), "p": "x"}) == []
    assert differences({"a": 1}, {"a": 2, "b": None}) == ["a was '1', now '2'", "b was not set, now 'None'"]
