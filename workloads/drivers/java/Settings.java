package fencepost;

import com.google.gson.JsonArray;
import com.google.gson.JsonObject;
import com.google.gson.JsonPrimitive;
import java.io.IOException;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Settings of the protocol as the client's own, and what the client refuses of them. */
final class Settings {
    /** Not Kafka's names: a user's name and password, and files of TLS; the client has other settings for them. */
    private static final Set<String> TRANSLATED =
            Set.of("sasl.username", "sasl.password", "ssl.ca.location", "ssl.certificate.location", "ssl.key.location");
    private static final Set<String> OURS = Set.of(
            "bootstrap.servers", "client.id", "group.id", "transactional.id",
            "key.serializer", "value.serializer", "key.deserializer", "value.deserializer");
    private static final Set<String> TIMING =
            Set.of("delivery.timeout.ms", "linger.ms", "bootstrap.servers", "key.serializer", "value.serializer");
    /** Below the ten seconds that workloads give a call: the client's own TimeoutException comes before the driver's. */
    private static final int MAX_BLOCK_MS = 9000;
    private static final Pattern KEY = Pattern.compile("configuration ([a-z0-9.]+)|^([a-z0-9]+(?:\\.[a-z0-9]+)+) ");

    private Settings() {}

    static Map<String, Object> producer(JsonObject given, String name, String bootstrap, String transactionalId) {
        Map<String, Object> settings = common(given, name, bootstrap);
        settings.put("key.serializer", ByteArraySerializer.class.getName());
        settings.put("value.serializer", ByteArraySerializer.class.getName());
        settings.putIfAbsent("max.block.ms", MAX_BLOCK_MS);
        if (!settings.containsKey("request.timeout.ms") && settings.containsKey("delivery.timeout.ms")) {
            settings.put("request.timeout.ms", requestTimeout(settings));
        }
        if (transactionalId != null) {
            settings.put("transactional.id", transactionalId);
        }
        return settings;
    }

    /** The client demands delivery.timeout.ms >= linger.ms + request.timeout.ms, whose default is above what workloads give. */
    private static int requestTimeout(Map<String, Object> settings) {
        Map<String, Object> timing = new HashMap<>(settings);
        timing.keySet().retainAll(TIMING);
        ProducerConfig config = new ProducerConfig(timing);
        long most = config.getInt("delivery.timeout.ms") - config.getLong("linger.ms");
        return (int) Math.max(1, Math.min(config.getInt("request.timeout.ms"), most));
    }

    static Map<String, Object> consumer(JsonObject given, String name, String bootstrap, String group) {
        Map<String, Object> settings = common(given, name, bootstrap);
        settings.put("key.deserializer", ByteArrayDeserializer.class.getName());
        settings.put("value.deserializer", ByteArrayDeserializer.class.getName());
        settings.putIfAbsent("enable.auto.commit", "false");
        settings.put("group.id", group);
        settings.putAll(Closing.settings());
        return settings;
    }

    private static Map<String, Object> common(JsonObject given, String name, String bootstrap) {
        Map<String, Object> settings = new LinkedHashMap<>();
        given.asMap().forEach((key, value) -> settings.put(key, value.getAsString()));
        translate(settings);
        settings.put("bootstrap.servers", bootstrap);
        settings.put("client.id", name);
        return settings;
    }

    private static void translate(Map<String, Object> settings) {
        if (settings.containsKey("sasl.username") || settings.containsKey("sasl.password")) {
            settings.put("sasl.jaas.config", jaas(settings));
        }
        if (settings.get("ssl.ca.location") instanceof String location) {
            settings.put("ssl.truststore.type", "PEM");
            settings.put("ssl.truststore.certificates", file("ssl.ca.location", location));
        }
        if (settings.get("ssl.certificate.location") instanceof String location) {
            settings.put("ssl.keystore.type", "PEM");
            settings.put("ssl.keystore.certificate.chain", file("ssl.certificate.location", location));
        }
        if (settings.get("ssl.key.location") instanceof String location) {
            settings.put("ssl.keystore.key", file("ssl.key.location", location));
        }
        if ("none".equals(settings.get("ssl.endpoint.identification.algorithm"))) {
            settings.put("ssl.endpoint.identification.algorithm", "");
        }
        settings.keySet().removeAll(TRANSLATED);
    }

    private static String jaas(Map<String, Object> settings) {
        boolean plain = "PLAIN".equals(settings.getOrDefault("sasl.mechanism", "PLAIN"));
        String module = plain ? "plain.PlainLoginModule" : "scram.ScramLoginModule";
        return "org.apache.kafka.common.security." + module + " required username=" + quoted(settings.get("sasl.username"))
                + " password=" + quoted(settings.get("sasl.password")) + ";";
    }

    private static String quoted(Object text) {
        return '"' + (text == null ? "" : text.toString().replace("\\", "\\\\").replace("\"", "\\\"")) + '"';
    }

    private static String file(String key, String location) {
        try {
            return Files.readString(Path.of(location));
        } catch (IOException error) {
            throw new ConfigException(key, location, "cannot be read: " + error);
        }
    }

    /** Rows of side, key, sentence. */
    static JsonArray refused(JsonObject producer, JsonObject consumer) {
        JsonArray rows = new JsonArray();
        if (producer != null) {
            judge("producer", producer, ProducerConfig.configNames(), rows);
        }
        if (consumer != null) {
            judge("consumer", consumer, ConsumerConfig.configNames(), rows);
        }
        return rows;
    }

    private static void judge(String side, JsonObject given, Set<String> known, JsonArray rows) {
        Map<String, String> texts = refusedKeys(given, known);
        texts.forEach((key, text) -> rows.add(row(side, key, text)));
        if (texts.isEmpty()) {
            refusedByClient(side, given, rows);
        }
    }

    private static Map<String, String> refusedKeys(JsonObject given, Set<String> known) {
        Map<String, String> texts = new LinkedHashMap<>();
        for (String key : new TreeSet<>(given.keySet())) {
            if (OURS.contains(key)) {
                texts.put(key, "fencepost sets it");
            } else if (key.startsWith("ssl.") && TRANSLATED.contains(key) && !known.contains("ssl.truststore.certificates")) {
                texts.put(key, "this version of kafka-clients reads no PEM files; 2.7 and later do");
            } else if (!known.contains(key) && !TRANSLATED.contains(key)) {
                texts.put(key, "this version of kafka-clients has no such setting");
            } else if (key.equals("enable.auto.commit") && given.get(key).getAsBoolean()) {
                texts.put(key, "it would commit records that the driver has read ahead and the workload has not seen");
            }
        }
        return texts;
    }

    /** The client itself is made of them, without a log: nothing can be connected to at port 0. */
    private static void refusedByClient(String side, JsonObject given, JsonArray rows) {
        PrintStream log = System.err;
        System.setErr(new PrintStream(OutputStream.nullOutputStream()));
        try {
            make(side, given, "127.0.0.1:0");
        } catch (KafkaException error) {
            String text = String.valueOf(configError(error).getMessage());
            rows.add(row(side, key(text, given), text));
        } finally {
            System.setErr(log);
        }
    }

    private static void make(String side, JsonObject given, String bootstrap) {
        if (side.equals("producer")) {
            new KafkaProducer<byte[], byte[]>(producer(given, "check", bootstrap, null)).close(Duration.ZERO);
        } else {
            Closing.atOnce(new KafkaConsumer<byte[], byte[]>(consumer(given, "check", bootstrap, "check")));
        }
    }

    /** The most exact cause: the first ConfigException, or else the innermost exception. */
    private static Throwable configError(Throwable error) {
        boolean last = error instanceof ConfigException || error.getCause() == null || error.getCause() == error;
        return last ? error : configError(error.getCause());
    }

    private static String key(String text, JsonObject given) {
        Matcher found = KEY.matcher(text);
        String key = !found.find() ? "" : found.group(1) != null ? found.group(1) : found.group(2);
        return given.has(key) ? key : "";
    }

    private static JsonArray row(String... texts) {
        JsonArray row = new JsonArray();
        List.of(texts).forEach(text -> row.add(new JsonPrimitive(text)));
        return row;
    }
}
