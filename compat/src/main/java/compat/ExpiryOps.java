package compat;

import java.time.Duration;
import java.time.Instant;
import java.util.concurrent.TimeUnit;
import org.redisson.api.RFuture;
import org.redisson.api.RSemaphore;
import org.redisson.api.RedissonClient;

/** The expiry of the semaphore's key. */
final class ExpiryOps {

    private final RedissonClient client;

    ExpiryOps(RedissonClient client) {
        this.client = client;
    }

    void addTo(Ops ops) {
        ops.add("expire", this::expire, this::expireAsync);
        ops.add("expireAt", this::expireAt, this::expireAtAsync);
        ops.add("clearExpire", c -> key(c).clearExpire(), c -> key(c).clearExpireAsync());
        ops.add("remainTimeToLive", c -> key(c).remainTimeToLive(), c -> key(c).remainTimeToLiveAsync());
        ops.add("getExpireTime", c -> key(c).getExpireTime(), c -> key(c).getExpireTimeAsync());
    }

    // The unconditional forms below are deprecated, but they are the ones that every version has.

    @SuppressWarnings("deprecation")
    private boolean expire(Command command) {
        RSemaphore key = key(command);
        Duration ttl = command.millis("ttlMs");
        return switch (condition(command)) {
            case ALWAYS -> key.expire(ttl.toMillis(), TimeUnit.MILLISECONDS);
            case NX -> key.expireIfNotSet(ttl);
            case XX -> key.expireIfSet(ttl);
            case GT -> key.expireIfGreater(ttl);
            case LT -> key.expireIfLess(ttl);
        };
    }

    @SuppressWarnings("deprecation")
    private RFuture<Boolean> expireAsync(Command command) {
        RSemaphore key = key(command);
        Duration ttl = command.millis("ttlMs");
        return switch (condition(command)) {
            case ALWAYS -> key.expireAsync(ttl.toMillis(), TimeUnit.MILLISECONDS);
            case NX -> key.expireIfNotSetAsync(ttl);
            case XX -> key.expireIfSetAsync(ttl);
            case GT -> key.expireIfGreaterAsync(ttl);
            case LT -> key.expireIfLessAsync(ttl);
        };
    }

    @SuppressWarnings("deprecation")
    private boolean expireAt(Command command) {
        RSemaphore key = key(command);
        Instant time = command.instant("epochMs");
        return switch (condition(command)) {
            case ALWAYS -> key.expireAt(time.toEpochMilli());
            case NX -> key.expireIfNotSet(time);
            case XX -> key.expireIfSet(time);
            case GT -> key.expireIfGreater(time);
            case LT -> key.expireIfLess(time);
        };
    }

    @SuppressWarnings("deprecation")
    private RFuture<Boolean> expireAtAsync(Command command) {
        RSemaphore key = key(command);
        Instant time = command.instant("epochMs");
        return switch (condition(command)) {
            case ALWAYS -> key.expireAtAsync(time.toEpochMilli());
            case NX -> key.expireIfNotSetAsync(time);
            case XX -> key.expireIfSetAsync(time);
            case GT -> key.expireIfGreaterAsync(time);
            case LT -> key.expireIfLessAsync(time);
        };
    }

    private RSemaphore key(Command command) {
        return client.getSemaphore(command.name());
    }

    /** When to set the expiry; the names are those of Redis. */
    private enum Condition { ALWAYS, NX, XX, GT, LT }

    private static Condition condition(Command command) {
        return command.has("condition") ? Condition.valueOf(command.text("condition")) : Condition.ALWAYS;
    }
}
