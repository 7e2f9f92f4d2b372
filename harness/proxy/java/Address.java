package fencepost.proxy;

import java.net.InetSocketAddress;
import java.net.Socket;

/** HOST:PORT, where a host with colons is in brackets. */
record Address(String host, int port) {
    static Address of(String text) {
        int colon = text.lastIndexOf(':');
        String host = text.substring(0, colon);
        return new Address(host.startsWith("[") ? host.substring(1, host.length() - 1) : host, Integer.parseInt(text.substring(colon + 1)));
    }

    /** The other side's address of a socket, as HOST:PORT. */
    static String peer(Socket socket) {
        return socket.getInetAddress().getHostAddress() + ":" + socket.getPort();
    }

    InetSocketAddress socket() {
        return new InetSocketAddress(host, port);
    }

    @Override
    public String toString() {
        return (host.contains(":") ? "[" + host + "]" : host) + ":" + port;
    }
}
