package fencepost;

import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.common.errors.TimeoutException;

/** Calls that the client limits by a setting, or not at all: the answer comes in time, and the same call again waits on for the first one. */
final class Limited {
    private final ExecutorService threads = Executors.newCachedThreadPool(Limited::thread);
    private final Map<String, Future<?>> running = new HashMap<>();

    /** Makes the call, or waits on for the one that runs. Throws what it throws, or Kafka's TimeoutException. */
    void call(String name, Duration timeout, Runnable call) throws Throwable {
        Future<?> future = running.computeIfAbsent(name, absent -> threads.submit(call));
        try {
            future.get(timeout.toMillis(), TimeUnit.MILLISECONDS);
            running.remove(name);
        } catch (ExecutionException error) {
            running.remove(name);
            throw error.getCause();
        } catch (java.util.concurrent.TimeoutException late) {
            throw new TimeoutException(name + " has not returned within " + timeout.toMillis() + " ms, and goes on");
        }
    }

    /** A thread that does not keep the process alive. */
    static Thread thread(Runnable call) {
        Thread thread = new Thread(call, "limited");
        thread.setDaemon(true);
        return thread;
    }
}
