package fencepost.proxy;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;

/** The rules in force, in the order of their numbers. */
final class Rules {
    private final List<RuleState> states = new CopyOnWriteArrayList<>();
    private final Config config;
    private int last;

    Rules(Config config) {
        this.config = config;
    }

    /** A rule that acts on a message. */
    record Hit(RuleState state, Catch caught) {
        Rule rule() {
            return state.rule;
        }
    }

    /** Throws RuleError. */
    synchronized RuleState add(JsonNode given) {
        Rule rule = new Rule(given);
        demandNodes(given.path("node"));
        RuleState state = new RuleState(last + 1, rule);
        if (states.stream().anyMatch(other -> other.name.equals(state.name))) {
            throw new RuleError(List.of("name: there is a rule " + state.name + "; choose another name, or remove that one"));
        }
        last++;
        states.add(state);
        return state;
    }

    /** Throws RuleError for a broker that cannot be here: others than those of the settings appear in answers, if addresses are replaced. */
    private void demandNodes(JsonNode given) {
        List<String> names = config.brokers.stream().map(Config.Broker::node).distinct().toList();
        List<String> errors = new ArrayList<>();
        for (JsonNode one : given.isArray() ? given : given.isMissingNode() ? List.<JsonNode>of() : List.of(given)) {
            String node = one.asText();
            boolean later = config.rewrite && node.matches(RuleChecks.isPattern(node) ? "[n*?].*" : "n[0-9]+");
            if (!later && names.stream().noneMatch(Match.glob(node))) {
                errors.add("node: no broker is " + node + "; there are " + String.join(", ", names)
                    + (config.rewrite ? ", and n with its id for each that appears in answers" : ""));
            }
        }
        if (!errors.isEmpty()) {
            throw new RuleError(errors);
        }
    }

    /** A rule by its number; null when there is none. */
    RuleState get(int number) {
        return states.stream().filter(state -> state.number == number).findFirst().orElse(null);
    }

    synchronized RuleState remove(int number) {
        RuleState state = get(number);
        if (state != null) {
            states.remove(state);
            state.end();
        }
        return state;
    }

    List<RuleState> all() {
        return states;
    }

    boolean none() {
        return states.isEmpty();
    }

    /** True if a rule may act on messages of an API: on requests, or on answers, for which the request is looked at. */
    boolean may(String api) {
        for (RuleState state : states) {
            if (state.rule.match.may(api)) {
                return true;
            }
        }
        return false;
    }

    /** The rules that act on a message, up to one after which nothing happens to it. */
    List<Hit> hits(Message message, Connection connection) {
        List<Hit> hits = new ArrayList<>();
        for (RuleState state : states) {
            if (state.rule.onAnswer != message.isAnswer()) {
                continue;
            }
            Catch caught = state.caught(message, connection);
            if (caught != null) {
                hits.add(new Hit(state, caught));
                if (state.rule.ends()) {
                    break;
                }
            }
        }
        return hits;
    }
}
