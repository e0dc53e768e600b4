package compat;

import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;

/** Time in microseconds. */
final class Micros {

    private Micros() {
    }

    /** Wall-clock time since the epoch. */
    static long now() {
        return ChronoUnit.MICROS.between(Instant.EPOCH, Instant.now());
    }

    /** Elapsed time since a {@link System#nanoTime} reading. */
    static long since(long nanoTime) {
        return TimeUnit.NANOSECONDS.toMicros(System.nanoTime() - nanoTime);
    }

    /** Sleeps with a finer grain than {@link Thread#sleep}, which rounds up to milliseconds. */
    static void sleep(long micros) {
        long end = System.nanoTime() + TimeUnit.MICROSECONDS.toNanos(micros);
        for (long left; (left = end - System.nanoTime()) > 0; ) {
            LockSupport.parkNanos(left);
        }
    }
}
