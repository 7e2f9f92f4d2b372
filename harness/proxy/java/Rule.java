package fencepost.proxy;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.apache.kafka.common.protocol.Errors;

/** A rule as it was given, checked by `RuleChecks`. */
final class Rule {
    final JsonNode given;
    final Match match;
    final String act;
    final boolean onAnswer;
    final long nth; // 0: any
    final long times; // 0: without bound
    final String then; // "cut" or "stall"
    final String until; // null: none
    final long delayMs;
    final long atMostMs;
    final int count;
    final Errors code;
    final Map<String, JsonNode> set = new TreeMap<>();
    final String transform;
    final Map<String, Integer> lower = new TreeMap<>();
    final long bytesPerSecond;

    /** Throws RuleError with all that is wrong. */
    Rule(JsonNode given) {
        RuleChecks.demand(given);
        this.given = given;
        act = given.get("act").asText();
        transform = given.path("transform").asText(null);
        match = new Match(withDefaults(given));
        onAnswer = withDefaults(given).path("on").asText("request").equals("answer");
        nth = given.path("nth").asLong(0);
        times = given.path("times").asLong(0);
        then = given.path("then").asText("cut");
        until = given.path("until").asText(null);
        delayMs = given.path("delay_ms").asLong(-1);
        atMostMs = given.path("at_most_ms").asLong(30_000);
        count = given.path("count").asInt(1);
        code = given.has("code") ? Errors.valueOf(given.get("code").asText()) : null;
        bytesPerSecond = given.path("bytes_s").asLong(0);
        given.path("set").fields().forEachRemaining(field -> set.put(field.getKey(), field.getValue()));
        given.path("lower").fields().forEachRemaining(field -> lower.put(field.getKey(), field.getValue().asInt()));
    }

    /** A transformation is of the answers of one API, whether the rule says so or not. */
    private JsonNode withDefaults(JsonNode rule) {
        if (transform == null) {
            return rule;
        }
        ObjectNode whole = rule.deepCopy();
        return whole.put("on", "answer").put("api", Transforms.API.get(transform));
    }

    String name(int number) {
        return given.path("name").asText("rule " + number);
    }

    /** True if nothing happens to the message after such an act. */
    boolean ends() {
        return Set.of("drop", "late", "error", "cut").contains(act) || act.equals("lose") && onAnswer;
    }

    /** True if a message goes on later than it came, or not at all. */
    boolean keeps() {
        return List.of("delay", "hold", "drop", "late", "error", "cut").contains(act);
    }
}
