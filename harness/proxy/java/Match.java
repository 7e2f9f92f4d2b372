package fencepost.proxy;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.Predicate;

/** The messages that a rule is of: all that is given must hold. */
final class Match {
    private final Predicate<String> api;
    private final Predicate<String> clientId;
    private final Predicate<String> transactionalId;
    private final Predicate<String> group;
    private final Predicate<String> topic;
    private final Predicate<String> partition;
    private final Predicate<String> node;
    private final Predicate<String> producerId;
    private final Predicate<String> error;
    private final Predicate<String> state;
    private final String connectionOf;
    private final Map<String, JsonNode> where = new TreeMap<>();

    Match(JsonNode rule) {
        api = texts(rule.get("api"));
        clientId = texts(rule.get("client_id"));
        transactionalId = texts(rule.get("transactional_id"));
        group = texts(rule.get("group"));
        topic = texts(rule.get("topic"));
        partition = texts(rule.get("partition"));
        node = texts(rule.get("node"));
        producerId = texts(rule.get("producer_id"));
        error = texts(rule.get("error"));
        state = texts(rule.get("state"));
        connectionOf = rule.path("connection_of").asText("any");
        rule.path("where").fields().forEachRemaining(field -> where.put(field.getKey(), field.getValue()));
    }

    /** True if messages of this API may match. */
    boolean may(String name) {
        return api == null || api.test(name);
    }

    /** True if a message matches; request: the one that it answers, or itself. */
    boolean matches(Message message, String at, boolean ofBroker) {
        if (!may(message.api()) || !one(node, at) || !one(clientId, message.clientId) || !peer(ofBroker)) {
            return false;
        }
        Message request = message.isAnswer() ? message.request : message;
        return any(transactionalId, request.facts().transactionalIds) && any(group, request.facts().groups)
            && any(producerId, request.facts().producerIds) && place(request.facts().partitions)
            && one(state, request.idState) && (error == null || any(error, message.facts().errors)) && body(message);
    }

    private boolean peer(boolean ofBroker) {
        return connectionOf.equals("any") || connectionOf.equals("broker") == ofBroker;
    }

    private boolean place(JsonNode partitions) {
        if (topic == null && partition == null) {
            return true;
        }
        for (JsonNode line : partitions) {
            if (one(topic, line.path("topic").asText()) && one(partition, line.path("partition").asText())) {
                return true;
            }
        }
        return false;
    }

    private boolean body(Message message) {
        if (where.isEmpty()) {
            return true;
        }
        JsonNode json = message.json();
        return json != null && where.entrySet().stream().allMatch(wanted ->
            Paths.at(json, wanted.getKey()).stream().anyMatch(value -> equal(wanted.getValue(), value)));
    }

    private static boolean equal(JsonNode wanted, JsonNode value) {
        if (wanted.isArray() && !value.isArray()) {
            for (JsonNode one : wanted) {
                if (equal(one, value)) {
                    return true;
                }
            }
            return false;
        }
        if (wanted.isTextual() && value.isTextual()) {
            return glob(wanted.asText()).test(value.asText());
        }
        return wanted.isNumber() && value.isNumber()
            ? wanted.decimalValue().compareTo(value.decimalValue()) == 0 : wanted.equals(value);
    }

    private static boolean one(Predicate<String> wanted, String value) {
        return wanted == null || value != null && wanted.test(value);
    }

    private static boolean any(Predicate<String> wanted, Collection<?> values) {
        return wanted == null || values.stream().anyMatch(value -> wanted.test(String.valueOf(value)));
    }

    private static Predicate<String> texts(JsonNode given) {
        if (given == null) {
            return null;
        }
        List<Predicate<String>> globs = new ArrayList<>();
        (given.isArray() ? given : Codec.JSON.createArrayNode().add(given)).forEach(one -> globs.add(glob(one.asText())));
        return value -> globs.stream().anyMatch(glob -> glob.test(value));
    }

    /** A text in which `*` stands for any letters and `?` for one. */
    static Predicate<String> glob(String text) {
        int[] pattern = text.codePoints().toArray();
        return RuleChecks.isPattern(text) ? value -> matches(pattern, value.codePoints().toArray()) : text::equals;
    }

    /** Looks again behind the last star alone: it takes no longer than the product of both lengths. */
    private static boolean matches(int[] pattern, int[] value) {
        int at = 0;
        int star = -1; // the last one that was met; -1: none
        int after = 0; // behind what that star stands for
        for (int i = 0; i < value.length;) {
            if (at < pattern.length && pattern[at] == '*') {
                star = at++;
                after = i;
            } else if (at < pattern.length && (pattern[at] == '?' || pattern[at] == value[i])) {
                at++;
                i++;
            } else if (star >= 0) {
                at = star + 1;
                i = ++after;
            } else {
                return false;
            }
        }
        while (at < pattern.length && pattern[at] == '*') {
            at++;
        }
        return at == pattern.length;
    }
}
