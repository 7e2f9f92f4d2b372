package fencepost.proxy;

/** The connection on which a message came, as the record names it. */
record Origin(String node, long connection, String client) {}
