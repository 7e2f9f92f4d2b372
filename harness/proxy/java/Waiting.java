package fencepost.proxy;

import java.util.concurrent.locks.LockSupport;

/** Waits without InterruptedException: nobody interrupts these threads. */
final class Waiting {
    private Waiting() {}

    static void sleep(long nanos) {
        long until = System.nanoTime() + nanos;
        for (long left = nanos; left > 0; left = until - System.nanoTime()) {
            LockSupport.parkNanos(left);
        }
    }

    static void join(Thread thread, long millis) {
        try {
            thread.join(millis);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
    }

    /** Waits for a notification of an object whose monitor is held, at most as long. */
    static void on(Object monitor, long millis) {
        try {
            monitor.wait(Math.max(1, millis));
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
    }
}
