package compat;

import com.google.gson.JsonObject;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;

/** Writes JSON objects, one a line; lines of concurrent writers never mix. */
final class JsonLines {

    private final OutputStream out;

    JsonLines(OutputStream out) {
        this.out = out;
    }

    synchronized void write(JsonObject object) {
        try {
            out.write((object + "\n").getBytes(StandardCharsets.UTF_8));
            out.flush();
        } catch (IOException e) {
            // Nobody reads any more; the end of standard input will follow.
        }
    }
}
