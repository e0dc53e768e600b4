package compat.recipes;

import java.util.UUID;
import redis.clients.jedis.JedisPooled;

/** set {@code name} of ids. */
final class SetRecipe implements Recipe {

    private final JedisPooled redis;
    private final Settings settings;

    SetRecipe(JedisPooled redis, Settings settings) {
        this.redis = redis;
        this.settings = settings;
    }

    @Override
    public String acquire() {
        String holder = UUID.randomUUID().toString();
        redis.sadd(settings.name(), holder);
        if (redis.scard(settings.name()) <= settings.limit()) {
            return holder;
        }
        redis.srem(settings.name(), holder);
        return null;
    }

    @Override
    public boolean release(String holder) {
        return redis.srem(settings.name(), holder) == 1;
    }

    @Override
    public boolean refresh(String holder) {
        return redis.sismember(settings.name(), holder);
    }
}
