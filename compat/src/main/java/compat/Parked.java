package compat;

import com.google.gson.JsonObject;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import org.redisson.api.RSemaphore;
import org.redisson.api.RedissonClient;

/** Async callers that acquire one permit each, in the order of their numbers, and keep it. */
final class Parked {

    private final AtomicInteger served = new AtomicInteger();
    private final AtomicInteger last = new AtomicInteger(-1);
    private volatile Throwable failure;

    static void addTo(Ops ops, RedissonClient client) {
        Map<String, Parked> byName = new ConcurrentHashMap<>();
        ops.add("park", command -> {
            Parked parked = new Parked();
            byName.put(command.name(), parked);
            parked.start(client.getSemaphore(command.name()), command.count("callers"));
            return null;
        });
        ops.add("parked", command -> byName.get(command.name()).result());
    }

    private void start(RSemaphore semaphore, int callers) {
        for (int i = 0; i < callers; i++) {
            int number = i;
            semaphore.acquireAsync().whenComplete((acquired, thrown) -> {
                if (thrown == null) {
                    last.accumulateAndGet(number, Math::max);
                    served.incrementAndGet();
                } else {
                    failure = thrown;
                }
            });
        }
    }

    private JsonObject result() {
        if (failure != null) {
            throw new IllegalStateException("a caller failed", failure);
        }
        JsonObject result = new JsonObject();
        result.addProperty("served", served.get());
        result.addProperty("last", last.get());
        return result;
    }
}
