package fencepost.proxy;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/** The process's configuration: one JSON document. */
final class Config {
    final String control;
    final Path record; // a directory; null: none
    final String node;
    final boolean rewrite;
    final String advertise;
    final long mostFrameBytes;
    final long first; // the number before that of the first request and connection
    final JsonNode tls;
    final JsonNode rules;
    final List<Broker> brokers = new ArrayList<>();

    /** Where to listen for connections to a broker. */
    record Broker(String node, String listen, String upstream) {}

    private Config(JsonNode json) {
        control = json.path("control").asText("127.0.0.1:0");
        record = json.hasNonNull("record") ? Path.of(json.get("record").asText()) : null;
        node = json.path("node").asText("proxy");
        rewrite = json.path("rewrite").asBoolean(false);
        advertise = json.path("advertise").asText("127.0.0.1");
        mostFrameBytes = json.path("most_frame_bytes").asLong(100L << 20);
        first = json.path("first").asLong(0);
        tls = json.path("tls");
        rules = json.path("rules");
        JsonNode given = json.path("brokers");
        for (JsonNode one : given) {
            String name = one.path("node").asText(given.size() == 1 ? node : "n" + (brokers.size() + 1));
            brokers.add(new Broker(name, one.get("listen").asText(), one.get("upstream").asText()));
        }
    }

    /** Of the program's argument: the document itself, the path of a file with it, or `-` for the first line of standard input. */
    static Config of(String argument) throws IOException {
        String text = argument.equals("-") ? line(System.in) : argument.startsWith("{") ? argument : Files.readString(Path.of(argument));
        return new Config(Codec.JSON.readTree(text));
    }

    private static String line(InputStream in) throws IOException {
        ByteArrayOutputStream line = new ByteArrayOutputStream();
        for (int next = in.read(); next >= 0 && next != '\n'; next = in.read()) {
            line.write(next);
        }
        return line.toString(StandardCharsets.UTF_8);
    }
}
