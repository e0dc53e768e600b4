package compat;

import com.google.gson.JsonObject;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.DoubleAdder;
import java.util.concurrent.atomic.LongAdder;
import java.util.stream.IntStream;
import org.redisson.api.RLock;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RSemaphore;
import org.redisson.api.RedissonClient;

/**
 * Many callers of one or more semaphores, of one semaphore with ids, or threads at one lock, at once, each in a loop of
 * acquire, hold, release.
 */
final class Crowd {

    private final List<RSemaphore> semaphores;
    /** Taken instead of the semaphores, where there is one. */
    private final RLock lock;
    /** The same, for one whose permits have ids. */
    private final RPermitExpirableSemaphore leased;
    private final long leaseMillis;
    private final Gauge gauge;
    private final int callers;
    private final long loops;
    private final int permitsMin;
    private final int permitsMax;
    private final long holdMicros;
    private final long started = System.nanoTime();
    private final long millis;
    private final WaitTimes waits = new WaitTimes();
    private final DoubleAdder inTime = new DoubleAdder();
    private final LongAdder heldMicros = new LongAdder();
    private volatile boolean failed;

    private Crowd(RedissonClient client, Command command) {
        semaphores = semaphores(client, command);
        lock = lock(client, command);
        leased = isOf(command, "leased") ? client.getPermitExpirableSemaphore(command.name()) : null;
        leaseMillis = command.number("leaseMs", -1);
        gauge = new Gauge(client, command);
        callers = command.count("callers");
        millis = command.number("millis", Long.MAX_VALUE);
        loops = command.has("millis") ? command.number("loops", Long.MAX_VALUE) : command.number("loops");
        permitsMin = command.has("permitsMax") ? 1 : command.permits();
        permitsMax = command.has("permitsMax") ? command.count("permitsMax") : permitsMin;
        holdMicros = command.number("holdMicros", 0);
    }

    static void addTo(Ops ops, RedissonClient client) {
        ops.add("crowd", command -> {
            Crowd crowd = new Crowd(client, command);
            return command.isAsync() ? crowd.runAsync() : crowd.runThreads();
        });
    }

    private static boolean isOf(Command command, String object) {
        return command.has("object") && command.text("object").equals(object);
    }

    /** One of the locks, where the crowd is one of threads at a lock. */
    private static RLock lock(RedissonClient client, Command command) {
        return switch (command.has("object") ? command.text("object") : "") {
            case "lock" -> client.getLock(command.name());
            case "fair" -> client.getFairLock(command.name());
            case "read" -> client.getReadWriteLock(command.name()).readLock();
            case "write" -> client.getReadWriteLock(command.name()).writeLock();
            default -> null;
        };
    }

    private static List<RSemaphore> semaphores(RedissonClient client, Command command) {
        if (!command.has("semaphores")) {
            return List.of(client.getSemaphore(command.name()));
        }
        return IntStream.range(0, command.count("semaphores"))
                .mapToObj(i -> client.getSemaphore(command.name() + ":" + i))
                .toList();
    }

    private JsonObject runThreads() {
        return resultOf(IntStream.range(0, callers).mapToObj(i -> {
            CompletableFuture<Void> end = new CompletableFuture<>();
            Threads.start("caller " + i, () -> {
                try {
                    callInLoop(semaphoreOf(i));
                    end.complete(null);
                } catch (Throwable e) {
                    fail(end, e);
                }
            });
            return end;
        }).toArray(CompletableFuture<?>[]::new));
    }

    private JsonObject runAsync() {
        ScheduledExecutorService scheduler = Executors.newSingleThreadScheduledExecutor();
        try {
            return resultOf(IntStream.range(0, callers).mapToObj(i -> {
                CompletableFuture<Void> end = new CompletableFuture<>();
                callAsync(semaphoreOf(i), 0, scheduler, end);
                return end;
            }).toArray(CompletableFuture<?>[]::new));
        } finally {
            scheduler.shutdown();
        }
    }

    private JsonObject resultOf(CompletableFuture<?>[] ends) {
        CompletableFuture.allOf(ends).join();
        JsonObject result = new JsonObject();
        result.addProperty("acquisitions", waits.count());
        result.addProperty("inTime", inTime.sum());
        result.addProperty("heldMicros", heldMicros.sum());
        result.add("waitMicros", waits.summary());
        result.add("waits", waits.histogram());
        result.addProperty("millis", elapsedMillis());
        return result;
    }

    private void callInLoop(RSemaphore semaphore) throws InterruptedException {
        for (long done = 0; goesOn(done); done++) {
            int permits = choosePermits();
            long began = System.nanoTime();
            Object ids = take(semaphore, permits);
            waits.add(Micros.since(began));
            gauge.add(permits);
            hold();
            gauge.add(-permits);
            give(semaphore, permits, ids);
            noteTurn(began);
        }
    }

    /** The permit's id, or the list of them, where they have ids. */
    private Object take(RSemaphore semaphore, int permits) throws InterruptedException {
        if (leased != null) {
            return permits == 1
                    ? leased.acquire(leaseMillis, TimeUnit.MILLISECONDS)
                    : leased.acquire(permits, leaseMillis, TimeUnit.MILLISECONDS);
        }
        if (lock != null) {
            lock.lock();
        } else {
            semaphore.acquire(permits);
        }
        return null;
    }

    private void give(RSemaphore semaphore, int permits, Object ids) {
        if (leased != null) {
            if (ids instanceof String id) {
                leased.release(id);
            } else {
                leased.release(list(ids));
            }
        } else if (lock != null) {
            lock.unlock();
        } else {
            semaphore.release(permits);
        }
    }

    private CompletionStage<?> takeAsync(RSemaphore semaphore, int permits) {
        if (leased != null) {
            return permits == 1
                    ? leased.acquireAsync(leaseMillis, TimeUnit.MILLISECONDS)
                    : leased.acquireAsync(permits, leaseMillis, TimeUnit.MILLISECONDS);
        }
        return semaphore.acquireAsync(permits);
    }

    private CompletionStage<?> giveAsync(RSemaphore semaphore, int permits, Object ids) {
        if (leased != null) {
            return ids instanceof String id ? leased.releaseAsync(id) : leased.releaseAsync(list(ids));
        }
        return semaphore.releaseAsync(permits);
    }

    @SuppressWarnings("unchecked")
    private static List<String> list(Object ids) {
        return (List<String>) ids;
    }

    /** The same loop as a chain of futures, with a fresh stack for every turn. */
    private void callAsync(
            RSemaphore semaphore, long done, ScheduledExecutorService scheduler, CompletableFuture<Void> end) {
        if (!goesOn(done)) {
            end.complete(null);
            return;
        }
        int permits = choosePermits();
        long began = System.nanoTime();
        takeAsync(semaphore, permits)
                .thenCompose(ids -> {
                    waits.add(Micros.since(began));
                    return gauge.addAsync(permits)
                            .thenCompose(counted -> holdAsync(scheduler))
                            .thenCompose(held -> gauge.addAsync(-permits))
                            .thenCompose(counted -> giveAsync(semaphore, permits, ids));
                })
                .whenCompleteAsync((released, failure) -> {
                    if (failure == null) {
                        noteTurn(began);
                        callAsync(semaphore, done + 1, scheduler, end);
                    } else {
                        fail(end, failure);
                    }
                }, scheduler);
    }

    private void hold() {
        if (holdMicros > 0) {
            long began = System.nanoTime();
            Micros.sleep(holdMicros);
            noteHold(began);
        }
    }

    private CompletionStage<Void> holdAsync(ScheduledExecutorService scheduler) {
        if (holdMicros == 0) {
            return CompletableFuture.completedFuture(null);
        }
        long began = System.nanoTime();
        CompletableFuture<Void> held = new CompletableFuture<>();
        scheduler.schedule(() -> {
            noteHold(began);
            held.complete(null);
        }, holdMicros, TimeUnit.MICROSECONDS);
        return held;
    }

    private RSemaphore semaphoreOf(int caller) {
        return semaphores.get(caller % semaphores.size());
    }

    /** A turn has ended just now; if the time was over before, it counts in part. */
    private void noteTurn(long began) {
        long now = System.nanoTime();
        inTime.add((double) nanosInTime(began, now) / Math.max(1, now - began));
    }

    private void noteHold(long began) {
        heldMicros.add(TimeUnit.NANOSECONDS.toMicros(nanosInTime(began, System.nanoTime())));
    }

    /** How much of what lasted from one instant to another was within the time. */
    private long nanosInTime(long began, long ended) {
        long time = TimeUnit.MILLISECONDS.toNanos(millis);
        return Math.max(0, Math.min(ended - started, time) - (began - started));
    }

    private boolean goesOn(long done) {
        return !failed && done < loops && elapsedMillis() < millis;
    }

    private int choosePermits() {
        return ThreadLocalRandom.current().nextInt(permitsMin, permitsMax + 1);
    }

    private long elapsedMillis() {
        return TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - started);
    }

    /** One failure ends the crowd; the other callers finish their turn. */
    private void fail(CompletableFuture<Void> end, Throwable failure) {
        failed = true;
        end.completeExceptionally(failure);
    }
}
