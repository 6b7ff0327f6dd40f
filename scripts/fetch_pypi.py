#!/usr/bin/env python3
"""fetch_pypi.py PROJECT FILE SHA256 FOLDER: one file of a PyPI project, checked.

Not pip: it runs a source package's setup.py even to download it.  Only Python's standard library is used.  The file is written
aside and renamed when its SHA-256 is right; a file that is there already is checked and kept.  ATOLL_INDEX names another index.
"""
import hashlib
import html.parser
import os
import sys
import time
import urllib.error
import urllib.parse
import urllib.request


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
    index = os.environ.get("ATOLL_INDEX", "https://pypi.org/simple").rstrip("/") + f"/{project}/"
    with urllib.request.urlopen(index, timeout=60) as answer:
        links = Links()
        links.feed(answer.read().decode())
    for url in links.urls:
        whole = urllib.parse.urljoin(index, url)
        if urllib.parse.urlparse(whole).path.rsplit("/", 1)[-1] == name:
            return whole.split("#")[0]
    sys.exit(f"setup: {index} has no file {name}")


def download(url, target, want):
    aside = f"{target}.part.{os.getpid()}"
    try:
        with urllib.request.urlopen(url, timeout=60) as answer, open(aside, "wb") as file:
            while block := answer.read(1 << 20):
                file.write(block)
            file.flush()
            os.fsync(file.fileno())
        found = sha256_of(aside)
        if found != want:
            sys.exit(f"setup: {url} has SHA-256 {found}, expected {want}: nothing of it is used")
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
    tries = 3
    for attempt in range(1, tries + 1):
        try:
            download(url_of(project, name), target, want)
            return
        except (urllib.error.URLError, OSError) as error:
            if attempt == tries:
                sys.exit(f"setup: {name} cannot be fetched from PyPI: {error}")
            time.sleep(2 * attempt)


main()
