package fencepost.proxy;

import com.fasterxml.jackson.databind.node.ObjectNode;

/** A message that a rule acted on, and what became of it. */
final class Catch {
    private final RuleState state;
    private boolean begun;
    private final ObjectNode fields = Codec.JSON.createObjectNode();

    Catch(long number, RuleState state, Message message, Connection connection) {
        this.state = state;
        Message request = message.isAnswer() ? message.request : message;
        fields.put("number", number).put("rule", state.number).put("node", connection.node()).put("connection", connection.number);
        fields.put("client", connection.client).put("client_id", message.clientId).put("api", message.api());
        fields.put("version", message.version).put("correlation", message.correlation);
        fields.put("transactional_id", Facts.first(request.facts().transactionalIds)).put("time_ns", System.nanoTime());
        fields.put("id_state", request.idState).put("state", "caught").putNull("released_ns");
    }

    /** Says what is done with the message. From the first time on the catch counts for who waits for it. */
    void state(String text) {
        boolean first;
        synchronized (this) {
            fields.put("state", text);
            first = !begun;
            begun = true;
        }
        if (first) {
            state.begun();
        }
    }

    /** What is held goes on, or is over. by: what released it. */
    synchronized void released(String text, String by) {
        fields.put("state", text).put("released_ns", System.nanoTime()).put("by", by);
    }

    void failed(String why) {
        synchronized (this) {
            fields.put("why", why).put("state", "failed");
        }
        state.failed();
    }

    synchronized ObjectNode json() {
        return fields.deepCopy();
    }
}
