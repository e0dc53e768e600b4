package compat.recipes;

import com.google.gson.JsonObject;

/** What a command says about a semaphore. */
record Settings(JsonObject fields) {

    String name() {
        return text("name", null);
    }

    int limit() {
        return (int) number("limit", 1);
    }

    long timeoutMillis() {
        return number("timeoutMs", 10_000);
    }

    String text(String field, String otherwise) {
        return fields.has(field) ? fields.get(field).getAsString() : otherwise;
    }

    long number(String field, long otherwise) {
        return fields.has(field) ? fields.get(field).getAsLong() : otherwise;
    }
}
