"""Small machines under QEMU, with the network cards that one asks for, cabled to each other or to a
switch. Nothing of theirs leaves this machine: a cable is a pair of Unix sockets."""

import ctypes
import json
import os
import re
import select
import socket
import subprocess
import threading
import time


class Failed(Exception):
    """A command in a machine has failed, or the machine has."""


def die_with_parent():
    """However the test ends, its machines do."""
    pr_set_pdeathsig, kill = 1, 9
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, kill)


# What a switch keeps of a port that has asked it to pause.
WAITING_MAX = 1000


class Switch:
    """An Ethernet switch: it learns addresses, and sends what it cannot place everywhere."""

    def __init__(self, directory, name, ports):
        # Whether it learns addresses; one that does not is a hub.
        self.learns = True
        # With port security, each port's only source address, which is the first that is seen.
        self.owners = None
        self.refused = 0
        # Until when ports pause, and what waits for them meanwhile.
        self.paused = {}
        self.paths = [f"{directory}/{name}.{port}" for port in range(ports)]
        self.far = [f"{path}.far" for path in self.paths]
        self.sockets = []
        for path in self.paths:
            port = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            port.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
            port.setblocking(False)
            port.bind(path)
            self.sockets.append(port)
        threading.Thread(target=self.run, daemon=True).start()

    def end(self, port):
        """The two paths of a machine's end of the cable to this port."""
        return self.far[port], self.paths[port]

    def run(self):
        known = {}
        while True:
            for ready in select.select(self.sockets, [], [], 0.01)[0]:
                port = self.sockets.index(ready)
                frame = ready.recv(1 << 17)
                to, source = frame[:6], frame[6:12]
                if self.owners is not None and self.owners.setdefault(port, source) != source:
                    self.refused += 1
                    continue
                known[source] = port
                one = known.get(to) if self.learns and not to[0] & 1 else None
                for out in [one] if one is not None else range(len(self.sockets)):
                    if out != port:
                        self.send(out, frame)
            self.resume()

    def secure(self):
        """From now on each port has one source address, and frames with another are refused."""
        self.owners = {}

    def pause(self, port, seconds):
        """What is for the port waits, as after a pause frame of IEEE 802.3x. The cards that QEMU
        plays neither send such frames nor heed them, but they get to see one."""
        self.paused[port] = (time.monotonic() + seconds, [])
        head = bytes.fromhex("0180c2000001" + "020000000000" + "8808" + "0001" + "ffff")
        self.give(port, head.ljust(60, b"\0"))

    def resume(self):
        now = time.monotonic()
        for port in [port for port, (end, _) in list(self.paused.items()) if end <= now]:
            for frame in self.paused.pop(port)[1]:
                self.give(port, frame)

    def send(self, out, frame):
        if out not in self.paused:
            self.give(out, frame)
        elif len(self.paused[out][1]) < WAITING_MAX:
            self.paused[out][1].append(frame)

    def give(self, out, frame):
        try:
            self.sockets[out].sendto(frame, self.far[out])
        except OSError:
            pass  # Its buffer is full, or the machine is not there: a switch drops it.


class Machine:
    """A machine that is up, or about to be."""

    def __init__(self, image, directory, number, cards):
        """`cards`: of each its model, its cable's two paths, and its cable's number (255: ctl)."""
        self.name, self.number = f"m{number}", number
        self.log = f"{directory}/{self.name}.log"
        port, monitor = f"{directory}/{self.name}.port", f"{directory}/{self.name}.qmp"
        command = [
            "qemu-system-x86_64", "-accel", "tcg,thread=multi", "-machine", "q35", "-cpu", "max",
            "-smp", "1", "-m", "384", "-nodefaults", "-display", "none",
            "-no-reboot", "-kernel", f"{image}/vmlinuz", "-initrd", f"{image}/initramfs",
            "-append", f"console=ttyS0 quiet panic=-1 mitigations=off machine={number}",
            "-serial", f"file:{self.log}", "-qmp", f"unix:{monitor},server=on,wait=off",
            "-device", "virtio-serial-pci",
            "-chardev", f"socket,id=port,path={port},server=on,wait=off",
            "-device", "virtserialport,chardev=port,name=test",
        ]  # fmt: skip
        for model, (local, remote), cable in cards:
            own = f"id=net{cable},local.type=unix,local.path={local}"
            mac = f"52:54:00:00:{number:02x}:{cable:02x}"
            # What is to be pulled out must be in a slot of its own.
            slot = f"slot{cable}"
            command += [
                "-netdev", f"dgram,{own},remote.type=unix,remote.path={remote}",
                "-device", f"pcie-root-port,id={slot},chassis={cable % 200 + 1}",
                "-device", f"{model},id=card{cable},netdev=net{cable},mac={mac},bus={slot}",
            ]  # fmt: skip
        self.errors = open(f"{directory}/{self.name}.err", "w")
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stderr=self.errors, preexec_fn=die_with_parent
        )
        self.port, self.monitor = self.connect(port), self.connect(monitor)
        self.said = b""
        self.replies = self.monitor.makefile("rb")
        self.greet()

    def connect(self, path):
        for _ in range(200):
            try:
                end = socket.socket(socket.AF_UNIX)
                end.connect(path)
                return end
            except OSError:
                end.close()
                if self.process.poll() is not None:
                    break
                time.sleep(0.05)
        raise self.not_started()

    def not_started(self):
        return Failed(f"{self.name} has not started: {open(self.errors.name).read()}")

    def greet(self):
        try:
            self.replies.readline()
            self.ask("qmp_capabilities")
        except OSError as why:
            self.process.wait()
            raise self.not_started() from why

    def ask(self, what, **arguments):
        """A command to the monitor."""
        order = {"execute": what, "arguments": arguments}
        self.monitor.sendall(json.dumps(order).encode() + b"\n")
        while "return" not in (reply := json.loads(self.replies.readline())):
            if "error" in reply:
                raise Failed(f"{self.name}: {what}: {reply['error']['desc']}")

    def until(self, pattern, seconds):
        end = time.monotonic() + seconds
        while not (found := re.search(pattern, self.said)):
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.port], [], [], left)[0]:
                said = self.said.decode(errors="replace")[-2000:]
                raise Failed(f"{self.name}: nothing after {seconds} s; so far: {said}")
            more = self.port.recv(1 << 16)
            if not more:
                raise Failed(f"{self.name} has ended: {open(self.log, errors='replace').read()}")
            self.said += more
        before, self.said = self.said[: found.start()], self.said[found.end() :]
        return before.decode(errors="replace"), found

    def ready(self):
        self.until(rb"ready\n", 180)

    def start(self, command):
        self.port.sendall(command.encode() + b"\n")

    def finish(self, seconds=120):
        """What the command that was started has said, and its status."""
        said, found = self.until(rb"\n\001(\d+)\n", seconds)
        return said, int(found[1])

    def run(self, command, seconds=120):
        """What a command says that must succeed."""
        self.start(command)
        said, status = self.finish(seconds)
        if status:
            raise Failed(f"{self.name}: {command}: status {status}: {said[-3000:]}")
        return said

    def await_carrier(self, cable):
        """Waits until the kernel counts the cable as there, up to a second after the card does."""
        state = f"/sys/class/net/c{cable}/operstate"
        self.run(f"until grep -q up {state}; do sleep 0.1; done")

    def cable(self, number, up):
        """Pulls a cable out of its card, or puts it in again."""
        self.ask("set_link", name=f"card{number}", up=up)

    def remove(self, number):
        """Takes a card out."""
        self.ask("device_del", id=f"card{number}")

    def end(self):
        self.process.kill()
        self.process.wait()
        for end in (self.port, self.monitor, self.errors):
            end.close()


def pair(directory, name):
    """A cable: the paths of its two ends."""
    ends = [f"{directory}/{name}.{end}" for end in "ab"]
    return (ends[0], ends[1]), (ends[1], ends[0])


class Machines:
    """Machines, their cables, and their end."""

    def __init__(self, image, directory, count, models, switched=False):
        """`models`: the card at each cable; a cable joins two machines, or all by a switch."""
        for left in os.listdir(directory):
            os.unlink(f"{directory}/{left}")
        wires, self.switches = [], []
        for name in ["ctl", *(f"cable{cable}" for cable in range(len(models)))]:
            if count == 2 and not switched:
                wires.append(pair(directory, name))
            else:
                switch = Switch(directory, name, count)
                self.switches.append(switch)
                wires.append([switch.end(port) for port in range(count)])
        self.all = []
        try:
            for number in range(count):
                cards = [("virtio-net-pci", wires[0][number], 255)]
                for cable, model in enumerate(models):
                    cards.append((model, wires[cable + 1][number], cable))
                machine = Machine(image, directory, number, cards)
                self.all.append(machine)
            for machine in self.all:
                machine.ready()
            # A card takes seconds to agree with the other end of its cable.
            for machine in self.all:
                for cable in range(len(models)):
                    machine.await_carrier(cable)
        except BaseException:
            self.end()
            raise

    def __enter__(self):
        return self

    def __getitem__(self, number):
        return self.all[number]

    def __exit__(self, *_):
        self.end()

    def end(self):
        for machine in self.all:
            machine.end()
