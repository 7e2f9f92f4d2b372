package fencepost.proxy;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Predicate;
import java.util.stream.Stream;
import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.protocol.Errors;

/** Checks of a rule: every error names a key and what to do. `rules.py` and `names.py` have the same. */
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
    private static final Map<String, List<String>> WORDS = Map.of("on", List.of("request", "answer"), "then", List.of("cut", "stall"),
        "connection_of", List.of("any", "client", "broker"), "transform", List.of("reverse-aborted", "lower-api-versions"));
    private static final List<String> ACTS =
        List.of("record", "delay", "hold", "drop", "lose", "late", "repeat", "error", "alter", "cut", "throttle");
    private static final List<String> STATES = List.of("fresh", "committed", "aborted", "fenced");
    private static final List<String> KEYS =
        Stream.concat(MATCH.stream(), OPTIONS.values().stream().flatMap(Set::stream)).distinct().sorted().toList();
    private static final List<String> APIS = Arrays.stream(ApiMessageType.values()).map(type -> type.name).sorted().toList();
    static final List<String> ERRORS =
        Arrays.stream(Errors.values()).filter(error -> error != Errors.NONE).map(Enum::name).sorted().toList();
    private final JsonNode rule;
    private final List<String> errors = new ArrayList<>();

    private RuleChecks(JsonNode rule) {
        this.rule = rule;
    }

    /** Throws RuleError with all that is wrong. */
    static void demand(JsonNode rule) {
        if (rule == null || !rule.isObject()) {
            throw new RuleError(List.of("a rule is a table of keys and values"));
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
            errors.add("act: " + (!rule.has("act") ? "is missing; one of " + String.join(", ", ACTS) : one(ACTS, act)));
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
            errors.add(key + (known ? ": has no meaning with act " + act + "; leave it out" : ": there is no such key" + Alike.to(key, KEYS)));
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
            long most = key.equals("partition") ? Integer.MAX_VALUE : Long.MAX_VALUE;
            if (rule.has(key) && !are(rule.get(key), one -> whole(one, 0, most))) {
                errors.add(key + ": must be a whole number from 0 to " + most + ", or a list of them");
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
            if (rule.has(key) && !(rule.get(key).isTextual() && words.contains(rule.get(key).asText()))) {
                errors.add(key + ": " + one(words, rule.get(key).asText()));
            }
        });
        if (rule.has("state") && !are(rule.get("state"), one -> IdStates.WORDS.contains(one.asText()))) {
            errors.add("state: must be one of " + String.join(", ", STATES) + ", or a list of them");
        }
        if (rule.has("code") && !(rule.get("code").isTextual() && ERRORS.contains(rule.get("code").asText()))) {
            errors.add("code: " + (rule.get("code").isTextual() ? none("error", rule.get("code").asText(), "; name an error") : "must be a text"));
        }
        for (String error : entries("error")) {
            named("error", "error", error, ERRORS, "; where = {errorCode = 0} is of answers without one");
        }
    }

    private static String one(List<String> words, String given) {
        return "must be one of " + String.join(", ", words) + Alike.to(given, words);
    }

    /** An entry of a key that may have patterns is a name that Kafka has. ofNone: the remedy where it is NONE. */
    private void named(String key, String what, String name, List<String> known, String ofNone) {
        if (isPattern(name) ? known.stream().noneMatch(Match.glob(name)) : !known.contains(name)) {
            errors.add(key + ": " + (isPattern(name) ? "Kafka has no " + what + " like " + name : none(what, name, ofNone)));
        }
    }

    private static String none(String what, String name, String ofNone) {
        boolean error = what.equals("error");
        return "Kafka has no " + what + " " + name + (error && name.equals("NONE") ? ofNone : Alike.to(name, error ? ERRORS : APIS));
    }

    static boolean isPattern(String name) {
        return name.contains("*") || name.contains("?");
    }

    private static boolean whole(JsonNode value, long least, long most) {
        return value.isIntegralNumber() && value.canConvertToLong() && value.asLong() >= least && value.asLong() <= most;
    }

    private void numbers() {
        NUMBERS.forEach((key, least) -> {
            long most = MOST.getOrDefault(key, Long.MAX_VALUE);
            if (rule.has(key) && !whole(rule.get(key), least, most)) {
                errors.add(key + ": must be a whole number of at least " + least + (MOST.containsKey(key) ? " and at most " + most : ""));
            }
        });
    }

    private void apis() {
        for (String name : entries("api")) {
            named("api", "API", name, APIS, "");
        }
        FieldChecks.add(rule, entries("api"), errors);
    }

    /** The texts of a key that may be one, or a list of them. */
    private List<String> entries(String key) {
        List<String> names = new ArrayList<>();
        JsonNode given = rule.path(key);
        (given.isArray() ? given : Codec.JSON.createArrayNode().add(given.asText(""))).forEach(one -> names.add(one.asText()));
        names.removeIf(String::isEmpty);
        return names;
    }

    private void until() {
        String until = rule.path("until").asText("");
        if (!rule.has("until") || Occurrences.valid(until) || until.equals("closed") || until.matches("event:[^/]+")) {
            return;
        }
        boolean api = until.matches("(next|answered):.+");
        errors.add("until: " + (api ? none("API", until.substring(until.indexOf(':') + 1), "") : Occurrences.RULE));
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
        if (act.equals("delay") && rule.path("delay_ms").asLong(1) == 0) {
            errors.add("delay_ms: 0 delays nothing; give a longer time");
        }
        if (act.equals("late")) {
            lateness();
        }
        if (act.equals("alter")) {
            alteration();
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

    private void alteration() {
        if (rule.has("set") == rule.has("transform")) {
            errors.add("set: act alter needs it or transform, and not both");
        }
        String transform = rule.path("transform").asText("");
        String only = Transforms.API.get(transform);
        if (only != null && (rule.has("api") && !entries("api").equals(List.of(only)) || rule.path("on").asText("answer").equals("request"))) {
            errors.add("transform: " + transform + " is of answers of " + only + "; leave out api and on");
        }
        if (rule.has("lower") != transform.equals("lower-api-versions")) {
            errors.add("lower: belongs to transform = lower-api-versions; give both or neither");
        }
        rule.path("lower").fields().forEachRemaining(field -> {
            ApiMessageType type = APIS.contains(field.getKey()) ? Codec.named(field.getKey()) : null;
            if (type == null) {
                errors.add("lower: " + none("API", field.getKey(), ""));
            } else if (!whole(field.getValue(), 0, Long.MAX_VALUE)) {
                errors.add("lower: " + field.getKey() + " must have a version, a whole number");
            } else if (field.getValue().asLong() > Codec.newest(type)) {
                errors.add("lower: " + field.getKey() + " has no version " + field.getValue() + "; the newest is " + Codec.newest(type));
            }
        });
    }
}
