package fencepost;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonNull;
import com.google.gson.JsonObject;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;

/** One request, and its arguments as Java's types. */
final class Request {
    private final JsonObject members;

    Request(JsonObject members) {
        this.members = members;
    }

    long id() {
        return number("id");
    }

    String call() {
        return text("call");
    }

    /** The argument; an absent one counts as null. */
    JsonElement get(String name) {
        JsonElement found = members.get(name);
        return found == null ? JsonNull.INSTANCE : found;
    }

    private JsonElement needed(String name) {
        JsonElement found = get(name);
        if (found.isJsonNull()) {
            throw new IllegalArgumentException("the request lacks `" + name + "`");
        }
        return found;
    }

    long number(String name) {
        return needed(name).getAsLong();
    }

    Duration timeout() {
        return Duration.ofMillis(number("timeout_ms"));
    }

    String text(String name) {
        return needed(name).getAsString();
    }

    String textOrNull(String name) {
        JsonElement found = get(name);
        return found.isJsonNull() ? null : found.getAsString();
    }

    JsonObject object(String name) {
        return needed(name).getAsJsonObject();
    }

    JsonObject objectOrNull(String name) {
        JsonElement found = get(name);
        return found.isJsonNull() ? null : found.getAsJsonObject();
    }

    List<String> texts(String name) {
        List<String> found = new ArrayList<>();
        needed(name).getAsJsonArray().forEach(each -> found.add(each.getAsString()));
        return found;
    }

    List<TopicPartition> partitions() {
        return texts("partitions").stream().map(Request::partition).toList();
    }

    /** An object by partition: positions, or offsets. */
    Map<TopicPartition, JsonElement> byPartition(String name) {
        Map<TopicPartition, JsonElement> found = new LinkedHashMap<>();
        object(name).asMap().forEach((partition, value) -> found.put(partition(partition), value));
        return found;
    }

    byte[] bytesOrNull(String name) {
        return bytes(get(name));
    }

    List<Header> headers() {
        List<Header> found = new ArrayList<>();
        JsonElement given = get("headers");
        (given.isJsonNull() ? new JsonArray() : given.getAsJsonArray()).forEach(each -> found.add(header(each.getAsJsonArray())));
        return found;
    }

    private static Header header(JsonArray pair) {
        return new RecordHeader(pair.get(0).getAsString(), bytes(pair.get(1)));
    }

    static byte[] bytes(JsonElement text) {
        return text.isJsonNull() ? null : Base64.getDecoder().decode(text.getAsString().getBytes(StandardCharsets.US_ASCII));
    }

    /** `orders-0` as a partition of Kafka's. */
    static TopicPartition partition(String name) {
        int hyphen = name.lastIndexOf('-');
        if (hyphen < 1) {
            throw new IllegalArgumentException("a partition is a topic, a hyphen and a number: " + name);
        }
        return new TopicPartition(name.substring(0, hyphen), Integer.parseInt(name.substring(hyphen + 1)));
    }
}
