"""A disk is full on one node only."""

import re

from .launch import start


def test_the_log_directory_of_one_node_is_full(lab):
    """Its workers go on, their output still arrives at the launcher, and what the files lack is said."""
    cluster = lab(2)
    logs = cluster.shared / "logs"
    logs.mkdir()
    cluster.small_disk("n2", str(logs), "64k")
    lines = 20000
    script = f"i=0; while [ $i -lt {lines} ]; do echo line $i; i=$((i + 1)); done; echo the end of $RANK"
    run = start(cluster, "fan-out", ["--no-python", "/bin/sh", "-c", script], options=["--log-dir", logs])
    assert run.end() == 0, run.said()[-2000:]
    for name, rank in (("n1", 0), ("n2", 1)):
        assert run.head.out.count(f"[{name}:{rank}] ") == lines + 1
        assert f"[{name}:{rank}] the end of {rank}" in run.head.out
    assert re.search(r"n2.*(is full|No space left)", run.head.err), run.head.err[-2000:]
    full = [p.read_text() for p in logs.glob("**/n1/0.out")]
    assert len(full) == 1 and full[0].count("\n") == lines + 1, "the other node's files are whole"


def test_no_room_for_anything_temporary(lab, beats):
    """/tmp is full on one node: its workers either run, or the job ends with a reason that names the node."""
    cluster = lab(2)
    cluster.small_disk("n2", "/tmp/full", "4k")
    assert cluster.exec("n2", ["sh", "-c", "head -c 4096 /dev/zero > /tmp/full/x"]).end() == 0
    script = ["--no-python", "/bin/sh", "-c", "echo here is $RANK"]
    run = start(cluster, "fan-out", script, env={"TMPDIR": "/tmp/full"})
    code = run.end()
    if code == 0:
        assert "here is 0" in run.head.out and "here is 1" in run.head.out
    else:
        assert "n2" in str(run.report()), run.said()
    for argv in (["umount", "/tmp/full"], ["rmdir", "/tmp/full"]):
        assert cluster.exec("n2", argv).end() == 0
