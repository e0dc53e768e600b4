package compat;

import java.util.Arrays;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Semaphore;

/** Threads by name: to Redisson a lock belongs to a thread, so its calls must come from the same one. */
final class LockThreads {

    private static final String PREFIX = "lock ";

    private static final Map<String, ExecutorService> BY_NAME = new ConcurrentHashMap<>();

    private LockThreads() {
    }

    /** Runs the call in the thread that the command names, and waits for it. */
    static Object run(Command command, Callable<?> call) throws Exception {
        String name = command.has("thread") ? command.text("thread") : "main";
        return BY_NAME.computeIfAbsent(name, LockThreads::start).submit(call).get();
    }

    /** The number of threads that sleep in the semaphore of this JVM that a message from Redis releases. */
    static long parked() {
        return Thread.getAllStackTraces().entrySet().stream()
                .filter(thread -> thread.getKey().getName().startsWith(PREFIX))
                .filter(thread -> {
                    Thread.State state = thread.getKey().getState();
                    return state == Thread.State.WAITING || state == Thread.State.TIMED_WAITING;
                })
                .filter(thread -> Arrays.stream(thread.getValue())
                        .anyMatch(frame -> frame.getClassName().equals(Semaphore.class.getName())))
                .count();
    }

    private static ExecutorService start(String name) {
        return Executors.newSingleThreadExecutor(task -> {
            Thread thread = new Thread(task, PREFIX + name);
            thread.setDaemon(true);
            return thread;
        });
    }
}
