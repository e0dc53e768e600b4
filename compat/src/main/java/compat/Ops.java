package compat;

import java.util.HashMap;
import java.util.Map;
import org.redisson.api.RFuture;

/** The operations that commands can ask for, by name. */
final class Ops {

    /** Runs to the end in a thread of its own; the result becomes the answer. */
    interface Sync {
        Object run(Command command) throws Exception;
    }

    /** Starts a Redisson call whose future gives the answer. */
    interface Async {
        RFuture<?> start(Command command);
    }

    /** An operation; without an async form it always runs in a thread. */
    record Op(Sync sync, Async async) {
    }

    private final Map<String, Op> byName = new HashMap<>();

    void add(String name, Sync sync) {
        add(name, sync, null);
    }

    void add(String name, Sync sync, Async async) {
        byName.put(name, new Op(sync, async));
    }

    Op get(String name) {
        Op op = byName.get(name);
        if (op == null) {
            throw new IllegalArgumentException("unknown op " + name);
        }
        return op;
    }
}
