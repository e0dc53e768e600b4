package compat.recipes;

import java.util.UUID;
import redis.clients.jedis.JedisPooled;
import redis.clients.jedis.params.ZParams;

/** zset {@code name}: id to time; zset {@code name:owner}: id to counter; string {@code name:counter}. */
class FairRecipe implements Recipe {

    final JedisPooled redis;
    final Settings settings;
    final String owners;
    final String counter;

    FairRecipe(JedisPooled redis, Settings settings) {
        this.redis = redis;
        this.settings = settings;
        this.owners = settings.text("owners", settings.name() + ":owner");
        this.counter = settings.text("counter", settings.name() + ":counter");
    }

    @Override
    public String acquire() throws InterruptedException {
        String name = settings.name();
        String holder = UUID.randomUUID().toString();
        long now = System.currentTimeMillis();
        redis.zremrangeByScore(name, Double.NEGATIVE_INFINITY, now - settings.timeoutMillis());
        redis.zinterstore(owners, new ZParams().weights(1, 0), owners, name);
        long number = redis.incr(counter);
        redis.zadd(name, now, holder);
        redis.zadd(owners, number, holder);
        if (redis.zrank(owners, holder) < settings.limit()) {
            return holder;
        }
        redis.zrem(name, holder);
        redis.zrem(owners, holder);
        return null;
    }

    @Override
    public boolean release(String holder) {
        boolean held = redis.zrem(settings.name(), holder) == 1;
        redis.zrem(owners, holder);
        return held;
    }

    @Override
    public boolean refresh(String holder) {
        if (redis.zadd(settings.name(), System.currentTimeMillis(), holder) == 1) {
            release(holder);
            return false;
        }
        return true;
    }
}
