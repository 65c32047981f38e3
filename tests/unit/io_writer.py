"""Run as a process by the file tests, to be killed: writes a trajectory of the sample system.

``python io_writer.py PATH steps`` appends a frame for each line of its input and prints the number of frames;
``loop`` appends as fast as it can; ``die-marked`` kills itself between HDF5's flush and the clearing of the mark.
"""

import itertools
import os
import signal
import sys
from dataclasses import replace

from io_samples import TRICLINIC, moved, small_system, snapshot, source

from mdsim.io import growing
from mdsim.io.h5md import TrajectorySettings, TrajectoryWriter


def frame(positions, k):
    return snapshot(moved(positions, k), TRICLINIC, step=10 * k, time=0.02 * k)


def main(path, mode):
    topology, positions = small_system()
    settings = TrajectorySettings(velocities=True, forces=True)
    writer = TrajectoryWriter.create(path, source(topology), settings)
    if mode == "loop":
        snapshots = [frame(positions, k) for k in range(20)]
        print("ready", flush=True)
        for k in itertools.count():
            writer.append(replace(snapshots[k % 20], step=10 * k, time=0.02 * k))
    elif mode == "steps":
        print("ready", flush=True)
        for k, _ in enumerate(sys.stdin):
            writer.append(frame(positions, k))
            print(writer.n_frames, flush=True)
    elif mode == "die-marked":
        for k in range(3):
            writer.append(frame(positions, k))
        growing._repair = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
        writer.append(frame(positions, 3))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
