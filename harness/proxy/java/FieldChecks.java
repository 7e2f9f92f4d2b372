package fencepost.proxy;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.BiPredicate;
import java.util.function.Predicate;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.protocol.Errors;

/** What a rule says of the fields of messages, compared with those of this release: what no message has can never match. `fields.py` has the same. */
final class FieldChecks {
    private static final Map<String, Set<String>> OF_REQUESTS = new LinkedHashMap<>();
    private static final Set<String> TOPICS = Set.of("name", "topic", "topicName", "topicId");
    private static final Set<String> BY_CLIENTS = Set.of("Produce", "InitProducerId", "AddOffsetsToTxn", "EndTxn", "TxnOffsetCommit",
        "OffsetCommit", "OffsetFetch", "JoinGroup", "SyncGroup", "LeaveGroup", "Heartbeat", "ConsumerGroupHeartbeat");
    private static final String ERROR = "errorcode";
    private static final int LONGEST = 40; // letters of a value that are shown
    private final JsonNode rule;
    private final List<String> errors;
    private String given; // an entry of `api`; null: any API
    private List<ApiMessageType> types; // that it names
    private boolean answer;

    static {
        OF_REQUESTS.put("transactional_id", Set.of("transactionalId", "v3AndBelowTransactionalId", "transactionalIds"));
        OF_REQUESTS.put("group", Set.of("groupId", "groups", "groupsNames", "groupIds"));
        OF_REQUESTS.put("producer_id", Set.of("producerId", "v3AndBelowProducerId"));
    }

    private FieldChecks(JsonNode rule, List<String> errors) {
        this.rule = rule;
        this.errors = errors;
    }

    /** Adds what is wrong. given: the entries of `api`, none for all. Names that this release does not have are left out. */
    static void add(JsonNode rule, List<String> given, List<String> errors) {
        String only = Transforms.API.get(rule.path("transform").asText(""));
        FieldChecks checks = new FieldChecks(rule, errors);
        checks.answer = only != null || rule.path("on").asText("").equals("answer");
        List<String> entries = only != null ? List.of(only) : given.isEmpty() ? Arrays.asList((String) null) : given;
        for (String entry : entries) {
            Predicate<String> named = entry == null ? name -> true : Match.glob(entry);
            checks.given = entry;
            checks.types = Arrays.stream(ApiMessageType.values()).filter(type -> named.test(type.name)).toList();
            if (!checks.types.isEmpty()) {
                checks.check();
            }
        }
    }

    private void check() {
        OF_REQUESTS.forEach((key, names) -> {
            if (rule.has(key) && types.stream().noneMatch(type -> names(type, key))) {
                errors.add(key + ": " + given + " requests have no " + key + "; leave it out");
            }
        });
        for (String key : List.of("topic", "partition")) {
            if (rule.has(key) && types.stream().noneMatch(FieldChecks::hasPlaces)) {
                errors.add(key + ": " + given + " requests name no partitions of topics; leave it out" + topics());
            }
        }
        if (rule.has("state") && types.stream().noneMatch(type -> type.name.equals("FindCoordinator") || names(type, "producer_id"))) {
            errors.add("state: " + given + " requests name no producer; leave it out");
        }
        if (types.stream().noneMatch(FieldChecks::hasErrors)) {
            if (rule.has("error") && answer) {
                errors.add("error: answers of " + given + " have no error; leave it out");
            }
            if (rule.path("act").asText().equals("error")) {
                errors.add("api: answers of " + given + " have no error; use act drop or lose");
            }
        }
        peers();
        for (String key : List.of("where", "set")) {
            rule.path(key).fields().forEachRemaining(field -> {
                String problem = problem(key.equals("set"), field.getKey(), field.getValue());
                if (problem != null) {
                    errors.add(key + ": " + field.getKey() + ": " + problem);
                }
            });
        }
    }

    private void peers() {
        String peer = rule.path("connection_of").asText("any");
        if (peer.equals("client") && types.stream().allMatch(type -> Brokers.THEIRS.contains(type.name))) {
            errors.add("connection_of: brokers alone send " + given + "; leave it out");
        }
        if (peer.equals("broker") && types.stream().allMatch(type -> BY_CLIENTS.contains(type.name))) {
            errors.add("connection_of: brokers do not send " + given + "; leave it out");
        }
    }

    /** The fields of a message; none where they are not known. */
    private static Map<String, String> fields(ApiMessageType type, boolean answer) {
        return Fields.paths(type, answer, false);
    }

    private String topics() {
        return types.stream().flatMap(type -> fields(type, false).keySet().stream())
            .filter(path -> TOPICS.contains(last(path)) || last(path).equals("topicNames"))
            .findFirst().map(path -> ", or use where with " + path).orElse("");
    }

    /** True if answers of an API have an error in any version. */
    static boolean hasErrors(ApiMessageType type) {
        Set<String> paths = fields(type, true).keySet();
        return paths.isEmpty() || paths.stream().anyMatch(path -> last(path).toLowerCase().endsWith(ERROR));
    }

    private static boolean names(ApiMessageType type, String key) {
        Set<String> paths = fields(type, false).keySet();
        boolean own = type.name.equals("FindCoordinator") && !key.equals("producer_id")
            || type.name.equals("Produce") && key.equals("producer_id"); // of its batches
        return paths.isEmpty() || own || paths.stream().anyMatch(path -> OF_REQUESTS.get(key).contains(last(path)));
    }

    private static boolean hasPlaces(ApiMessageType type) {
        Map<String, String> fields = fields(type, false);
        return fields.isEmpty() || fields.keySet().stream().anyMatch(path -> fields.get(path).equals("list")
            && Facts.PARTITIONS.contains(path.substring(path.lastIndexOf('.') + 1))
            && TOPICS.stream().anyMatch(name -> fields.containsKey(path.substring(0, path.lastIndexOf('.') + 1) + name)));
    }

    /** Why a path has no such value in any of these messages; null: it may have. */
    private String problem(boolean toSet, String path, JsonNode value) {
        if (types.stream().allMatch(type -> fields(type, answer).isEmpty())) {
            return null; // what it has is not known
        }
        if (!toSet && value.isObject()) {
            String inner = value.isEmpty() ? "*" : value.fieldNames().next();
            return "is a table; write the whole path in quotes, as \"" + path + "." + inner + "\"";
        }
        String[] asked = path.split("\\.", -1);
        Set<String> kinds = all(answer, toSet, (at, kind) -> fits(asked, at.split("\\."))).collect(Collectors.toCollection(LinkedHashSet::new));
        if (kinds.isEmpty()) {
            return nowhere(path, asked, toSet);
        }
        for (JsonNode one : !toSet && value.isArray() && !value.isEmpty() ? value : List.of(value)) {
            List<String> reasons = new ArrayList<>();
            kinds.forEach(kind -> reasons.add(unfit(kind, path, one, toSet)));
            if (!reasons.contains(null)) {
                boolean inside = !toSet && (kinds.contains("list") || kinds.contains("mapping"));
                return reasons.get(0) + (inside ? inside(asked) : "");
            }
        }
        return null;
    }

    /** The kinds of all fields of these messages that are wanted. */
    private Stream<String> all(boolean ofAnswer, boolean records, BiPredicate<String, String> wanted) {
        return types.stream().flatMap(type -> Fields.paths(type, ofAnswer, records).entrySet().stream())
            .filter(field -> wanted.test(field.getKey(), field.getValue())).map(Map.Entry::getValue);
    }

    private List<String> values(boolean records, Predicate<String> wanted) {
        return types.stream().flatMap(type -> Fields.paths(type, answer, records).entrySet().stream())
            .filter(field -> !Set.of("list", "mapping").contains(field.getValue()) && wanted.test(field.getKey()))
            .map(Map.Entry::getKey).distinct().toList();
    }

    private static boolean fits(String[] asked, String[] path) {
        boolean fits = asked.length == path.length;
        for (int i = 0; fits && i < path.length; i++) {
            fits = asked[i].equals("*") || asked[i].equals(path[i]) || path[i].equals("*") && asked[i].matches("[0-9]{1,9}");
        }
        return fits;
    }

    private String nowhere(String path, String[] asked, boolean toSet) {
        String what = answer ? "answer" : "request";
        String text = given == null ? "no " + what + " of Kafka's has such a field"
            : RuleChecks.isPattern(given) ? "no " + what + " like " + given + " has such a field"
            : given + " has no such field in its " + what + "s";
        if (all(!answer, toSet, (at, kind) -> fits(asked, at.split("\\."))).findAny().isPresent()) {
            return text + "; with on = " + (answer ? "request" : "answer") + " it has";
        }
        return text + Alike.to(path, values(toSet, at -> true));
    }

    /** The values below a list or a mapping. */
    private String inside(String[] asked) {
        List<String> paths = values(false, at -> {
            String[] parts = at.split("\\.");
            return parts.length > asked.length && fits(asked, Arrays.copyOf(parts, asked.length));
        });
        return "; did you mean " + String.join(", ", paths.subList(0, Math.min(3, paths.size()))) + "?";
    }

    /** Why a field of a kind cannot have a value; null: it can. */
    private static String unfit(String kind, String path, JsonNode value, boolean toSet) {
        String whole = value.toString();
        String shown = whole.length() <= LONGEST ? whole : whole.substring(0, LONGEST) + "...";
        return switch (kind) {
            case "list" -> !toSet ? "is a list, which no value equals" : value.isArray() || value.isNull() ? null : "is a list, not " + shown;
            case "mapping" -> !toSet ? "is a mapping, which no value equals"
                : value.isObject() || value.isNull() ? null : "is a mapping, not " + shown;
            case "bytes", "records" -> !toSet ? "is bytes, which no value equals"
                : value.isTextual() || value.isNull() ? null : "is bytes, as a text in base64, not " + shown;
            case "boolean" -> value.isBoolean() ? null : "is true or false, not " + shown;
            case "float64" -> value.isNumber() ? null : "is a number, not " + shown;
            case "string", "uuid" -> value.isTextual() || toSet && value.isNull() ? null : "is a text, not " + shown;
            default -> number(kind, path, value, shown);
        };
    }

    private static String number(String kind, String path, JsonNode value, String shown) {
        boolean unsigned = kind.startsWith("u");
        int bits = Integer.parseInt(kind.replaceAll("[a-z]", ""));
        long most = unsigned ? (1L << bits) - 1 : -1L >>> 65 - bits;
        long least = unsigned ? 0 : -most - 1;
        boolean ofError = path.toLowerCase().endsWith(ERROR);
        if (ofError && value.isTextual() && RuleChecks.ERRORS.contains(value.asText())) {
            return "is the number of an error, not its name; " + value.asText() + " is " + Errors.valueOf(value.asText()).code();
        }
        boolean whole = value.isNumber() && value.canConvertToLong() && value.asDouble() == Math.rint(value.asDouble());
        if (!whole || value.asLong() < least || value.asLong() > most) {
            return "is a whole number from " + least + " to " + most + ", not " + shown;
        }
        boolean none = ofError && Arrays.stream(Errors.values()).noneMatch(error -> error.code() == value.asLong());
        return none ? "is the number of an error, and Kafka has none with " + shown : null;
    }

    /** The name of a field, without the `*` of elements. */
    private static String last(String path) {
        String name = path.replaceAll("(\\.\\*)+$", "");
        return name.substring(name.lastIndexOf('.') + 1);
    }
}
