"""What the workers write: labels, log files, slow and absent readers, full disks, terminals, and their stdin."""

import contextlib
import os
import re
import subprocess
import sys
import time

import pytest

from harness import shell

pytestmark = pytest.mark.multiprocess

TWO = ["run", "--nproc-per-node", "2"]
ONE = ["run", "--nproc-per-node", "1"]


def python(code):
    return ["--no-python", sys.executable, "-u", "-c", code]


def sorted_lines(text):
    return sorted(text.splitlines())


def only(paths):
    (path,) = paths
    return path


@contextlib.contextmanager
def small_disk(path, size):
    path.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", path], check=True)
    try:
        yield path
    finally:
        subprocess.run(["umount", "-l", path], check=True)


class TestLabels:
    def test_rank_with_several_workers(self, run_muster):
        done = run_muster([*TWO, *shell("echo out; echo err >&2")])
        assert (done.returncode, sorted_lines(done.stdout)) == (0, ["[0] out", "[1] out"])
        assert sorted_lines(done.stderr) == ["[0] err", "[1] err"]

    def test_none_with_one_worker(self, run_muster):
        done = run_muster([*ONE, *shell("printf 'a\\rb'")], text=False)
        assert done.stdout == b"a\rb"

    def test_host_and_rank(self, run_muster):
        done = run_muster([*TWO, "--label", "host:rank", *shell("echo x")])
        host = os.uname().nodename
        assert sorted_lines(done.stdout) == [f"[{host}:0] x", f"[{host}:1] x"]

    def test_prefix_template(self, run_muster):
        done = run_muster([*TWO, "--role", "t", "--log-line-prefix-template", "<${role_name}${local_rank}/$rank> ",
                           *shell("echo x")])
        assert sorted_lines(done.stdout) == ["<t0/0> x", "<t1/1> x"]

    def test_an_unfinished_last_line_is_ended(self, run_muster):
        done = run_muster([*TWO, *shell("printf x")])
        assert sorted_lines(done.stdout) == ["[0] x", "[1] x"]
        assert done.stdout.endswith("\n")

    def test_of_progress_only_the_last_state_off_a_terminal(self, run_muster):
        done = run_muster([*TWO, *shell("printf '\\r10%%\\r20%%\\r30%%\\n'")])
        assert sorted_lines(done.stdout) == ["[0] 30%", "[1] 30%"]

    def test_lines_are_whole_whatever_the_writers_do(self, run_muster):
        code = "import os\nfor i in range(3000):\n  os.write(1, b'%d:' % i); os.write(1, b'x' * 200); os.write(1, b'\\n')"
        done = run_muster(["run", "--nproc-per-node", "4", *python(code)])
        lines = done.stdout.splitlines()
        assert len(lines) == 12000
        for rank in range(4):
            mine = [line for line in lines if line.startswith(f"[{rank}] ")]
            assert mine == [f"[{rank}] {i}:{'x' * 200}" for i in range(3000)]


def run_in(log_dir):
    """The one directory of a job in it; beside it is the link to the latest."""
    assert (log_dir / "latest").is_symlink()
    run = only(path for path in log_dir.iterdir() if not path.is_symlink())
    assert (log_dir / "latest").resolve() == run.resolve()
    return run


def logs_line(log_dir):
    return f"muster: logs: {run_in(log_dir)}\n"


class TestLogFiles:
    def test_a_log_directory_gets_every_stream_raw(self, run_muster, tmp_path):
        done = run_muster([*TWO, "--log-dir", tmp_path, "--rdzv-id", "job7", *shell("printf '1\\r2\\n'; echo err >&2")])
        assert sorted_lines(done.stdout) == ["[0] 2", "[1] 2"]
        run = run_in(tmp_path)
        assert re.fullmatch(r"job7_[a-z0-9_]{8}", run.name)
        assert run.stat().st_mode & 0o777 == 0o700
        for rank in "01":
            assert (run / "attempt_0" / rank / "stdout.log").read_bytes() == b"1\r2\n"
            assert (run / "attempt_0" / rank / "stderr.log").read_text() == "err\n"

    def test_redirect_and_tee(self, run_muster, tmp_path):
        done = run_muster([*TWO, "--log-dir", tmp_path, "-r", "0:1", "-t", "1:2", *shell("echo out; echo err >&2")])
        assert done.stdout == "[1] out\n"
        assert sorted_lines(done.stderr) == sorted(["[0] err", "[1] err", logs_line(tmp_path).rstrip()])
        attempt = run_in(tmp_path) / "attempt_0"
        files = {str(p.relative_to(attempt)): p.read_text() for p in attempt.rglob("*.log")}
        assert files == {"0/stdout.log": "out\n", "1/stderr.log": "err\n"}

    def test_files_without_a_place_are_told_of(self, run_muster, tmp_path):
        done = run_muster([*TWO, "-r", "3", *shell("echo out")], env={"TMPDIR": str(tmp_path)})
        run = only(only(tmp_path.glob("muster_*")).iterdir())
        assert (done.stdout, done.stderr) == ("", f"muster: logs: {run}\n")
        assert (run / "attempt_0" / "1" / "stdout.log").read_text() == "out\n"

    def test_filters(self, run_muster, tmp_path):
        done = run_muster([*TWO, "--log-dir", tmp_path, "--duplicate-stdout-filters", "loss,acc",
                           *shell("echo loss 1; echo other; echo acc 2")])
        assert done.returncode == 0, done.stderr
        filtered = run_in(tmp_path) / "attempt_0" / "filtered_stdout.log"
        assert sorted_lines(filtered.read_text()) == ["[0] acc 2", "[0] loss 1", "[1] acc 2", "[1] loss 1"]

    def test_local_ranks_filter(self, run_muster, tmp_path):
        done = run_muster([*TWO, "--log-dir", tmp_path, "--local-ranks-filter", "1", *shell("echo x; echo e >&2")])
        assert (done.stdout, done.stderr) == ("[1] x\n", "[1] e\n" + logs_line(tmp_path))
        assert (run_in(tmp_path) / "attempt_0/0/stdout.log").read_text() == "x\n"

    def test_the_place_is_told_at_the_end(self, run_muster, tmp_path):
        logs = tmp_path / "logs"
        done = run_muster([*ONE, "--standalone", "--log-dir", logs, *shell("echo e >&2")], env={"SLURM_JOB_ID": "4711"})
        assert done.stderr == "e\n" + logs_line(logs)
        assert run_in(logs).name.startswith("4711_")
        quiet = run_muster([*ONE, "--quiet", "--log-dir", tmp_path / "quiet", *shell("echo e >&2")])
        assert quiet.stderr == "e\n"

    def test_a_directory_that_is_removed_during_the_run(self, run_muster, tmp_path):
        logs = tmp_path / "logs"
        script = 'echo "round $TORCHELASTIC_RESTART_COUNT"; [ $TORCHELASTIC_RESTART_COUNT = 1 ] || { rm -r "$LOGS"; exit 3; }'
        done = run_muster([*ONE, "--log-dir", logs, "--max-restarts", "1", *shell(script)], env={"LOGS": logs})
        assert done.returncode == 0, done.stderr
        assert "was removed during the run: it was made again" in done.stderr
        assert (run_in(logs) / "attempt_1/0/stdout.log").read_text() == "round 1\n"

    def test_a_directory_that_is_removed_in_the_last_round(self, run_muster, tmp_path):
        logs = tmp_path / "logs"
        done = run_muster([*ONE, "--log-dir", logs, *shell('rm -r "$LOGS"')], env={"LOGS": logs})
        assert done.returncode == 0, done.stderr
        assert re.search(rf"logs: none, {logs}/\S+ was removed during the run\n", done.stderr), done.stderr

    def test_dev_null_means_no_files(self, run_muster):
        done = run_muster([*ONE, "--log-dir", "/dev/null", "-t", "3", *shell('echo "<$TORCHELASTIC_ERROR_FILE>"')])
        assert done.stdout == "<>\n"

    def test_a_temporary_tree_is_gone_afterwards(self, run_muster, tmp_path):
        done = run_muster([*TWO, *shell('test -d "$(dirname "$TORCHELASTIC_ERROR_FILE")"')],
                          env={"TMPDIR": str(tmp_path)})
        assert done.returncode == 0, done.stderr
        assert list(tmp_path.iterdir()) == []

    def test_logs_of_every_round_are_kept(self, run_muster, tmp_path):
        run_muster([*ONE, "--log-dir", tmp_path, "--max-restarts", "1",
                    *shell('echo "round $TORCHELASTIC_RESTART_COUNT"; exit 3')])
        run = run_in(tmp_path)
        for attempt in "01":
            assert (run / f"attempt_{attempt}/0/stdout.log").read_text() == f"round {attempt}\n"


LINE = b"x" * 99 + b"\n"
# Writes MEGABYTES of lines, then makes the file DONE.
FLOOD = (
    "import os, sys\n"
    "block = (b'x' * 99 + b'\\n') * 1000\n"
    "for _ in range(int(os.environ['MEGABYTES']) * 10): os.write(1, block)\n"
    "open(os.environ['DONE'], 'w').close()"
)


def wait_for_file(path, process, timeout=60):
    deadline = time.monotonic() + timeout
    while not path.exists():
        assert process.poll() is None or path.exists(), f"muster ended: {process.returncode}"
        assert time.monotonic() < deadline, f"{path} did not appear"
        time.sleep(0.01)


class TestReaders:
    @pytest.mark.parametrize("logs", [False, True], ids=["spool", "log files"])
    def test_one_that_does_not_read_stops_nobody_and_loses_nothing(self, start_muster, tmp_path, logs):
        extra = ["--log-dir", tmp_path / "logs"] if logs else []
        process = start_muster([*ONE, *extra, *python(FLOOD)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               env={"MEGABYTES": 50, "DONE": tmp_path / "done"})
        wait_for_file(tmp_path / "done", process)  # nobody has read a byte
        out, err = process.communicate(timeout=60)
        assert out == LINE * 500_000
        assert (process.returncode, err.decode()) == (0, logs_line(tmp_path / "logs") if logs else "")

    def test_one_that_goes_ends_the_output_not_the_job(self, start_muster, tmp_path):
        process = start_muster([*TWO, *python(FLOOD)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               env={"MEGABYTES": 5, "DONE": tmp_path / "done"})
        process.stdout.read(1000)
        process.stdout.close()
        process.stdout = None
        _, err = process.communicate(timeout=60)
        assert (process.returncode, err) == (0, b"")
        assert (tmp_path / "done").exists()

    @pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", ">&- 2>&- <&-"])
    def test_started_with_closed_descriptors(self, muster, run_muster, tmp_path, closed):
        script = f'exec "$0" run --nproc-per-node 2 --no-python /bin/sh -c "echo out; echo err >&2; : > {tmp_path}/\\$RANK" {closed}'
        done = run_muster(["-c", script, muster], program="/bin/sh")
        assert done.returncode == 0, done
        assert sorted(p.name for p in tmp_path.iterdir()) == ["0", "1"]
        if closed == "<&-":
            assert (sorted_lines(done.stdout), sorted_lines(done.stderr)) == (["[0] out", "[1] out"], ["[0] err", "[1] err"])

    def test_stdout_and_stderr_in_one_file_keep_the_order_of_arrival(self, run_muster, tmp_path):
        # Each write waits until muster has taken the one before.
        code = (
            "import os, fcntl, termios, array\n"
            "def taken(fd):\n"
            "  n = array.array('i', [1])\n"
            "  while n[0]: fcntl.ioctl(fd, termios.FIONREAD, n)\n"
            "for i in range(200):\n"
            "  fd = 1 + i % 2\n"
            "  os.write(fd, b'%d\\n' % i); taken(fd)"
        )
        done = run_muster([*ONE, *python(code)], stderr=subprocess.STDOUT)
        assert done.stdout.split() == [str(i) for i in range(200)]

    def test_a_regular_file(self, run_muster, tmp_path):
        with open(tmp_path / "out", "w") as f:
            done = run_muster([*TWO, *shell("echo x")], stdout=f)
        assert done.returncode == 0
        assert sorted_lines((tmp_path / "out").read_text()) == ["[0] x", "[1] x"]

    def test_stdout_on_a_full_disk_is_said(self, run_muster):
        with open("/dev/full", "w") as full:
            done = run_muster([*TWO, *shell("echo x")], stdout=full)
        assert done.returncode == 0
        assert "lines of stdout are being lost: No space left on device" in done.stderr
        assert done.stderr.endswith("muster: warning: stdout has lost 2 lines\n")


class TestLimits:
    def test_past_the_cap_lines_are_dropped_counted_and_said(self, run_muster, tmp_path):
        done = run_muster([*TWO, "--log-dir", tmp_path, "--output-cap", "1MiB", *python(FLOOD)], text=False,
                          env={"MEGABYTES": 2, "DONE": tmp_path.parent / "done"})
        assert done.returncode == 0
        assert done.stdout.count(b"\n") == 40_000  # the console kept up
        for rank in "01":
            log = run_in(tmp_path) / "attempt_0" / rank / "stdout.log"
            kept = log.read_bytes()
            assert kept == LINE * (len(kept) // 100)
            dropped = 20_000 - len(kept) // 100
            assert f"rank {rank} stdout: {dropped} lines dropped: {log} is full (cap 1 MiB".encode() in done.stderr

    @pytest.mark.root
    def test_a_full_disk_under_the_logs(self, run_muster, tmp_path):
        with small_disk(tmp_path / "disk", "1m") as disk:
            done = run_muster([*TWO, "--log-dir", disk, *python(FLOOD)], text=False,
                              env={"MEGABYTES": 2, "DONE": tmp_path / "done"})
            assert done.returncode == 0
            assert done.stdout.count(b"\n") == 40_000
            assert re.search(rb"rank \d stdout: \d+ lines dropped: .* is full \(No space left on device\)", done.stderr)

    @pytest.mark.root
    def test_a_slow_reader_and_a_full_spool(self, start_muster, tmp_path):
        with small_disk(tmp_path / "disk", "4m") as disk:
            process = start_muster([*ONE, *python(FLOOD)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   env={"MEGABYTES": 20, "DONE": tmp_path / "done", "TMPDIR": str(disk)})
            wait_for_file(tmp_path / "done", process)
            out, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
        lines = out.splitlines(keepends=True)
        said = [line for line in lines if line != LINE]
        assert len(said) == 1
        dropped = int(re.match(rb"muster: warning: (\d+) lines dropped here", said[0])[1])
        assert dropped + len(lines) - 1 == 200_000
        assert err == b"muster: warning: stdout has lost %d lines\n" % dropped


class TestTerminals:
    def test_workers_see_one(self, terminal):
        code = "import os; print(os.isatty(1), os.isatty(2), os.get_terminal_size(1), '\\x1b[31mred\\x1b[0m')"
        seen = terminal([*TWO, *python(code)], rows=11, columns=77).read_to_end()
        for rank in "01":
            assert f"[{rank}] True True os.terminal_size(columns=73, lines=11) \x1b[31mred\x1b[0m\r\n" in seen

    def test_redirected_streams_are_none(self, terminal, tmp_path):
        code = "import os; os.write(2, b'%d %d\\n' % (os.isatty(1), os.isatty(2)))"
        seen = terminal([*ONE, "--log-dir", tmp_path, "-r", "1", *python(code)]).read_to_end()
        assert "0 1" in seen

    def test_a_new_size_is_passed_on(self, terminal):
        code = (
            "import os, signal\n"
            "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGWINCH])\n"
            "print('ready')\n"
            "signal.sigwait([signal.SIGWINCH])\n"
            "print('now', os.get_terminal_size(1).columns)"
        )
        one = terminal([*TWO, *python(code)])
        one.read_until(r"(?s)ready.*ready")
        one.resize(30, 133)
        seen = one.read_to_end()
        assert "[0] now 129" in seen and "[1] now 129" in seen, "without the label"

    def test_progress_shows_for_one_rank(self, terminal):
        # Rank 0 does not show its progress; it ends when rank 1, which does, has been seen.
        script = (
            'printf "\\r$RANK at 10%%"; printf "\\r$RANK at 20%%"; '
            'if [ $RANK = 1 ]; then read x; fi; printf "\\r$RANK at 100%%\\n"'
        )
        one = terminal([*TWO, "--progress-rank", "1", "--stdin", "1", *shell(script)])
        one.read_until(r"\[1\] 1 at 20%")
        one.read_until(r"\[0\] 0 at 100%\r\n")
        assert "0 at 20%" not in one.seen
        one.type("\n")
        assert re.search(r"\[1\] 1 at 100%\r\n", one.read_to_end())

    @pytest.mark.parametrize("stream", ["", "exec >&2; "], ids=["stdout", "stderr"])
    def test_progress_comes_from_other_nodes_too(self, terminal, tmp_path, stream):
        seen = tmp_path / "seen"
        script = (
            stream + 'stty size <&1; printf "\\r$RANK at 10%%"; printf "\\r$RANK at 20%%"; '
            f'until [ -e {seen} ]; do sleep 0.02; done; printf "\\r$RANK at 100%%\\n"'
        )
        nodes = ["run", "--local-nodes", "2", "--progress-rank", "1"]
        one = terminal([*nodes, *shell(script)], columns=39)
        one.read_until(r"\[node1:1\] 1 at 20%")
        assert "0 at 20%" not in one.seen
        seen.touch()
        text = one.read_to_end()
        for rank in (0, 1):
            assert re.search(rf"\[node{rank}:{rank}\] \d+ 29\r\n", text) and f"{rank} at 100%\r\n" in text

    def test_one_worker_is_untouched(self, terminal):
        seen = terminal([*ONE, *shell("printf '\\r10%%\\r20%%'; printf '\\033[Aup\\n'")]).read_to_end()
        assert seen == "\r10%\r20%\x1b[Aup\r\n"

    def test_ctrl_c(self, terminal):
        # Python looks for signals before a sleep: one that comes between the two does not end a long sleep.
        one = terminal([*TWO, *python("import time\nprint('ready')\nwhile True: time.sleep(0.05)")])
        one.read_until(r"(?s)ready.*ready")
        one.type("\x03")
        seen = one.read_to_end()
        assert one.process.returncode == 130, seen

    def test_a_stopped_terminal_stops_nobody(self, terminal, tmp_path):
        one = terminal([*TWO, *python(FLOOD)], env={"MEGABYTES": 5, "DONE": tmp_path / "done"})
        wait_for_file(tmp_path / "done", one.process)  # nobody reads the other end
        assert one.read_to_end().count("\n") == 100_000

    def test_pdb(self, terminal):
        one = terminal([*ONE, *python("answer = 6 * 7\nimport pdb; pdb.set_trace()\nprint('went on')")])
        one.read_until(r"\(Pdb\) ")
        one.type("p answer\n")
        one.read_until(r"42\r\n\(Pdb\) ")
        one.type("c\n")
        assert "went on\r\n" in one.read_to_end()
        assert one.process.returncode == 0

    def test_pdb_in_one_rank_of_two(self, terminal):
        code = "import os\nif os.environ['RANK'] == '1':\n  import pdb; pdb.set_trace()\nprint('went on')"
        one = terminal([*TWO, "--stdin", "1", *python(code)])
        one.read_until(r"\(Pdb\) ")
        one.type("p 6 * 7\n")
        one.read_until(r"42\r\n")
        one.type("c\n")
        seen = one.read_to_end()
        assert one.process.returncode == 0, seen
        assert "[0] went on" in seen and "went on" in seen.split("42")[1]


class TestStdin:
    def test_one_worker_gets_it(self, run_muster):
        assert run_muster([*ONE, "--no-python", "/bin/cat"], input="hello\n").stdout == "hello\n"

    def test_none(self, run_muster):
        assert run_muster([*ONE, "--stdin", "none", *shell("cat; echo end")], input="hello\n").stdout == "end\n"

    def test_several_get_none(self, run_muster):
        done = run_muster([*TWO, *shell("cat; echo end")], input="hello\n")
        assert sorted_lines(done.stdout) == ["[0] end", "[1] end"]

    def test_a_rank(self, run_muster):
        done = run_muster([*TWO, "--stdin", "1", *shell("cat")], input="hello\n")
        assert done.stdout == "[1] hello\n"

    def test_all(self, run_muster):
        text = "".join(f"{i}\n" for i in range(50_000))
        done = run_muster(["run", "--nproc-per-node", "3", "--stdin", "all", *shell("cksum")], input=text)
        sums = {line.split(" ", 1)[1] for line in done.stdout.splitlines()}
        expected = subprocess.run("cksum", input=text, text=True, capture_output=True).stdout.strip()
        assert sums == {expected}
        assert done.stdout.count("\n") == 3

    def test_all_from_a_file(self, run_muster, tmp_path):
        (tmp_path / "in").write_text("from a file\n")
        with open(tmp_path / "in") as f:
            done = run_muster([*TWO, "--stdin", "all", *shell("cat")], stdin=f)
        assert sorted_lines(done.stdout) == ["[0] from a file", "[1] from a file"]

    def test_one_that_does_not_read_blocks_no_other(self, run_muster):
        text = "x" * 99 + "\n"
        script = "if [ $RANK = 0 ]; then exec sleep 600; fi; wc -c; kill -TERM $PPID"
        done = run_muster([*TWO, "--stdin", "all", *shell(script)], input=text * 100_000)
        assert "[1] 10000000" in done.stdout
        assert "rank 0 does not read its stdin: closed" in done.stderr


class TestTorchrun:
    TEE = ["torchrun", "--nproc-per-node", "2", "-t", "3"]

    def test_tee(self, run_muster, tmp_path):
        done = run_muster([*self.TEE, "--log-dir", tmp_path, *shell("printf 'a\\rb\\r\\n\\377\\n'; printf part >&2")], text=False)
        assert sorted(done.stdout.splitlines()) == sorted(
            line.encode() for r in "01" for line in (f"[default{r}]:a", f"[default{r}]:b", f"[default{r}]:\ufffd"))
        attempt = only(tmp_path.iterdir()) / "attempt_0"
        assert (attempt / "1/stdout.log").read_bytes() == b"a\rb\r\n\xff\n"
        assert (attempt / "0/stderr.log").read_bytes() == b"part"
        assert done.stderr.count(b"]:part") == 2

    def test_plain_streams_are_ours(self, run_muster):
        script = "printf 'x\\ry'; ls -l /proc/self/fd/1 /proc/$PPID/fd/1"
        done = run_muster(["torchrun", "--nproc-per-node", "1", *shell(script)], text=False)
        assert done.stdout.startswith(b"x\ry")
        assert len(set(re.findall(rb"pipe:\[\d+\]", done.stdout))) == 1
