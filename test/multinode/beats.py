"""What workers/beat.py has written down, and what it is told."""

import collections
import dataclasses
import pathlib

from .job import SOON_S, wait_for


@dataclasses.dataclass
class Life:
    """One worker's, from its first beat to its last."""

    round: int
    rank: int
    world: int
    restarts: int
    local_rank: int
    host: str
    pid: int  # as the node counts
    first: float
    last: float
    longest_pause: float
    after_pause: float  # from the first beat behind it to the last

    def end(self, slack):
        """When it last ran. A node that stood still may wake up with workers of a round that is over; they are given
        `slack` to be ended."""
        woke_up = slack > 0 and self.longest_pause > 1 and self.after_pause <= slack
        return self.last - self.after_pause - self.longest_pause if woke_up else self.last


class Beats:
    """What workers/beat.py has written into a directory, and what it is told."""

    def __init__(self, directory):
        self.directory = pathlib.Path(directory)
        self.directory.mkdir(exist_ok=True)

    def tell(self, rank, what):
        """A rank, or "all"."""
        new = self.directory / "do.new"
        new.write_text(what)
        new.rename(self.directory / f"do.{rank}")

    def lives(self):
        found = []
        for path in self.directory.glob("*.beat"):
            lines = [line.split() for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]
            if lines:
                times = [float(line[-1]) for line in lines]
                pause, woke = max(((b - a, b) for a, b in zip(times, times[1:])), default=(0.0, times[-1]))
                *numbers, host, pid, _ = lines[0]
                times = (times[0], times[-1], pause, times[-1] - woke)
                found.append(Life(*map(int, numbers), host, int(pid), *times))
        return sorted(found, key=lambda life: (life.round, life.rank, life.first))

    def round(self, number):
        return [life for life in self.lives() if life.round == number]

    def wait_round(self, number, world, within=SOON_S):
        """Until all ranks of a round beat; returns their lives."""

        def all_there():
            lives = [life for life in self.round(number) if life.world == world]
            return lives if {life.rank for life in lives} == set(range(world)) else None

        return wait_for(lambda: f"round {number} with {world} ranks; there are {self.lives()}", all_there, within)

    def wait_rounds_with(self, world, after=-1, within=SOON_S):
        """Until a round later than `after` runs with that many ranks; returns its lives."""

        def complete():
            numbers = {life.round for life in self.lives() if life.world == world and life.round > after}
            for number in sorted(numbers, reverse=True):
                lives = self.round(number)
                if {life.rank for life in lives} == set(range(world)):
                    return lives
            return None

        return wait_for(lambda: f"a round with {world} ranks; there are {self.lives()}", complete, within)

    def wait_beat(self, of_round, rank, after, within=SOON_S):
        """Until that rank has beaten at a time later than `after` (time.monotonic())."""

        def beaten():
            return any(life.rank == rank and life.last > after for life in self.round(of_round))

        wait_for(f"a beat of rank {rank} in round {of_round}", beaten, within)

    def assert_one_round_at_a_time(self, slack=0.0):
        """No rank twice in a round, and no worker of a round alive when one of a later round was."""
        lives = self.lives()
        ranks = collections.Counter((life.round, life.rank) for life in lives)
        assert max(ranks.values(), default=1) == 1, f"a rank ran twice in a round: {ranks}"
        for earlier in lives:
            for later in lives:
                overlap = earlier.end(slack) - later.first
                assert later.round <= earlier.round or overlap <= slack, f"two rounds at once: {earlier} {later}"
