"""Every node is set up by itself: what it leaves, where it fails, how nodes differ, what is kept."""

import json

SAY = ["--label", "none", "--no-python", "/bin/sh", "-c"]


def test_each_node_is_set_up_by_itself(lab):
    cluster = lab(2)
    (cluster.shared / "setup.sh").write_text(
        'export PLACE=$(uname -n)\nprintf x >> "$(dirname "${BASH_SOURCE[0]}")/$PLACE"\n'
    )
    # The file is where the command is typed, and nowhere else; a node's own TMPDIR is not sent unless it is asked for.
    assert cluster.exec("ctl", ["sh", "-c", "echo 'KEPT=from a file' > /tmp/my.env"]).end() == 0
    run = cluster.muster(
        "ctl",
        ["run", "--hosts", "n[1-2]", "--nproc-per-node", 2, "--prologue", cluster.shared / "setup.sh"]
        + ["--env-file", "/tmp/my.env", "--env", "TMPDIR", *SAY, "echo $MUSTER_HOST $PLACE $KEPT $TMPDIR"],
        env={"TMPDIR": "/tmp"},
    )
    assert run.end() == 0, run.said()
    assert sorted(run.out.splitlines()) == [f"{n} {n} from a file /tmp" for n in ("n1", "n1", "n2", "n2")]
    assert [(cluster.shared / name).read_text() for name in ("n1", "n2")] == ["x", "x"]
    assert cluster.exec("ctl", ["rm", "/tmp/my.env"]).end() == 0


def test_a_line_that_fails_on_one_node_is_the_jobs_end(lab):
    cluster = lab(2)
    setup = cluster.shared / "setup.sh"
    setup.write_text("true\n[ $(uname -n) = n1 ] || ls /no/such/place\n")
    report = cluster.shared / "report"
    run = cluster.muster(
        "ctl",
        ["run", "--hosts", "n[1-2]", "--report", report, "--prologue", setup, "touch", cluster.shared / "started"],
    )
    assert run.end() == 2, run.said()
    assert not (cluster.shared / "started").exists()
    assert json.loads(report.read_text())["kind"] == "set-up-failed"
    said = run.err
    assert "[n2] ls: cannot access '/no/such/place'" in said
    assert f"n2: line 2 of {setup}, `[ $(uname -n) = n1 ] || ls /no/such/place`, failed with exit code 2" in said


def test_a_launcher_that_is_killed_takes_the_set_up_along(lab):
    cluster = lab(2)
    up = cluster.shared / "up"
    run = cluster.muster(
        "ctl", ["run", "--hosts", "n[1-2]", "--prologue", f"setsid sleep 1000 & echo x >> {up}; sleep 1000", "true"]
    )
    run.expect(r"n1 \(setting up: setsid sleep 1000 .*n2 \(setting up: ")
    run.kill()
    # The fixture looks whether anything is left on the nodes.


def test_where_nodes_differ(lab):
    cluster = lab(3)
    odd = "[ $(uname -n) != n2 ] || export NCCL_DEBUG=INFO"
    run = cluster.muster("ctl", ["run", "--hosts", "n[1-3]", "--prologue", odd, "--env-diff"])
    assert run.end() == 1, run.said()
    assert run.out == "NCCL_DEBUG\n  n1, n3  (not set)\n  n2      INFO\n"
    run = cluster.muster("ctl", ["run", "--hosts", "n[1-3]", "--env-diff"])
    assert run.end() == 0, run.said()
    assert run.out == "The 3 nodes do not differ.\n"


def test_the_first_node_keeps_the_record_and_the_launcher_waits_for_it(lab):
    cluster = lab(2)
    kept = cluster.shared / "kept"
    run = cluster.muster(
        "ctl",
        ["run", "--hosts", "n[1-2]", "--rdzv-id", "job", "--record", kept, "--env", "MY_TOKEN=hush", "true"],
    )
    assert run.end() == 0, run.said()
    index = json.loads((kept / "job/record.json").read_text())
    assert index["host"] == "n1"
    assert "--env MY_TOKEN=***" in " ".join(index["command"])
    assert "MY_TOKEN='***'" in (kept / "job/environment.txt").read_text()
