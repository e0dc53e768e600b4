package compat;

import com.google.gson.JsonElement;
import com.google.gson.JsonNull;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.time.Duration;
import java.time.Instant;

/** One command line, with typed access to its fields. */
record Command(JsonObject fields) {

    /** Stands for a line that is no command. */
    static final Command NONE = new Command(new JsonObject());

    static Command parse(String line) {
        return new Command(JsonParser.parseString(line).getAsJsonObject());
    }

    /** The id to echo; any JSON value. */
    JsonElement id() {
        return has("id") ? fields.get("id") : JsonNull.INSTANCE;
    }

    String op() {
        return text("op");
    }

    boolean isAsync() {
        String mode = has("mode") ? text("mode") : "sync";
        return switch (mode) {
            case "async" -> true;
            case "sync" -> false;
            default -> throw new IllegalArgumentException("unknown mode " + mode);
        };
    }

    boolean has(String field) {
        return fields.has(field);
    }

    JsonElement get(String field) {
        JsonElement value = fields.get(field);
        if (value == null) {
            throw new IllegalArgumentException("\"" + field + "\" is missing");
        }
        return value;
    }

    String text(String field) {
        return get(field).getAsString();
    }

    long number(String field) {
        return get(field).getAsLong();
    }

    long number(String field, long otherwise) {
        return has(field) ? number(field) : otherwise;
    }

    int count(String field) {
        return get(field).getAsInt();
    }

    Duration millis(String field) {
        return Duration.ofMillis(number(field));
    }

    Instant instant(String field) {
        return Instant.ofEpochMilli(number(field));
    }

    String name() {
        return text("name");
    }

    int permits() {
        return has("permits") ? count("permits") : 1;
    }
}
