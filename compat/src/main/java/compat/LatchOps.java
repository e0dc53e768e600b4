package compat;

import static java.util.concurrent.TimeUnit.MILLISECONDS;

import org.redisson.api.RCountDownLatch;
import org.redisson.api.RedissonClient;

/** RCountDownLatch. */
final class LatchOps {

    private final RedissonClient client;

    LatchOps(RedissonClient client) {
        this.client = client;
    }

    void addTo(Ops ops) {
        ops.add("trySetCount",
                c -> latch(c).trySetCount(c.number("count")),
                c -> latch(c).trySetCountAsync(c.number("count")));
        ops.add("countDown",
                c -> {
                    latch(c).countDown();
                    return null;
                },
                c -> latch(c).countDownAsync());
        ops.add("getCount", c -> latch(c).getCount(), c -> latch(c).getCountAsync());
        ops.add("await",
                c -> {
                    if (c.has("waitMs")) {
                        return latch(c).await(c.number("waitMs"), MILLISECONDS);
                    }
                    latch(c).await();
                    return null;
                },
                c -> c.has("waitMs")
                        ? latch(c).awaitAsync(c.number("waitMs"), MILLISECONDS)
                        : latch(c).awaitAsync());
        ops.add("deleteLatch", c -> latch(c).delete(), c -> latch(c).deleteAsync());
    }

    private RCountDownLatch latch(Command command) {
        return client.getCountDownLatch(command.name());
    }
}
