package compat.recipes;

import com.google.gson.JsonArray;
import com.google.gson.JsonObject;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import redis.clients.jedis.JedisPooled;

/** Threads that acquire, hold and release until the time is over; how often each has held. */
final class RecipeCrowd {

    private static final String GAUGE = """
            local now = redis.call('hincrby', KEYS[1], 'now', ARGV[1])
            if now > tonumber(redis.call('hget', KEYS[1], 'max') or 0) then
                redis.call('hset', KEYS[1], 'max', now)
            end
            """;

    private final JedisPooled redis;
    private final Recipe recipe;
    private final Settings settings;

    RecipeCrowd(JedisPooled redis, Recipe recipe, Settings settings) {
        this.redis = redis;
        this.recipe = recipe;
        this.settings = settings;
    }

    JsonObject run() throws Exception {
        int callers = (int) settings.number("callers", 1);
        long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(settings.number("millis", 1000));
        ExecutorService threads = Executors.newFixedThreadPool(callers);
        List<Future<Integer>> turns = new ArrayList<>();
        Callable<Integer> caller = () -> turns(end);
        for (int i = 0; i < callers; i++) {
            turns.add(threads.submit(caller));
        }
        JsonArray counts = new JsonArray();
        for (Future<Integer> count : turns) {
            counts.add(count.get());
        }
        threads.shutdown();
        JsonObject result = new JsonObject();
        result.add("turns", counts);
        return result;
    }

    private int turns(long end) throws InterruptedException {
        int turns = 0;
        while (System.nanoTime() < end) {
            String holder = recipe.acquire();
            if (holder == null) {
                Thread.sleep(2);
                continue;
            }
            count(1);
            TimeUnit.MICROSECONDS.sleep(settings.number("holdMicros", 0));
            count(-1);
            recipe.release(holder);
            turns++;
        }
        return turns;
    }

    private void count(int change) {
        String gauge = settings.text("gauge", null);
        if (gauge != null) {
            redis.eval(GAUGE, List.of(gauge), List.of(String.valueOf(change)));
        }
    }
}
