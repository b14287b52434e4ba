"""The stand-ins do what PBS does as far as a job can tell: what the other tests rest on."""

import re
import signal

from multinode.job import wait_for


def variables(text):
    return dict(line.split("=", 1) for line in text.splitlines() if re.match(r"\w+=", line))


def test_the_script_and_its_environment(pbs):
    job = pbs(2).qsub("#!/bin/bash\nexport MINE=1\nenv; pwd; cat $PBS_NODEFILE; exit 7\n", lines=["n1", "n1", "n2"])
    assert job.end() == 7, job.said()
    env = variables(job.out)
    assert env["PBS_ENVIRONMENT"] == "PBS_BATCH" and env["PBS_NODENUM"] == "0" and env["PBS_TASKNUM"] == "1"
    assert job.out.endswith(f"{env['HOME']}\nn1\nn1\nn2\n")


def test_a_task(pbs):
    """No stdin, no export, no shell; output in the job's files; the exit code comes back."""
    there = "env; pwd; cat; echo err >&2; exit 3"
    script = f"#!/bin/bash\nexport MINE=1\necho secret | pbs_tmrsh n2 /bin/sh -c '{there}' >mine 2>&1\necho code $?\ncat mine\n"
    job = pbs(2).qsub(script)
    assert job.end() == 0, job.said()
    env = variables(job.out)
    assert env["PATH"] == "/bin:/usr/bin" and env["PBS_NODENUM"] == "1" and env["PBS_TASKNUM"] == "40000001", env
    assert not {"USER", "LOGNAME", "SHELL", "MINE"} & set(env)
    assert job.out.endswith("\ncode 3\n") and job.err == "err\n" and "secret" not in job.out, job.said()


def test_exit_codes_of_pbs_tmrsh(pbs):
    lines = [
        "pbs_tmrsh n2 /no/such/program; echo $?",
        "pbs_tmrsh n3 true; echo $?",
        "pbs_tmrsh n2 sh -c 'kill -9 $$'; echo $?",
        "PBS_NODEFILE=/nowhere pbs_tmrsh n2 true; echo $?",
        "pbs_tmrsh n2 echo '$HOME' ';' ls; echo $?",
    ]
    job = pbs(2).qsub("#!/bin/sh\n" + "\n".join(lines) + "\n")
    assert job.end() == 0, job.said()
    assert job.out == "254\n255\n9\n255\n$HOME ; ls\n0\n", job.said()
    assert ": No such file or directory" in job.err
    assert 'host "n3" is not a node in job' in job.err


def test_qdel_ends_the_login_shell_and_so_the_job(pbs):
    """The script would go on, but its login shell does not; tasks elsewhere are killed; who left the session stays."""
    job = (p := pbs(2)).qsub("#!/bin/bash\ntrap : TERM\npbs_tmrsh n2 sleep 600 &\nwhile :; do sleep 1; echo on; done\n")
    wait_for("the task", lambda: any("sleep 600" in words for words in p.cluster.processes("n2").values()))
    job.qdel()
    assert job.end() == 256 + signal.SIGTERM, job.said()
    p.cluster.assert_nothing_left()


def test_walltime_and_a_command(pbs):
    job = (p := pbs(1)).qsub(command=["/bin/sh", "-c", "trap 'echo term; exit 5' TERM; while :; do sleep 0.1; done"], walltime=1)
    assert job.end() == -29 and job.out == "term\n", job.said()
    assert re.match(r"=>> PBS: job killed: walltime \d+ exceeded limit 1\n", job.err), job.said()
    p.cluster.assert_nothing_left()


def test_an_attached_session_dies_with_the_job(pbs):
    p = pbs(2)
    job = p.qsub("#!/bin/sh\nssh n2 setsid sleep 700 &\nssh n2 $(which pbs_attach) -j $PBS_JOBID sleep 600 &\nsleep 600\n")
    words = lambda: " ".join(p.cluster.processes("n2").values())  # noqa: E731
    wait_for("both", lambda: "sleep 700" in words() and "sleep 600" in words())
    job.qdel()
    job.end()
    wait_for("the end of one", lambda: "sleep 600" not in words())
    assert "sleep 700" in words()
    p.cluster.kill_all("n2", "sleep 700|sshd: ")


def test_qstat(pbs):
    job = pbs(1).qsub("#!/bin/sh\nTZ=UTC qstat -f $PBS_JOBID; qstat -f 99.ctl; echo $?\n", walltime=5400)
    assert job.end() == 0, job.said()
    assert "    Resource_List.walltime = 01:30:00\n" in job.out and job.out.endswith("153\n"), job.said()
