package compat.recipes;

import java.util.UUID;
import redis.clients.jedis.Connection;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.JedisPooled;
import redis.clients.jedis.Transaction;

/** string {@code lock:name}, in two steps, with the repair of a missing expiry. */
final class LockRecipe implements Recipe {

    private final JedisPooled redis;
    private final String key;
    private final long timeoutMillis;

    LockRecipe(JedisPooled redis, String name, long timeoutMillis) {
        this.redis = redis;
        this.key = "lock:" + name;
        this.timeoutMillis = timeoutMillis;
    }

    @Override
    public String acquire() {
        String holder = UUID.randomUUID().toString();
        if (redis.setnx(key, holder) == 1) {
            redis.pexpire(key, timeoutMillis);
            return holder;
        }
        if (redis.pttl(key) == -1) {
            redis.pexpire(key, timeoutMillis);
        }
        return null;
    }

    @Override
    public boolean release(String holder) {
        try (Connection connection = redis.getPool().getResource()) {
            Jedis jedis = new Jedis(connection);
            while (true) {
                jedis.watch(key);
                if (!holder.equals(jedis.get(key))) {
                    jedis.unwatch();
                    return false;
                }
                Transaction transaction = jedis.multi();
                transaction.del(key);
                if (transaction.exec() != null) {
                    return true;
                }
            }
        }
    }

    @Override
    public boolean refresh(String holder) {
        return holder.equals(redis.get(key)) && redis.pexpire(key, timeoutMillis) == 1;
    }
}
