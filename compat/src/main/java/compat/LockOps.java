package compat;

import static java.util.concurrent.TimeUnit.MILLISECONDS;

import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;

/**
 * RLock, RFairLock with {@code fair}, and the two sides of RReadWriteLock with {@code side}. The sync forms run in the thread that
 * {@code thread} names; the async ones lock for {@code threadId}.
 */
final class LockOps {

    /** What Redisson takes for "no lease". */
    private static final long NO_LEASE = -1;

    private final RedissonClient client;

    LockOps(RedissonClient client) {
        this.client = client;
    }

    void addTo(Ops ops) {
        ops.add("clientId", c -> client.getId());
        ops.add("parkedLockThreads", c -> LockThreads.parked());
        ops.add("threadId", c -> LockThreads.run(c, () -> Thread.currentThread().getId()));
        ops.add("lock",
                c -> LockThreads.run(c, () -> {
                    if (c.has("leaseMs")) {
                        lock(c).lock(lease(c), MILLISECONDS);
                    } else {
                        lock(c).lock();
                    }
                    return null;
                }),
                c -> c.has("leaseMs")
                        ? lock(c).lockAsync(lease(c), MILLISECONDS, threadId(c))
                        : lock(c).lockAsync(threadId(c)));
        ops.add("tryLock",
                c -> LockThreads.run(c, () -> c.has("waitMs") || c.has("leaseMs")
                        ? lock(c).tryLock(wait(c), lease(c), MILLISECONDS)
                        : lock(c).tryLock()),
                c -> c.has("waitMs") || c.has("leaseMs")
                        ? lock(c).tryLockAsync(wait(c), lease(c), MILLISECONDS, threadId(c))
                        : lock(c).tryLockAsync(threadId(c)));
        ops.add("unlock",
                c -> LockThreads.run(c, () -> {
                    lock(c).unlock();
                    return null;
                }),
                c -> lock(c).unlockAsync(threadId(c)));
        ops.add("forceUnlock", c -> lock(c).forceUnlock(), c -> lock(c).forceUnlockAsync());
        ops.add("isLocked", c -> lock(c).isLocked(), c -> lock(c).isLockedAsync());
        ops.add("holdCount", c -> LockThreads.run(c, () -> lock(c).getHoldCount()));
        ops.add("isHeldByCurrentThread", c -> LockThreads.run(c, () -> lock(c).isHeldByCurrentThread()));
        ops.add("isHeldByThread", c -> lock(c).isHeldByThread(threadId(c)));
    }

    /** With a {@code side} that of a read-write lock. */
    private RLock lock(Command command) {
        return switch (command.has("side") ? command.text("side") : "") {
            case "read" -> client.getReadWriteLock(command.name()).readLock();
            case "write" -> client.getReadWriteLock(command.name()).writeLock();
            default -> command.has("fair") ? client.getFairLock(command.name()) : client.getLock(command.name());
        };
    }

    private static long threadId(Command command) {
        return command.number("threadId");
    }

    private static long wait(Command command) {
        return command.number("waitMs", 0);
    }

    private static long lease(Command command) {
        return command.number("leaseMs", NO_LEASE);
    }
}
