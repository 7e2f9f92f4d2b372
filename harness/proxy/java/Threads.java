package fencepost.proxy;

import java.util.concurrent.ThreadFactory;

/** Threads that do not keep the process alive. */
final class Threads implements ThreadFactory {
    private static final int STACK = 256 << 10;

    void start(String name, Runnable work) {
        Thread thread = new Thread(null, work, name, STACK);
        thread.setDaemon(true);
        thread.start();
    }

    @Override
    public Thread newThread(Runnable work) {
        Thread thread = new Thread(null, work, "control", STACK);
        thread.setDaemon(true);
        return thread;
    }
}
