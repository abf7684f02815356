"""lapidary chat at a terminal: a pseudo-terminal, with this program at its keyboard.

Usage: chat_terminal.py LAPIDARY_BINARY CASE. Prints what was on the terminal if the case fails.
"""
import fcntl
import json
import os
import re
import select
import signal
import stat
import struct
import sys
import termios
import time

LIMIT = 120 * int(os.environ.get("PATIENCE", "1"))  # seconds; the sanitizer builds are slow

# Pebble answers for long when every token is as likely as any other.
LONG = ["--temperature", "1000", "--top-k", "0", "--top-p", "1", "--seed", "1"]


class Terminal:
    def __init__(self, *arguments, environment=()):
        self.seen = b""
        self.mark = 0
        master, slave = os.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        settings = termios.tcgetattr(slave)
        settings[3] |= termios.NOFLSH  # a Ctrl-C must not take away what has not been read here yet
        termios.tcsetattr(slave, termios.TCSANOW, settings)
        self.master = master
        self.pid = os.fork()
        if self.pid == 0:
            os.setsid()
            fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
            for fd in range(3):
                os.dup2(slave, fd)
            os.closerange(3, 256)
            for name in ("NO_COLOR", "LC_ALL", "LC_CTYPE", "LANG"):
                os.environ.pop(name, None)
            os.environ.update({"TERM": "xterm", "HOME": os.getcwd(), "XDG_STATE_HOME": os.getcwd() + "/state"})
            os.environ.update(dict(environment))
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # whoever runs the tests may ignore it
            os.execv(sys.argv[1], [sys.argv[1], "chat", *arguments])
        os.close(slave)

    def read(self, seconds):
        if not select.select([self.master], [], [], seconds)[0]:
            return False
        try:
            data = os.read(self.master, 65536)
        except OSError:  # the other side is closed
            return False
        self.seen += data
        return bool(data)

    def expect(self, pattern):
        """Waits for it in what has come since the last time; returns what came until then."""
        end = time.monotonic() + LIMIT
        while True:
            found = re.search(pattern.encode(), self.seen[self.mark:])
            if found:
                before = self.seen[self.mark:self.mark + found.end()]
                self.mark += found.end()
                return before.decode("utf-8", "replace")
            if time.monotonic() > end or (not self.read(1) and self.is_over()):
                raise AssertionError(f"{pattern!r} did not come")

    def is_over(self):
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def send(self, text):
        os.write(self.master, text if isinstance(text, bytes) else text.encode())

    def say(self, text):
        self.send(text + "\r")

    def prompt(self):
        return self.expect(r"\r\n(\x1b\[[0-9;?]*[a-zA-Z])*> ")

    def start(self):
        self.expect(r"pebble: context 8192 tokens, kv config, (cut [0-9a-f]{16}|monolith)\r\n")
        self.prompt()
        self.wait_for_editor()

    def wait_for_editor(self):
        """The prompt is written before the terminal gives out single keys."""
        end = time.monotonic() + LIMIT
        while self.is_cooked():
            assert time.monotonic() < end, "the line editor does not begin"
            time.sleep(0.01)

    def code(self):
        """Waits for the end; the exit code, or minus the signal."""
        end = time.monotonic() + LIMIT
        while not self.is_over():
            assert time.monotonic() < end, "it does not end"
            self.read(0.1)
        while self.read(0):
            pass
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def is_cooked(self):
        flags = termios.tcgetattr(self.master)[3]
        return bool(flags & termios.ICANON) and bool(flags & termios.ECHO)

    def leave(self):
        self.send(b"\x04")
        code = self.code()
        assert code == 0, f"exit code {code}"
        assert self.is_cooked(), "the terminal is not as it was"


def shown(text):
    """Without escape sequences."""
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text)


def messages(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)["messages"]


def turns(t):
    t.start()
    t.say("What is 74 - 8?")
    answer = t.prompt()
    assert "\r\n66\r\n" in shown(answer), answer
    t.say("What is 30 + 12?")
    t.prompt()
    t.say("/stats")
    stats = t.prompt()
    found = re.search(r"prompt +(\d+) tokens, (\d+) of them cached, (\d+) in", stats)
    assert found and int(found[2]) > 20 and int(found[3]) < 30, stats
    assert re.search(r"context +4 messages", stats), stats
    t.say("/help")
    assert "/save FILE" in t.prompt()
    t.say("/nonsense")
    assert "/nonsense: no such command" in t.prompt()
    t.say("")
    t.prompt()
    t.leave()


def interrupted(t):
    t.start()
    t.say("Write a story about a boat.")
    t.expect(r"boat\.\r\n\x1b\[\?2004l[^\x00-\x1f]")  # an answer has begun
    t.send(b"\x03")
    time.sleep(0.01)
    t.send(b"\x03")  # and somebody impatient
    answer = t.expect(r"\(stopped\)")
    assert "66" not in answer
    t.prompt()
    time.sleep(0.5)  # the second one may come here and cancel a line
    t.say("/save stopped.json")
    t.expect(r"\(2 messages in stopped\.json\)")
    t.prompt()
    said = messages("stopped.json")
    assert [m["role"] for m in said] == ["user", "assistant"] and said[1]["content"], said
    t.say("What is 74 - 8?")
    t.expect(r"8\?\r\n\x1b\[\?2004l[^\x00-\x1f]")
    t.send(b"\x03")  # in the answer or, if that was short, at the prompt
    time.sleep(0.5)
    t.say("/stats")
    t.expect(r"prompt +\d+ tokens, [1-9]\d+ of them cached")
    t.prompt()
    t.leave()


def unprintable(t):
    """Random tokens: bytes that a terminal would obey come as characters."""
    t.start()
    t.say("x")
    answer = t.expect(r"--max-tokens 300")
    t.prompt()
    t.leave()
    raw = re.sub(r"\x1b\[(2m|0m|\?2004[hl])", "", answer)
    wrong = re.findall(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\x80-\x9f]|\r(?!\n)", raw)
    assert not wrong, wrong
    assert re.search(r"\^[@-_?]", raw), "no control character was written: another seed is needed"


def keys(t):
    """Ctrl-C at the prompt, a line in several, a block, a pasted text, a window of another size."""
    t.start()
    t.send("to be forgotten")
    t.send(b"\x03")
    assert "Ctrl-D" in t.prompt()
    t.say("/system One\\")
    t.expect(r"\. ")
    t.say("Two")
    t.expect(r"system message set")
    t.prompt()
    t.say('"""')
    t.expect(r"\. ")
    t.say("/what is\\")
    t.expect(r"\. ")
    t.say('this?')
    t.expect(r"\. ")
    t.say('"""')
    t.prompt()
    t.send("What is ")
    fcntl.ioctl(t.master, termios.TIOCSWINSZ, struct.pack("HHHH", 20, 40, 0, 0))
    time.sleep(0.2)
    t.send("\x1b[200~7\r+\r1?\r\x1b[201~")
    time.sleep(0.2)
    t.say("")
    t.prompt()
    t.say("h\xe9 \u20ac!")
    t.prompt()
    t.say('"""')
    t.expect(r"\. ")
    t.send(b"\x03")
    t.prompt()
    t.say("/save keys.json")
    t.expect(r"messages in keys")
    t.prompt()
    said = messages("keys.json")
    assert said[0] == {"role": "system", "content": "One\nTwo"}, said
    assert said[1]["content"] == "/what is\\\nthis?", said
    assert said[3]["content"] == "What is 7\n+\n1?", said
    assert said[5]["content"] == "h\xe9 \u20ac!", said
    assert len(said) == 7, said
    t.leave()
    history = os.getcwd() + "/state/lapidary/chat_history"
    assert stat.S_IMODE(os.stat(history).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(os.path.dirname(history)).st_mode) == 0o700
    with open(history, encoding="utf-8") as file:
        assert "system" in file.read()
    again = Terminal(*t.arguments)
    again.start()
    again.send(b"\x1b[A")  # up: the last line
    again.expect(r"/save keys\.json")
    again.send(b"\x15")
    again.leave()
    without = Terminal(*t.arguments, "--no-history")
    without.start()
    without.say("/help")
    without.prompt()
    without.leave()
    with open(history, encoding="utf-8") as file:
        assert "help" not in file.read()


def tools(t):
    t.start()
    t.say("What is the weather in Quito?")
    t.expect(r'call get_weather \{"city":"Quito"\}\r\n')
    t.expect(r"result of get_weather> ")
    t.send(b"\x03")
    t.expect(r"taken back")
    t.prompt()
    t.say("What is the weather in Quito?")
    t.expect(r"result of get_weather> ")
    t.say('{"sky":"rain","temperature":27}')
    answer = t.prompt()
    assert "rain" in answer and "27" in answer.split("result of")[-1], answer
    t.say("/save tools.json")
    t.expect(r"\(4 messages in tools\.json\)")
    t.prompt()
    t.leave()


def signalled(t):
    t.start()
    t.send("half a line")
    time.sleep(0.2)
    os.kill(t.pid, signal.SIGTERM)
    code = t.code()
    assert code == -signal.SIGTERM, code
    assert t.is_cooked(), "the terminal is not as it was"


def suspended(t):
    t.start()
    t.send("What is 74 ")
    time.sleep(0.2)
    os.kill(t.pid, signal.SIGSTOP)
    time.sleep(0.1)
    cooked = termios.tcgetattr(t.master)
    cooked[3] |= termios.ICANON | termios.ECHO
    termios.tcsetattr(t.master, termios.TCSANOW, cooked)
    os.kill(t.pid, signal.SIGCONT)
    time.sleep(0.3)
    assert not t.is_cooked()
    t.say("- 8?")
    answer = t.prompt()
    assert "\r\n66\r\n" in shown(answer), answer
    t.leave()


def plain(t):
    """NO_COLOR, and a terminal that can do nothing: no escape sequence at all."""
    t.start()
    t.say("What is 74 - 8?")
    answer = t.prompt()
    assert "\r\n66\r\n" in answer, answer
    t.leave()
    assert b"\x1b" not in t.seen, t.seen


GREEDY = ["--greedy"]
CASES = {
    "turns": (turns, GREEDY, {}),
    "interrupted": (interrupted, LONG + ["--threads", "1"], {"LAPIDARY_ISA": "portable"}),
    "unprintable": (unprintable, LONG + ["--max-tokens", "300"], {}),
    "keys": (keys, GREEDY + ["--max-tokens", "20"], {}),
    "tools": (tools, GREEDY + ["--tools", "tools_of_pebble.json"], {}),
    "signalled": (signalled, GREEDY, {}),
    "suspended": (suspended, GREEDY, {}),
    "plain": (plain, GREEDY, {"TERM": "dumb", "NO_COLOR": "1"}),
}


def main():
    case, arguments, environment = CASES[sys.argv[2]]
    terminal = Terminal(*arguments, environment=environment)
    terminal.arguments = arguments
    try:
        case(terminal)
    except AssertionError:
        print(terminal.seen.decode("utf-8", "replace"))
        try:
            os.kill(terminal.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        raise


main()
