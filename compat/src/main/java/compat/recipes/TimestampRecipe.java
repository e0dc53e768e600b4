package compat.recipes;

import java.util.UUID;
import redis.clients.jedis.JedisPooled;

/** zset {@code name}: id to time in milliseconds. */
final class TimestampRecipe implements Recipe {

    private final JedisPooled redis;
    private final Settings settings;

    TimestampRecipe(JedisPooled redis, Settings settings) {
        this.redis = redis;
        this.settings = settings;
    }

    @Override
    public String acquire() {
        String holder = UUID.randomUUID().toString();
        long now = System.currentTimeMillis();
        redis.zremrangeByScore(settings.name(), Double.NEGATIVE_INFINITY, now - settings.timeoutMillis());
        redis.zadd(settings.name(), now, holder);
        if (redis.zrank(settings.name(), holder) < settings.limit()) {
            return holder;
        }
        redis.zrem(settings.name(), holder);
        return null;
    }

    @Override
    public boolean release(String holder) {
        return redis.zrem(settings.name(), holder) == 1;
    }

    @Override
    public boolean refresh(String holder) {
        // An entry that was added, and not changed, had been dropped.
        if (redis.zadd(settings.name(), System.currentTimeMillis(), holder) == 1) {
            release(holder);
            return false;
        }
        return true;
    }
}
