"""A process with redis-py that carries out the classic recipes; obeys JSON commands from standard input.

    python peer.py --redis redis://HOST:PORT

The protocol is that of ../README.md.
"""

import json
import sys
import threading
import time

import redis

from recipes import RECIPES

GAUGE = """
    local now = redis.call('hincrby', KEYS[1], 'now', ARGV[1])
    if now > tonumber(redis.call('hget', KEYS[1], 'max') or 0) then
        redis.call('hset', KEYS[1], 'max', now)
    end
"""


class Peer:
    def __init__(self, url):
        # Connections are made as threads need them.
        self.redis = redis.Redis.from_url(url, decode_responses=True)
        self.redis.ping()
        self.output = threading.Lock()

    def write(self, answer):
        with self.output:
            print(json.dumps(answer), flush=True)

    def serve(self):
        self.write({"event": "ready", "version": "redis-py " + redis.__version__})
        for line in sys.stdin:
            command = json.loads(line)
            if command["op"] == "shutdown":
                self.write({"id": command["id"], "ok": None})
                return
            threading.Thread(target=self.run, args=[command], daemon=True).start()

    def run(self, command):
        answer = {"id": command.get("id"), "began": micros()}
        try:
            answer["ok"] = self.carry_out(command)
        except Exception as error:
            answer["error"] = f"{type(error).__name__}: {error}"
        answer["ended"] = micros()
        self.write(answer)

    def carry_out(self, command):
        op = command["op"]
        if op == "ping":
            return "pong"
        recipe = RECIPES[command["recipe"]](self.redis, command)
        if op == "acquire":
            return recipe.acquire()
        if op == "release":
            return recipe.release(command["holder"])
        if op == "refresh":
            return recipe.refresh(command["holder"])
        if op == "begin":
            return recipe.begin()
        if op == "finish":
            return recipe.finish(*command["begun"])
        if op == "crowd":
            return self.crowd(recipe, command)
        raise ValueError(f"unknown op {op}")

    def crowd(self, recipe, command):
        """Threads that acquire, hold and release until the time is over; how often each has held."""
        end = time.monotonic() + command["millis"] / 1000
        callers = [Caller(self, recipe, command, end) for _ in range(command["callers"])]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join()
        failures = [caller.failure for caller in callers if caller.failure]
        if failures:
            raise failures[0]
        return {"turns": [caller.turns for caller in callers]}

    def count(self, command, change):
        if "gauge" in command:
            self.redis.eval(GAUGE, 1, command["gauge"], change)


class Caller(threading.Thread):
    def __init__(self, peer, recipe, command, end):
        super().__init__(daemon=True)
        self.peer = peer
        self.recipe = recipe
        self.command = command
        self.end = end
        self.turns = 0
        self.failure = None

    def run(self):
        try:
            while time.monotonic() < self.end:
                self.turn()
        except Exception as error:
            self.failure = error

    def turn(self):
        holder = self.recipe.acquire()
        if holder is None:
            time.sleep(0.002)
            return
        self.peer.count(self.command, 1)
        time.sleep(self.command.get("holdMicros", 0) / 1e6)
        self.peer.count(self.command, -1)
        self.recipe.release(holder)
        self.turns += 1


def micros():
    return time.time_ns() // 1000


if __name__ == "__main__":
    Peer(sys.argv[sys.argv.index("--redis") + 1]).serve()
