package fencepost.proxy;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.Predicate;
import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.protocol.Errors;

/** Checks of a rule: every error names a key and what to do. `rules.py` has the same, but for the names of APIs and errors. */
final class RuleChecks {
    private static final Set<String> MATCH = Set.of("name", "api", "on", "client_id", "transactional_id", "group", "topic",
        "partition", "node", "producer_id", "where", "error", "state", "nth", "times", "connection_of", "act");
    private static final Map<String, Set<String>> OPTIONS = Map.ofEntries(
        Map.entry("record", Set.of()), Map.entry("delay", Set.of("delay_ms")), Map.entry("hold", Set.of("until", "at_most_ms")),
        Map.entry("drop", Set.of("then")), Map.entry("lose", Set.of("then")),
        Map.entry("late", Set.of("then", "until", "delay_ms", "at_most_ms")), Map.entry("repeat", Set.of("count")),
        Map.entry("error", Set.of("code")), Map.entry("alter", Set.of("set", "transform", "lower")), Map.entry("cut", Set.of()),
        Map.entry("throttle", Set.of("bytes_s")));
    private static final Map<String, String> NEEDED =
        Map.of("delay", "delay_ms", "hold", "until", "error", "code", "throttle", "bytes_s");
    private static final Set<String> OF_REQUESTS = Set.of("drop", "late", "repeat");
    private static final long MONTH_MS = 31L * 24 * 3600 * 1000;
    private static final Map<String, Long> NUMBERS = Map.of("delay_ms", 0L, "at_most_ms", 1L, "count", 1L, "nth", 1L, "times", 1L,
        "bytes_s", 1L);
    private static final Map<String, Long> MOST = Map.of("delay_ms", MONTH_MS, "at_most_ms", MONTH_MS, "count", 1000L);
    private static final Map<String, Set<String>> WORDS = Map.of("on", Set.of("request", "answer"), "then", Set.of("cut", "stall"),
        "connection_of", Set.of("any", "client", "broker"), "transform", Transforms.API.keySet());
    private final JsonNode rule;
    private final List<String> errors = new ArrayList<>();

    private RuleChecks(JsonNode rule) {
        this.rule = rule;
    }

    /** Throws RuleError with all that is wrong. */
    static void demand(JsonNode rule) {
        if (rule == null || !rule.isObject()) {
            throw new RuleError(List.of("a rule is a mapping of keys to values"));
        }
        RuleChecks checks = new RuleChecks(rule);
        checks.all();
        if (!checks.errors.isEmpty()) {
            throw new RuleError(checks.errors);
        }
    }

    private void all() {
        String act = rule.path("act").asText("");
        if (!OPTIONS.containsKey(act)) {
            errors.add("act: " + (act.isEmpty() ? "is missing" : "there is no " + act) + "; one of " + new TreeSet<>(OPTIONS.keySet()));
            return;
        }
        keys(act);
        texts();
        words();
        numbers();
        apis();
        until();
        contradictions(act);
    }

    private void keys(String act) {
        rule.fieldNames().forEachRemaining(key -> {
            if (MATCH.contains(key) || OPTIONS.get(act).contains(key)) {
                return;
            }
            boolean known = OPTIONS.values().stream().anyMatch(options -> options.contains(key));
            errors.add(key + (known ? ": has no meaning with act " + act + "; leave it out" : ": there is no such key"));
        });
        if (NEEDED.containsKey(act) && !rule.has(NEEDED.get(act))) {
            errors.add(NEEDED.get(act) + ": act " + act + " needs it");
        }
        for (String key : List.of("where", "set", "lower")) {
            if (rule.has(key) && (!rule.get(key).isObject() || rule.get(key).isEmpty())) {
                errors.add(key + ": must be a mapping that is not empty");
            }
        }
    }

    private void texts() {
        for (String key : List.of("client_id", "transactional_id", "group", "topic", "node", "error", "api")) {
            if (rule.has(key) && !are(rule.get(key), one -> one.isTextual() && !one.asText().isEmpty())) {
                errors.add(key + ": must be a text, or a list of texts, each any of them");
            }
        }
        if (rule.has("name") && !(rule.get("name").isTextual() && !rule.get("name").asText().isEmpty())) {
            errors.add("name: must be a text");
        }
        for (String key : List.of("partition", "producer_id")) {
            if (rule.has(key) && !are(rule.get(key), JsonNode::isIntegralNumber)) {
                errors.add(key + ": must be a whole number, or a list of them");
            }
        }
    }

    private static boolean are(JsonNode value, Predicate<JsonNode> fits) {
        if (!value.isArray()) {
            return fits.test(value);
        }
        boolean all = !value.isEmpty();
        for (JsonNode one : value) {
            all &= fits.test(one);
        }
        return all;
    }

    private void words() {
        WORDS.forEach((key, words) -> {
            if (rule.has(key) && !words.contains(rule.get(key).asText())) {
                errors.add(key + ": must be one of " + new TreeSet<>(words));
            }
        });
        if (rule.has("state") && !are(rule.get("state"), one -> IdStates.WORDS.contains(one.asText()))) {
            errors.add("state: must be one of " + new TreeSet<>(IdStates.WORDS) + ", or a list of them");
        }
        if (rule.has("code") && Arrays.stream(Errors.values()).noneMatch(error -> error.name().equals(rule.get("code").asText()))) {
            String code = rule.get("code").asText();
            errors.add("code: Kafka has no error " + code + alike(ErrorAnswers.alike(code)));
        }
    }

    private void numbers() {
        NUMBERS.forEach((key, least) -> {
            JsonNode value = rule.path(key);
            long most = MOST.getOrDefault(key, Long.MAX_VALUE);
            boolean whole = value.isIntegralNumber() && value.canConvertToLong() && value.asLong() >= least && value.asLong() <= most;
            if (rule.has(key) && !whole) {
                errors.add(key + ": must be a whole number of at least " + least + (MOST.containsKey(key) ? " and at most " + most : ""));
            }
        });
    }

    private void apis() {
        for (String name : names()) {
            if (!name.matches(".*[*?].*") && Arrays.stream(ApiMessageType.values()).noneMatch(type -> type.name.equals(name))) {
                ApiMessageType other = Codec.named(name);
                errors.add("api: Kafka has no " + name + alike(other == null ? List.of() : List.of(other.name)));
            }
        }
    }

    private List<String> names() {
        List<String> names = new ArrayList<>();
        JsonNode given = rule.path("api");
        (given.isArray() ? given : Codec.JSON.createArrayNode().add(given.asText(""))).forEach(one -> names.add(one.asText()));
        names.removeIf(String::isEmpty);
        return names;
    }

    private static String alike(List<String> names) {
        return names.isEmpty() ? "" : "; did you mean " + String.join(", ", names.subList(0, Math.min(3, names.size()))) + "?";
    }

    private void until() {
        String until = rule.path("until").asText(null);
        if (until == null) {
            return;
        }
        if (!Occurrences.valid(until) && !until.equals("closed") && !until.matches("event:.+")) {
            errors.add("until: " + Occurrences.RULE);
        }
    }

    private void contradictions(String act) {
        boolean answer = rule.path("on").asText("").equals("answer");
        if (rule.has("nth") && rule.has("times")) {
            errors.add("nth: is one match and times many; leave out one");
        }
        if (rule.has("error") && !answer) {
            errors.add("error: only answers have one; add on = answer");
        }
        if (answer && OF_REQUESTS.contains(act)) {
            errors.add("on: act " + act + " is of requests" + (act.equals("drop") ? "; act lose is what drops an answer" : ""));
        }
        switch (act) {
            case "late" -> lateness();
            case "error" -> withoutErrors();
            case "alter" -> alteration();
            default -> {
            }
        }
    }

    private void lateness() {
        if (rule.has("until") == rule.has("delay_ms")) {
            errors.add("delay_ms: act late needs it or until, and not both");
        }
        if (rule.has("delay_ms") && rule.has("at_most_ms")) {
            errors.add("at_most_ms: is the bound of until; leave it out beside delay_ms");
        }
        if (rule.path("until").asText("").equals("closed") && rule.path("then").asText("cut").equals("cut")) {
            errors.add("until: the connection is closed at once; add then = stall, or use delay_ms");
        }
    }

    private void withoutErrors() {
        for (String name : names()) {
            ApiMessageType type = Codec.named(name);
            if (type != null && !ErrorAnswers.possible(type)) {
                errors.add("api: answers of " + name + " have no error; use act drop or lose");
            }
        }
    }

    private void alteration() {
        if (rule.has("set") == rule.has("transform")) {
            errors.add("set: act alter needs it or transform, and not both");
        }
        String transform = rule.path("transform").asText("");
        String only = Transforms.API.get(transform);
        if (only != null && (rule.has("api") && !names().equals(List.of(only)) || rule.path("on").asText("answer").equals("request"))) {
            errors.add("transform: " + transform + " is of answers of " + only + "; leave out api and on");
        }
        if (rule.has("lower") != transform.equals("lower-api-versions")) {
            errors.add("lower: belongs to transform = lower-api-versions; give both or neither");
        }
        rule.path("lower").fields().forEachRemaining(field -> {
            if (Codec.named(field.getKey()) == null || !field.getValue().isIntegralNumber()) {
                errors.add("lower: " + field.getKey() + " must be Kafka's name of an API with a version");
            }
        });
    }
}
