package fencepost;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import java.io.BufferedInputStream;
import java.io.FileDescriptor;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.producer.KafkaProducer;

/** Makes kafka-clients a driver of fencepost (docs/client-drivers.md): one thread reads requests and answers them. */
public final class Driver {
    private static final int PROTOCOL = 1;
    private static final int BUMPS_EPOCHS = 4; // the first major version with KIP-890's transactions
    private static final List<String> CAPABILITIES = List.of(
            "transactions", "idempotence", "assign", "ends", "partitioner", "headers", "offsets-in-transactions",
            "groups", "static-members", "seek", "initialise", "leave", "isolation");

    private final Channel channel;
    private Opening opening; // what `open` asked for
    private Writer writer;
    private Reader reader;

    /** How the clients of the last `open` are made. */
    private record Opening(Map<String, Object> producer, Map<String, Object> consumer) {}

    /** A call that this driver does not have. */
    private static final class UnknownCall extends Exception {
        private UnknownCall(String call) {
            super("this driver has no call " + call);
        }
    }

    private Driver(Channel channel) {
        this.channel = channel;
    }

    public static void main(String[] arguments) throws IOException {
        Channel channel = new Channel(
                new BufferedInputStream(new FileInputStream(FileDescriptor.in)), new FileOutputStream(FileDescriptor.out));
        System.setOut(System.err);
        if (arguments.length > 0) {
            Settings.refused(new JsonObject(), new JsonObject()); // a rehearsal, which loads the client's classes
            return;
        }
        new Driver(channel).serve();
        Runtime.getRuntime().halt(0); // fencepost is gone: no client is closed in order
    }

    private void serve() throws IOException {
        for (JsonObject message = channel.read(); message != null; message = channel.read()) {
            Request request = new Request(message);
            JsonObject answer = answer(request);
            try {
                channel.write(answer);
            } catch (UncheckedIOException large) {
                channel.write(failed(request, large));
            }
        }
    }

    private JsonObject answer(Request request) {
        try {
            JsonObject answer = new JsonObject();
            answer.addProperty("id", request.id());
            answer.add("ok", perform(request));
            return answer;
        } catch (Throwable error) { // whatever the client raises is the answer
            return failed(request, error);
        }
    }

    private JsonObject failed(Request request, Throwable error) {
        JsonObject answer = new JsonObject();
        answer.addProperty("id", request.id());
        answer.add("error", error instanceof UnknownCall ? Failure.named("UNSUPPORTED", 0, error.getMessage()) : failure(request, error));
        return answer;
    }

    private JsonObject failure(Request request, Throwable error) {
        return Failure.of(request.call(), error, writer != null && writer.transactional());
    }

    private JsonObject perform(Request request) throws Throwable {
        JsonObject found = asked(request);
        if (found == null) {
            act(request);
        }
        return found == null ? new JsonObject() : found;
    }

    /** Calls with results; null for any other call. */
    private JsonObject asked(Request request) throws IOException {
        return switch (request.call()) {
            case "hello" -> hello();
            case "check" -> result("refused", Settings.refused(request.objectOrNull("producer"), request.objectOrNull("consumer")));
            case "position" -> result("positions", reader().positions(request.partitions()));
            case "committed" -> result("offsets", reader().committed(request.partitions(), request.timeout()));
            case "group" -> result("group", reader().group());
            case "poll" -> reader().poll(request.number("timeout_ms"), request.number("limit"));
            default -> null;
        };
    }

    /** Calls without results. */
    private void act(Request request) throws Throwable {
        switch (request.call()) {
            case "open" -> open(request);
            case "initialise" -> initialise(request);
            case "begin" -> writer().begin();
            case "send" -> writer().send(request);
            case "flush" -> writer().flush(request.timeout());
            case "send_offsets" -> writer().sendOffsets(request);
            case "commit" -> writer().commit(request.timeout());
            case "abort" -> writer().abort(request.timeout());
            case "assign" -> reader().assign(request.byPartition("positions"));
            case "subscribe" -> reader().subscribe(request.texts("topics"));
            case "seek" -> reader().seek(request.byPartition("positions"));
            case "leave" -> leave(request);
            case "close" -> close();
            default -> throw new UnknownCall(request.call());
        }
    }

    private static JsonObject result(String name, JsonElement value) {
        JsonObject found = new JsonObject();
        found.add(name, value);
        return found;
    }

    private static JsonObject hello() throws IOException {
        String version = version();
        boolean bumps = Integer.parseInt(version.substring(0, version.indexOf('.'))) >= BUMPS_EPOCHS;
        JsonObject found = new JsonObject();
        found.addProperty("protocol", PROTOCOL);
        found.addProperty("client", "kafka-clients");
        found.addProperty("version", version);
        found.addProperty("runtime", "Java " + System.getProperty("java.version"));
        found.add("capabilities", capabilities(bumps));
        found.addProperty("transactions", bumps ? 2 : 1);
        return found;
    }

    /** The library's release, from its own jar: the class that reads it there has another package from 4.4 on. */
    private static String version() throws IOException {
        try (InputStream file = KafkaProducer.class.getResourceAsStream("/kafka/kafka-version.properties")) {
            Properties properties = new Properties();
            properties.load(file);
            return properties.getProperty("version").trim();
        }
    }

    /** The consumer group protocol of KIP-848 is complete since the version that also bumps epochs. */
    private static JsonArray capabilities(boolean complete) {
        List<String> names = new ArrayList<>(CAPABILITIES);
        if (complete) {
            names.add("consumer-protocol");
        }
        JsonArray found = new JsonArray();
        names.forEach(found::add);
        return found;
    }

    private void open(Request request) throws Throwable {
        close();
        String name = request.text("name");
        String bootstrap = request.text("bootstrap");
        JsonObject producer = request.objectOrNull("producer");
        JsonObject consumer = request.objectOrNull("consumer");
        opening = new Opening(
                producer == null ? null : Settings.producer(producer, name, bootstrap, request.textOrNull("transactional_id")),
                consumer == null ? null : Settings.consumer(consumer, name, bootstrap, request.text("group")));
        openWriter(request);
    }

    private void openWriter(Request request) throws Throwable {
        if (opening.producer() != null) {
            writer = new Writer(channel, opening.producer());
            writer.initialise(request.timeout());
        }
    }

    private void initialise(Request request) throws Throwable {
        writer().close();
        writer = null;
        openWriter(request);
    }

    private Writer writer() {
        if (writer == null) {
            throw new IllegalStateException("there is no producer");
        }
        return writer;
    }

    /** Made by the first call that needs it. */
    private Reader reader() {
        if (reader == null) {
            if (opening == null || opening.consumer() == null) {
                throw new IllegalStateException("there is no consumer");
            }
            reader = new Reader(channel, opening.consumer());
        }
        return reader;
    }

    private void leave(Request request) throws Throwable {
        if (writer != null) {
            writer.leave(request.timeout());
            writer = null;
        }
        if (reader != null) {
            reader.leave(request.timeout());
            reader = null;
        }
        opening = null;
    }

    private void close() {
        Writer formerWriter = writer;
        Reader formerReader = reader;
        writer = null;
        reader = null;
        opening = null;
        if (formerWriter != null) {
            formerWriter.close();
        }
        if (formerReader != null) {
            formerReader.close();
        }
    }
}
