package compat;

import java.util.concurrent.CompletableFuture;
import java.util.stream.IntStream;
import org.redisson.api.RBucket;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;

/** Threads that count together under one lock: each reads a number and writes the next one, in two commands. */
final class LockCrowd {

    private LockCrowd() {
    }

    static void addTo(Ops ops, RedissonClient client) {
        ops.add("lockCrowd", command -> {
            RLock lock = client.getLock(command.name());
            RBucket<String> counter = client.getBucket(command.text("counter"), StringCodec.INSTANCE);
            long loops = command.number("loops");
            CompletableFuture.allOf(IntStream.range(0, command.count("callers")).mapToObj(i -> {
                CompletableFuture<Void> end = new CompletableFuture<>();
                Threads.start("caller " + i, () -> {
                    try {
                        for (long done = 0; done < loops; done++) {
                            lock.lock();
                            try {
                                counter.set(String.valueOf(Long.parseLong(counter.get()) + 1));
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
