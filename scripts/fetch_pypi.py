#!/usr/bin/env python3
"""fetch_pypi.py PROJECT FILE SHA256 FOLDER: one file of a PyPI project, checked.

Not pip: it runs a source package's setup.py even to download it.  Only Python's standard library is used.  The file is written
aside and renamed when its SHA-256 is right; one that is there already is checked and kept.  ATOLL_INDEX names another index than
PyPI's, else pip's PIP_INDEX_URL counts.
"""
import hashlib
import html.parser
import http.client
import os
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

TRIES = 3


def sha256_of(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


class Links(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.urls = []

    def handle_starttag(self, tag, attributes):
        if tag == "a":
            self.urls.append(dict(attributes).get("href", ""))


def url_of(project, name):
    index = os.environ.get("ATOLL_INDEX") or os.environ.get("PIP_INDEX_URL") or "https://pypi.org/simple"
    page = f"{index.rstrip('/')}/{project}/"
    with urllib.request.urlopen(page, timeout=60) as answer:
        links = Links()
        links.feed(answer.read().decode())
    for url in links.urls:
        whole = urllib.parse.urljoin(page, url)
        if urllib.parse.urlparse(whole).path.rsplit("/", 1)[-1] == name:
            return whole.split("#")[0]
    sys.exit(f"setup: {page} has no file {name}")


def download(url, aside):
    with urllib.request.urlopen(url, timeout=60) as answer, open(aside, "wb") as file:
        whole = int(answer.headers.get("Content-Length") or 0)
        if whole > 50_000_000:
            print(f"setup: fetching {whole // 1_000_000} MB from {url}", file=sys.stderr, flush=True)
        while block := answer.read(1 << 20):
            file.write(block)
        file.flush()
        os.fsync(file.fileno())
        if whole and file.tell() != whole:
            raise http.client.HTTPException(f"the connection ended after {file.tell()} of {whole} bytes")


def fetch(project, name, want, target):
    aside = f"{target}.part.{os.getpid()}"
    try:
        download(url_of(project, name), aside)
        found = sha256_of(aside)
        if found != want:
            sys.exit(f"setup: {name} was fetched with SHA-256 {found}, expected {want}: nothing of it is used")
        os.replace(aside, target)
    finally:
        if os.path.exists(aside):
            os.remove(aside)


def main():
    project, name, want, folder = sys.argv[1:]
    target = os.path.join(folder, name)
    if os.path.exists(target):
        if sha256_of(target) == want:
            return
        print(f"setup: {target} has another SHA-256 than expected: fetched again", file=sys.stderr)
    for left in reversed(range(TRIES)):
        try:
            return fetch(project, name, want, target)
        except (OSError, http.client.HTTPException) as error:  # URLError is an OSError
            print(f"setup: {name}: {error}" + (": once more" if left else ""), file=sys.stderr)
            time.sleep(2 if left else 0)
    sys.exit(f"setup: {name} could not be fetched. It may be put into {folder} by hand")


main()
