"""The classic recipes over redis-py, step by step as services write them: several round trips each.

Times are seconds with fractions. `acquire` returns an id, or None; nothing waits here but where the recipe does.
"""

import time
import uuid


class Timestamp:
    """zset `name`: id -> time."""

    def __init__(self, redis, command):
        self.redis = redis
        self.name = command["name"]
        self.limit = command["limit"]
        self.timeout = command.get("timeoutMs", 10_000) / 1000

    def acquire(self):
        holder = str(uuid.uuid4())
        now = time.time()
        self.redis.zremrangebyscore(self.name, "-inf", now - self.timeout)
        self.redis.zadd(self.name, {holder: now})
        if self.redis.zrank(self.name, holder) < self.limit:
            return holder
        self.redis.zrem(self.name, holder)
        return None

    def release(self, holder):
        return self.redis.zrem(self.name, holder) == 1

    def refresh(self, holder):
        # An entry that was added, and not changed, had been dropped.
        if self.redis.zadd(self.name, {holder: time.time()}):
            self.release(holder)
            return False
        return True


class Fair:
    """zset `name`: id -> time; zset `name:owner`: id -> counter; string `name:counter`."""

    def __init__(self, redis, command):
        self.redis = redis
        self.name = command["name"]
        self.owners = command.get("owners", self.name + ":owner")
        self.counter = command.get("counter", self.name + ":counter")
        self.limit = command["limit"]
        self.timeout = command.get("timeoutMs", 10_000) / 1000

    def begin(self):
        """The first half: who has expired goes, and the counter is incremented."""
        now = time.time()
        self.redis.zremrangebyscore(self.name, "-inf", now - self.timeout)
        self.redis.zinterstore(self.owners, {self.owners: 1, self.name: 0})
        return str(uuid.uuid4()), now, self.redis.incr(self.counter)

    def finish(self, holder, now, number):
        """The second half: in with it, and out again where the rank is too high."""
        self.redis.zadd(self.name, {holder: now})
        self.redis.zadd(self.owners, {holder: number})
        if self.redis.zrank(self.owners, holder) < self.limit:
            return holder
        self.redis.zrem(self.name, holder)
        self.redis.zrem(self.owners, holder)
        return None

    def acquire(self):
        return self.finish(*self.begin())

    def release(self, holder):
        held = self.redis.zrem(self.name, holder)
        self.redis.zrem(self.owners, holder)
        return held == 1

    def refresh(self, holder):
        if self.redis.zadd(self.name, {holder: time.time()}):
            self.release(holder)
            return False
        return True


class FairUnderLock(Fair):
    """The same; acquired under the lock `lock:<lock>`."""

    def __init__(self, redis, command):
        super().__init__(redis, command)
        self.lock = Lock(redis, {"name": command.get("lock", self.name), "timeoutMs": 10_000})

    def acquire(self):
        end = time.monotonic() + 1
        key = self.lock.acquire()
        while key is None:
            if time.monotonic() > end:
                return None
            time.sleep(0.001)
            key = self.lock.acquire()
        try:
            return super().acquire()
        finally:
            self.lock.release(key)


class Line(Fair):
    """As fair, with a script for the acquisition and a list of tokens to wait for. Its faults are the original's: who is
    refused leaves his entries behind, and who is woken takes it that he holds."""

    ACQUIRE = """
        redis.call('zremrangebyscore', KEYS[1], '-inf', ARGV[1] - ARGV[2])
        redis.call('zinterstore', KEYS[2], 2, KEYS[2], KEYS[1], 'weights', 1, 0)
        local number = redis.call('incr', KEYS[3])
        redis.call('zadd', KEYS[1], ARGV[1], ARGV[4])
        redis.call('zadd', KEYS[2], number, ARGV[4])
        return redis.call('zrank', KEYS[2], ARGV[4]) < tonumber(ARGV[3]) and 1 or 0
    """

    def __init__(self, redis, command):
        super().__init__(redis, command)
        self.tokens = command["tokens"]
        self.wait = command.get("waitMs", 1000) / 1000

    def acquire(self):
        holder = str(uuid.uuid4())
        keys = [self.name, self.owners, self.counter, self.tokens]
        arguments = [time.time(), self.timeout, self.limit, holder]
        if self.redis.eval(self.ACQUIRE, 4, *keys[:4], *arguments) == 1:
            return holder
        if self.redis.brpop([self.tokens], timeout=self.wait):
            return holder
        return None

    def release(self, holder):
        held = super().release(holder)
        self.redis.lpush(self.tokens, "1")
        return held


class Set:
    """set `name` of ids."""

    def __init__(self, redis, command):
        self.redis = redis
        self.name = command["name"]
        self.limit = command["limit"]

    def acquire(self):
        holder = str(uuid.uuid4())
        self.redis.sadd(self.name, holder)
        if self.redis.scard(self.name) <= self.limit:
            return holder
        self.redis.srem(self.name, holder)
        return None

    def release(self, holder):
        return self.redis.srem(self.name, holder) == 1

    def refresh(self, holder):
        return bool(self.redis.sismember(self.name, holder))


class Slots:
    """strings `name:1` to `name:limit`."""

    def __init__(self, redis, command):
        self.redis = redis
        self.name = command["name"]
        self.limit = command["limit"]
        self.timeout = command.get("timeoutMs", 10_000)

    def acquire(self):
        holder = str(uuid.uuid4())
        for slot in range(1, self.limit + 1):
            if self.redis.set(f"{self.name}:{slot}", holder, nx=True, px=self.timeout):
                return holder
        return None

    def _key(self, holder):
        for slot in range(1, self.limit + 1):
            if self.redis.get(f"{self.name}:{slot}") == holder:
                return f"{self.name}:{slot}"
        return None

    def release(self, holder):
        key = self._key(holder)
        return key is not None and self.redis.delete(key) == 1

    def refresh(self, holder):
        key = self._key(holder)
        return key is not None and bool(self.redis.pexpire(key, self.timeout))


class Lock:
    """string `lock:name`, in two steps, with the repair of a missing expiry."""

    def __init__(self, redis, command):
        self.redis = redis
        self.key = "lock:" + command["name"]
        self.timeout = command.get("timeoutMs", 10_000)

    def begin(self):
        """The first step, after which the lock has no expiry."""
        holder = str(uuid.uuid4())
        return holder if self.redis.setnx(self.key, holder) else None

    def finish(self, holder):
        self.redis.pexpire(self.key, self.timeout)
        return holder

    def acquire(self):
        holder = self.begin()
        if holder:
            return self.finish(holder)
        if self.redis.pttl(self.key) == -1:
            self.redis.pexpire(self.key, self.timeout)
        return None

    def release(self, holder):
        with self.redis.pipeline() as transaction:
            while True:
                transaction.watch(self.key)
                if transaction.get(self.key) != holder:
                    transaction.unwatch()
                    return False
                transaction.multi()
                transaction.delete(self.key)
                try:
                    transaction.execute()
                    return True
                except Exception as error:
                    if type(error).__name__ != "WatchError":
                        raise

    def refresh(self, holder):
        return self.redis.get(self.key) == holder and bool(self.redis.pexpire(self.key, self.timeout))


RECIPES = {
    "timestamp": Timestamp,
    "fair": Fair,
    "fairUnderLock": FairUnderLock,
    "line": Line,
    "set": Set,
    "slots": Slots,
    "lock": Lock,
}
