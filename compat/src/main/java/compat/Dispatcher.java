package compat;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonNull;
import com.google.gson.JsonObject;
import com.google.gson.JsonPrimitive;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Future;
import org.redisson.api.RFuture;

/** Starts commands without waiting for them, and answers each when it has ended. */
final class Dispatcher {

    private final Ops ops;
    private final JsonLines out;
    private final Map<JsonElement, Future<?>> inFlight = new ConcurrentHashMap<>();

    Dispatcher(Ops ops, JsonLines out) {
        this.ops = ops;
        this.out = out;
        ops.add("cancel", this::cancel);
    }

    /** Returns false after the command that ends the process. */
    boolean dispatch(String line) {
        Command command = Command.NONE;
        try {
            command = Command.parse(line);
            if (command.op().equals("shutdown")) {
                answer(command, Micros.now(), null, null);
                return false;
            }
            begin(command, ops.get(command.op()));
        } catch (RuntimeException e) {
            answer(command, Micros.now(), null, e);
        }
        return true;
    }

    private void begin(Command command, Ops.Op op) {
        if (command.isAsync() && op.async() != null) {
            start(command, op.async());
        } else {
            Threads.start("call " + command.id(), () -> run(command, op.sync()));
        }
    }

    private void run(Command command, Ops.Sync op) {
        Object result = null;
        Throwable failure = null;
        long began = Micros.now();
        try {
            result = op.run(command);
        } catch (Throwable e) {
            failure = e;
        }
        answer(command, began, result, failure);
    }

    private void start(Command command, Ops.Async op) {
        long began = Micros.now();
        RFuture<?> future;
        try {
            future = op.start(command);
        } catch (Throwable e) {
            answer(command, began, null, e);
            return;
        }
        inFlight.put(command.id(), future);
        future.whenComplete((result, failure) -> {
            inFlight.remove(command.id(), future);
            answer(command, began, result, failure);
        });
    }

    private Object cancel(Command command) {
        Future<?> future = inFlight.get(command.get("target"));
        return future != null && future.cancel(true);
    }

    private void answer(Command command, long began, Object result, Throwable failure) {
        long ended = Micros.now();
        JsonObject answer = new JsonObject();
        answer.add("id", command.id());
        if (failure == null) {
            answer.add("ok", toJson(result));
        } else {
            answer.addProperty("error", Errors.describe(failure));
        }
        answer.addProperty("began", began);
        answer.addProperty("ended", ended);
        out.write(answer);
    }

    private static JsonElement toJson(Object result) {
        if (result == null) {
            return JsonNull.INSTANCE;
        } else if (result instanceof JsonElement json) {
            return json;
        } else if (result instanceof Iterable<?> results) {
            JsonArray array = new JsonArray();
            results.forEach(each -> array.add(toJson(each)));
            return array;
        } else if (result instanceof Boolean bool) {
            return new JsonPrimitive(bool);
        } else if (result instanceof Number number) {
            return new JsonPrimitive(number);
        }
        return new JsonPrimitive(result.toString());
    }
}
