package fencepost.proxy;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicLong;

/** All that the connections of this process share. */
final class Process {
    final Config config;
    final Threads threads = new Threads();
    final Rules rules;
    final Buffers buffers = new Buffers();
    final EventLoop loop;
    final Holds holds = new Holds();
    final Counts counts = new Counts();
    final Endpoints endpoints = new Endpoints(this);
    final Journal journal;
    final Recorder recorder;
    final Tls tls;
    private final IdStates ids = new IdStates(holds.watches);
    private final AtomicLong number;
    private final AtomicLong connection;

    Process(Config config) throws IOException {
        this.config = config;
        rules = new Rules(config);
        loop = new EventLoop(this);
        number = new AtomicLong(config.first);
        connection = new AtomicLong(config.first);
        tls = new Tls(config.tls);
        journal = new Journal(config.record, config.node, new LineMaker(counts, ids));
        journal.start(threads);
        journal.begin(config.brokers.stream().map(Config.Broker::node).distinct().toList(), config.first);
        recorder = new Recorder(journal, rules, holds.watches);
    }

    /** Takes the rules of the configuration into force. Throws RuleError. */
    void takeRules() {
        List<String> errors = new ArrayList<>();
        for (int i = 0; i < config.rules.size(); i++) {
            String name = config.rules.get(i).path("name").asText("rule " + (i + 1));
            try {
                rules.add(config.rules.get(i));
            } catch (RuleError error) {
                error.errors.forEach(text -> errors.add(name + ": " + text));
            }
        }
        if (!errors.isEmpty()) {
            throw new RuleError(errors);
        }
    }

    /** The states of transactional ids, of all that has passed until now. */
    IdStates ids() {
        if (journal.behind()) {
            journal.settle();
        }
        return ids;
    }

    /** Listens. Throws IOException. */
    void listen() throws IOException {
        loop.start();
        for (Config.Broker broker : config.brokers) {
            endpoints.add(broker.node(), Address.of(broker.listen()), Address.of(broker.upstream()));
        }
    }

    long nextNumber() {
        return number.incrementAndGet();
    }

    long nextConnection() {
        return connection.incrementAndGet();
    }

    ArrayNode brokers() {
        ArrayNode list = Codec.JSON.createArrayNode();
        endpoints.all.forEach(one -> list.addObject().put("node", one.node).put("listen", one.listens().toString())
            .put("upstream", one.upstream.toString()));
        return list;
    }

    ObjectNode status() {
        ObjectNode status = Codec.JSON.createObjectNode();
        status.set("brokers", brokers());
        status.put("connections", endpoints.all.stream().mapToInt(one -> one.connections.size()).sum());
        counts.status(status);
        journal.status(status);
        ArrayNode list = status.putArray("rules");
        rules.all().forEach(state -> list.add(state.json()));
        return status;
    }
}
