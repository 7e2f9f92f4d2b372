package fencepost.proxy;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;

/** The rules in force, in the order of their numbers. */
final class Rules {
    private final List<RuleState> states = new CopyOnWriteArrayList<>();
    private int last;

    /** A rule that acts on a message. */
    record Hit(RuleState state, Catch caught) {
        Rule rule() {
            return state.rule;
        }
    }

    /** Throws RuleError. */
    synchronized RuleState add(JsonNode given) {
        Rule rule = new Rule(given);
        RuleState state = new RuleState(last + 1, rule);
        if (states.stream().anyMatch(other -> other.name.equals(state.name))) {
            throw new RuleError(List.of("name: there is a rule " + state.name + "; choose another name, or remove that one"));
        }
        last++;
        states.add(state);
        return state;
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
