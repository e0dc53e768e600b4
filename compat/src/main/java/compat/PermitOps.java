package compat;

import static java.util.concurrent.TimeUnit.MILLISECONDS;

import com.google.gson.JsonElement;
import java.util.ArrayList;
import java.util.List;
import org.redisson.api.RFuture;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RedissonClient;

/** RPermitExpirableSemaphore. With "permits" the operations are those on several, with "waitMs" and "leaseMs" the timed ones. */
final class PermitOps {

    private final RedissonClient client;

    PermitOps(RedissonClient client) {
        this.client = client;
    }

    void addTo(Ops ops) {
        ops.add("permitAcquire", this::acquire, this::acquireAsync);
        ops.add("permitTryAcquire", this::tryAcquire, this::tryAcquireAsync);
        ops.add("permitRelease",
                c -> {
                    if (c.has("ids")) {
                        of(c).release(ids(c));
                    } else {
                        of(c).release(c.text("permit"));
                    }
                    return null;
                },
                c -> c.has("ids") ? of(c).releaseAsync(ids(c)) : of(c).releaseAsync(c.text("permit")));
        ops.add("permitTryRelease",
                c -> c.has("ids") ? (Object) of(c).tryRelease(ids(c)) : of(c).tryRelease(c.text("permit")),
                c -> c.has("ids") ? of(c).tryReleaseAsync(ids(c)) : of(c).tryReleaseAsync(c.text("permit")));
        ops.add("updateLeaseTime",
                c -> of(c).updateLeaseTime(c.text("permit"), c.number("leaseMs"), MILLISECONDS),
                c -> of(c).updateLeaseTimeAsync(c.text("permit"), c.number("leaseMs"), MILLISECONDS));
        ops.add("getLeaseTime",
                c -> of(c).getLeaseTime(c.text("permit")),
                c -> of(c).getLeaseTimeAsync(c.text("permit")));
        ops.add("permitsAvailable", c -> of(c).availablePermits(), c -> of(c).availablePermitsAsync());
        ops.add("permitsAcquired", c -> of(c).acquiredPermits(), c -> of(c).acquiredPermitsAsync());
        ops.add("permitsTotal", c -> of(c).getPermits(), c -> of(c).getPermitsAsync());
        ops.add("permitsTrySet", c -> of(c).trySetPermits(c.permits()), c -> of(c).trySetPermitsAsync(c.permits()));
        ops.add("permitsSet",
                c -> {
                    of(c).setPermits(c.permits());
                    return null;
                },
                c -> of(c).setPermitsAsync(c.permits()));
        ops.add("permitsAdd",
                c -> {
                    of(c).addPermits(c.permits());
                    return null;
                },
                c -> of(c).addPermitsAsync(c.permits()));
        ops.add("permitsDelete", c -> of(c).delete(), c -> of(c).deleteAsync());
        ops.add("permitsExpire",
                c -> of(c).expire(c.millis("ttlMs")),
                c -> of(c).expireAsync(c.millis("ttlMs")));
    }

    private Object acquire(Command c) throws InterruptedException {
        if (c.has("permits")) {
            return c.has("leaseMs")
                    ? of(c).acquire(c.permits(), c.number("leaseMs"), MILLISECONDS)
                    : of(c).acquire(c.permits());
        }
        return c.has("leaseMs") ? of(c).acquire(c.number("leaseMs"), MILLISECONDS) : of(c).acquire();
    }

    private RFuture<?> acquireAsync(Command c) {
        if (c.has("permits")) {
            return c.has("leaseMs")
                    ? of(c).acquireAsync(c.permits(), c.number("leaseMs"), MILLISECONDS)
                    : of(c).acquireAsync(c.permits());
        }
        return c.has("leaseMs") ? of(c).acquireAsync(c.number("leaseMs"), MILLISECONDS) : of(c).acquireAsync();
    }

    private Object tryAcquire(Command c) throws InterruptedException {
        long wait = c.number("waitMs", 0);
        long lease = c.number("leaseMs", -1);
        if (c.has("permits")) {
            return c.has("waitMs") || c.has("leaseMs")
                    ? of(c).tryAcquire(c.permits(), wait, lease, MILLISECONDS)
                    : of(c).tryAcquire(c.permits());
        }
        return c.has("waitMs") || c.has("leaseMs")
                ? of(c).tryAcquire(wait, lease, MILLISECONDS)
                : of(c).tryAcquire();
    }

    private RFuture<?> tryAcquireAsync(Command c) {
        long wait = c.number("waitMs", 0);
        long lease = c.number("leaseMs", -1);
        if (c.has("permits")) {
            return c.has("waitMs") || c.has("leaseMs")
                    ? of(c).tryAcquireAsync(c.permits(), wait, lease, MILLISECONDS)
                    : of(c).tryAcquireAsync(c.permits());
        }
        return c.has("waitMs") || c.has("leaseMs")
                ? of(c).tryAcquireAsync(wait, lease, MILLISECONDS)
                : of(c).tryAcquireAsync();
    }

    private static List<String> ids(Command command) {
        List<String> ids = new ArrayList<>();
        for (JsonElement id : command.get("ids").getAsJsonArray()) {
            ids.add(id.getAsString());
        }
        return ids;
    }

    private RPermitExpirableSemaphore of(Command command) {
        return client.getPermitExpirableSemaphore(command.name());
    }
}
