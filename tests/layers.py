#!/usr/bin/env python3
"""layers.py ROOT: who may include whom (docs/design.md, "Folders").  Prints each wrong include as file:line; exit 1 if any."""
import pathlib
import re
import sys

FOLDERS = {"base": "src/base", "data": "src/data", "app": "src/app", "kernels": "kernels", "inner": "inner", "outer": "outer", "comm": "comm"}
ALLOWED = {
    "base": "",
    "data": "base",
    "kernels": "base",
    "inner": "base data kernels",
    "outer": "base kernels",
    "comm": "base kernels",
    "app": "base data kernels inner outer comm",
}
# A library's headers, and the files that may include them.
LIBRARIES = {
    "torch": (r"(torch|ATen|c10)/", r"^inner/"),
    "gloo": (r"gloo/", r"^comm/(gloo_[a-z_]+\.(h|cpp)|tcp_bytes\.cpp|link_main\.cpp)$"),
    "cuda": (r"(cuda|cublas|nccl)[a-z_]*\.h", r"(\.cu|^kernels/cuda_check\.h)$"),
    "toml++": (r"toml\+\+/", r"^src/app/(config_reader|toml_value)\.(h|cpp)$"),
}
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^">]+)[">]')


def wrong_includes(root):
    for folder, path in FOLDERS.items():
        for file in sorted((root / path).rglob("*")):
            if file.suffix not in (".h", ".cpp", ".cu"):
                continue
            name = file.relative_to(root).as_posix()
            for number, line in enumerate(file.read_text().splitlines(), 1):
                found = INCLUDE.match(line)
                if not found:
                    continue
                included = found.group(1)
                other = included.split("/")[0]
                if other in FOLDERS and other != folder and other not in ALLOWED[folder].split():
                    yield f"{name}:{number}: {folder} may not include {other}"
                for library, (headers, files) in LIBRARIES.items():
                    if re.match(headers, included) and not re.search(files, name):
                        yield f"{name}:{number}: {library} may not be included here"


def main():
    wrong = list(wrong_includes(pathlib.Path(sys.argv[1])))
    print("\n".join(wrong) if wrong else "layers: every include is allowed")
    sys.exit(1 if wrong else 0)


main()
