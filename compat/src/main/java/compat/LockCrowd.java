package compat;

import java.util.concurrent.CompletableFuture;
import java.util.stream.IntStream;
import org.redisson.api.RBucket;
import org.redisson.api.RLock;
import org.redisson.api.RReadWriteLock;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;

/**
 * Threads that count together under one lock: each reads a number and writes the next one, in two commands. With {@code readers} the lock is a
 * read-write lock, and so many further threads see the number twice each time: it must not move.
 */
final class LockCrowd {

    private LockCrowd() {
    }

    static void addTo(Ops ops, RedissonClient client) {
        ops.add("lockCrowd", command -> {
            boolean shared = command.has("readers");
            RReadWriteLock sides = shared ? client.getReadWriteLock(command.name()) : null;
            RLock writing = shared ? sides.writeLock() : client.getLock(command.name());
            RBucket<String> counter = client.getBucket(command.text("counter"), StringCodec.INSTANCE);
            long loops = command.number("loops");
            int callers = command.count("callers");
            int readers = shared ? command.count("readers") : 0;
            CompletableFuture.allOf(IntStream.range(0, callers + readers).mapToObj(i -> {
                RLock lock = i < callers ? writing : sides.readLock();
                CompletableFuture<Void> end = new CompletableFuture<>();
                Threads.start("caller " + i, () -> {
                    try {
                        for (long done = 0; done < loops; done++) {
                            lock.lock();
                            try {
                                String before = counter.get();
                                if (i < callers) {
                                    counter.set(String.valueOf(Long.parseLong(before) + 1));
                                } else if (!before.equals(counter.get())) {
                                    throw new IllegalStateException("somebody writes beside a reader");
                                }
                            } finally {
                                lock.unlock();
                            }
                        }
                        end.complete(null);
                    } catch (Throwable e) {
                        end.completeExceptionally(e);
                    }
                });
                return end;
            }).toArray(CompletableFuture<?>[]::new)).join();
            return null;
        });
    }
}
