#!/usr/bin/env python3
"""What selftest.sh measures with: one site's part, over plain UDP and TCP sockets.  Prints key=value lines.

probe.py line RANK CONTROL   median round trip, TCP throughput of one stream, and a black hole of site-1 on and off
probe.py loss RANK           share of UDP packets from site-0 that never reach site-1
"""
import socket
import statistics
import sys
import time

ADDRESS = ("10.88.0.2", 7000)  # of site-1
LOSS_PACKETS = 4000


def udp(bind=None):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    if bind:
        s.bind(bind)
    return s


def ping(s, timeout=1.0):
    """Seconds of a round trip, or None."""
    s.settimeout(timeout)
    start = time.monotonic()
    s.sendto(b"ping", ADDRESS)
    try:
        s.recv(100)
    except TimeoutError:
        return None
    return time.monotonic() - start


def echo(until):
    s = udp(ADDRESS)
    s.settimeout(0.1)
    while time.monotonic() < until:
        try:
            s.sendto(*s.recvfrom(2048))
        except TimeoutError:
            pass


def receive_tcp():
    """Mbit/s of payload between the first second and the end."""
    listening = socket.create_server(ADDRESS)
    s, _ = listening.accept()
    start, begin, got, last = time.monotonic(), None, 0, 0.0
    while data := s.recv(1 << 20):
        last = time.monotonic()
        if begin is None and last - start > 1:
            begin = last
        elif begin:
            got += len(data)
    return got * 8e-6 / (last - begin)


def send_tcp(seconds):
    s = socket.create_connection(ADDRESS, timeout=10)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        s.sendall(bytes(1 << 16))


def command(control, words):
    with open(control, "w") as fifo:
        fifo.write(words + "\n")


def line(rank, control):
    if rank == 1:
        print(f"mbit={receive_tcp():.2f}", flush=True)
        echo(time.monotonic() + 6)
        return
    time.sleep(0.3)  # site-1 listens by then
    send_tcp(3.5)
    time.sleep(0.5)  # the queue has run empty by then
    s = udp()
    print(f"rtt_ms={1e3 * statistics.median(ping(s) or 1 for _ in range(41)):.3f}")
    command(control, "drop site-1")
    time.sleep(0.1)
    print(f"passed_while_dropped={sum(ping(s, 0.2) is not None for _ in range(4))}")
    command(control, "heal site-1")
    time.sleep(0.1)
    print(f"passed_after_heal={sum(ping(s) is not None for _ in range(4))}", flush=True)


def loss(rank):
    if rank == 0:
        time.sleep(0.3)
        s = udp()
        for _ in range(LOSS_PACKETS):
            s.sendto(bytes(100), ADDRESS)
            time.sleep(1e-4)
        return
    s = udp(ADDRESS)
    s.settimeout(1.5)
    got = 0
    try:
        while s.recv(200):
            got += 1
    except TimeoutError:
        print(f"lost_percent={100 * (1 - got / LOSS_PACKETS):.2f}", flush=True)


if __name__ == "__main__":
    {"line": line, "loss": loss}[sys.argv[1]](int(sys.argv[2]), *sys.argv[3:])
