package compat;

import java.util.concurrent.TimeUnit;
import org.redisson.api.RSemaphore;
import org.redisson.api.RedissonClient;

/** Permits: the methods that RSemaphore adds to the common ones. */
final class SemaphoreOps {

    private final RedissonClient client;

    SemaphoreOps(RedissonClient client) {
        this.client = client;
    }

    void addTo(Ops ops) {
        ops.add("trySetPermits",
                c -> c.has("ttlMs")
                        ? semaphore(c).trySetPermits(c.permits(), c.millis("ttlMs"))
                        : semaphore(c).trySetPermits(c.permits()),
                c -> c.has("ttlMs")
                        ? semaphore(c).trySetPermitsAsync(c.permits(), c.millis("ttlMs"))
                        : semaphore(c).trySetPermitsAsync(c.permits()));
        ops.add("acquire",
                c -> {
                    semaphore(c).acquire(c.permits());
                    return null;
                },
                c -> semaphore(c).acquireAsync(c.permits()));
        ops.add("tryAcquire",
                c -> c.has("waitMs")
                        ? semaphore(c).tryAcquire(c.permits(), c.number("waitMs"), TimeUnit.MILLISECONDS)
                        : semaphore(c).tryAcquire(c.permits()),
                c -> c.has("waitMs")
                        ? semaphore(c).tryAcquireAsync(c.permits(), c.number("waitMs"), TimeUnit.MILLISECONDS)
                        : semaphore(c).tryAcquireAsync(c.permits()));
        ops.add("release",
                c -> {
                    semaphore(c).release(c.permits());
                    return null;
                },
                c -> semaphore(c).releaseAsync(c.permits()));
        ops.add("releaseIfExists",
                c -> semaphore(c).releaseIfExists(c.permits()),
                c -> semaphore(c).releaseIfExistsAsync(c.permits()));
        ops.add("addPermits",
                c -> {
                    semaphore(c).addPermits(c.permits());
                    return null;
                },
                c -> semaphore(c).addPermitsAsync(c.permits()));
        ops.add("drainPermits",
                c -> semaphore(c).drainPermits(),
                c -> semaphore(c).drainPermitsAsync());
        ops.add("availablePermits",
                c -> semaphore(c).availablePermits(),
                c -> semaphore(c).availablePermitsAsync());
    }

    private RSemaphore semaphore(Command command) {
        return client.getSemaphore(command.name());
    }
}
