package fencepost.proxy;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.List;

/** Paths in Kafka's JSON of a message: `topics.0.name`, `topics.*.name`. */
final class Paths {
    private Paths() {}

    /** All values at a path. */
    static List<JsonNode> at(JsonNode node, String path) {
        List<JsonNode> nodes = List.of(node);
        for (String part : path.split("\\.")) {
            List<JsonNode> next = new ArrayList<>();
            nodes.forEach(one -> step(one, part, next));
            nodes = next;
        }
        return nodes;
    }

    private static void step(JsonNode node, String part, List<JsonNode> into) {
        if (part.equals("*")) {
            node.forEach(into::add);
            return;
        }
        JsonNode child = node.isArray() ? node.get(number(part)) : node.get(part);
        if (child != null) {
            into.add(child);
        }
    }

    /** Puts a value at a path; returns how many places have it. */
    static int set(JsonNode root, String path, JsonNode value) {
        int last = path.lastIndexOf('.');
        String name = path.substring(last + 1);
        int places = 0;
        for (JsonNode parent : last < 0 ? List.of(root) : at(root, path.substring(0, last))) {
            places += put(parent, name, value);
        }
        return places;
    }

    private static int put(JsonNode parent, String name, JsonNode value) {
        if (parent instanceof ObjectNode object && object.has(name)) {
            object.set(name, value);
            return 1;
        }
        int places = 0;
        if (parent instanceof ArrayNode array) {
            for (int i = 0; i < array.size(); i++) {
                if (name.equals("*") || number(name) == i) {
                    array.set(i, value);
                    places++;
                }
            }
        }
        return places;
    }

    private static int number(String part) {
        return part.matches("[0-9]{1,9}") ? Integer.parseInt(part) : -1;
    }
}
