package fencepost.proxy;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.protocol.types.BoundField;
import org.apache.kafka.common.protocol.types.Field;
import org.apache.kafka.common.protocol.types.Schema;
import org.apache.kafka.common.protocol.types.TaggedFields;
import org.apache.kafka.common.protocol.types.Type;

/**
 * The fields of Kafka's messages as Kafka's JSON names them, of all versions that this release knows: a mapping of names for a structure, a list of
 * one element for a list, else the name of a type, such as `int16`.
 */
final class Fields {
    private static final Map<String, ObjectNode> TREES = new ConcurrentHashMap<>();

    private Fields() {}

    /** The fields of requests of an API, or of its answers; none where this release has kept the name alone. */
    static ObjectNode of(ApiMessageType type, boolean answer) {
        return TREES.computeIfAbsent(type.name + answer, key -> {
            ObjectNode tree = Codec.JSON.createObjectNode();
            try {
                Schema[] schemas = answer ? type.responseSchemas() : type.requestSchemas();
                for (int version = schemas.length - 1; version >= 0; version--) {
                    if (schemas[version] != null) {
                        add(tree, schemas[version]);
                    }
                }
            } catch (RuntimeException error) {
                return tree;
            }
            return tree;
        });
    }

    /** All fields by their paths, with `*` for the elements of a list. records: with the bytes of records, else with their size. */
    static Map<String, String> paths(ApiMessageType type, boolean answer, boolean records) {
        Map<String, String> paths = new LinkedHashMap<>();
        walk(of(type, answer), "", records, paths);
        return paths;
    }

    private static void walk(JsonNode node, String path, boolean records, Map<String, String> into) {
        String before = path.isEmpty() ? "" : path + ".";
        if (node.isTextual()) {
            into.put(path, node.asText());
        } else if (node.isArray()) {
            into.put(path, "list");
            walk(node.get(0), before + "*", records, into);
        } else {
            if (!path.isEmpty()) {
                into.put(path, "mapping");
            }
            node.fields().forEachRemaining(field -> {
                if (!records && field.getValue().asText().equals("records")) {
                    into.put(before + "recordsSizeInBytes", "int32");
                } else {
                    walk(field.getValue(), before + field.getKey(), records, into);
                }
            });
        }
    }

    private static void add(ObjectNode tree, Schema schema) {
        for (BoundField bound : schema.fields()) {
            if (bound.def.type instanceof TaggedFields tagged) {
                tagged(tagged).forEach(field -> add(tree, field));
            } else {
                add(tree, bound.def);
            }
        }
    }

    /** The fields behind a tag, which releases before 4.4 do not tell. */
    @SuppressWarnings("unchecked")
    private static Collection<Field> tagged(TaggedFields tagged) {
        try {
            java.lang.reflect.Field fields = TaggedFields.class.getDeclaredField("fields");
            fields.setAccessible(true);
            return ((Map<Integer, Field>) fields.get(tagged)).values();
        } catch (ReflectiveOperationException error) {
            throw new IllegalStateException(error);
        }
    }

    private static void add(ObjectNode tree, Field field) {
        String name = camel(field.name);
        tree.set(name, merged(tree.get(name), field.type));
    }

    /** What is known of a field, with what another version has of it. */
    private static JsonNode merged(JsonNode known, Type type) {
        if (type.isArray()) {
            ArrayNode list = Codec.JSON.createArrayNode();
            return list.add(merged(known instanceof ArrayNode ? known.get(0) : null, type.arrayElementType().orElseThrow()));
        }
        if (type instanceof Schema schema) {
            ObjectNode tree = known instanceof ObjectNode there ? there : Codec.JSON.createObjectNode();
            add(tree, schema);
            return tree;
        }
        return Codec.JSON.getNodeFactory().textNode(type.toString().toLowerCase().replaceAll("compact_|nullable_", ""));
    }

    /** A name of a schema as JSON has it: `producer_id` as `producerId`. */
    private static String camel(String name) {
        StringBuilder text = new StringBuilder();
        for (String word : name.split("_")) {
            text.append(text.length() == 0 ? word : word.substring(0, 1).toUpperCase() + word.substring(1));
        }
        return text.toString().replaceAll("([Kk])raft", "$1Raft"); // Kafka's own spelling
    }
}
