package compat;

import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/** Threads by name: to Redisson a lock belongs to a thread, so its calls must come from the same one. */
final class LockThreads {

    private static final Map<String, ExecutorService> BY_NAME = new ConcurrentHashMap<>();

    private LockThreads() {
    }

    /** Runs the call in the thread that the command names, and waits for it. */
    static Object run(Command command, Callable<?> call) throws Exception {
        String name = command.has("thread") ? command.text("thread") : "main";
        return BY_NAME.computeIfAbsent(name, LockThreads::start).submit(call).get();
    }

    private static ExecutorService start(String name) {
        return Executors.newSingleThreadExecutor(task -> {
            Thread thread = new Thread(task, "lock " + name);
            thread.setDaemon(true);
            return thread;
        });
    }
}
