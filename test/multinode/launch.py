"""Starting a job on the nodes of a lab in each of the ways there are, and what came of it."""

import json

from .job import SOON_S

WAYS = ["fan-out", "static", "c10d"]
PORT = 29400


class Run:
    """A job: one muster on ctl (fan-out), or one on each node (symmetric). `jobs` are by the name of their node."""

    def __init__(self, cluster, way, jobs, report):
        self.cluster, self.way, self.jobs, self._report = cluster, way, jobs, report

    @property
    def head(self):
        """The muster that has the coordinator."""
        return self.jobs["ctl"] if self.way == "fan-out" else self.jobs["n1"]

    def end(self, within=60):
        """The exit code that all of them have; waits for it."""
        codes = {name: job.end(within) for name, job in self.jobs.items()}
        assert len(set(codes.values())) == 1, f"exit codes {codes}\n{self.said()}"
        return codes.popitem()[1]

    def said(self):
        return "\n".join(f"===== {name}\n{job.said()}" for name, job in self.jobs.items())

    def report(self):
        return json.loads(self._report.read_text())

    def expect(self, pattern, within=SOON_S):
        return self.head.expect(pattern, within)


def arguments(cluster, way, name, nnodes=None):
    """The options that make the job one of several nodes, for the muster on `name`."""
    count = str(nnodes or len(cluster.names))
    head = cluster.address("n1")
    if ":" in head:
        head = f"[{head}]"
    if way == "fan-out":
        by_name = not cluster.lab.options.no_dns
        hosts = cluster.names if by_name else [cluster.address(n) for n in cluster.names]
        return ["--hosts", ",".join(f"[{h}]" if ":" in h else h for h in hosts), *(["--nnodes", count] if nnodes else [])]
    if way == "static":
        rank = cluster.names.index(name)
        return ["--nnodes", count, "--node-rank", rank, "--master-addr", head.strip("[]"), "--master-port", PORT]
    return ["--nnodes", count, "--rdzv-backend", "c10d", "--rdzv-endpoint", f"{head}:{PORT}", "--rdzv-id", "job"]


def start_on(cluster, way, name, args, nnodes=None, options=(), **exec_options):
    """One muster of a job; `args` are the program and its arguments, `options` muster's."""
    report = ["--report", cluster.shared / "report.json"] if name in ("ctl", "n1") else []
    how = arguments(cluster, way, name, nnodes)
    return cluster.muster(name, ["run", *how, *report, *options, *args], **exec_options)


def start(cluster, way, args, nnodes=None, options=(), names=None, **exec_options):
    """The whole job. `names`: the order in which the nodes of a symmetric one are started, all by default."""
    names = ["ctl"] if way == "fan-out" else names or cluster.names
    jobs = {name: start_on(cluster, way, name, args, nnodes, options, **exec_options) for name in names}
    return Run(cluster, way, jobs, cluster.shared / "report.json")


def train(cluster, way, args, **start_options):
    """A run of PyTorch workers that has ended well."""
    run = start(cluster, way, args, **start_options)
    assert run.end(120) == 0, run.said()
    return run


def status(cluster, name):
    """What `muster status` says on that node of its one job; None when it knows of none."""
    job = cluster.muster(name, ["status", "--json"])
    return json.loads(job.out) if job.end() == 0 and job.out.strip() else None


def state_of(cluster, head, name):
    """Of a node, in the words of the coordinator on `head`: "runs", "done", "spare" …; None when it is no member."""
    known = status(cluster, head)
    jobs = known if isinstance(known, list) else [known] if known else []
    return next((node["state"] for job in jobs for node in job["nodes"] if node["host"] == name), None)
