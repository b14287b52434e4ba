#!/usr/bin/python3
"""Random faults, one after the other, in jobs on real nodes; after each the job must run on or end for a reason.

usage: test/multinode/soak.py [--faults N] [--seed S] [--muster PROGRAM]          (make soak FAULTS=N SEED=S)

Needs root. Prints the seed and every fault, so that a failure can be repeated. Checks after each job that no rank ever ran
in two rounds at once and that nothing is left on any node.
"""

import argparse
import json
import os
import pathlib
import random
import shutil
import signal
import sys
import tempfile
import time

sys.path[:0] = [str(pathlib.Path(__file__).parents[1]), str(pathlib.Path(__file__).parents[2] / "test")]
from harness import ROOT  # noqa: E402
from multinode.beats import Beats  # noqa: E402
from multinode.harness import BEAT, Cluster, why_no_nodes  # noqa: E402
from multinode.job import wait_for  # noqa: E402

NODES = 4
LEASE_S = 2
FAULTS_A_JOB = 12
RECOVERS_WITHIN_S = 90
# A thawed node's workers run until their warden has looked at its clock.
SLACK_S = 0.3
FRESH_S = 1.0


class Soak:
    def __init__(self, muster, seed, shared):
        self.random = random.Random(seed)
        self.shared = pathlib.Path(shared)
        self.cluster = Cluster(muster, shared, NODES)
        self.job, self.jobs, self.faults = None, 0, 0

    # --- faults -----------------------------------------------------------------------------------------------------

    def node(self):
        return self.random.choice(self.cluster.names)

    def worker_fails(self):
        lives = self.running()
        what = self.random.choice(["exit 3", "kill SIGKILL", "kill SIGSEGV", "raise no reason"])
        rank = self.random.choice(lives).rank
        self.beats.tell(rank, what)
        told = self.beats.directory / f"do.{rank}"
        wait_for(f"rank {rank} to {what}", lambda: not told.exists() or not self.job.running)
        return f"rank {rank}: {what}"

    def agent_killed(self):
        name = self.node()
        which = self.random.choice(["warden", "agent"])
        try:
            warden, agent = self.cluster.warden_and_agent(name)
        except AssertionError:
            return f"{which} of {name}: there is none"
        self.signal(warden if which == "warden" else agent)
        return f"{which} of {name} killed"

    @staticmethod
    def signal(pid):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def all_killed(self):
        name = self.node()
        self.cluster.kill_all(name)
        for folder in self.cluster.root(name).glob("tmp/muster_*"):  # nobody is left there who could
            shutil.rmtree(folder)
        return f"everything on {name} killed"

    def power(self):
        name = self.node()
        quietly = self.random.random() < 0.5
        self.cluster.power_off(name, quietly)
        time.sleep(self.random.uniform(0.1, 3))
        self.cluster.boot(name)
        return f"{name} {'lost power' if quietly else 'went down'} and came back"

    def cable(self):
        name, seconds = self.node(), self.random.choice([0.3, 1.0, LEASE_S + 2.0])
        self.cluster.cut(name)
        time.sleep(seconds)
        self.cluster.heal(name)
        return f"{name} cut off for {seconds} s"

    def freeze(self):
        names = self.cluster.names if self.random.random() < 0.3 else [self.node()]
        seconds = self.random.choice([0.3, 1.5, LEASE_S + 2.0])
        self.cluster.freeze(*names)
        time.sleep(seconds)
        self.cluster.thaw(*names)
        return f"{' '.join(names)} frozen for {seconds} s"

    def loss(self):
        name = self.node()
        self.cluster.loss(name, 20)
        time.sleep(2)
        self.cluster.loss(name, 0)
        return f"{name} lost every fifth packet for 2 s"

    def partition(self):
        names = self.random.sample(self.cluster.names, 2)
        others = [name for name in ["ctl", *self.cluster.names] if name not in names]
        seconds = self.random.choice([0.5, LEASE_S + 2.0])
        self.cluster.partition(names, others)
        time.sleep(seconds)
        self.cluster.unpartition()
        return f"{' '.join(names)} apart from the rest for {seconds} s"

    # --- jobs -------------------------------------------------------------------------------------------------------

    def running(self):
        """Lives of the newest round, if all its ranks have beaten just now."""
        lives = self.beats.lives()
        newest = [life for life in lives if life.round == lives[-1].round] if lives else []
        now = time.monotonic()
        whole = newest and {life.rank for life in newest} == set(range(newest[0].world))
        return newest if whole and all(now - life.last < FRESH_S for life in newest) else []

    def goes_on(self):
        return not self.job.running or self.running()

    def start_job(self):
        self.jobs += 1
        folder = self.shared / f"job{self.jobs}"
        folder.mkdir()
        self.beats = Beats(folder / "beats")
        self.report = folder / "report.json"
        options = ["--nnodes", f"2:{NODES}", "--lease", LEASE_S, "--max-restarts", 1000, "--crash-loop", 0]
        limits = ["--join-timeout", 30, "--shutdown-timeout", 2, "--report", self.report]
        hosts = ["--hosts", ",".join(self.cluster.names), "--nproc-per-node", 2]
        args = ["run", *hosts, *options, *limits, BEAT, self.beats.directory]
        self.job = self.cluster.muster("ctl", args)
        wait_for("the first round", self.goes_on, RECOVERS_WITHIN_S)

    def one_fault(self):
        kinds = [self.worker_fails, self.agent_killed, self.all_killed, self.power, self.cable, self.freeze, self.loss]
        print(f"{self.faults + 1:4}  {self.random.choice([*kinds, self.partition])()}", flush=True)
        self.faults += 1
        time.sleep(FRESH_S)  # who has just been hit has still beaten a moment ago
        wait_for(lambda: f"the job to go on or to end\n{self.job.said()[-4000:]}", self.goes_on, RECOVERS_WITHIN_S)

    def end_job(self):
        if self.job.running:
            self.job.send(15)
            code = self.job.end(60)
            assert code in (143, 125), f"exit code {code}\n{self.job.said()[-4000:]}"
        else:
            code = self.job.end(1)
            kind = json.loads(self.report.read_text())["kind"]
            assert code == 125 and kind in ("node-lost", "join-timeout"), f"{code} {kind}\n{self.job.said()[-4000:]}"
        self.beats.assert_one_round_at_a_time(SLACK_S)
        self.cluster.assert_nothing_left(within=LEASE_S + 10)
        print(f"      job {self.jobs}: exit code {code}, {self.beats.lives()[-1].round + 1} rounds", flush=True)

    def run(self, faults):
        while self.faults < faults:
            self.start_job()
            for _ in range(FAULTS_A_JOB):
                if self.faults < faults and self.job.running:
                    self.one_fault()
            self.end_job()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--faults", type=int, default=200)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    parser.add_argument("--muster", default=str(ROOT / "build/release/bin/muster"))
    options = parser.parse_args()
    if reason := why_no_nodes():
        sys.exit(f"soak: {reason}")
    print(f"seed {options.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="muster-soak-") as shared:
        soak = Soak(options.muster, options.seed, shared)
        try:
            soak.run(options.faults)
        except BaseException:
            said = soak.job.said()[-8000:] if soak.job else ""
            print(f"failed; again with --seed {options.seed}\n{said}", flush=True)
            raise
        finally:
            soak.cluster.close()
    print(f"{soak.faults} faults in {soak.jobs} jobs: nothing left behind (seed {options.seed})")


main()
