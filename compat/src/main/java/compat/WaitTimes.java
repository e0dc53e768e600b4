package compat;

import com.google.gson.JsonArray;
import com.google.gson.JsonObject;
import java.util.Arrays;
import java.util.Map;
import java.util.Queue;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentLinkedQueue;

/** How long callers waited, in microseconds. */
final class WaitTimes {

    private final Queue<Long> times = new ConcurrentLinkedQueue<>();

    void add(long micros) {
        times.add(micros);
    }

    int count() {
        return times.size();
    }

    JsonObject summary() {
        long[] sorted = times.stream().mapToLong(Long::longValue).sorted().toArray();
        JsonObject summary = new JsonObject();
        summary.addProperty("p50", percentile(sorted, 50));
        summary.addProperty("p99", percentile(sorted, 99));
        summary.addProperty("max", percentile(sorted, 100));
        summary.addProperty("mean", Math.round(Arrays.stream(sorted).average().orElse(0)));
        return summary;
    }

    /** All times as pairs of time and count; from 1,000 on they are rounded up to three digits. */
    JsonArray histogram() {
        Map<Long, Integer> counts = new TreeMap<>();
        times.forEach(time -> counts.merge(rounded(time), 1, Integer::sum));
        JsonArray histogram = new JsonArray();
        counts.forEach((time, count) -> {
            JsonArray pair = new JsonArray();
            pair.add(time);
            pair.add(count);
            histogram.add(pair);
        });
        return histogram;
    }

    private static long rounded(long time) {
        long unit = 1;
        while (time / unit >= 1000) {
            unit *= 10;
        }
        return (time + unit - 1) / unit * unit;
    }

    /** The smallest time that at least so many percent of all times do not exceed. */
    private static long percentile(long[] sorted, int percent) {
        if (sorted.length == 0) {
            return 0;
        }
        long rank = ((long) sorted.length * percent + 99) / 100;
        return sorted[(int) rank - 1];
    }
}
