package compat;

import com.google.gson.JsonObject;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.TimeUnit;
import org.redisson.api.RedissonClient;

/** A Redisson client that obeys JSON commands from standard input; see README.md. */
public final class Peer {

    private static final long SHUTDOWN_MILLIS = 2000;

    private Peer() {
    }

    public static void main(String[] args) throws InterruptedException {
        JsonLines out = new JsonLines(System.out);
        // Whatever else prints must not get between the answers.
        System.setOut(System.err);

        RedissonClient client;
        try {
            client = Clients.connect(Options.parse(args));
        } catch (Throwable e) {
            System.err.println("compat.Peer: " + Errors.describe(e));
            Runtime.getRuntime().halt(1);
            return;
        }
        out.write(ready());
        try {
            serve(new Dispatcher(operations(client, out), out));
        } finally {
            exit(client);
        }
    }

    private static JsonObject ready() {
        JsonObject ready = new JsonObject();
        ready.addProperty("event", "ready");
        ready.addProperty("version", Clients.version());
        return ready;
    }

    private static Ops operations(RedissonClient client, JsonLines out) {
        Ops ops = new Ops();
        ops.add("ping", command -> "pong");
        ops.add("version", command -> Clients.version());
        new SemaphoreOps(client).addTo(ops);
        new KeyOps(client).addTo(ops);
        new ExpiryOps(client).addTo(ops);
        new LatchOps(client).addTo(ops);
        new PermitOps(client).addTo(ops);
        new LockOps(client).addTo(ops);
        new FencedLockOps(client).addTo(ops);
        LockCrowd.addTo(ops, client);
        Crowd.addTo(ops, client);
        Parked.addTo(ops, client);
        new Workers(client, out).addTo(ops);
        return ops;
    }

    /** Returns at the end of input or after the command "shutdown". */
    private static void serve(Dispatcher dispatcher) {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        try {
            String line;
            do {
                line = in.readLine();
            } while (line != null && dispatcher.dispatch(line));
        } catch (IOException e) {
            System.err.println("compat.Peer: " + Errors.describe(e));
        }
    }

    /** Halts even if callers are still blocked or Redisson does not shut down in time. */
    private static void exit(RedissonClient client) throws InterruptedException {
        Thread shutdown = Threads.start(
                "shutdown", () -> client.shutdown(0, SHUTDOWN_MILLIS, TimeUnit.MILLISECONDS));
        shutdown.join(SHUTDOWN_MILLIS);
        Runtime.getRuntime().halt(0);
    }
}
