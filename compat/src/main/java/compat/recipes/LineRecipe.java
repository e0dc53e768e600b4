package compat.recipes;

import java.util.List;
import java.util.UUID;
import redis.clients.jedis.JedisPooled;

/**
 * The fair recipe with a script for the acquisition and a list of tokens to wait for. Its faults are the
 * original's: who is refused leaves his entries behind, and who is woken takes it that he holds.
 */
final class LineRecipe extends FairRecipe {

    private static final String ACQUIRE = """
            redis.call('zremrangebyscore', KEYS[1], '-inf', ARGV[1] - ARGV[2])
            redis.call('zinterstore', KEYS[2], 2, KEYS[2], KEYS[1], 'weights', 1, 0)
            local number = redis.call('incr', KEYS[3])
            redis.call('zadd', KEYS[1], ARGV[1], ARGV[4])
            redis.call('zadd', KEYS[2], number, ARGV[4])
            return redis.call('zrank', KEYS[2], ARGV[4]) < tonumber(ARGV[3]) and 1 or 0
            """;

    private final String tokens;

    LineRecipe(JedisPooled redis, Settings settings) {
        super(redis, settings);
        this.tokens = settings.text("tokens", null);
    }

    @Override
    public String acquire() {
        String holder = UUID.randomUUID().toString();
        Object held = redis.eval(
                ACQUIRE,
                List.of(settings.name(), owners, counter, tokens),
                List.of(String.valueOf(System.currentTimeMillis()), String.valueOf(settings.timeoutMillis()),
                        String.valueOf(settings.limit()), holder));
        if (held.equals(1L)) {
            return holder;
        }
        double seconds = settings.number("waitMs", 1000) / 1000.0;
        return redis.brpop(seconds, tokens) != null ? holder : null;
    }

    @Override
    public boolean release(String holder) {
        boolean held = super.release(holder);
        redis.lpush(tokens, "1");
        return held;
    }
}
