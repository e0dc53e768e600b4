package compat.recipes;

import com.google.gson.JsonElement;
import com.google.gson.JsonNull;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import com.google.gson.JsonPrimitive;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import redis.clients.jedis.ConnectionPoolConfig;
import redis.clients.jedis.JedisPooled;
import redis.clients.jedis.Protocol;

/** A process with Jedis that carries out the classic recipes; obeys JSON commands from standard input. See README.md. */
public final class RecipePeer {

    private static final int MOST_CONNECTIONS = 64;

    private final JedisPooled redis;
    private final PrintStream out;

    private RecipePeer(JedisPooled redis, PrintStream out) {
        this.redis = redis;
        this.out = out;
    }

    public static void main(String[] args) throws IOException {
        PrintStream out = System.out;
        // Whatever else prints must not get between the answers.
        System.setOut(System.err);
        ConnectionPoolConfig pool = new ConnectionPoolConfig();
        pool.setMaxTotal(MOST_CONNECTIONS);
        RecipePeer peer = new RecipePeer(new JedisPooled(pool, URI.create(args[1])), out);
        peer.redis.sendCommand(Protocol.Command.PING);
        peer.write("{\"event\":\"ready\",\"version\":\"jedis\"}");
        peer.serve();
        Runtime.getRuntime().halt(0);
    }

    private void serve() throws IOException {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonObject command = JsonParser.parseString(line).getAsJsonObject();
            if (command.get("op").getAsString().equals("shutdown")) {
                answer(command, "ok", JsonNull.INSTANCE);
                return;
            }
            Thread thread = new Thread(() -> run(command));
            thread.setDaemon(true);
            thread.start();
        }
    }

    private void run(JsonObject command) {
        try {
            answer(command, "ok", carryOut(command));
        } catch (Throwable e) {
            answer(command, "error", new JsonPrimitive(e.getClass().getSimpleName() + ": " + e.getMessage()));
        }
    }

    private JsonElement carryOut(JsonObject command) throws Exception {
        Settings settings = new Settings(command);
        Recipe recipe = recipe(settings);
        String op = command.get("op").getAsString();
        String holder = settings.text("holder", null);
        return switch (op) {
            case "acquire" -> {
                String acquired = recipe.acquire();
                yield acquired == null ? JsonNull.INSTANCE : new JsonPrimitive(acquired);
            }
            case "release" -> new JsonPrimitive(recipe.release(holder));
            case "refresh" -> new JsonPrimitive(recipe.refresh(holder));
            case "crowd" -> new RecipeCrowd(redis, recipe, settings).run();
            default -> throw new IllegalArgumentException("unknown op " + op);
        };
    }

    private Recipe recipe(Settings settings) {
        String recipe = settings.text("recipe", "");
        return switch (recipe) {
            case "timestamp" -> new TimestampRecipe(redis, settings);
            case "fair" -> new FairRecipe(redis, settings);
            case "fairUnderLock" -> new LockedFairRecipe(redis, settings);
            case "line" -> new LineRecipe(redis, settings);
            case "set" -> new SetRecipe(redis, settings);
            case "slots" -> new SlotRecipe(redis, settings);
            case "lock" -> new LockRecipe(redis, settings.name(), settings.timeoutMillis());
            default -> throw new IllegalArgumentException("unknown recipe " + recipe);
        };
    }

    private void answer(JsonObject command, String field, JsonElement value) {
        JsonObject answer = new JsonObject();
        answer.add("id", command.get("id"));
        answer.add(field, value);
        write(answer.toString());
    }

    private synchronized void write(String line) {
        out.println(line);
        out.flush();
    }
}
