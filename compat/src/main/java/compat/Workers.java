package compat;

import com.google.gson.JsonObject;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.redisson.api.RSemaphore;
import org.redisson.api.RedissonClient;

/** Threads that work with a semaphore and tell what they do, until they are stopped. */
final class Workers {

    private final RedissonClient client;
    private final JsonLines out;
    private final List<Thread> threads = new ArrayList<>();
    private final AtomicLong acquisitions = new AtomicLong();
    private volatile boolean stopping;

    Workers(RedissonClient client, JsonLines out) {
        this.client = client;
        this.out = out;
    }

    void addTo(Ops ops) {
        ops.add("workers", this::start);
        ops.add("stopWorkers", command -> stop());
    }

    private synchronized Object start(Command command) {
        RSemaphore semaphore = client.getSemaphore(command.name());
        Gauge gauge = new Gauge(client, command);
        int permits = command.permits();
        long holdMin = command.number("holdMillisMin");
        long holdMax = command.number("holdMillisMax");
        boolean keepOn = command.has("keepOn") && command.get("keepOn").getAsBoolean();
        for (int count = command.count("threads"); count > 0; count--) {
            int worker = threads.size() + 1;
            threads.add(Threads.start("worker " + worker, () -> {
                do {
                    try {
                        work(worker, semaphore, gauge, permits, holdMin, holdMax);
                    } catch (Throwable e) {
                        report("failed", worker, permits, Errors.describe(e));
                    }
                } while (keepOn && !stopping);
            }));
        }
        return null;
    }

    private void work(int worker, RSemaphore semaphore, Gauge gauge, int permits, long holdMin, long holdMax)
            throws InterruptedException {
        while (!stopping) {
            report("waiting", worker, permits, null);
            semaphore.acquire(permits);
            acquisitions.incrementAndGet();
            report("held", worker, permits, null);
            gauge.add(permits);
            TimeUnit.MILLISECONDS.sleep(ThreadLocalRandom.current().nextLong(holdMin, holdMax + 1));
            gauge.add(-permits);
            // Told before the permits go, so that no other process can tell "held" earlier.
            report("released", worker, permits, null);
            semaphore.release(permits);
        }
    }

    /** Waiting workers still take their turn: an interrupted acquire could lose permits. */
    private synchronized Object stop() throws InterruptedException {
        stopping = true;
        for (Thread thread : threads) {
            thread.join();
        }
        threads.clear();
        stopping = false;
        return acquisitions.getAndSet(0);
    }

    private void report(String what, int worker, int permits, String error) {
        JsonObject event = new JsonObject();
        event.addProperty("event", what);
        event.addProperty("worker", worker);
        event.addProperty("permits", permits);
        event.addProperty("at", Micros.now());
        if (error != null) {
            event.addProperty("error", error);
        }
        out.write(event);
    }
}
