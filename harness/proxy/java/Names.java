package fencepost.proxy;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Arrays;
import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.protocol.Errors;

/** Prints what this release of Kafka has of APIs, whether brokers take them, their newest version and their fields, and of errors with their numbers: `names.json` is made of it. */
public final class Names {
    private Names() {}

    public static void main(String[] arguments) {
        ObjectNode names = Codec.JSON.createObjectNode();
        ObjectNode apis = names.putObject("apis");
        Arrays.stream(ApiMessageType.values()).forEach(type -> apis.set(type.name, api(type)));
        ObjectNode errors = names.putObject("errors");
        Arrays.stream(Errors.values()).forEach(error -> errors.put(error.name(), error.code()));
        System.out.println(names);
    }

    private static ObjectNode api(ApiMessageType type) {
        ObjectNode api = Codec.JSON.createObjectNode().put("broker", type.listeners().stream().anyMatch(one -> one.name().equals("BROKER")));
        api.put("newest", Codec.newest(type));
        api.set("request", Fields.of(type, false));
        api.set("answer", Fields.of(type, true));
        return api;
    }
}
