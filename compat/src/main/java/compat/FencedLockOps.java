package compat;

import static java.util.concurrent.TimeUnit.MILLISECONDS;

import org.redisson.api.RFencedLock;
import org.redisson.api.RedissonClient;

/** What RFencedLock adds to RLock. Old versions lack it; this class can be loaded without it. */
final class FencedLockOps {

    private final RedissonClient client;

    FencedLockOps(RedissonClient client) {
        this.client = client;
    }

    void addTo(Ops ops) {
        ops.add("lockAndGetToken", c -> LockThreads.run(c, () -> lock(c).lockAndGetToken()));
        ops.add("tryLockAndGetToken",
                c -> LockThreads.run(c, () -> c.has("waitMs") || c.has("leaseMs")
                        ? lock(c).tryLockAndGetToken(
                                c.number("waitMs", 0), c.number("leaseMs", -1), MILLISECONDS)
                        : lock(c).tryLockAndGetToken()));
        ops.add("unlockFenced",
                c -> LockThreads.run(c, () -> {
                    lock(c).unlock();
                    return null;
                }));
        ops.add("getToken", c -> lock(c).getToken());
    }

    private RFencedLock lock(Command command) {
        return client.getFencedLock(command.name());
    }
}
