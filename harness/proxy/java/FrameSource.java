package fencepost.proxy;

import java.io.IOException;

/** A frame, or what follows of one that is passed on in pieces. */
interface FrameSource {
    void writeTo(Peer peer) throws IOException;
}
