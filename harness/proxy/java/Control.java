package fencepost.proxy;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectReader;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.Executors;
import java.util.concurrent.Semaphore;
import java.util.function.Supplier;

/** The HTTP interface. */
final class Control {
    private static final int MOST = 1 << 20; // bytes of a rule
    private static final int MOST_WAITING = 256; // requests that wait for something to happen: each has a thread
    private static final ObjectReader BODY =
        Codec.JSON.reader(DeserializationFeature.FAIL_ON_READING_DUP_TREE_KEY, DeserializationFeature.FAIL_ON_TRAILING_TOKENS);
    private static final Map<String, List<String>> ASKED = Map.of("GET rules/*/wait", List.of("count", "timeout_ms"),
        "GET watches/*", List.of("from", "timeout_ms"), "GET record", List.of("from"));
    private final Process process;
    private final HttpServer server;
    private final Semaphore waiting = new Semaphore(MOST_WAITING);

    Control(Process process) throws IOException {
        this.process = process;
        Address address = Address.of(process.config.control);
        try {
            server = HttpServer.create(address.socket(), 0);
        } catch (IOException error) {
            throw new IOException("cannot listen at " + address + ": " + error.getMessage() + "; choose another address or port", error);
        }
        server.setExecutor(Executors.newCachedThreadPool(process.threads));
        server.createContext("/", this::serve);
        server.start();
    }

    Address address() {
        return new Address(server.getAddress().getAddress().getHostAddress(), server.getAddress().getPort());
    }

    /** An answer: its status, and a document or lines. */
    private record Answer(int status, Object content) {}

    private void serve(HttpExchange exchange) throws IOException {
        try (exchange) {
            Answer answer;
            try {
                answer = answer(exchange);
            } catch (RuleError error) {
                answer = errors(400, error.errors);
            } catch (TooLong error) {
                answer = errors(413, List.of("the body has more than " + MOST + " bytes"));
            } catch (JsonProcessingException error) {
                answer = errors(400, List.of("the body is no JSON: " + error.getOriginalMessage()));
            } catch (RuntimeException error) {
                answer = errors(500, List.of(error.toString()));
            }
            byte[] content = answer.content instanceof JsonNode json
                ? Codec.JSON.writeValueAsBytes(json) : String.valueOf(answer.content).getBytes(StandardCharsets.UTF_8);
            String type = answer.content instanceof JsonNode ? "application/json" : "application/x-ndjson";
            exchange.getResponseHeaders().set("Content-Type", type);
            boolean empty = content.length == 0 || exchange.getRequestMethod().equals("HEAD");
            exchange.sendResponseHeaders(answer.status, empty ? -1 : content.length);
            if (!empty) {
                exchange.getResponseBody().write(content);
            }
            if (exchange.getRequestURI().getPath().equals("/stop") && answer.status == 200) {
                exchange.close();
                Proxy.end(0);
            }
        }
    }

    /** A body that is longer than any rule. */
    private static final class TooLong extends IOException {
        private static final long serialVersionUID = 1L;
    }

    private static JsonNode body(HttpExchange exchange) throws IOException {
        byte[] content = exchange.getRequestBody().readNBytes(MOST + 1);
        if (content.length > MOST) {
            throw new TooLong();
        }
        return BODY.readTree(content);
    }

    private Answer answer(HttpExchange exchange) throws IOException {
        if (exchange.getRequestHeaders().containsKey("Origin")) {
            return errors(403, List.of("a page in a browser may not use this interface"));
        }
        String[] parts = exchange.getRequestURI().getPath().substring(1).split("/");
        Map<String, String> query = query(exchange.getRequestURI().getRawQuery());
        String asked = exchange.getRequestMethod() + " " + parts[0] + (parts.length > 1 ? "/*" : "") + (parts.length > 2 ? "/" + String.join("/", Arrays.asList(parts).subList(2, parts.length)) : "");
        demand(query, ASKED.getOrDefault(asked, List.of()));
        return switch (asked) {
            case "GET status" -> new Answer(200, process.status());
            case "GET rules" -> new Answer(200, all());
            case "POST rules" -> added(exchange);
            case "GET rules/*" -> of(parts[1], RuleState::json);
            case "DELETE rules/*" -> removed(parts[1]);
            case "GET rules/*/catches" -> of(parts[1], RuleState::catches);
            case "GET rules/*/wait" -> waiting(() -> awaited(parts[1], query));
            case "POST events/*" -> new Answer(200, Codec.JSON.createObjectNode().put("released", process.holds.event(parts[1])));
            case "POST occurrences" -> new Answer(200, occurred(exchange));
            case "POST watches" -> new Answer(200, watched(exchange));
            case "GET watches/*" -> waiting(() -> seen(parts[1], query));
            case "DELETE watches/*" -> process.holds.watches.remove(whole(parts[1], -1))
                ? new Answer(200, Codec.JSON.createObjectNode()) : errors(404, List.of("there is no watch " + parts[1]));
            case "GET record" -> new Answer(200, lines(query));
            case "POST stop" -> new Answer(200, Codec.JSON.createObjectNode().put("stopped", true));
            default -> errors(404, List.of("there is no " + exchange.getRequestMethod() + " " + exchange.getRequestURI().getPath()));
        };
    }

    private static Answer errors(int status, List<String> errors) {
        ArrayNode list = Codec.JSON.createArrayNode();
        errors.forEach(list::add);
        return new Answer(status, Codec.JSON.createObjectNode().set("errors", list));
    }

    private ArrayNode all() {
        ArrayNode list = Codec.JSON.createArrayNode();
        process.rules.all().forEach(state -> list.add(state.json()));
        return list;
    }

    private Answer added(HttpExchange exchange) throws IOException {
        JsonNode rule = body(exchange);
        return new Answer(200, Codec.JSON.createObjectNode().put("number", process.rules.add(rule).number));
    }

    private Answer of(String number, java.util.function.Function<RuleState, JsonNode> what) {
        RuleState state = process.rules.get(whole(number, -1));
        return state == null ? errors(404, List.of("there is no rule " + number)) : new Answer(200, what.apply(state));
    }

    private Answer removed(String number) {
        RuleState state = process.rules.remove(whole(number, -1));
        if (state == null) {
            return errors(404, List.of("there is no rule " + number));
        }
        process.holds.removed(state.number);
        return new Answer(200, state.json());
    }

    private Answer waiting(Supplier<Answer> answer) {
        if (!waiting.tryAcquire()) {
            return errors(503, List.of(MOST_WAITING + " requests wait here already; let one of them end, or ask with a shorter timeout_ms"));
        }
        try {
            return answer.get();
        } finally {
            waiting.release();
        }
    }

    private Answer awaited(String number, Map<String, String> query) {
        RuleState state = process.rules.get(whole(number, -1));
        if (state == null) {
            return errors(404, List.of("there is no rule " + number));
        }
        boolean there = state.await(whole(query.get("count"), 1), whole(query.get("timeout_ms"), 30_000));
        return new Answer(there ? 200 : 408, state.catches());
    }

    private ObjectNode watched(HttpExchange exchange) throws IOException {
        String until = body(exchange).path("until").asText("");
        int number = process.holds.watches.add(until);
        if (until.equals(Occurrences.IDS)) {
            process.ids().tell(line -> process.holds.watches.told(number, line));
        }
        return Codec.JSON.createObjectNode().put("number", number);
    }

    private Answer seen(String number, Map<String, String> query) {
        ObjectNode seen = process.holds.watches.await(whole(number, -1), whole(query.get("from"), 0), whole(query.get("timeout_ms"), 30_000));
        return seen == null ? errors(404, List.of("there is no watch " + number)) : new Answer(200, seen);
    }

    /** What another proxy has seen. */
    private ObjectNode occurred(HttpExchange exchange) throws IOException {
        int released = 0;
        JsonNode seen = body(exchange).path("seen");
        if (!seen.isArray()) {
            throw new RuleError(List.of("seen: must be a list, of what a watch has seen"));
        }
        for (JsonNode given : seen) {
            if (given.path("until").asText("").equals(Occurrences.IDS)) {
                process.ids().told(given);
                continue;
            }
            Set<String> ids = given.path("transactional_ids").isArray() ? new HashSet<>() : null;
            given.path("transactional_ids").forEach(id -> ids.add(id.asText()));
            long when = given.path("time_ns").asLong(System.nanoTime());
            released += process.holds.occurred(given.path("until").asText(""), ids, when);
        }
        return Codec.JSON.createObjectNode().put("released", released);
    }

    private String lines(Map<String, String> query) {
        List<String> lines = process.journal.from(whole(query.get("from"), 0));
        return lines.isEmpty() ? "" : String.join("\n", lines) + "\n";
    }

    /** Throws RuleError for what is asked for by a name that a request does not have, or without a number. */
    private static void demand(Map<String, String> query, List<String> known) {
        List<String> errors = new ArrayList<>();
        query.forEach((key, value) -> {
            if (!known.contains(key)) {
                errors.add(key + ": this request has no such parameter" + Alike.to(key, known));
            } else if (whole(value, -1) < 0) {
                errors.add(key + ": must be a whole number of at most nine digits");
            }
        });
        if (!errors.isEmpty()) {
            throw new RuleError(errors);
        }
    }

    private static int whole(String text, int otherwise) {
        return text != null && text.matches("[0-9]{1,9}") ? Integer.parseInt(text) : otherwise;
    }

    private static Map<String, String> query(String text) {
        Map<String, String> values = new TreeMap<>();
        for (String pair : text == null ? new String[0] : text.split("&")) {
            int equals = pair.indexOf('=');
            String value = equals < 0 ? "" : URLDecoder.decode(pair.substring(equals + 1), StandardCharsets.UTF_8);
            if (!pair.isEmpty()) {
                values.put(equals < 0 ? pair : pair.substring(0, equals), value);
            }
        }
        return values;
    }
}
