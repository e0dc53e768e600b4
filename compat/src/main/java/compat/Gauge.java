package compat;

import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import org.redisson.api.RScript;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;

/**
 * Counts the permits held by all processes together, in a Redis hash: {@code now}, and the
 * highest value it ever had, {@code max}. Without a key it counts nothing.
 */
final class Gauge {

    private static final String ADD = """
            local now = redis.call('hincrby', KEYS[1], 'now', ARGV[1])
            if now > tonumber(redis.call('hget', KEYS[1], 'max') or 0) then
                redis.call('hset', KEYS[1], 'max', now)
            end
            """;

    private final RScript script;
    private final List<Object> keys;

    Gauge(RedissonClient client, Command command) {
        this.script = client.getScript(StringCodec.INSTANCE);
        this.keys = command.has("gauge") ? List.of(command.text("gauge")) : List.of();
    }

    /** Call it after permits were got, and with a negative number before they are given back. */
    void add(int permits) {
        if (!keys.isEmpty()) {
            script.eval(
                    RScript.Mode.READ_WRITE, ADD, RScript.ReturnType.VALUE, keys, String.valueOf(permits));
        }
    }

    CompletionStage<?> addAsync(int permits) {
        if (keys.isEmpty()) {
            return CompletableFuture.completedFuture(null);
        }
        return script.evalAsync(
                RScript.Mode.READ_WRITE, ADD, RScript.ReturnType.VALUE, keys, String.valueOf(permits));
    }
}
