package compat;

import static java.util.concurrent.TimeUnit.MILLISECONDS;

import com.google.gson.JsonObject;
import java.util.concurrent.CompletableFuture;
import java.util.stream.IntStream;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RedissonClient;

/** Many callers of one semaphore with ids, each in a loop of acquire, hold, release; its permits have a lease. */
final class PermitCrowd {

    private final RPermitExpirableSemaphore semaphore;
    private final Gauge gauge;
    private final int callers;
    private final long loops;
    private final long leaseMillis;
    private final long holdMicros;
    private final long started = System.nanoTime();
    private final long millis;
    private final WaitTimes waits = new WaitTimes();

    private PermitCrowd(RedissonClient client, Command command) {
        semaphore = client.getPermitExpirableSemaphore(command.name());
        gauge = new Gauge(client, command);
        callers = command.count("callers");
        millis = command.number("millis", Long.MAX_VALUE);
        loops = command.number("loops", Long.MAX_VALUE);
        leaseMillis = command.number("leaseMs", -1);
        holdMicros = command.number("holdMicros", 0);
    }

    static void addTo(Ops ops, RedissonClient client) {
        ops.add("permitCrowd", command -> new PermitCrowd(client, command).run(command.isAsync()));
    }

    private JsonObject run(boolean async) {
        CompletableFuture<?>[] ends = IntStream.range(0, callers).mapToObj(i -> {
            CompletableFuture<Void> end = new CompletableFuture<>();
            if (async) {
                callAsync(0, end);
            } else {
                Threads.start("caller " + i, () -> callInLoop(end));
            }
            return end;
        }).toArray(CompletableFuture<?>[]::new);
        CompletableFuture.allOf(ends).join();
        JsonObject result = new JsonObject();
        result.addProperty("acquisitions", waits.count());
        result.add("waitMicros", waits.summary());
        result.add("waits", waits.histogram());
        result.addProperty("millis", elapsedMillis());
        return result;
    }

    private void callInLoop(CompletableFuture<Void> end) {
        try {
            for (long done = 0; goesOn(done); done++) {
                long began = System.nanoTime();
                String id = leaseMillis < 0 ? semaphore.acquire() : semaphore.acquire(leaseMillis, MILLISECONDS);
                waits.add(Micros.since(began));
                gauge.add(1);
                Micros.sleep(holdMicros);
                gauge.add(-1);
                semaphore.release(id);
            }
            end.complete(null);
        } catch (Throwable e) {
            end.completeExceptionally(e);
        }
    }

    private void callAsync(long done, CompletableFuture<Void> end) {
        if (!goesOn(done)) {
            end.complete(null);
            return;
        }
        long began = System.nanoTime();
        var acquired = leaseMillis < 0 ? semaphore.acquireAsync() : semaphore.acquireAsync(leaseMillis, MILLISECONDS);
        acquired.thenCompose(id -> {
            waits.add(Micros.since(began));
            return gauge.addAsync(1)
                    .thenComposeAsync(counted -> {
                        Micros.sleep(holdMicros);
                        return gauge.addAsync(-1);
                    })
                    .thenCompose(counted -> semaphore.releaseAsync(id));
        }).whenCompleteAsync((released, failure) -> {
            if (failure == null) {
                callAsync(done + 1, end);
            } else {
                end.completeExceptionally(failure);
            }
        });
    }

    private boolean goesOn(long done) {
        return done < loops && elapsedMillis() < millis;
    }

    private long elapsedMillis() {
        return (System.nanoTime() - started) / 1_000_000;
    }
}
