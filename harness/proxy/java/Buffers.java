package fencepost.proxy;

import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.Deque;

/** Buffers outside the heap for long frames, which the kernel fills and empties without another copy: each serves one frame after the other. */
final class Buffers {
    static final int SIZE = 4 << 20; // longer frames, and those for which none is free, are in the heap
    private final Deque<ByteBuffer> free = new ArrayDeque<>();
    private long left = Runtime.getRuntime().maxMemory() / 8 / SIZE; // that may still be made
    private long spare = Runtime.getRuntime().maxMemory() / 8; // that may still be lent

    /** An empty buffer of SIZE; null when all are in use. */
    synchronized ByteBuffer take() {
        ByteBuffer buffer = free.pollLast(); // the one that was used last is in the processor's caches
        if (buffer == null && left > 0) {
            left--;
            buffer = ByteBuffer.allocateDirect(SIZE);
        }
        return buffer;
    }

    /** Asks for as many bytes in the heap, for what comes behind messages that are held; false: others have them. */
    synchronized boolean lend(int bytes) {
        boolean enough = bytes <= spare;
        spare -= enough ? bytes : 0;
        return enough;
    }

    synchronized void takeBack(int bytes) {
        spare += bytes;
    }

    synchronized void give(ByteBuffer buffer) {
        free.add(buffer.clear());
    }
}
