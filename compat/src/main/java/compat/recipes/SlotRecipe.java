package compat.recipes;

import java.util.UUID;
import redis.clients.jedis.JedisPooled;
import redis.clients.jedis.params.SetParams;

/** strings {@code name:1} to {@code name:limit}. */
final class SlotRecipe implements Recipe {

    private final JedisPooled redis;
    private final Settings settings;

    SlotRecipe(JedisPooled redis, Settings settings) {
        this.redis = redis;
        this.settings = settings;
    }

    @Override
    public String acquire() {
        String holder = UUID.randomUUID().toString();
        SetParams absent = new SetParams().nx().px(settings.timeoutMillis());
        for (int slot = 1; slot <= settings.limit(); slot++) {
            if (redis.set(key(slot), holder, absent) != null) {
                return holder;
            }
        }
        return null;
    }

    @Override
    public boolean release(String holder) {
        String key = keyOf(holder);
        return key != null && redis.del(key) == 1;
    }

    @Override
    public boolean refresh(String holder) {
        String key = keyOf(holder);
        return key != null && redis.pexpire(key, settings.timeoutMillis()) == 1;
    }

    private String key(int slot) {
        return settings.name() + ":" + slot;
    }

    private String keyOf(String holder) {
        for (int slot = 1; slot <= settings.limit(); slot++) {
            if (holder.equals(redis.get(key(slot)))) {
                return key(slot);
            }
        }
        return null;
    }
}
