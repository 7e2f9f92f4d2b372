package fencepost.proxy;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Arrays;
import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.protocol.Errors;

/** Prints what names this release of Kafka has for APIs, with whether their answers have an error, and for errors: `names.json` is made of it. */
public final class Names {
    private Names() {}

    public static void main(String[] arguments) {
        ObjectNode names = Codec.JSON.createObjectNode();
        ObjectNode apis = names.putObject("apis");
        Arrays.stream(ApiMessageType.values()).forEach(type -> apis.put(type.name, ErrorAnswers.possible(type)));
        ArrayNode errors = names.putArray("errors");
        Arrays.stream(Errors.values()).forEach(error -> errors.add(error.name()));
        System.out.println(names);
    }
}
