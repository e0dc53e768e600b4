package compat.recipes;

import java.util.concurrent.TimeUnit;
import redis.clients.jedis.JedisPooled;

/** The fair recipe, acquired under the lock {@code lock:<lock>}. */
final class LockedFairRecipe extends FairRecipe {

    private static final long PATIENCE = TimeUnit.SECONDS.toNanos(1);

    private final LockRecipe lock;

    LockedFairRecipe(JedisPooled redis, Settings settings) {
        super(redis, settings);
        this.lock = new LockRecipe(redis, settings.text("lock", settings.name()), 10_000);
    }

    @Override
    public String acquire() throws InterruptedException {
        long begin = System.nanoTime();
        String key = lock.acquire();
        while (key == null) {
            if (System.nanoTime() - begin > PATIENCE) {
                return null;
            }
            Thread.sleep(1);
            key = lock.acquire();
        }
        try {
            return super.acquire();
        } finally {
            lock.release(key);
        }
    }
}
