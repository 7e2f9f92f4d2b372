package fencepost.proxy;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayDeque;
import java.util.Deque;

/** A rule in force: how often it matched and acted, and on what. */
final class RuleState {
    private static final int KEPT = 1000; // catches; the oldest are forgotten first
    final int number;
    final String name;
    final String title; // in a sentence: rule NAME
    final Rule rule;
    private final Deque<Catch> catches = new ArrayDeque<>();
    private long matched;
    private long acted;
    private long begun; // acts that have begun: what is held can be released
    private long failed; // acts that could not be performed
    private boolean gone;

    RuleState(int number, Rule rule) {
        this.number = number;
        this.rule = rule;
        name = rule.name(number);
        title = name.startsWith("rule ") ? name : "rule " + name;
    }

    /** The catch if the rule acts on this message, else null. */
    Catch caught(Message message, Connection connection) {
        if (!rule.match.matches(message, connection.node(), connection.ofBroker())) {
            return null;
        }
        synchronized (this) {
            matched++;
            boolean acts = !gone && (rule.nth == 0 || rule.nth == matched) && (rule.times == 0 || acted < rule.times);
            if (!acts) {
                return null;
            }
            acted++;
            Catch made = new Catch(acted, this, message, connection);
            catches.add(made);
            if (catches.size() > KEPT) {
                catches.remove();
            }
            return made;
        }
    }

    synchronized void begun() {
        begun++;
        notifyAll();
    }

    synchronized void failed() {
        failed++;
    }

    /** Waits until the rule has acted so often; false when it has not in that time. */
    synchronized boolean await(long count, long timeoutMs) {
        long until = System.nanoTime() + timeoutMs * 1_000_000;
        while (begun < count && !gone) {
            long left = (until - System.nanoTime()) / 1_000_000;
            if (left <= 0) {
                return false;
            }
            Waiting.on(this, left);
        }
        return begun >= count;
    }

    /** Takes it out of force: who waits for it waits no longer. */
    synchronized void end() {
        gone = true;
        notifyAll();
    }

    /** True if it is out of force. */
    synchronized boolean isGone() {
        return gone;
    }

    synchronized ObjectNode json() {
        ObjectNode json = Codec.JSON.createObjectNode().put("number", number).put("name", name);
        json.set("rule", rule.given);
        json.put("matched", matched).put("acted", acted).put("failed", failed);
        json.set("last", catches.isEmpty() ? null : catches.getLast().json());
        return json;
    }

    synchronized ArrayNode catches() {
        ArrayNode list = Codec.JSON.createArrayNode();
        catches.forEach(one -> list.add(one.json()));
        return list;
    }
}
